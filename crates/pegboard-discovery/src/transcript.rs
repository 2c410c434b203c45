//! Conversations, as far as a session needs to read and mark them.

use std::collections::HashMap;

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
    /// The names of the tools that were called, by the number of the call.
    fn called(&self) -> HashMap<&str, &str> {
        let calls = self.messages.iter().filter_map(|message| message.get("tool_calls")?.as_array()).flatten();
        calls
            .filter_map(|call| Some((call.get("id")?.as_str()?, call.get("function")?.get("name")?.as_str()?)))
            .collect()
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
        let called = self.called();
        let results = self.messages.iter().filter(|message| role(message) == "tool");
        // The name is given, or it is that of the call which the message answers.
        let name = |message: &Value| {
            let given = message.get("name").and_then(Value::as_str);
            let of_call = || called.get(message.get("tool_call_id")?.as_str()?).copied();
            given.or_else(of_call).map(str::to_owned)
        };
        results.filter_map(|message| Some((name(message)?, text(message)))).collect()
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
