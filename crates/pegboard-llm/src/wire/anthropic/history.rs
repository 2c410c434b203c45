//! Anthropic Messages.

use std::collections::{BTreeSet, HashMap, HashSet};

use pegboard_discovery::transcript::ToolResult;
use serde_json::Value;

use crate::{
    delivery::Delivery,
    rules::RuleError,
    wire::{
        content_text, items,
        repair::{
            NO_OUTPUT, NO_TEXT, Terms, found_in_words, is_blank, is_blank_text, is_name, need_object, tame_name,
            text_block,
        },
        text,
    },
};

/// Whether `tool_reference` blocks mean something.
fn keeps_references(terms: &Terms<'_>) -> bool {
    matches!(terms.delivery, Delivery::Reference | Delivery::Native)
}

/// Whether searches of the provider mean something.
fn keeps_searches(terms: &Terms<'_>) -> bool {
    terms.delivery == Delivery::Native
}

pub(super) fn message(terms: &Terms<'_>, given_up: &HashSet<&str>, message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let is_said = text(&message, "role") == "assistant";
    match message.get_mut("content")? {
        Value::String(said) if !said.trim().is_empty() => {}
        Value::String(_) if is_said => return None,
        Value::String(said) => NO_TEXT.clone_into(said),
        Value::Array(blocks) => {
            let old = std::mem::take(blocks);
            *blocks = if is_said { assistant(terms, given_up, old) } else { user(terms, old) };
            if blocks.is_empty() {
                return None;
            }
        }
        _ => return None,
    }
    Some(message)
}

fn is_thought(block: &Value) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
}

/// Whether a block is the provider's search of tools or its result.
fn is_search(block: &Value) -> bool {
    text(block, "name").starts_with("tool_search_tool") || text(block, "type") == "tool_search_tool_result"
}

fn assistant(terms: &Terms<'_>, given_up: &HashSet<&str>, old: Vec<Value>) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(old.len());
    let (mut is_other, mut is_moved) = (false, false);
    for mut block in old {
        match text(&block, "type") {
            "text" if is_blank_text(&block) => is_other = true,
            "server_tool_use" if given_up.contains(text(&block, "id")) => is_other = true,
            "server_tool_use" if is_search(&block) && !keeps_searches(terms) => is_other = true,
            "tool_search_tool_result" if !keeps_searches(terms) => {
                blocks.push(text_block(found_in_words(referenced(&block))));
                is_other = true;
            }
            "tool_search_tool_result" => {
                is_other |= drop_wild_references(&mut block);
                blocks.push(block);
            }
            "tool_use" | "server_tool_use" => {
                is_other |= need_object(&mut block, "input");
                is_other |= tame_name(&mut block, "name");
                blocks.push(block);
            }
            _ => {
                is_moved |= is_other && is_thought(&block);
                blocks.push(block);
            }
        }
    }
    // Thoughts are bound to what stands before them, in their own turn too.
    if is_moved {
        blocks.retain(|block| !is_thought(block));
    }
    // A turn that ends in thoughts is refused.
    while blocks.last().is_some_and(is_thought) {
        blocks.pop();
    }
    blocks
}

/// References to what cannot be the name of a tool lead nowhere.
fn drop_wild_references(block: &mut Value) -> bool {
    let Some(found) = block.pointer_mut("/content/tool_references").and_then(Value::as_array_mut) else { return false };
    let before = found.len();
    found.retain(|reference| is_name(text(reference, "tool_name")));
    found.len() != before
}

fn user(terms: &Terms<'_>, old: Vec<Value>) -> Vec<Value> {
    let has_text = old.iter().any(|block| text(block, "type") == "text");
    let mend = |mut block: Value| match text(&block, "type") {
        "text" if is_blank_text(&block) => None,
        // The provider answers these itself.
        "tool_result" if text(&block, "tool_use_id").starts_with("srvtoolu_") => None,
        "tool_result" => {
            result(terms, &mut block);
            Some(block)
        }
        _ => Some(block),
    };
    let mut blocks: Vec<Value> = old.into_iter().filter_map(mend).collect();
    if blocks.is_empty() && has_text {
        blocks.push(text_block(NO_TEXT));
    }
    blocks
}

fn result(terms: &Terms<'_>, block: &mut Value) {
    let Some(content) = block.get_mut("content") else { return };
    if let Value::Array(parts) = content {
        let is_told = |part: &Value| {
            let is_reference = text(part, "type") == "tool_reference";
            is_reference && !(keeps_references(terms) && is_name(text(part, "tool_name")))
        };
        let (told, mut kept): (Vec<Value>, Vec<Value>) = std::mem::take(parts).into_iter().partition(is_told);
        kept.retain(|part| !is_blank_text(part));
        if !told.is_empty() {
            kept.push(text_block(found_in_words(told.iter().map(|part| text(part, "tool_name")))));
        }
        *parts = kept;
    }
    if is_blank(Some(content)) {
        *content = vec![text_block(NO_OUTPUT)].into();
    }
}

/// The names in a block's references, whether the provider searched or we did.
pub(super) fn referenced(block: &Value) -> impl Iterator<Item = &str> {
    let found = block.get("content").map(|content| items(content, "tool_references")).into_iter().flatten();
    let parts = items(block, "content").chain(found);
    parts.filter(|part| text(part, "type") == "tool_reference").map(|part| text(part, "tool_name"))
}

