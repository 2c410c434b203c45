//! Histories of Anthropic Messages: repairs, results, references, thinking, rules.

use std::collections::{BTreeSet, HashMap, HashSet};

use pegboard_discovery::transcript::ToolResult;
use serde_json::Value;

use crate::{
    delivery::Delivery,
    rules::RuleError,
    wire::{
        content_text, items,
        repair::{
            NO_OUTPUT, NO_TEXT, RepairContext, describe_found, ensure_object, ensure_valid_name, is_blank,
            is_blank_text, is_valid_name, text_block,
        },
        text,
    },
};

/// Whether the model understands `tool_reference` blocks.
fn keeps_references(context: &RepairContext<'_>) -> bool {
    matches!(context.delivery, Delivery::Reference | Delivery::Native)
}

/// Whether searches of the provider stay as they are.
fn keeps_searches(context: &RepairContext<'_>) -> bool {
    context.delivery == Delivery::Native
}

pub(super) fn repair_message(context: &RepairContext<'_>, abandoned: &HashSet<&str>, message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let is_said = text(&message, "role") == "assistant";
    match message.get_mut("content")? {
        Value::String(said) if !said.trim().is_empty() => {}
        Value::String(_) if is_said => return None,
        Value::String(said) => NO_TEXT.clone_into(said),
        Value::Array(blocks) => {
            let old = std::mem::take(blocks);
            *blocks = if is_said { repair_assistant(context, abandoned, old) } else { repair_user(context, old) };
            if blocks.is_empty() {
                return None;
            }
        }
        _ => return None,
    }
    Some(message)
}

fn is_thinking(block: &Value) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
}

/// Whether a block is the provider's search of tools or its result.
fn is_search(block: &Value) -> bool {
    text(block, "name").starts_with("tool_search_tool") || text(block, "type") == "tool_search_tool_result"
}

