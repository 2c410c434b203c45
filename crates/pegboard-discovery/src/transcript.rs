//! Transcripts of conversations, as far as a session reads and marks them.

use std::collections::HashMap;

use serde_json::{Value, json};

/// The result of a tool call in a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The name it was called by.
    pub name: String,
    /// The arguments of the call; `null` where the conversation does not have them.
    pub arguments: Value,
    /// The text of the answer.
    pub text: String,
    /// Tools that the answer made known in the wire's own way.
    pub references: Vec<String>,
}

/// A conversation in the format of a provider.
pub trait Transcript {
    /// Returns the results of tool calls, in order.
    fn results(&self) -> Vec<ToolResult>;

    /// Ensures that the marked reminder is present once with this text, before the first message
    /// that is not a system message.
    fn remind(&mut self, text: &str);

    /// Returns the names that [`keep_loaded`](Self::keep_loaded) wrote last.
    fn kept_loaded(&self) -> Vec<String>;

    /// Writes the names of the loaded tools into a marked message of their own, so that they
    /// outlive the results that loaded them when a conversation is compacted. Where nothing is
    /// loaded and nothing was, there is no such message.
    fn keep_loaded(&mut self, names: &[String]);
}

/// A list of OpenAI chat messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenAiChat {
    /// The messages, as they came.
    pub messages: Vec<Value>,
}

/// The mark of our reminder among the user's messages; the wire allows a name there.
const MARKER: &str = "pegboard_deferred_tools";

/// The mark of the message with the loaded tools.
const LOADED_MARKER: &str = "pegboard_loaded_tools";

const LOADED_START: &str = "<loaded-tools>\n";
const LOADED_END: &str = "\n</loaded-tools>";

impl OpenAiChat {
    /// Returns the names and arguments of the called tools, by the id of the call.
    fn called<'a>(&'a self) -> HashMap<&'a str, (&'a str, &'a str)> {
        let calls = self.messages.iter().filter_map(|message| message.get("tool_calls")?.as_array()).flatten();
        let call = |call: &'a Value| {
            let function = call.get("function")?;
            let arguments = function.get("arguments").and_then(Value::as_str).unwrap_or_default();
            Some((call.get("id")?.as_str()?, (function.get("name")?.as_str()?, arguments)))
        };
        calls.filter_map(call).collect()
    }
}

/// Returns the text of a message: a string, or its text parts joined.
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
    fn results(&self) -> Vec<ToolResult> {
        let called = self.called();
        let results = self.messages.iter().filter(|message| role(message) == "tool");
        let result = |message: &Value| {
            let call = message.get("tool_call_id").and_then(Value::as_str).and_then(|id| called.get(id));
            // The name is given, or it is that of the call which the message answers.
            let given = message.get("name").and_then(Value::as_str);
            let name = given.or(call.map(|(name, _)| *name))?.to_owned();
            let arguments = call.and_then(|(_, arguments)| serde_json::from_str(arguments).ok()).unwrap_or_default();
            Some(ToolResult { name, arguments, text: text(message), references: Vec::new() })
        };
        results.filter_map(result).collect()
    }

    fn remind(&mut self, reminder: &str) {
        let place = self.messages.iter().position(|message| !is_system(message)).unwrap_or(self.messages.len());
        self.put(MARKER, place, reminder);
    }

    fn kept_loaded(&self) -> Vec<String> {
        // Later messages stand for what was loaded since.
        let Some(message) = self.messages.iter().rfind(|message| is_marked(message, LOADED_MARKER)) else {
            return Vec::new();
        };
        let text = text(message);
        let names = text.strip_prefix(LOADED_START).and_then(|text| text.strip_suffix(LOADED_END));
        names.into_iter().flat_map(str::lines).map(str::to_owned).collect()
    }

    /// Appends a message where the names have changed. Those before it stay as they are: what a
    /// provider has cached of the conversation must not change.
    fn keep_loaded(&mut self, names: &[String]) {
        if self.kept_loaded() == names {
            return;
        }
        let text = format!("{LOADED_START}{}{LOADED_END}", names.join("\n"));
        let message = json!({"role": "user", "name": LOADED_MARKER, "content": text});
        self.messages.insert(self.end(), message);
    }
}

impl OpenAiChat {
    /// Returns the position where a message can be appended: at the end, or before a turn whose
    /// calls have no results yet, because nothing may come between the two.
    fn end(&self) -> usize {
        let calls = |message: &Value| message.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(last) = self.messages.iter().rposition(|message| !calls(message).is_empty()) else {
            return self.messages.len();
        };
        let answers =
            |call: &Value| self.messages[last..].iter().any(|message| message.get("tool_call_id") == call.get("id"));
        if calls(&self.messages[last]).iter().all(answers) { self.messages.len() } else { last }
    }

    /// Sets the text of the marked message, at its position or else at `place`.
    fn put(&mut self, marker: &str, place: usize, text: &str) {
        match self.messages.iter_mut().find(|message| is_marked(message, marker)) {
            Some(message) => message["content"] = text.into(),
            None => self.messages.insert(place, json!({"role": "user", "name": marker, "content": text})),
        }
    }
}

fn is_marked(message: &Value, marker: &str) -> bool {
    message.get("name").and_then(Value::as_str) == Some(marker)
}

fn is_system(message: &Value) -> bool {
    ["system", "developer"].contains(&role(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn called(id: &str) -> Value {
        json!({"role": "assistant", "tool_calls": [{"id": id, "function": {"name": "a", "arguments": "{}"}}]})
    }

    fn answered(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "ok"})
    }

    #[test]
    fn loaded_tools_are_appended_and_the_prefix_stays() {
        let mut chat = OpenAiChat { messages: vec![user("hi"), called("1"), answered("1")] };
        let mut before = chat.messages.clone();
        for names in [&["a"][..], &["a"], &["a", "b"], &["b"], &[], &[]] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let is_new = chat.kept_loaded() != names;
            chat.keep_loaded(&names);
            assert_eq!(chat.kept_loaded(), names);
            assert_eq!(chat.messages[..before.len()], before, "what was sent stays");
            assert_eq!(chat.messages.len(), before.len() + usize::from(is_new), "{names:?}");
            before = chat.messages.clone();
        }
    }

    #[test]
    fn nothing_stands_between_a_call_and_its_result() {
        let check = |messages: Vec<Value>, place: usize| {
            let mut chat = OpenAiChat { messages };
            chat.keep_loaded(&["a".to_owned()]);
            assert_eq!(chat.messages.iter().position(|message| is_marked(message, LOADED_MARKER)), Some(place));
        };
        check(vec![], 0);
        check(vec![user("hi"), called("1"), answered("1")], 3);
        check(vec![user("hi"), called("1")], 1);
        check(vec![user("hi"), called("1"), answered("1"), called("2")], 3);
    }
}
