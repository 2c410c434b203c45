//! Repairs of histories that are the same for every API.
//!
//! A history is kept as it came: a cut call, an empty turn, a reference to a tool that only
//! another model understands. Sent like that, it would be refused, and refused again with every
//! later request. Requests carry a repaired copy. Each message is repaired by itself, so that the
//! prefix that a provider has cached stays the same from request to request.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Wire, format::WireFormat};
use crate::{delivery::Delivery, model::Model};

/// The text of an empty result, which providers refuse.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The text of an empty message.
pub(super) const NO_TEXT: &str = "(no text)";

/// The longest name that every provider takes.
const MAX_NAME: usize = 64;

/// What a history is repaired for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepairContext<'a> {
    /// The delivery of found tools; what belongs to another one is written as text.
    pub(crate) delivery: Delivery,
    /// The name of the session's search tool.
    pub(crate) search: &'a str,
    /// How many messages at the beginning are sent without thinking.
    pub(crate) without_thinking: usize,
    /// Whether the model rejects calls without a signature.
    pub(crate) signs_calls: bool,
}

/// Repairs every message with `repair`, which gets its place as well, after the removal that
/// [`RepairContext::without_thinking`] asks for.
pub(super) fn repair_each(
    format: &dyn WireFormat,
    context: &RepairContext<'_>,
    messages: &[Value],
    repair: impl Fn(usize, &Value) -> Option<Value>,
) -> Vec<(usize, Value)> {
    let repair = |(at, message): (usize, &Value)| {
        let bare = (at < context.without_thinking).then(|| format.for_other_model(message, context.signs_calls));
        let message = match &bare {
            None => message,
            Some(bare) => bare.as_ref()?,
        };
        Some((at, repair(at, message)?))
    };
    messages.iter().enumerate().filter_map(repair).collect()
}

/// Returns the messages of a turn without what the provider would refuse in a later request.
pub(crate) fn repaired_echo(wire: Wire, said: &[Value]) -> Vec<Value> {
    let context =
        RepairContext { delivery: Delivery::Native, search: "tool_search", without_thinking: 0, signs_calls: false };
    wire.format().repair(&context, said).into_iter().map(|(_, message)| message).collect()
}

/// Returns a history for a model that did not write it: without what only its author can read.
pub(crate) fn history_for(model: &Model, messages: &[Value]) -> Vec<Value> {
    let (format, signs) = (model.provider.wire().format(), model.capabilities().signs_calls);
    messages.iter().filter_map(|message| format.for_other_model(message, signs)).collect()
}

/// Returns the tools that a history makes known in the API's own way.
pub(crate) fn references<'a>(wire: Wire, messages: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    messages.flat_map(|message| wire.format().references(message)).map(str::to_owned).collect()
}

/// Whether every provider accepts this name of a tool.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_letter)
}

/// Returns a name that every provider accepts, for names that a model made up.
fn valid_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let valid: String = name.chars().take(MAX_NAME).map(letter).collect();
    if valid.is_empty() { "unknown".to_owned() } else { valid }
}

/// Replaces the name under `key` if providers would refuse it; whether it was replaced.
pub(super) fn ensure_valid_name(value: &mut Value, key: &str) -> bool {
    let name = value.get(key).and_then(Value::as_str).unwrap_or_default();
    let wild = (!is_valid_name(name)).then(|| valid_name(name));
    match wild {
        Some(name) => {
            value[key] = name.into();
            true
        }
        None => false,
    }
}

/// Makes the arguments under `key` an object; whether they were something else.
pub(super) fn ensure_object(value: &mut Value, key: &str) -> bool {
    let is_wrong = !value.get(key).is_some_and(Value::is_object);
    if is_wrong {
        value[key] = Value::Object(Map::new());
    }
    is_wrong
}

/// Makes the arguments under `key` the text of an object: compatible endpoints read it.
pub(super) fn ensure_object_text(value: &mut Value, key: &str) {
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if !value.get(key).and_then(Value::as_str).is_some_and(is_object) {
        value[key] = "{}".into();
    }
}

/// Whether content is missing, or has no text but whitespace.
pub(super) fn is_blank(content: Option<&Value>) -> bool {
    match content {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(parts)) => parts.iter().all(is_blank_text),
        Some(_) => false,
    }
}

/// Whether a part is a text of whitespace.
pub(super) fn is_blank_text(part: &Value) -> bool {
    part.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty())
}

/// Returns the text about found tools for a model that does not support references.
pub(super) fn describe_found<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "No tools were found.".to_owned() } else { format!("Tools found: {}.", names.join(", ")) }
}

pub(super) fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

#[cfg(test)]
mod tests;
