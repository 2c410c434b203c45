//! One conversation with a model: its history, its tool list, its calls.
//!
//! Nothing here reaches a network. The conversation makes requests and takes in answers; the
//! caller sends them ([`Client`](crate::client::Client) does).

use std::collections::HashSet;

use pegboard_core::{Vectors, vectors::BoxFuture};
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
    /// The session has no tools.
    #[error("tools is required")]
    NoTools,
    /// Two visible tools have one name.
    #[error("duplicate tool name: {0}")]
    DuplicateTool(String),
    /// The requested delivery is not possible.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Called {
    /// The conversation has answered the call.
    Answered(CallResult),
    /// The program must call a tool of the catalog and add its result with
    /// [`Conversation::add_results`].
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
    /// Further fields of every request.
    extra: Map<String, Value>,
    bound_thinking: BoundThinking,
    /// How many messages at the beginning are sent without thinking.
    without_thinking: usize,
    /// The section of the system prompt about finding tools.
    instructions: Option<String>,
    /// Whether the history was read.
    has_begun: bool,
    /// Whether the history was resumed, and may hold reminders already.
    is_resumed: bool,
    /// Whether the model has answered the last message of the user.
    is_answered: bool,
}

/// The state of a conversation before an attempt that may fail.
#[derive(Debug)]
pub(crate) struct Snapshot {
    choice: Choice,
    tool_list: ToolList,
    messages: Vec<Value>,
    bound_thinking: BoundThinking,
    without_thinking: usize,
    cache: PromptCache,
    instructions: Option<String>,
}

impl Conversation {
    /// Creates a conversation with `model` that can find the tools of `session`. Without a
    /// `requested` delivery, the best one that the model supports is used.
    ///
    /// # Errors
    /// When there are no tools, two have one name, or the requested delivery is not possible.
    pub fn new(model: Model, session: Session, requested: Option<Delivery>) -> Result<Self, ConversationError> {
        if session.known_names().is_empty() {
            return Err(ConversationError::NoTools);
        }
        Self::expecting(model, session, requested)
    }

