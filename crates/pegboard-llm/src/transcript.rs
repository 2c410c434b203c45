//! Histories as sessions read and mark them, the same for every wire.

use pegboard_discovery::transcript::{ToolResult, Transcript};
use serde_json::Value;

use crate::wire::Wire;

/// Reminders are recognised by their place at the head of a history and by their form, since most
/// APIs have no field for a mark. Messages of the user may look the same anywhere else.
const REMINDER_START: &str = "<available-deferred-tools>\n";
const REMINDER_END: &str = "\n</available-deferred-tools>";
const LOADED_START: &str = "<loaded-tools>\n";
const LOADED_END: &str = "\n</loaded-tools>";

/// The history of a conversation in the form of a wire.
#[derive(Clone, Debug)]
pub struct Messages {
    /// The wire.
    pub wire: Wire,
    /// The messages, as they came.
    pub messages: Vec<Value>,
    /// Whether the names of loaded tools are written into the history. This invalidates the prompt
    /// cache, so it is only worth it before results are dropped.
    pub keeps_loaded: bool,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Messages {
    /// Creates a history that is not marked with loaded tools.
    pub fn new(wire: Wire, messages: Vec<Value>) -> Self {
        Self { wire, messages, keeps_loaded: false }
    }

    /// Whether the message at `place` is the user's and holds only text.
    pub(crate) fn is_user_text(&self, place: usize) -> bool {
        self.text_at(place).is_some()
    }

    /// Whether the message at `place` is a reminder or the list of loaded tools.
    pub(crate) fn is_marker(&self, place: usize) -> bool {
        let head = self.head();
        let is_reminder = place == head && self.has_form(place, REMINDER_START, REMINDER_END);
        is_reminder || Some(place) == self.loaded_place()
    }

    fn text_at(&self, place: usize) -> Option<String> {
        self.wire.format().user_text(self.messages.get(place)?)
    }

    /// Returns the place of the first message that is not a system message.
    fn head(&self) -> usize {
        let is_system = |message: &Value| ["system", "developer"].contains(&text(message, "role"));
        self.messages.iter().position(|message| !is_system(message)).unwrap_or(self.messages.len())
    }

    fn has_form(&self, place: usize, start: &str, end: &str) -> bool {
        self.text_at(place).is_some_and(|text| text.starts_with(start) && text.ends_with(end))
    }

    /// Returns the place of the reminder: the head, before a message of the user. A message of the
    /// user that only looks like a reminder is followed by a turn of the model.
    fn reminder_place(&self, is_reminder: impl Fn(&str) -> bool) -> Option<usize> {
        let head = self.head();
        let is_ours = self.text_at(head).is_some_and(|text| is_reminder(&text)) && self.is_user_text(head + 1);
        is_ours.then_some(head)
    }

    fn usual_reminder_place(&self) -> Option<usize> {
        self.reminder_place(|text| text.starts_with(REMINDER_START) && text.ends_with(REMINDER_END))
    }

    /// Returns the place of the list of loaded tools: after the reminder, or at the head.
    fn loaded_place(&self) -> Option<usize> {
        let head = self.head();
        [head, head + 1].into_iter().find(|place| {
            let is_behind = *place == head || self.has_form(head, REMINDER_START, REMINDER_END);
            is_behind && self.has_form(*place, LOADED_START, LOADED_END)
        })
    }
}

impl Transcript for Messages {
    fn results(&self) -> Vec<ToolResult> {
        self.wire.format().tool_results(&self.messages)
    }

    fn remind(&mut self, reminder: &str) {
        let head = self.head();
        if reminder.is_empty() || self.text_at(head).is_some_and(|text| text == reminder) {
            return;
        }
        // A custom reminder is recognised by its first line.
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let place = match reminder.starts_with(REMINDER_START) {
            true => self.usual_reminder_place(),
            false => self.reminder_place(|text| first_line(text) == first_line(reminder)),
        };
        let message = self.wire.user(reminder);
        match place {
            Some(place) => self.messages[place] = message,
            None => self.messages.insert(head, message),
        }
    }

    fn kept_loaded(&self) -> Vec<String> {
        let Some(message) = self.loaded_place().and_then(|place| self.text_at(place)) else { return Vec::new() };
        let names = message.strip_prefix(LOADED_START).and_then(|text| text.strip_suffix(LOADED_END));
        names.into_iter().flat_map(str::lines).map(str::to_owned).collect()
    }

