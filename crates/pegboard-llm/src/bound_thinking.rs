//! Thinking that is bound to the prefix that it was made after.
//!
//! Some models accept their own thinking in a history only after exactly the tools, system prompt
//! and messages that it was made after. Thinking is optional: where the prefix has changed, it is
//! left out, and the conversation continues.

use std::collections::BTreeMap;

use pegboard_core::naming::fnv1a;
use serde_json::Value;

use crate::{
    rules,
    wire::{Wire, format::WireFormat},
};

/// The fingerprints of the thinking in a conversation, each with its prefix.
#[derive(Clone, Debug)]
pub(crate) struct BoundThinking {
    wire: Wire,
    /// By the place of the message that holds the thinking.
    recorded: BTreeMap<usize, u64>,
    /// The prefix of the next message, and its place.
    next: Option<(usize, u64)>,
}

impl BoundThinking {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, recorded: BTreeMap::new(), next: None }
    }

    /// Removes thinking whose prefix has changed from `sent`, a list of places in `history` and
    /// messages, and from the history.
    pub(crate) fn remove_detached(
        &mut self,
        tools: &[Value],
        system: Option<&str>,
        sent: &mut Vec<(usize, Value)>,
        history: &mut [Value],
    ) {
        let format = self.wire.format();
        let mut prefix = initial_prefix(tools, system);
        sent.retain_mut(|(place, message)| {
            if !format.thinking_blocks(message).is_empty()
                && self.recorded.get(place) != Some(&fingerprint(format, prefix, &history[*place]))
            {
                tracing::debug!(message = *place, "thinking omitted: the messages before it have changed");
                self.recorded.remove(place);
                format.remove_thinking(&mut history[*place]);
                if !format.remove_thinking(message) {
                    return false;
                }
            }
            prefix = extend_prefix(format, prefix, message, tools);
            true
        });
        self.next = Some((history.len(), prefix));
    }

    /// Records the thinking of a turn at `place`, if it answers the request that was sent last.
    pub(crate) fn record(&mut self, place: usize, message: Option<&Value>) {
        let format = self.wire.format();
        let next = self.next.take().filter(|(expected, _)| *expected == place);
        if let (Some((_, prefix)), Some(message)) =
            (next, message.filter(|message| !format.thinking_blocks(message).is_empty()))
        {
            self.recorded.insert(place, fingerprint(format, prefix, message));
        }
    }

    /// Forgets the thinking at this place and after it.
    pub(crate) fn forget_from(&mut self, place: usize) {
        self.recorded.split_off(&place);
        self.next = None;
    }
}

fn hash_part(hash: u64, part: &str) -> u64 {
    fnv1a(part.bytes().chain([0]), hash)
}

/// Returns the hash of everything before the messages. Deferred tools do not count.
fn initial_prefix(tools: &[Value], system: Option<&str>) -> u64 {
    let tools = tools.iter().filter(|tool| !rules::is_deferred(tool));
    hash_part(tools.fold(0, |hash, tool| hash_part(hash, &tool.to_string())), system.unwrap_or_default())
}

/// Returns the hash of a prefix with one more message. A reference counts as the definition of
/// the deferred tool that it names.
fn extend_prefix(format: &dyn WireFormat, prefix: u64, message: &Value, tools: &[Value]) -> u64 {
    let prefix = hash_part(prefix, &without_cache_marks(message).to_string());
    let names = format.references(message);
    if names.is_empty() {
        return prefix;
    }
    let is_shown = |tool: &&Value| rules::is_deferred(tool) && names.contains(&format.tool_name(tool));
    tools.iter().filter(is_shown).fold(prefix, |hash, tool| hash_part(hash, &tool.to_string()))
}

/// Returns the hash of the thinking in a message after a prefix.
fn fingerprint(format: &dyn WireFormat, prefix: u64, message: &Value) -> u64 {
    format.thinking_blocks(message).into_iter().fold(prefix, |hash, block| hash_part(hash, &block.to_string()))
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

    fn thinking() -> Value {
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hello"},
        ]})
    }

    /// Whether thinking after `hi` survives a change of tools, system prompt and history.
    fn survives(change: impl FnOnce(&mut Vec<Value>, &mut String, &mut Vec<Value>)) -> bool {
        let (mut tools, mut system) = (vec![json!({"name": "a"})], "be brief".to_owned());
        let hi = json!({"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]});
        let mut history = vec![hi];
        let mut bound = BoundThinking::new(Wire::Anthropic);
        let sent = |history: &[Value]| history.iter().cloned().enumerate().collect::<Vec<_>>();
        bound.remove_detached(&tools, Some(&system), &mut sent(&history), &mut history);
        bound.record(1, Some(&thinking()));
        history.push(thinking());
        change(&mut tools, &mut system, &mut history);
        let mut again = sent(&history);
        bound.remove_detached(&tools, Some(&system), &mut again, &mut history);
        let thinks = |message: &Value| !Wire::Anthropic.format().thinking_blocks(message).is_empty();
        let stays = thinks(&again[1].1);
        assert_eq!(stays, thinks(&history[1]), "both or none");
        assert_eq!(again[1].1["content"].as_array().map(Vec::len), Some(if stays { 2 } else { 1 }));
        stays
    }

    #[test]
    fn thinking_stays_while_its_prefix_does() {
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
    fn thinking_of_another_turn_is_not_recorded() {
        let mut bound = BoundThinking::new(Wire::Anthropic);
        let mut history = vec![json!({"role": "user", "content": "hi"})];
        bound.remove_detached(&[], None, &mut vec![(0, history[0].clone())], &mut history);
        bound.record(2, Some(&thinking()));
        assert!(bound.recorded.is_empty(), "something was put between the request and its answer");
    }
}
