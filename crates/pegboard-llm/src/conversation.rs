//! One conversation with a model: what is said, what it sees, what it may call.
//!
//! Nothing here reaches a network. A request comes out, an answer goes in; who carries them is
//! up to the caller ([`Client`](crate::client::Client) does).

use std::collections::HashSet;

use pegboard_core::{Vectors, vectors::Soon};
use pegboard_discovery::{Session, Target, ToolDefinition};
use serde_json::{Map, Value};

use crate::{
    bound_thinking::BoundThinking,
    delivery::{self, Choice, Delivery, DeliveryError},
    instructions::instructions,
    model::Model,
    rules::{self, RuleError},
    tool_list::{RequiredTools, ToolList},
    transcript::Messages,
    wire::{
        CallResult, PromptCache, Request, ToolCall, ToolChoice, Turn, Wire,
        repair::{self, RepairContext},
    },
};

/// Why a conversation cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// There is nothing to call and nothing to find.
    #[error("tools is required")]
    NoTools,
    /// Two visible tools of one name.
    #[error("duplicate tool name: {0}")]
    DuplicateTool(String),
    /// The delivery cannot be had.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Called {
    /// It is answered.
    Answered(CallResult),
    /// A tool of the catalog is to be called; its result goes into
    /// [`Conversation::answer`].
    Invoke(Target),
}

/// A conversation with a model.
#[derive(Debug)]
pub struct Conversation {
    model: Model,
    session: Session,
    choice: Choice,
    tool_list: ToolList,
    system: Option<String>,
    messages: Vec<Value>,
    tool_choice: ToolChoice,
    max_tokens: Option<u64>,
    cache: PromptCache,
    /// Fields that every request gets beside ours.
    extra: Map<String, Value>,
    bound_thinking: BoundThinking,
    /// So many messages are sent without the thoughts in them.
    without_thinking: usize,
    /// How to find tools, as the model was told.
    instructions: Option<String>,
    /// Whether the history was read.
    has_begun: bool,
    /// Whether the history came from elsewhere, and may hold messages of ours.
    is_resumed: bool,
    /// Whether the model has been heard since the user said something.
    is_heard: bool,
}

/// How a conversation stood before something was tried that may not work out.
#[derive(Debug)]
pub(crate) struct Standing {
    choice: Choice,
    tool_list: ToolList,
    messages: Vec<Value>,
    bound_thinking: BoundThinking,
    without_thinking: usize,
    cache: PromptCache,
    instructions: Option<String>,
}

impl Conversation {
    /// A conversation with `model` in which the tools of `session` can be found. `wish` is how
    /// the model is told of them; without one the best way that it knows.
    ///
    /// # Errors
    /// When there are no tools, two have one name, or the wish cannot be had.
    pub fn new(model: Model, session: Session, wish: Option<Delivery>) -> Result<Self, ConversationError> {
        if session.known_names().is_empty() {
            return Err(ConversationError::NoTools);
        }
        Self::expecting(model, session, wish)
    }

    /// [`new`](Self::new) where there may be no tools yet, or none at all.
    ///
    /// # Errors
    /// When two visible tools have one name, or the wish cannot be had.
    pub fn expecting(model: Model, session: Session, wish: Option<Delivery>) -> Result<Self, ConversationError> {
        let mut names = HashSet::new();
        for tool in session.visible() {
            if !names.insert(tool.name.clone()) {
                return Err(ConversationError::DuplicateTool(tool.name.clone()));
            }
        }
        let choice = delivery::choose_for(&model, &session, wish)?;
        tracing::debug!(model = %model, delivery = %choice.delivery, reason = choice.reason, "conversation started");
        let wire = model.provider.wire();
        let (tool_list, bound_thinking) = (ToolList::new(wire, choice.delivery), BoundThinking::new(wire));
        Ok(Self {
            model,
            session,
            choice,
            tool_list,
            system: None,
            messages: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_tokens: None,
            cache: PromptCache::default(),
            extra: Map::new(),
            bound_thinking,
            without_thinking: 0,
            instructions: None,
            has_begun: false,
            is_resumed: false,
            is_heard: false,
        })
    }