    fn keep_loaded(&mut self, names: &[String]) {
        if !self.keeps_loaded {
            return;
        }
        let place = self.loaded_place();
        if names.is_empty() {
            place.into_iter().for_each(|place| drop(self.messages.remove(place)));
            return;
        }
        let message = self.wire.user(&format!("{LOADED_START}{}{LOADED_END}", names.join("\n")));
        let head = self.head();
        let is_reminded = self.has_form(head, REMINDER_START, REMINDER_END);
        match place {
            Some(place) => self.messages[place] = message,
            None => self.messages.insert(head + usize::from(is_reminded), message),
        }
    }
}

/// Returns the messages that a compaction must keep, so that loaded tools stay loaded.
pub fn marked_messages(wire: Wire, messages: &[Value]) -> Vec<Value> {
    let all = Messages::new(wire, messages.to_vec());
    let places = [all.usual_reminder_place(), all.loaded_place()];
    places.into_iter().flatten().map(|at| messages[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::delivery::Delivery;

    fn searched(wire: Wire) -> Vec<Value> {
        match wire {
            Wire::Anthropic => vec![
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "tool_search", "input": {"query": "x"}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "{\"matches\":[\"a\"]}"}]}]}),
            ],
            Wire::Chat => vec![
                json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "tool_search", "arguments": "{\"query\":\"x\"}"}}]}),
                json!({"role": "tool", "tool_call_id": "1", "content": "{\"matches\":[\"a\"]}"}),
            ],
            Wire::Responses => vec![
                json!({"type": "function_call", "call_id": "1", "name": "tool_search", "arguments": "{\"query\":\"x\"}"}),
                json!({"type": "function_call_output", "call_id": "1", "output": "{\"matches\":[\"a\"]}"}),
            ],
            Wire::Gemini => vec![
                json!({"role": "model", "parts": [{"functionCall": {"name": "tool_search", "args": {"query": "x"}}}]}),
                json!({"role": "user", "parts": [{"functionResponse": {"name": "tool_search", "response": {"output": "{\"matches\":[\"a\"]}"}}}]}),
            ],
        }
    }

    #[test]
    fn results_of_every_wire() {
        for wire in Wire::ALL {
            let results = Messages::new(wire, searched(wire)).results();
            assert_eq!(results.len(), 1, "{wire:?}");
            assert_eq!(results[0].name, "tool_search");
            assert_eq!(results[0].arguments, json!({"query": "x"}));
            assert_eq!(results[0].text, "{\"matches\":[\"a\"]}");
        }
    }

    #[test]
    fn reminders_stand_once_and_first() {
        for wire in Wire::ALL {
            let mut messages = Messages::new(wire, vec![wire.user("hello")]);
            for text in [
                "<available-deferred-tools>\na\n</available-deferred-tools>",
                "<available-deferred-tools>\nb\n</available-deferred-tools>",
            ] {
                messages.remind(text);
                assert_eq!(messages.messages.len(), 2, "{wire:?}");
                assert_eq!(wire.format().user_text(&messages.messages[0]).as_deref(), Some(text));
            }
            messages.keep_loaded(&["a".into()]);
            assert_eq!(messages.messages.len(), 2, "only where it is wanted");
            messages.keeps_loaded = true;
            messages.keep_loaded(&["a".into(), "b".into()]);
            assert_eq!(messages.kept_loaded(), ["a", "b"], "{wire:?}");
            assert_eq!(marked_messages(wire, &messages.messages).len(), 2);
            messages.keep_loaded(&[]);
            assert_eq!(messages.messages.len(), 2);
        }
    }

    #[test]
    fn what_a_user_says_is_not_taken_for_ours() {
        const REMINDER: &str = "<available-deferred-tools>\na\n</available-deferred-tools>";
        let check = |said: &[&str]| {
            for wire in Wire::ALL {
                let answer = match wire {
                    Wire::Gemini => json!({"role": "model", "parts": [{"text": "Well."}]}),
                    _ => json!({"role": "assistant", "content": "Well."}),
                };
                let said: Vec<Value> = said.iter().flat_map(|text| [wire.user(text), answer.clone()]).collect();
                let mut messages = Messages { keeps_loaded: true, ..Messages::new(wire, said.clone()) };
                for _ in 0..2 {
                    messages.remind(REMINDER);
                    messages.keep_loaded(&["b".into()]);
                }
                assert_eq!(messages.kept_loaded(), ["b"], "{wire:?}");
                let kept = messages.messages.split_off(2);
                assert_eq!(kept, said, "{wire:?}: all that was said is there");
            }
        };
        check(&["<available-deferred-tools> what does this mean?"]);
        check(&["<available-deferred-tools>\nx\n</available-deferred-tools>", "Well?"]);
        check(&["hello", "<available-deferred-tools>\nx\n</available-deferred-tools>"]);
        check(&["hello", "<loaded-tools>\nx\n</loaded-tools>"]);
    }

    #[test]
    fn references_are_results_too() {
        let messages = vec![
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "tool_search", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "a"}]}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "a", "input": {}}, {"type": "tool_use", "id": "3", "name": "b", "input": {}}]}),
        ];
        let messages = Messages::new(Wire::Anthropic, messages);
        assert_eq!(messages.results()[0].references, ["a"]);
        let called: Vec<&Value> = messages.messages.iter().collect();
        let eager = Wire::Anthropic.format().undefined_calls(Delivery::Reference, &called);
        assert!(eager.contains("b") && !eager.contains("a"), "{eager:?}");
    }
}
