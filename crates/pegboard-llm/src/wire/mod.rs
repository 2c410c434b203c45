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

use std::time::Duration;

use pegboard_discovery::ToolDefinition;
use serde_json::{Map, Value};

use self::body::Body;
pub use self::providers::Wire;

/// A call of a tool that a model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id that the provider gave it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments; `null` when they are not JSON, or the answer was cut within them. Such a call
    /// must not be executed.
    pub arguments: Value,
    /// Whether it is the provider's own search, which the client executes.
    pub is_search: bool,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The turn is complete.
    End,
    /// It waits for the results of tools.
    Tools,
    /// The limit on output tokens was reached.
    Length,
    /// The model or a filter refused.
    Refusal,
    /// The turn is paused and continues with the next request.
    Pause,
    /// Another reason.
    Other(String),
}

/// The tokens of a turn, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Input tokens that were read from a cache.
    pub cached: u64,
    /// Input tokens that were written to a cache, where the provider counts them.
    pub cache_written: u64,
    /// Output tokens.
    pub output: u64,
}

/// One turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its text.
    pub text: String,
    /// The tools that it wants called.
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: Stop,
    /// Its tokens.
    pub usage: Usage,
    /// The messages to add to the history, in the form that the provider accepts; none if the turn
    /// is empty.
    pub echo: Vec<Value>,
}

/// A retry of a request that failed before the model wrote anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of this retry, from 1.
    pub number: u32,
    /// The highest number of retries.
    pub most: u32,
    /// How long the client waits before it sends the request again.
    pub delay: Duration,
    /// Why the request failed, with its causes.
    pub reason: String,
}

/// A piece of a turn while it is being written.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The request failed and will be sent again.
    Retry(Retry),
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// A call of this tool has begun.
    Call(String),
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call: ToolCall,
    /// The text that the model reads.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Found tools, where the wire has a form for them.
    pub references: Vec<Value>,
    /// Text beside the references: known hits, missing tools, an error. `None` where the references
    /// are the whole result.
    pub note: Option<String>,
    /// What a search found, for user interfaces. It is not sent.
    pub metadata: Option<Value>,
}

impl CallResult {
    /// Creates a result that is only text.
    pub fn text(call: ToolCall, text: impl Into<String>) -> Self {
        Self { call, text: text.into(), is_error: false, references: Vec::new(), note: None, metadata: None }
    }

    /// Creates a failed result.
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

/// The content of a request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The model.
    pub model: String,
    /// The system prompt.
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

/// The answer of a provider is not a turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A required field is missing.
    #[error("the response has no `{field}`")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The provider reports an error within the answer.
    #[error("the provider reports `{kind}`: {message}")]
    Reported {
        /// The provider's name of the error.
        kind: String,
        /// The message.
        message: String,
    },
    /// The answer ended before it was complete.
    #[error("the response ended before it was complete")]
    Incomplete,
}

impl Wire {
    /// Returns the body of a request.
    pub fn body(self, request: &Request) -> Value {
        serde_json::to_value(self.fields(request, request.is_streamed)).unwrap_or_default()
    }

    /// Returns the body of a request as text, without copying the content.
    pub(crate) fn encode(self, request: &Request, is_streamed: bool) -> String {
        serde_json::to_string(&self.fields(request, is_streamed)).unwrap_or_default()
    }

    fn fields(self, request: &Request, is_streamed: bool) -> Body<'_> {
        let mut body = self.format().body(request, is_streamed);
        body.extend(&request.extra);
        body
    }

    /// Returns the path of a request behind the base URL.
    pub fn path(self, model: &str, is_streamed: bool) -> String {
        self.format().path(model, is_streamed)
    }

    /// Reads the turn of a whole answer.
    ///
    /// # Errors
    /// When a required field is missing, or the provider reports an error.
    pub fn read_turn(self, answer: &Value) -> Result<Turn, WireError> {
        let mut turn = self.format().read(answer)?;
        turn.echo = repair::repaired_echo(self, &turn.echo);
        Ok(turn)
    }

    /// Returns the definition of a tool.
    pub fn tool(self, definition: &ToolDefinition) -> Value {
        self.format().tool(definition)
    }

    /// Returns a message of the user.
    pub fn user(self, text: &str) -> Value {
        self.format().user(text)
    }

    /// Returns the messages with the results of all calls of one turn. An empty result gets a text.
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

/// Parses arguments that an API carries as text; an empty text is an empty object.
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

/// Removes the arguments of the last call if they may have been cut. Where arguments come as text
/// (`is_text`), an object that can be parsed is complete; other APIs may have closed the object
/// themselves.
fn clear_truncated_arguments(calls: &mut [ToolCall], is_text: bool) {
    let is_whole = |arguments: &Value| arguments.as_object().is_some_and(|object| !object.is_empty());
    if let Some(call) = calls.last_mut().filter(|call| !is_text || !is_whole(&call.arguments)) {
        call.arguments = Value::Null;
    }
}

#[cfg(test)]
mod tests;
