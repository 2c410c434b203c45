//! What thoughts are bound to.
//!
//! Some models take their own thoughts back only behind exactly what they were made behind:
//! tools, system text, messages. Thoughts are a help and no more; where what stands before them
//! has changed for whatever reason, they are left out, and the conversation goes on.

use std::collections::BTreeMap;

use pegboard_core::naming::fnv1a;
use serde_json::Value;

use crate::{
    rules,
    wire::{Wire, format::WireFormat},
};

/// The thoughts of a conversation, and what each was made behind.
#[derive(Clone, Debug)]
pub(crate) struct Bonds {
    wire: Wire,
    /// By the place of the message that holds them.
    made: BTreeMap<usize, u64>,
    /// What the next message will stand behind, and its place.
    next: Option<(usize, u64)>,
}

impl Bonds {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, made: BTreeMap::new(), next: None }
    }

    /// Takes thoughts that do not stand behind what they were made behind out of what is
    /// `sent`, a list of places in `history` and messages, and out of the history.
    pub(crate) fn loosen(
        &mut self,
        tools: &[Value],
        system: Option<&str>,
        sent: &mut Vec<(usize, Value)>,
        history: &mut [Value],
    ) {
        let format = self.wire.format();
        let mut prefix = beginning(tools, system);
        sent.retain_mut(|(place, message)| {
            if !format.thinking_blocks(message).is_empty()
                && self.made.get(place) != Some(&bond(format, prefix, &history[*place]))
            {
                tracing::debug!(message = *place, "thinking omitted: the messages before it have changed");
                self.made.remove(place);
                format.remove_thinking(&mut history[*place]);
                if !format.remove_thinking(message) {
                    return false;
                }
            }
            prefix = behind(format, prefix, message, tools);
            true
        });
        self.next = Some((history.len(), prefix));
    }

    /// Takes note of what a model says at `place`, if it is the answer to what was sent last.
    pub(crate) fn heard(&mut self, place: usize, said: Option<&Value>) {
        let format = self.wire.format();
        let next = self.next.take().filter(|(expected, _)| *expected == place);
        if let (Some((_, prefix)), Some(said)) = (next, said.filter(|said| !format.thinking_blocks(said).is_empty())) {
            self.made.insert(place, bond(format, prefix, said));
        }
    }

    /// Forgets what is bound at this place or behind it.
    pub(crate) fn forget_from(&mut self, place: usize) {
        self.made.split_off(&place);
        self.next = None;
    }
}

fn add(hash: u64, part: &str) -> u64 {
    fnv1a(part.bytes().chain([0]), hash)
}

/// A number for what stands before all messages. Deferred tools do not count.
fn beginning(tools: &[Value], system: Option<&str>) -> u64 {
    let tools = tools.iter().filter(|tool| !rules::is_deferred(tool));
    add(tools.fold(0, |hash, tool| add(hash, &tool.to_string())), system.unwrap_or_default())
}

/// A number for what stands behind one more message. A reference stands for the definition of
/// the deferred tool that it names.
fn behind(format: &dyn WireFormat, prefix: u64, message: &Value, tools: &[Value]) -> u64 {
    let prefix = add(prefix, &without_cache_marks(message).to_string());
    let names = format.references(message);
    if names.is_empty() {
        return prefix;
    }
    let is_shown = |tool: &&Value| rules::is_deferred(tool) && names.contains(&format.tool_name(tool));
    tools.iter().filter(is_shown).fold(prefix, |hash, tool| add(hash, &tool.to_string()))
}

/// A number for thoughts behind a prefix.
fn bond(format: &dyn WireFormat, prefix: u64, message: &Value) -> u64 {
    format.thinking_blocks(message).into_iter().fold(prefix, |hash, thought| add(hash, &thought.to_string()))
}

fn without_cache_marks(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
        for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
            block.shift_remove("cache_control");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thought() -> Value {
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hello"},
        ]})
    }

    /// Whether a thought behind `hi` survives what is done to tools, system and history.
    fn survives(change: impl FnOnce(&mut Vec<Value>, &mut String, &mut Vec<Value>)) -> bool {
        let (mut tools, mut system) = (vec![json!({"name": "a"})], "be brief".to_owned());
        let hi = json!({"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]});
        let mut history = vec![hi];
        let mut bonds = Bonds::new(Wire::Anthropic);
        let sent = |history: &[Value]| history.iter().cloned().enumerate().collect::<Vec<_>>();
        bonds.loosen(&tools, Some(&system), &mut sent(&history), &mut history);
        bonds.heard(1, Some(&thought()));
        history.push(thought());
        change(&mut tools, &mut system, &mut history);
        let mut again = sent(&history);
        bonds.loosen(&tools, Some(&system), &mut again, &mut history);
        let thinks = |message: &Value| !Wire::Anthropic.format().thinking_blocks(message).is_empty();
        let stays = thinks(&again[1].1);
        assert_eq!(stays, thinks(&history[1]), "both or none");
        assert_eq!(again[1].1["content"].as_array().map(Vec::len), Some(if stays { 2 } else { 1 }));
        stays
    }

    #[test]
    fn thoughts_hold_on_to_what_was_said() {
        assert!(survives(|_, _, _| {}));
        assert!(survives(|tools, _, _| tools.push(json!({"name": "b", "defer_loading": true}))));
        assert!(survives(|_, _, history| history.push(json!({"role": "user", "content": "go on"}))));
        assert!(survives(|_, _, history| {
            history[0]["content"][0].as_object_mut().expect("a block").shift_remove("cache_control");
        }));
        assert!(!survives(|tools, _, _| tools.push(json!({"name": "c"}))));
        assert!(!survives(|_, system, _| system.push('!')));
        assert!(!survives(|_, _, history| history[0]["content"][0]["text"] = "ho".into()));
        assert!(!survives(|_, _, history| history[1]["content"][0]["thinking"] = "other".into()));
    }

    #[test]
    fn thoughts_of_another_turn_are_not_taken_for_these() {
        let mut bonds = Bonds::new(Wire::Anthropic);
        let mut history = vec![json!({"role": "user", "content": "hi"})];
        bonds.loosen(&[], None, &mut vec![(0, history[0].clone())], &mut history);
        bonds.heard(2, Some(&thought()));
        assert!(bonds.made.is_empty(), "something was put between the request and its answer");
    }
}
