//! Thoughts that come back: unchanged, in their place, and behind the prefix they were made for.

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
    ask::{either, items},
    prompt::blocks,
    route::Vendor,
    script::Models,
};

/// What Google's documents give for calls that no Gemini model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Anthropic's thinking blocks.
pub(super) fn check(checker: &mut Checker) {
    if checker.ask.route.vendor != Vendor::Anthropic {
        return;
    }
    let bound = Models::named(&checker.script.models.bind_thinking, checker.ask.model);
    let prompt = checker.prompt;
    for thought in &prompt.thoughts {
        let at = &thought.at;
        match checker.memory.thoughts.get(&thought.signature).filter(|made| made.text == thought.text) {
            None => {
                let message = format!("{at}: Invalid `signature` in `thinking` block");
                checker.fail_at(Check::ThinkingSignature, at.as_str(), message);
            }
            Some(made) if bound && made.prefix != prompt.bytes[..thought.before] => {
                let message = format!("{at}: this `thinking` block is bound to a different conversation");
                checker.fail_at(Check::ThinkingBinding, at.as_str(), message);
            }
            Some(_) => {}
        }
    }
    dropped(checker);
    trailing(checker);
    edits(checker);
}

/// Edits of thinking need it.
fn edits(checker: &mut Checker) {
    let body = checker.ask.body;
    if matches!(body["thinking"]["type"].as_str(), Some("enabled" | "adaptive")) {
        return;
    }
    for (index, edit) in items(&body["context_management"]["edits"]).iter().enumerate() {
        if let Some(kind) = edit["type"].as_str().filter(|kind| kind.starts_with("clear_thinking_")) {
            let message = format!("`{kind}` strategy requires `thinking` to be enabled or adaptive");
            checker.fail_at(Check::ThinkingEdits, format!("context_management.edits.{index}"), message);
        }
    }
}

/// Thoughts lead to something.
fn trailing(checker: &mut Checker) {
    for (index, message) in checker.ask.messages.iter().enumerate() {
        let last = blocks(&message["content"]).pop().unwrap_or_default();
        if message["role"] == "assistant" && matches!(last["type"].as_str(), Some("thinking" | "redacted_thinking")) {
            let message = format!("messages.{index}: The final block in an assistant message cannot be `thinking`.");
            checker.fail(Check::ThinkingDropped, message);
        }
    }
}

/// The last calls must stand behind the thoughts that led to them.
fn dropped(checker: &mut Checker) {
    let ask = checker.ask;
    if !ask.body["thinking"].is_object() || ask.body["thinking"]["type"] == "disabled" {
        return;
    }
    let Some(index) = ask.messages.iter().rposition(|message| message["role"] == "assistant") else { return };
    let said = blocks(&ask.messages[index]["content"]);
    let is_ours = |block: &Value| block["id"].as_str().is_some_and(|id| checker.memory.thoughtful_calls.contains(id));
    let led = said.first().is_some_and(|first| first["type"] == "thinking" || first["type"] == "redacted_thinking");
    if !led && said.iter().any(is_ours) {
        let message = format!(
            "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found {}. When \
             `thinking` is enabled, a final `assistant` message must start with a thinking block.",
            said[0]["type"]
        );
        checker.fail(Check::ThinkingDropped, message);
    }
}

/// Gemini's signatures: the first call of each content must have the one it came with.
pub(super) fn check_signatures(checker: &mut Checker) {
    if !checker.ask.model.starts_with("gemini-3") {
        return;
    }
    for (index, content) in checker.ask.messages.iter().enumerate() {
        let mut parts = items(&content["parts"]).iter().enumerate();
        let is_call = |part: &Value| !either(part, "functionCall", "function_call").is_null();
        let Some((inner, part)) = parts.find(|(_, part)| is_call(part)) else { continue };
        let at = format!("contents[{index}].parts[{inner}]");
        match either(part, "thoughtSignature", "thought_signature").as_str() {
            None => {
                let message = format!("Function call is missing a thought_signature in functionCall parts: {at}");
                checker.fail_at(Check::ThoughtSignature, at, message);
            }
            Some(signature) if signature != NO_SIGNATURE && !checker.memory.signatures.contains(signature) => {
                checker.fail_at(Check::ThoughtSignature, at, "Thought signature is not valid.");
            }
            Some(_) => {}
        }
    }
}