/// The thoughts in a message.
pub(super) fn thoughts(message: &Value) -> impl Iterator<Item = &Value> {
    items(message, "content").filter(|block| is_thought(block))
}

/// Takes the thoughts out of a message; whether anything is left in it.
pub(super) fn strip_thinking(message: &mut Value) -> bool {
    match message.get_mut("content").and_then(Value::as_array_mut) {
        Some(blocks) => {
            blocks.retain(|block| !is_thought(block));
            !blocks.is_empty()
        }
        None => true,
    }
}

fn is_assistant(message: &Value) -> bool {
    text(message, "role") == "assistant"
}

/// The calls of the provider itself that it has answered.
fn answered(messages: &[Value]) -> HashSet<&str> {
    let blocks = messages.iter().flat_map(|message| items(message, "content"));
    blocks.filter(|block| text(block, "type") != "tool_result").map(|block| text(block, "tool_use_id")).collect()
}

fn server_calls(message: &Value) -> impl Iterator<Item = &str> {
    items(message, "content").filter(|block| text(block, "type") == "server_tool_use").map(|block| text(block, "id"))
}

/// Calls of the provider itself that it will not answer any more, since something else was
/// said behind them.
pub(super) fn given_up(messages: &[Value]) -> HashSet<&str> {
    let answered = answered(messages);
    let mut given_up = HashSet::new();
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| is_assistant(message)) {
        let Some(next) = messages[at..].iter().find(|message| !is_assistant(message)) else { continue };
        // What waits for the results of other tools goes on when it has them.
        let has_more = items(next, "content").any(|block| text(block, "type") != "tool_result");
        if has_more || !next.get("content").is_some_and(Value::is_array) {
            given_up.extend(server_calls(message).filter(|id| !answered.contains(id)));
        }
    }
    given_up
}

/// Ends a turn that the model has paused: calls of the provider at its end that have no
/// result go, and a message that nothing is left of as well.
pub(super) fn close_pause(messages: &mut Vec<Value>) {
    let first = messages.iter().rposition(|message| !is_assistant(message)).map_or(0, |at| at + 1);
    let answered = answered(&messages[first..]);
    let open = messages[first..].iter().flat_map(server_calls).filter(|id| !answered.contains(id));
    let open: HashSet<String> = open.map(str::to_owned).collect();
    if open.is_empty() {
        return;
    }
    for message in &mut messages[first..] {
        if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
            blocks.retain(|block| text(block, "type") != "server_tool_use" || !open.contains(text(block, "id")));
        }
    }
    let is_nothing = |message: &Value| items(message, "content").all(|block| is_thought(block) || is_blank_text(block));
    while messages.len() > first && messages.last().is_some_and(is_nothing) {
        messages.pop();
    }
}

/// The results of tools in a history, each with the call that it belongs to.
pub(super) fn tool_results(messages: &[Value]) -> Vec<ToolResult> {
    let mut calls: HashMap<String, (&str, Value)> = HashMap::new();
    let mut results = Vec::new();
    for block in messages.iter().flat_map(|message| items(message, "content")) {
        match text(block, "type") {
            "tool_use" | "server_tool_use" => {
                let arguments = block.get("input").cloned().unwrap_or_default();
                calls.insert(text(block, "id").to_owned(), (text(block, "name"), arguments));
            }
            "tool_result" | "tool_search_tool_result" => {
                let Some((name, arguments)) = calls.get(text(block, "tool_use_id")) else { continue };
                let parts = items(block, "content")
                    .chain(block.get("content").map(|content| items(content, "tool_references")).into_iter().flatten());
                let references = parts.filter(|part| text(part, "type") == "tool_reference");
                results.push(ToolResult {
                    name: (*name).to_owned(),
                    arguments: arguments.clone(),
                    text: content_text(block.get("content")),
                    references: references.map(|part| text(part, "tool_name").to_owned()).collect(),
                });
            }
            _ => {}
        }
    }
    results
}

/// The tools that a history calls before a reference has made them known.
pub(super) fn undefined_calls(messages: &[&Value]) -> BTreeSet<String> {
    let mut known: HashSet<&str> = HashSet::new();
    let mut called = BTreeSet::new();
    for block in messages.iter().flat_map(|message| items(message, "content")) {
        match text(block, "type") {
            "tool_use" if !known.contains(text(block, "name")) => {
                called.insert(text(block, "name").to_owned());
            }
            _ => known.extend(referenced(block)),
        }
    }
    called
}

/// The blocks of a message or of a result.
fn content(value: &Value) -> impl Iterator<Item = &Value> {
    value.get("content").and_then(Value::as_array).into_iter().flatten()
}

/// All blocks of all messages, results' own blocks included.
fn blocks(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages.iter().flat_map(content).flat_map(|block| std::iter::once(block).chain(content(block)))
}

/// Checks that references lead to one of these tools, and that no result answers a call of the
/// provider itself.
pub(super) fn check(messages: &[Value], names: &HashSet<&str>) -> Result<(), RuleError> {
    for block in blocks(messages) {
        match text(block, "type") {
            "tool_reference" if !names.contains(text(block, "tool_name")) => {
                return Err(RuleError::UnresolvedReference { name: text(block, "tool_name").to_owned() });
            }
            "tool_result" if text(block, "tool_use_id").starts_with("srvtoolu_") => {
                return Err(RuleError::ResultForServerCall { id: text(block, "tool_use_id").to_owned() });
            }
            _ => {}
        }
    }
    Ok(())
}