    /// What the model is told to be. How to find tools is added to it.
    #[must_use]
    pub fn with_system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Tokens that the model may write in a turn.
    #[must_use]
    pub fn with_max_tokens(mut self, most: u64) -> Self {
        self.max_tokens = Some(most);
        self
    }

    /// Sets what requests mark for the provider's prompt cache; by default everything that the
    /// next request will begin with.
    #[must_use]
    pub fn with_cache(mut self, cache: PromptCache) -> Self {
        self.cache = cache;
        self
    }

    /// Adds fields to the body of every request, such as `temperature` or `metadata`. They take
    /// precedence over the fields that the conversation sets.
    #[must_use]
    pub fn with_extra(mut self, fields: Map<String, Value>) -> Self {
        self.extra.extend(fields);
        self
    }

    /// Which tool the model must use from now on.
    pub fn set_tool_choice(&mut self, choice: ToolChoice) {
        self.tool_choice = choice;
    }

    /// How the model is told of tools, and why so.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How the model writes.
    pub fn wire(&self) -> Wire {
        self.model.provider.wire()
    }

    /// What was said, in the wire's own form.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// The tool state.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The tool state, to change it.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Goes on from another history: a saved one of the same model, or this one compacted. What
    /// the provider was shown is forgotten; what the history says was found is loaded again.
    /// A model whose thoughts are bound to what was said before them gets back those of this
    /// conversation that still stand behind the same, and no others.
    pub fn resume(&mut self, messages: Vec<Value>) {
        self.messages = messages;
        self.without_thinking = 0;
        self.has_begun = false;
        self.is_resumed = true;
        self.is_heard = false;
        self.instructions = None;
        self.tool_list = ToolList::new(self.wire(), self.choice.delivery);
    }

    /// [`resume`](Self::resume) with a history that was held with `model`. What only that
    /// model can read is left out if it is another one: thoughts, signatures, numbers.
    pub fn resume_from(&mut self, messages: Vec<Value>, model: &Model) {
        let is_other = *model != self.model;
        let messages = if is_other { repair::history_for(&self.model, &messages) } else { messages };
        self.resume(messages);
    }

    /// The history with the names of loaded tools written into it, for whoever is about to
    /// compact it: messages that [`marked_messages`](crate::transcript::marked_messages) finds
    /// must stay.
    pub fn marked_history(&mut self) -> Vec<Value> {
        let mut transcript = Messages { keeps_loaded: true, ..Messages::new(self.wire(), self.messages.clone()) };
        self.session.follow(&mut transcript);
        transcript.messages
    }

    /// Says something to the model. A turn that it has paused is over then.
    pub fn say(&mut self, text: &str) {
        self.end_paused_turn();
        self.messages.push(self.wire().user(text));
        self.is_heard = false;
    }

    /// Takes back what was said last, for a question that got no answer. Nothing happens
    /// where something else came last, or the model has answered, be it without a word.
    pub fn unsay(&mut self) {
        let Some(last) = self.messages.len().checked_sub(1) else { return };
        let transcript = Messages::new(self.wire(), self.messages.clone());
        let is_ours = (self.has_begun || self.is_resumed) && transcript.is_ours(last);
        if !self.is_heard && !is_ours && transcript.is_user_text(last) {
            self.messages.pop();
        }
    }

    /// Takes back everything behind the first `messages` messages, for a turn that turned out
    /// to be of no use. What was loaded stays loaded. The first request of a conversation may
    /// put a message of its own in front; a number from before it does not count that one.
    pub fn rewind(&mut self, messages: usize) {
        if messages >= self.messages.len() {
            return;
        }
        self.messages.truncate(messages);
        self.bound_thinking.forget_from(messages);
        self.without_thinking = self.without_thinking.min(messages);
        self.is_heard = false;
        // What marks the beginning is gone too.
        self.has_begun &= messages > 0;
    }

