//! One conversation with a model: what is said, what it sees, what it may call.
//!
//! Nothing here reaches a network. A request comes out, an answer goes in; who carries them is
//! up to the caller ([`Client`](crate::client::Client) does).

use std::collections::{BTreeSet, HashSet};

use pegboard_discovery::{Session, Target, ToolDefinition};
use serde_json::{Value, json};

use crate::{
    delivery::{self, Choice, Delivery, DeliveryError},
    model::Model,
    rules::{self, Bond, RuleError},
    shelf::Shelf,
    transcript::Messages,
    wire::{CallResult, Request, ToolCall, ToolChoice, Turn, Wire},
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
    shelf: Shelf,
    system: Option<String>,
    messages: Vec<Value>,
    tool_choice: ToolChoice,
    max_tokens: Option<u64>,
    bonds: Vec<Bond>,
    /// How to find tools, as the model was told.
    instructions: Option<String>,
    /// Whether the history was read.
    has_begun: bool,
    /// The last request, as far as thoughts are bound to it.
    last: Option<Request>,
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
        let choice = delivery::choose(&model, session.dialect_name(), wish)?;
        tracing::debug!(model = %model, delivery = %choice.delivery, reason = choice.reason, "a conversation begins");
        let shelf = Shelf::new(model.provider.wire(), choice.delivery);
        Ok(Self {
            model,
            session,
            choice,
            shelf,
            system: None,
            messages: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_tokens: None,
            bonds: Vec::new(),
            instructions: None,
            has_begun: false,
            last: None,
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

    /// Goes on from another history: a saved one, or this one compacted. What the provider was
    /// shown is forgotten; what the history says was found is loaded again.
    pub fn resume(&mut self, messages: Vec<Value>) {
        self.messages = messages;
        self.bonds.clear();
        self.has_begun = false;
        self.instructions = None;
        self.shelf = Shelf::new(self.wire(), self.choice.delivery);
    }

    /// The history with the names of loaded tools written into it, for whoever is about to
    /// compact it: messages that [`marked_messages`](crate::transcript::marked_messages) finds
    /// must stay.
    pub fn marked_history(&mut self) -> Vec<Value> {
        let mut transcript = Messages { keeps_loaded: true, ..Messages::new(self.wire(), self.messages.clone()) };
        self.session.follow(&mut transcript);
        transcript.messages
    }

    /// Says something to the model.
    pub fn say(&mut self, text: &str) {
        self.messages.push(self.wire().user(text));
    }

    /// Takes back what was said last, for a question that got no answer.
    pub fn unsay(&mut self) {
        self.messages.pop();
    }

    /// The next request.
    ///
    /// # Errors
    /// When the provider would refuse it.
    pub fn request(&mut self, is_streamed: bool) -> Result<Request, RuleError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let mut transcript = Messages::new(self.wire(), std::mem::take(&mut self.messages));
            self.session.follow(&mut transcript);
            self.messages = transcript.messages;
        }
        let eager = self.eager();
        self.shelf.update(&self.session, &eager);
        let request = Request {
            model: self.model.name.clone(),
            system: self.full_system(),
            messages: self.messages.clone(),
            tools: self.shelf.tools().to_vec(),
            tool_choice: self.tool_choice.clone(),
            max_tokens: self.max_tokens,
            is_streamed,
            extra: serde_json::Map::new(),
        };
        rules::check(&self.model, self.wire(), &request)?;
        if self.model.binds_thinking() {
            self.bonds.iter().try_for_each(|bond| bond.check(&request))?;
        }
        self.last = self.model.binds_thinking().then(|| request.clone());
        Ok(request)
    }

    /// What the model is told to be, and how it finds tools. Worked out once: what a provider
    /// has cached behind it must stay.
    fn full_system(&mut self) -> Option<String> {
        let how = self.instructions.get_or_insert_with(|| self.session.prompt()).clone();
        let parts = [self.system.clone().unwrap_or_default(), how];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Tools that must not be deferred: the one that is forced, and those that were called
    /// before anything said they were found.
    fn eager(&mut self) -> BTreeSet<String> {
        // Lent, not copied: this is done for every turn, and histories are long.
        let messages = Messages::new(self.wire(), std::mem::take(&mut self.messages));
        let mut eager = messages.called_without_reference();
        self.messages = messages.messages;
        if let ToolChoice::Tool(name) = &self.tool_choice {
            eager.insert(name.clone());
        }
        eager
    }

    /// Takes in what the model said.
    pub fn heard(&mut self, turn: &Turn) {
        let thinks = turn.echo.iter().any(|message| message.to_string().contains("\"thinking\""));
        if let Some(last) = self.last.take().filter(|_| thinks && self.model.binds_thinking()) {
            self.bonds.push(Bond::new(&last, last.messages.len()));
        }
        self.messages.extend(turn.echo.iter().cloned());
    }

    /// Answers a call, or says which tool to call for it.
    pub fn call(&mut self, call: &ToolCall) -> Called {
        let before: HashSet<String> = self.session.visible_names().into_iter().collect();
        let search = self.session.search_name().filter(|_| call.is_search);
        let name = search.unwrap_or(&call.name).to_owned();
        let answer = self.session.call(&name, &call.arguments);
        if let Some(target) = answer.target {
            return Called::Invoke(target);
        }
        let found: Vec<std::sync::Arc<ToolDefinition>> =
            self.session.visible().into_iter().filter(|tool| !before.contains(&tool.name)).collect();
        let references = match self.choice.delivery {
            Delivery::Reference => {
                found.iter().map(|tool| json!({"type": "tool_reference", "tool_name": tool.name})).collect()
            }
            Delivery::ClientNative if call.is_search => found.iter().map(|tool| self.wire().tool(tool)).collect(),
            _ => Vec::new(),
        };
        let text = answer.reply.to_text();
        Called::Answered(CallResult { call: call.clone(), text, is_error: answer.is_error, references })
    }

    /// Puts the answers to all calls of a turn into the conversation.
    pub fn answer(&mut self, results: &[CallResult]) {
        self.messages.extend(self.wire().results(results));
    }

    /// Goes over to a simpler delivery after the provider has refused this one; whether there
    /// is one.
    pub fn fall_back(&mut self) -> bool {
        let Some(choice) = delivery::fallback(self.choice.delivery, self.model.provider) else { return false };
        tracing::warn!(model = %self.model, delivery = %choice.delivery, reason = choice.reason, "another delivery");
        self.choice = choice;
        self.shelf = Shelf::new(self.wire(), self.choice.delivery);
        true
    }
}

#[cfg(test)]
mod tests;