    /// Creates a conversation like [`new`](Self::new) with a session that may have no tools yet.
    ///
    /// # Errors
    /// When two visible tools have one name, or the requested delivery is not possible.
    pub fn expecting(model: Model, session: Session, requested: Option<Delivery>) -> Result<Self, ConversationError> {
        let mut names = HashSet::new();
        for tool in session.visible() {
            if !names.insert(tool.name.clone()) {
                return Err(ConversationError::DuplicateTool(tool.name.clone()));
            }
        }
        let choice = delivery::choose_for(&model, &session, requested)?;
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
            is_answered: false,
        })
    }

    /// Sets the system prompt. Instructions for finding tools are added to it.
    #[must_use]
    pub fn with_system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Sets the limit on output tokens of a turn.
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

    /// Sets which tool the model must use from now on.
    pub fn set_tool_choice(&mut self, choice: ToolChoice) {
        self.tool_choice = choice;
    }

    /// The delivery of found tools, and the reason for it.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The form in which the model's API writes conversations.
    pub fn wire(&self) -> Wire {
        self.model.provider.wire()
    }

    /// The history, in the form of the wire.
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

    /// Replaces the history: with a saved one of the same model, or with this one compacted. The
    /// tool list starts anew, and tools that the history has found are loaded again. A model whose
    /// thinking is bound to its prefix gets only thinking of this conversation whose prefix has
    /// not changed.
    pub fn resume(&mut self, messages: Vec<Value>) {
        self.messages = messages;
        self.without_thinking = 0;
        self.has_begun = false;
        self.is_resumed = true;
        self.is_answered = false;
        self.instructions = None;
        self.tool_list = ToolList::new(self.wire(), self.choice.delivery);
    }

    /// Replaces the history like [`resume`](Self::resume) with one of `model`. If that is another
    /// model, its thinking, signatures and ids are left out, which only it can read.
    pub fn resume_from(&mut self, messages: Vec<Value>, model: &Model) {
        let is_other = *model != self.model;
        let messages = if is_other { repair::history_for(&self.model, &messages) } else { messages };
        self.resume(messages);
    }

    /// Returns the history with the names of loaded tools written into it, for compaction.
    /// Messages that [`marked_messages`](crate::transcript::marked_messages) finds must stay.
    pub fn marked_history(&mut self) -> Vec<Value> {
        let mut transcript = Messages { keeps_loaded: true, ..Messages::new(self.wire(), self.messages.clone()) };
        self.session.follow(&mut transcript);
        transcript.messages
    }

    /// Adds a message of the user. It ends a turn that the model has paused.
    pub fn say(&mut self, text: &str) {
        self.end_paused_turn();
        self.messages.push(self.wire().user(text));
        self.is_answered = false;
    }

    /// Removes the last message if it is the user's and the model has not answered it, not even
    /// with an empty turn.
    pub fn remove_unanswered(&mut self) {
        let Some(last) = self.messages.len().checked_sub(1) else { return };
        let transcript = Messages::new(self.wire(), self.messages.clone());
        let is_marker = (self.has_begun || self.is_resumed) && transcript.is_marker(last);
        if !self.is_answered && !is_marker && transcript.is_user_text(last) {
            self.messages.pop();
        }
    }

    /// Removes everything after the first `messages` messages. Loaded tools stay loaded. The first
    /// request of a conversation may insert a reminder at the head; a count from before it does not
    /// include that message.
    pub fn rewind(&mut self, messages: usize) {
        if messages >= self.messages.len() {
            return;
        }
        self.messages.truncate(messages);
        self.bound_thinking.forget_from(messages);
        self.without_thinking = self.without_thinking.min(messages);
        self.is_answered = false;
        // The reminder is gone too.
        self.has_begun &= messages > 0;
    }

    /// Ends a turn that the model has paused: removes server tool calls without a result, which no
    /// message of the user may follow.
    pub fn end_paused_turn(&mut self) {
        self.wire().format().end_paused_turn(&mut self.messages);
        self.bound_thinking.forget_from(self.messages.len());
    }

    /// Returns the next request, with a history that the provider accepts.
    ///
    /// # Errors
    /// When the provider would refuse it for something that is not in the history.
    pub fn request(&mut self, is_streamed: bool) -> Result<Request, RuleError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // A history that was not resumed holds no reminder yet, whatever it looks like; its
            // calls were made in this session.
            let said = std::mem::take(&mut self.messages);
            let (known, said) = if self.is_resumed { (said, Vec::new()) } else { (Vec::new(), said) };
            let mut transcript = Messages::new(self.wire(), known);
            self.session.follow(&mut transcript);
            self.messages = transcript.messages;
            self.messages.extend(said);
        }
        let mut sent = self.wire().format().repair(&self.repair_context(), &self.messages);
        self.update_tool_list(&sent);
        let system = self.system_prompt();
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

    /// Returns the system prompt with the instructions for finding tools. These are made once, so
    /// that the prompt cache stays valid.
    fn system_prompt(&mut self) -> Option<String> {
        let (session, delivery, wire) = (&self.session, self.choice.delivery, self.model.provider.wire());
        let how = self.instructions.get_or_insert_with(|| instructions(session, wire, delivery)).clone();
        let parts = [self.system.clone().unwrap_or_default(), how];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Adds a turn of the model to the history.
    pub fn record_turn(&mut self, turn: &Turn) {
        if self.model.capabilities().binds_thinking {
            self.bound_thinking.record(self.messages.len(), turn.echo.first());
        }
        self.messages.extend(turn.echo.iter().cloned());
        self.is_answered = true;
        self.choice.is_tentative = false;
    }

    /// Answers a call of a meta-tool, or returns which tool of the catalog to call.
    pub fn call(&mut self, call: &ToolCall) -> Called {
        self.call_with(call, &Vectors::default())
    }

    /// Requests the vectors of the queries in a call, for [`call_with`](Self::call_with); `None`
    /// where the ranker has no source of vectors.
    pub fn vectors_for(&self, call: &ToolCall) -> Option<BoxFuture<Vectors>> {
        self.session.vectors_for(self.name_of(call), &call.arguments)
    }

    /// Returns the session's name of the called tool.
    fn name_of<'a>(&'a self, call: &'a ToolCall) -> &'a str {
        self.session.search_name().filter(|_| call.is_search).unwrap_or(&call.name)
    }

    /// Answers a call like [`call`](Self::call), with vectors of [`vectors_for`](Self::vectors_for).
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

    /// Adds the results of all calls of a turn to the history.
    pub fn add_results(&mut self, results: &[CallResult]) {
        self.messages.extend(self.wire().results(results));
    }

    /// Changes to a simpler delivery after the provider has refused this one; `false` if there is
    /// none. References in the history are then sent as text.
    pub fn fall_back(&mut self) -> bool {
        let Some(choice) = delivery::fallback(self.choice.delivery, self.model.provider) else { return false };
        tracing::warn!(model = %self.model, delivery = %choice.delivery, reason = choice.reason, "delivery changed");
        self.choice = choice;
        self.tool_list = ToolList::new(self.wire(), self.choice.delivery);
        // The request has other tools now.
        self.instructions = None;
        true
    }

    /// Stops sending breakpoints of the prompt cache; `false` if there were none.
    pub(crate) fn disable_cache(&mut self) -> bool {
        let had_any = self.wire().format().has_cache_breakpoints() && self.cache != PromptCache::Off;
        self.cache = PromptCache::Off;
        had_any
    }

    /// Sends the history so far without thinking; `false` if it already is.
    pub(crate) fn omit_thinking(&mut self) -> bool {
        let all = self.messages.len();
        std::mem::replace(&mut self.without_thinking, all) < all
    }

    /// Returns the state of the conversation before an attempt.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            choice: self.choice.clone(),
            tool_list: self.tool_list.clone(),
            messages: self.messages.clone(),
            bound_thinking: self.bound_thinking.clone(),
            without_thinking: self.without_thinking,
            cache: self.cache,
            instructions: self.instructions.clone(),
        }
    }

    /// Goes back to an earlier state.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.choice = snapshot.choice;
        self.tool_list = snapshot.tool_list;
        self.messages = snapshot.messages;
        self.bound_thinking = snapshot.bound_thinking;
        self.without_thinking = snapshot.without_thinking;
        self.cache = snapshot.cache;
        self.instructions = snapshot.instructions;
    }
}

#[cfg(test)]
mod tests;