fn repair_assistant(context: &RepairContext<'_>, abandoned: &HashSet<&str>, old: Vec<Value>) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(old.len());
    let (mut is_other, mut is_moved) = (false, false);
    for mut block in old {
        match text(&block, "type") {
            "text" if is_blank_text(&block) => is_other = true,
            "server_tool_use" if abandoned.contains(text(&block, "id")) => is_other = true,
            "server_tool_use" if is_search(&block) && !keeps_searches(context) => is_other = true,
            "tool_search_tool_result" if !keeps_searches(context) => {
                blocks.push(text_block(describe_found(referenced_tools(&block))));
                is_other = true;
            }
            "tool_search_tool_result" => {
                is_other |= remove_invalid_references(&mut block);
                blocks.push(block);
            }
            "tool_use" | "server_tool_use" => {
                is_other |= ensure_object(&mut block, "input");
                is_other |= ensure_valid_name(&mut block, "name");
                blocks.push(block);
            }
            _ => {
                is_moved |= is_other && is_thinking(&block);
                blocks.push(block);
            }
        }
    }
    // Thinking is bound to the blocks before it, in its own turn too.
    if is_moved {
        blocks.retain(|block| !is_thinking(block));
    }
    // A turn that ends in thinking is refused.
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

/// Removes references to what cannot be the name of a tool; whether there were any.
fn remove_invalid_references(block: &mut Value) -> bool {
    let Some(found) = block.pointer_mut("/content/tool_references").and_then(Value::as_array_mut) else { return false };
    let before = found.len();
    found.retain(|reference| is_valid_name(text(reference, "tool_name")));
    found.len() != before
}

fn repair_user(context: &RepairContext<'_>, old: Vec<Value>) -> Vec<Value> {
    let has_text = old.iter().any(|block| text(block, "type") == "text");
    let repair = |mut block: Value| match text(&block, "type") {
        "text" if is_blank_text(&block) => None,
        // The provider answers these itself.
        "tool_result" if text(&block, "tool_use_id").starts_with("srvtoolu_") => None,
        "tool_result" => {
            repair_result(context, &mut block);
            Some(block)
        }
        _ => Some(block),
    };
    let mut blocks: Vec<Value> = old.into_iter().filter_map(repair).collect();
    if blocks.is_empty() && has_text {
        blocks.push(text_block(NO_TEXT));
    }
    blocks
}

fn repair_result(context: &RepairContext<'_>, block: &mut Value) {
    let Some(content) = block.get_mut("content") else { return };
    if let Value::Array(parts) = content {
        let is_described = |part: &Value| {
            let is_reference = text(part, "type") == "tool_reference";
            is_reference && !(keeps_references(context) && is_valid_name(text(part, "tool_name")))
        };
        let (described, mut kept): (Vec<Value>, Vec<Value>) = std::mem::take(parts).into_iter().partition(is_described);
        kept.retain(|part| !is_blank_text(part));
        if !described.is_empty() {
            kept.push(text_block(describe_found(described.iter().map(|part| text(part, "tool_name")))));
        }
        *parts = kept;
    }
    if is_blank(Some(content)) {
        *content = vec![text_block(NO_OUTPUT)].into();
    }
}

/// Returns the tools that the references in a block name, of a search by the provider or by the
/// client.
pub(super) fn referenced_tools(block: &Value) -> impl Iterator<Item = &str> {
    let found = block.get("content").map(|content| items(content, "tool_references")).into_iter().flatten();
    let parts = items(block, "content").chain(found);
    parts.filter(|part| text(part, "type") == "tool_reference").map(|part| text(part, "tool_name"))
}

/// Returns the blocks of thinking in a message.
pub(super) fn thinking_blocks(message: &Value) -> impl Iterator<Item = &Value> {
    items(message, "content").filter(|block| is_thinking(block))
}

/// Removes the blocks of thinking from a message; `false` if nothing is left in it.
pub(super) fn remove_thinking(message: &mut Value) -> bool {
    match message.get_mut("content").and_then(Value::as_array_mut) {
        Some(blocks) => {
            blocks.retain(|block| !is_thinking(block));
            !blocks.is_empty()
        }
        None => true,
    }
}

fn is_assistant(message: &Value) -> bool {
    text(message, "role") == "assistant"
}

/// Returns the ids of server tool calls that have a result.
fn answered(messages: &[Value]) -> HashSet<&str> {
    let blocks = messages.iter().flat_map(|message| items(message, "content"));
    blocks.filter(|block| text(block, "type") != "tool_result").map(|block| text(block, "tool_use_id")).collect()
}

fn server_calls(message: &Value) -> impl Iterator<Item = &str> {
    items(message, "content").filter(|block| text(block, "type") == "server_tool_use").map(|block| text(block, "id"))
}

/// Returns the ids of server tool calls that the provider will not answer any more, since other
/// input follows them.
pub(super) fn abandoned_calls(messages: &[Value]) -> HashSet<&str> {
    let answered = answered(messages);
    let mut abandoned = HashSet::new();
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| is_assistant(message)) {
        let Some(next) = messages[at..].iter().find(|message| !is_assistant(message)) else { continue };
        // A turn that waits for the results of other tools continues when it has them.
        let has_more = items(next, "content").any(|block| text(block, "type") != "tool_result");
        if has_more || !next.get("content").is_some_and(Value::is_array) {
            abandoned.extend(server_calls(message).filter(|id| !answered.contains(id)));
        }
    }
    abandoned
}

/// Ends a paused turn: removes server tool calls without a result at the end of the history, and
/// messages of which nothing is left.
pub(super) fn end_paused_turn(messages: &mut Vec<Value>) {
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
    let is_nothing =
        |message: &Value| items(message, "content").all(|block| is_thinking(block) || is_blank_text(block));
    while messages.len() > first && messages.last().is_some_and(is_nothing) {
        messages.pop();
    }
}

/// Returns the results of tools in a history, each with the call that it belongs to.
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

/// Returns the tools that a history calls before a reference has made them known.
pub(super) fn undefined_calls(messages: &[&Value]) -> BTreeSet<String> {
    let mut known: HashSet<&str> = HashSet::new();
    let mut called = BTreeSet::new();
    for block in messages.iter().flat_map(|message| items(message, "content")) {
        match text(block, "type") {
            "tool_use" if !known.contains(text(block, "name")) => {
                called.insert(text(block, "name").to_owned());
            }
            _ => known.extend(referenced_tools(block)),
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
