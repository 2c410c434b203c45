//! Histories as providers take them.
//!
//! A history is kept as it came: a cut call, an empty turn, a reference to a tool that only
//! another model understands. Sent as it is, it would be refused, and refused again with every
//! later request. What is sent is a mended copy. Each message is mended by itself, so that what
//! a provider has cached stays the same from request to request.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Wire, format::WireFormat};
use crate::{delivery::Delivery, model::Model};

/// Stands for a result without a word, which providers refuse.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Stands for a message without a word.
pub(super) const NO_TEXT: &str = "(no text)";

/// The longest name that every provider takes.
const MAX_NAME: usize = 64;

/// For whom a history is mended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// How the model is told of tools; what belongs to another way is said in words.
    pub(crate) delivery: Delivery,
    /// What the search of the session is called.
    pub(crate) search: &'a str,
    /// So many messages are sent without the thoughts in them.
    pub(crate) without_thoughts: usize,
    /// Whether calls need a sign where they have no signature.
    pub(crate) signs_calls: bool,
}

/// The messages to send, each with its place in the history.
pub(crate) fn sendable(wire: Wire, terms: &Terms<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
    wire.format().repair(terms, messages)
}

/// Mends every message with `mend`, which gets its place as well, after what
/// [`Terms::without_thoughts`] asks for.
pub(super) fn repair_each(
    format: &dyn WireFormat,
    terms: &Terms<'_>,
    messages: &[Value],
    mend: impl Fn(usize, &Value) -> Option<Value>,
) -> Vec<(usize, Value)> {
    let mend = |(at, message): (usize, &Value)| {
        let bare = (at < terms.without_thoughts).then(|| format.foreign(message, terms.signs_calls));
        let message = match &bare {
            None => message,
            Some(bare) => bare.as_ref()?,
        };
        Some((at, mend(at, message)?))
    };
    messages.iter().enumerate().filter_map(mend).collect()
}

/// What a model said, without what its provider would refuse to hear again.
pub(crate) fn echo(wire: Wire, said: &[Value]) -> Vec<Value> {
    let terms = Terms { delivery: Delivery::Native, search: "tool_search", without_thoughts: 0, signs_calls: false };
    sendable(wire, &terms, said).into_iter().map(|(_, message)| message).collect()
}

/// The messages as a model can be told them that has not said them: what only the one that has
/// can read is left out.
pub(crate) fn for_another(model: &Model, messages: &[Value]) -> Vec<Value> {
    let (format, signs) = (model.provider.wire().format(), model.capabilities().signs_calls);
    messages.iter().filter_map(|message| format.foreign(message, signs)).collect()
}

/// The tools that a history makes known in the wire's own way.
pub(crate) fn references<'a>(wire: Wire, messages: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    messages.flat_map(|message| wire.format().references(message)).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests;