    /// Ends a turn that the model has paused and will not go on with: what it had its provider
    /// begin and never got is taken out, since nobody may speak behind it.
    pub fn end_paused_turn(&mut self) {
        self.wire().format().end_paused_turn(&mut self.messages);
        self.bound_thinking.forget_from(self.messages.len());
    }

    /// The next request. Whatever the history has been through, it is sent in a form that the
    /// provider takes.
    ///
    /// # Errors
    /// When the provider would refuse it for something that is not in the history.
    pub fn request(&mut self, is_streamed: bool) -> Result<Request, RuleError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // A history that is only ours from here on holds no message of our own yet, whatever
            // it looks like; its calls were made in this session.
            let said = std::mem::take(&mut self.messages);
            let (known, said) = if self.is_resumed { (said, Vec::new()) } else { (Vec::new(), said) };
            let mut transcript = Messages::new(self.wire(), known);
            self.session.follow(&mut transcript);
            self.messages = transcript.messages;
            self.messages.extend(said);
        }
        let mut sent = self.wire().format().repair(&self.repair_context(), &self.messages);
        self.update_tool_list(&sent);
        let system = self.full_system();
        let tools = self.tool_list.tools().to_vec();
        if self.model.capabilities().binds_thinking {
            self.bound_thinking.remove_detached(&tools, system.as_deref(), &mut sent, &mut self.messages);
        }
        let request = Request {
            model: self.model.name.clone(),
            system,
            messages: sent.into_iter().map(|(_, message)| message).collect(),
            tools,
            tool_choice: self.tool_choice.clone(),
            max_tokens: self.max_tokens,
            is_streamed,
            cache: self.cache,
            extra: self.extra.clone(),
        };
        rules::check(&self.model, self.wire(), &request)?;
        Ok(request)
    }

    fn repair_context(&self) -> RepairContext<'_> {
        RepairContext {
            delivery: self.choice.delivery,
            search: self.session.search_name().unwrap_or("tool_search"),
            without_thinking: self.without_thinking,
            signs_calls: self.model.capabilities().signs_calls,
        }
    }

    /// Adds the visible tools and those that the history needs to the tool list. A list over the
    /// provider's limit is made anew, without tools that are not visible any more.
    fn update_tool_list(&mut self, sent: &[(usize, Value)]) {
        let required = self.required_tools(sent);
        self.tool_list.update(&self.session, &required);
        if self.tool_list.len() > self.model.provider.max_tools() {
            self.tool_list = ToolList::new(self.wire(), self.choice.delivery);
            self.tool_list.update(&self.session, &required);
        }
    }

    fn required_tools(&self, sent: &[(usize, Value)]) -> RequiredTools {
        let messages: Vec<&Value> = sent.iter().map(|(_, message)| message).collect();
        let called = self.wire().format().undefined_calls(self.choice.delivery, &messages);
        let forced = match &self.tool_choice {
            ToolChoice::Tool(name) => Some(name.clone()),
            _ => None,
        };
        RequiredTools { forced, called, referenced: repair::references(self.wire(), messages.into_iter()) }
    }

    /// What the model is told to be, and how it finds tools. Worked out once: what a provider
    /// has cached behind it must stay.
    fn full_system(&mut self) -> Option<String> {
        let (session, delivery, wire) = (&self.session, self.choice.delivery, self.model.provider.wire());
        let how = self.instructions.get_or_insert_with(|| instructions(session, wire, delivery)).clone();
        let parts = [self.system.clone().unwrap_or_default(), how];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Takes in what the model said.
    pub fn heard(&mut self, turn: &Turn) {
        if self.model.capabilities().binds_thinking {
            self.bound_thinking.record(self.messages.len(), turn.echo.first());
        }
        self.messages.extend(turn.echo.iter().cloned());
        self.is_heard = true;
        self.choice.is_tentative = false;
    }

    /// Answers a call, or says which tool to call for it.
    pub fn call(&mut self, call: &ToolCall) -> Called {
        self.call_with(call, &Vectors::default())
    }

    /// Asks for the vectors of what a call would search for, if somebody makes vectors; they go
    /// into [`call_with`](Self::call_with).
    pub fn vectors_for(&self, call: &ToolCall) -> Option<Soon<Vectors>> {
        self.session.vectors_for(self.name_of(call), &call.arguments)
    }

    /// The name under which the session knows what is called.
    fn name_of<'a>(&'a self, call: &'a ToolCall) -> &'a str {
        self.session.search_name().filter(|_| call.is_search).unwrap_or(&call.name)
    }

    /// [`call`](Self::call) with the vectors that [`vectors_for`](Self::vectors_for) brought.
    pub fn call_with(&mut self, call: &ToolCall, vectors: &Vectors) -> Called {
        if call.name.is_empty() && !call.is_search {
            let text = "nothing was called: the call has no tool name; repeat it with the name of a tool";
            return Called::Answered(CallResult::error(call.clone(), text));
        }
        let before: HashSet<String> = self.session.visible_names().into_iter().collect();
        let name = self.name_of(call).to_owned();
        let answer = self.session.call_with(&name, &call.arguments, vectors);
        if let Some(target) = answer.target {
            return Called::Invoke(target);
        }
        let found: Vec<std::sync::Arc<ToolDefinition>> =
            self.session.visible().into_iter().filter(|tool| !before.contains(&tool.name)).collect();
        let carries_tools = match self.choice.delivery {
            Delivery::Reference => true,
            Delivery::ClientNative => call.is_search,
            _ => false,
        };
        let format = self.wire().format();
        let references: Option<Vec<Value>> =
            carries_tools.then(|| found.iter().map(|tool| format.reference(tool)).collect());
        let note = references.as_ref().and_then(|_| delivery::note(&answer, &found));
        let (text, is_error) = (answer.reply.to_text(), answer.is_error);
        let references = references.unwrap_or_default();
        let metadata = answer.search_metadata();
        Called::Answered(CallResult { call: call.clone(), text, is_error, references, note, metadata })
    }

    /// Puts the answers to all calls of a turn into the conversation.
    pub fn answer(&mut self, results: &[CallResult]) {
        self.messages.extend(self.wire().results(results));
    }

    /// Goes over to a simpler delivery after the provider has refused this one; whether there
    /// is one. What the history says in the way of the old one is sent in words.
    pub fn fall_back(&mut self) -> bool {
        let Some(choice) = delivery::fallback(self.choice.delivery, self.model.provider) else { return false };
        tracing::warn!(model = %self.model, delivery = %choice.delivery, reason = choice.reason, "delivery changed");
        self.choice = choice;
        self.tool_list = ToolList::new(self.wire(), self.choice.delivery);
        // Other tools are in the request now.
        self.instructions = None;
        true
    }

    /// Sends no breakpoints of the prompt cache any more; whether there were any.
    pub(crate) fn stop_caching(&mut self) -> bool {
        let had_any = self.wire().format().has_cache_breakpoints() && self.cache != PromptCache::Off;
        self.cache = PromptCache::Off;
        had_any
    }

    /// Sends what was said so far without the thoughts in it; whether that is anything new.
    pub(crate) fn forget_thoughts(&mut self) -> bool {
        let all = self.messages.len();
        std::mem::replace(&mut self.without_thinking, all) < all
    }

    /// How the conversation stands, for whoever tries something else.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            choice: self.choice.clone(),
            tool_list: self.tool_list.clone(),
            messages: self.messages.clone(),
            bound_thinking: self.bound_thinking.clone(),
            without_thinking: self.without_thinking,
            cache: self.cache,
            instructions: self.instructions.clone(),
        }
    }

    /// Goes back to how it stood.
    pub(crate) fn stand_again(&mut self, standing: Standing) {
        self.choice = standing.choice;
        self.tool_list = standing.tool_list;
        self.messages = standing.messages;
        self.bound_thinking = standing.bound_thinking;
        self.without_thinking = standing.without_thinking;
        self.cache = standing.cache;
        self.instructions = standing.instructions;
    }
}

#[cfg(test)]
mod tests;
