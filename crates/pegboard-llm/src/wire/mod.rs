//! How each API writes a conversation, and what is known about each provider.
//!
//! Messages are JSON with their keys in order: the output of a model is sent back as it came,
//! unknown blocks and fields included, since providers check and cache what they have seen.
//! What the crate needs of them is read through thin views.
//!
//! `format.rs` has the trait that every API implements, `profile.rs` the facts about a provider,
//! and `providers.rs` the list of both. Each API has a file or folder of its own.

mod anthropic;
mod body;
mod chat;
pub(crate) mod format;
mod gemini;
mod minimax;
pub(crate) mod profile;
pub(crate) mod providers;
pub(crate) mod repair;
mod responses;

use pegboard_discovery::ToolDefinition;
use serde_json::{Map, Value};

use self::body::Body;
pub use self::providers::Wire;

/// A call of a tool that a model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's number of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments; `null` when the model wrote something that is no JSON, or was cut off
    /// while it wrote them. Such a call must not be carried out.
    pub arguments: Value,
    /// Whether it is the provider's own search, which the client is to carry out.
    pub is_search: bool,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has said what it had to say.
    End,
    /// It waits for tools.
    Tools,
    /// It ran out of tokens.
    Length,
    /// It refuses.
    Refusal,
    /// It will go on when it is asked to.
    Pause,
    /// Something that this build does not know.
    Other(String),
}

/// What a turn cost, as the provider counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that were read.
    pub input: u64,
    /// Of those, tokens that came from a cache.
    pub cached: u64,
    /// Of those, tokens that were written to a cache, where the provider counts them.
    pub cache_written: u64,
    /// Tokens that were written.
    pub output: u64,
}

/// What a model said in one turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its text.
    pub text: String,
    /// The tools that it wants called.
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
    /// The messages to put at the end of the conversation, exactly as the provider wants to
    /// see them again; none where the model has said nothing.
    pub echo: Vec<Value>,
}

/// A piece of a turn while it is being written.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of what the model thinks.
    Thinking(String),
    /// A call of this tool has begun.
    Call(String),
}

/// What a tool answered, on its way to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call: ToolCall,
    /// What the model gets to read.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Tools that the answer makes known, where the wire can say so.
    pub references: Vec<Value>,
    /// What the model must read beside the references: hits that it knows already, what is
    /// missing, an error. `None` where the references say everything.
    pub note: Option<String>,
    /// What a search found, for user interfaces. It is not sent.
    pub metadata: Option<Value>,
}

impl CallResult {
    /// A result that is nothing but text.
    pub fn text(call: ToolCall, text: impl Into<String>) -> Self {
        Self { call, text: text.into(), is_error: false, references: Vec::new(), note: None, metadata: None }
    }

    /// A failure.
    pub fn error(call: ToolCall, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(call, text) }
    }
}

/// Which tool a model must use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Its own choice.
    #[default]
    Auto,
    /// None.
    None,
    /// Any one.
    Any,
    /// This one.
    Tool(String),
}

/// Whether a request marks what its provider is to cache. Anthropic caches nothing without such
/// marks, and MiniMax less; the other providers cache by themselves and get none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptCache {
    /// Breakpoints at the end of the tools, of the system prompt and of the conversation.
    #[default]
    Breakpoints,
    /// No marks.
    Off,
}

/// Everything that a request says.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The model.
    pub model: String,
    /// What the model is told to be.
    pub system: Option<String>,
    /// The conversation, in the wire's own form.
    pub messages: Vec<Value>,
    /// The tools, in the wire's own form.
    pub tools: Vec<Value>,
    /// Which of them must be used.
    pub tool_choice: ToolChoice,
    /// Tokens that may be written.
    pub max_tokens: Option<u64>,
    /// Whether the answer comes piece by piece.
    pub is_streamed: bool,
    /// What the provider is to cache.
    pub cache: PromptCache,
    /// Further fields of the body; they win over ours.
    pub extra: Map<String, Value>,
}

/// Why what a provider sent is no turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Something is missing that every answer has.
    #[error("the response has no `{field}`")]
    Missing {
        /// What.
        field: &'static str,
    },
    /// The provider reports a failure inside an answer that began well.
    #[error("the provider reports `{kind}`: {message}")]
    Reported {
        /// The provider's name for it.
        kind: String,
        /// What it says.
        message: String,
    },
    /// The answer ended before it was complete.
    #[error("the response ended before it was complete")]
    Cut,
}

impl Wire {
    /// The body of a request.
    pub fn body(self, request: &Request) -> Value {
        serde_json::to_value(self.fields(request, request.is_streamed)).unwrap_or_default()
    }

    /// The body of a request as text, written without a copy of what the request holds.
    pub(crate) fn encode(self, request: &Request, is_streamed: bool) -> String {
        serde_json::to_string(&self.fields(request, is_streamed)).unwrap_or_default()
    }

    fn fields(self, request: &Request, is_streamed: bool) -> Body<'_> {
        let mut body = self.format().body(request, is_streamed);
        body.extend(&request.extra);
        body
    }

    /// Where the request goes, behind the provider's base address.
    pub fn path(self, model: &str, is_streamed: bool) -> String {
        self.format().path(model, is_streamed)
    }

    /// What a model said, out of a whole answer.
    ///
    /// # Errors
    /// When it lacks what every answer has.
    pub fn turn(self, answer: &Value) -> Result<Turn, WireError> {
        let mut turn = self.format().read(answer)?;
        turn.echo = repair::repaired_echo(self, &turn.echo);
        Ok(turn)
    }

    /// A tool as the wire defines it.
    pub fn tool(self, definition: &ToolDefinition) -> Value {
        self.format().tool(definition)
    }

    /// What a user says.
    pub fn user(self, text: &str) -> Value {
        self.format().user(text)
    }

    /// The messages that answer the calls of one turn. An empty answer is said to be one.
    pub fn results(self, results: &[CallResult]) -> Vec<Value> {
        self.format().results(results)
    }
}

/// The text under `key`.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// The items of a list under `key`.
fn items<'a>(value: &'a Value, key: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The text of content that is a text or a list of parts.
fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text(part, "text")).collect(),
        _ => String::new(),
    }
}

/// Puts `more` behind the text under `key` of an object, in its place: pieces are many, and
/// each must not cost as much as all before it.
fn append(object: &mut Value, key: &str, more: &str) {
    match object.get_mut(key) {
        Some(Value::String(text)) => text.push_str(more),
        _ => {
            if let Some(object) = object.as_object_mut() {
                object.insert(key.to_owned(), more.into());
            }
        }
    }
}

/// Arguments that a wire carries as text. None at all means none are needed.
fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the text of a result as the model reads it; an empty one is replaced, since providers
/// refuse it.
fn result_text(result: &CallResult) -> &str {
    if result.text.trim().is_empty() { repair::NO_OUTPUT } else { &result.text }
}

/// Takes away the arguments of a last call that may have been cut off. Where arguments come as
/// text (`is_text`), what reads as a filled object is whole; objects may be what a provider has
/// made of the beginning of one.
fn clear_truncated_arguments(calls: &mut [ToolCall], is_text: bool) {
    let is_whole = |arguments: &Value| arguments.as_object().is_some_and(|object| !object.is_empty());
    if let Some(call) = calls.last_mut().filter(|call| !is_text || !is_whole(&call.arguments)) {
        call.arguments = Value::Null;
    }
}

#[cfg(test)]
mod tests;
