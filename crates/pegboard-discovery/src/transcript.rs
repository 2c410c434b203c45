//! Conversations, as far as a session needs to read and mark them.

use serde_json::{Value, json};

/// A conversation in some provider's form.
pub trait Transcript {
    /// The results of tool calls in order: the tool's name and the text of the result.
    fn results(&self) -> Vec<(String, String)>;

    /// Makes sure that the marked reminder is there once, before the first message that is
    /// not a system message, with this text.
    fn remind(&mut self, text: &str);
}

/// A list of OpenAI chat messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenAiChat {
    /// The messages, as they came.
    pub messages: Vec<Value>,
}

/// Marks our reminder among the user's messages; the wire allows a name there.
const MARKER: &str = "pegboard_deferred_tools";

impl OpenAiChat {
    /// The name of the tool that answered in `message`: given, or of the call it answers.
    fn tool_name(&self, message: &Value) -> Option<String> {
        if let Some(name) = message.get("name").and_then(Value::as_str) {
            return Some(name.to_owned());
        }
        let id = message.get("tool_call_id")?.as_str()?;
        let calls = self.messages.iter().filter_map(|message| message.get("tool_calls")?.as_array()).flatten();
        let call = calls.into_iter().find(|call| call.get("id").and_then(Value::as_str) == Some(id))?;
        call.get("function")?.get("name")?.as_str().map(str::to_owned)
    }
}

/// The text of a message: a string, or its text parts put together.
fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().concat()
        }
        _ => String::new(),
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

impl Transcript for OpenAiChat {
    fn results(&self) -> Vec<(String, String)> {
        let results = self.messages.iter().filter(|message| role(message) == "tool");
        results.filter_map(|message| Some((self.tool_name(message)?, text(message)))).collect()
    }

    fn remind(&mut self, reminder: &str) {
        let is_ours = |message: &Value| message.get("name").and_then(Value::as_str) == Some(MARKER);
        if let Some(message) = self.messages.iter_mut().find(|message| is_ours(message)) {
            message["content"] = reminder.into();
            return;
        }
        let first = self.messages.iter().position(|message| !["system", "developer"].contains(&role(message)));
        let place = first.unwrap_or(self.messages.len());
        self.messages.insert(place, json!({"role": "user", "name": MARKER, "content": reminder}));
    }
}
