//! Histories as providers take them.
//!
//! A history is kept as it came: a cut call, an empty turn, a reference to a tool that only
//! another model understands. Sent as it is, it would be refused, and refused again with every
//! later request. What is sent is a mended copy. Each message is mended by itself, so that what
//! a provider has cached stays the same from request to request.

mod chat;
mod gemini;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{anthropic::history as anthropic, responses::history as responses};
use crate::{delivery::Delivery, model::Model, wire::Wire};

pub(crate) use anthropic::{close_pause, strip_thinking, thinks, thoughts};

/// Stands for a result without a word, which providers refuse.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Stands for a message without a word.
pub(super) const NO_TEXT: &str = "(no text)";

/// The longest name that every provider takes.
const MAX_NAME: usize = 64;

/// For whom a history is mended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// Whose form it has.
    pub(crate) wire: Wire,
    /// How the model is told of tools; what belongs to another way is said in words.
    pub(crate) delivery: Delivery,
    /// What the search of the session is called.
    pub(crate) search: &'a str,
    /// So many messages are sent without the thoughts in them.
    pub(crate) without_thoughts: usize,
    /// Whether calls need a sign where they have no signature.
    pub(crate) signs_calls: bool,
}

impl Terms<'_> {
    /// Whether `tool_reference` blocks mean something.
    pub(super) fn keeps_references(&self) -> bool {
        matches!(self.delivery, Delivery::Reference | Delivery::Native)
    }

    /// Whether searches of the provider mean something.
    pub(super) fn keeps_searches(&self) -> bool {
        match self.wire {
            Wire::Responses => matches!(self.delivery, Delivery::ClientNative | Delivery::Native),
            _ => self.delivery == Delivery::Native,
        }
    }
}

/// The messages to send, each with its place in the history.
pub(crate) fn sendable(terms: &Terms<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
    let given_up = if terms.wire == Wire::Anthropic { anthropic::given_up(messages) } else { HashSet::new() };
    let groups = if terms.wire == Wire::Responses { responses::groups(messages) } else { HashMap::new() };
    let mend = |(at, message): (usize, &Value)| {
        let bare = (at < terms.without_thoughts).then(|| foreign(terms.wire, terms.signs_calls, message));
        let message = match &bare {
            None => message,
            Some(bare) => bare.as_ref()?,
        };
        let mended = match terms.wire {
            Wire::Anthropic => anthropic::message(terms, &given_up, message),
            Wire::Chat => chat::message(message),
            Wire::Responses => responses::item(terms, &groups, message, &messages[at + 1..]),
            Wire::Gemini => gemini::content(message),
        };
        Some((at, mended?))
    };
    messages.iter().enumerate().filter_map(mend).collect()
}

/// What a model said, without what its provider would refuse to hear again.
pub(crate) fn echo(wire: Wire, said: &[Value]) -> Vec<Value> {
    let terms =
        Terms { wire, delivery: Delivery::Native, search: "tool_search", without_thoughts: 0, signs_calls: false };
    sendable(&terms, said).into_iter().map(|(_, message)| message).collect()
}

/// The messages as a model can be told them that has not said them: what only the one that has
/// can read is left out.
pub(crate) fn for_another(model: &Model, messages: &[Value]) -> Vec<Value> {
    let (wire, signs) = (model.provider.wire(), model.signs_calls());
    messages.iter().filter_map(|message| foreign(wire, signs, message)).collect()
}

/// One message without thoughts, signatures and numbers of its maker.
fn foreign(wire: Wire, signs_calls: bool, message: &Value) -> Option<Value> {
    let mut message = message.clone();
    match wire {
        Wire::Anthropic => drop(strip_thinking(&mut message)),
        Wire::Chat => chat::strip(&mut message),
        Wire::Responses if text(&message, "type") == "reasoning" => return None,
        Wire::Responses => responses::strip(&mut message),
        Wire::Gemini => gemini::strip(&mut message, signs_calls),
    }
    Some(message)
}

/// The tools that a history makes known in the wire's own way.
pub(crate) fn references<'a>(wire: Wire, messages: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for message in messages {
        match wire {
            Wire::Anthropic => names.extend(items(message, "content").flat_map(anthropic::referenced)),
            Wire::Responses => names.extend(responses::found(message)),
            Wire::Chat | Wire::Gemini => {}
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

/// The tools that one block or item makes known.
pub(crate) fn referenced(wire: Wire, block: &Value) -> Vec<&str> {
    match wire {
        Wire::Anthropic => anthropic::referenced(block).collect(),
        Wire::Responses => responses::found(block),
        Wire::Chat | Wire::Gemini => Vec::new(),
    }
}

/// Whether every provider takes this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_letter)
}

/// A name that every provider takes; models make up others, and are not let say them again.
fn tame(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let tamed: String = name.chars().take(MAX_NAME).map(letter).collect();
    if tamed.is_empty() { "unknown".to_owned() } else { tamed }
}

/// Gives `value[key]` a name that is taken back.
pub(super) fn tame_name(value: &mut Value, key: &str) -> bool {
    let name = value.get(key).and_then(Value::as_str).unwrap_or_default();
    let wild = (!is_name(name)).then(|| tame(name));
    match wild {
        Some(name) => {
            value[key] = name.into();
            true
        }
        None => false,
    }
}

/// Makes the arguments under `key` an object.
pub(super) fn need_object(value: &mut Value, key: &str) -> bool {
    let is_wrong = !value.get(key).is_some_and(Value::is_object);
    if is_wrong {
        value[key] = Value::Object(Map::new());
    }
    is_wrong
}

/// Makes the arguments under `key` the text of an object: compatible endpoints read it.
pub(super) fn need_object_text(value: &mut Value, key: &str) {
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if !value.get(key).and_then(Value::as_str).is_some_and(is_object) {
        value[key] = "{}".into();
    }
}

/// Whether there is nothing in a text, or in parts of which none says anything.
pub(super) fn is_blank(content: Option<&Value>) -> bool {
    match content {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(parts)) => parts.iter().all(is_blank_text),
        Some(_) => false,
    }
}

/// Whether a part is a text without a word.
pub(super) fn is_blank_text(part: &Value) -> bool {
    part.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty())
}

/// What is said of found tools to a model that knows no references.
pub(super) fn found_in_words<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "No tools were found.".to_owned() } else { format!("Tools found: {}.", names.join(", ")) }
}

pub(super) fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items<'a>(value: &'a Value, key: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
