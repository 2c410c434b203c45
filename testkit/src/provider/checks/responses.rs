//! Items that Responses wants back as it gave them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Checker};

/// Calls of the provider's own tools, which are not valid without their ids.
const WITH_ID: [&str; 9] = [
    "web_search_call",
    "file_search_call",
    "computer_call",
    "code_interpreter_call",
    "image_generation_call",
    "local_shell_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
];

pub(super) fn check(checker: &mut Checker) {
    ids(checker);
    namespaces(checker);
    reasoning(checker);
}

fn ids(checker: &mut Checker) {
    for (index, item) in checker.ask.messages.iter().enumerate() {
        if item["type"].as_str().is_some_and(|kind| WITH_ID.contains(&kind)) && !item["id"].is_string() {
            let at = format!("input[{index}].id");
            checker.fail_at(Check::Required, at.as_str(), format!("Missing required parameter: '{at}'."));
        }
    }
}

fn namespaces(checker: &mut Checker) {
    let ask = checker.ask;
    for (index, item) in ask.messages.iter().enumerate() {
        if item["type"] != "function_call" || item["namespace"].is_string() {
            continue;
        }
        let mut known = ask.tools.iter().chain(&ask.loaded).filter(|tool| item["name"] == tool.name).peekable();
        if known.peek().is_some() && known.all(|tool| tool.deferred || tool.namespace.is_some()) {
            let message = format!(
                "Missing namespace for function_call {}. Round-trip the model's function_call item with its namespace \
                 field included.",
                item["name"]
            );
            checker.fail_at(Check::Namespace, format!("input[{index}]"), message);
        }
    }
}

fn reasoning(checker: &mut Checker) {
    let messages = checker.ask.messages;
    let ids: BTreeSet<&str> = messages.iter().filter_map(|item| item["id"].as_str()).collect();
    for (index, item) in messages.iter().enumerate() {
        let id = item["id"].as_str().unwrap_or_default();
        let kind = item["type"].as_str().unwrap_or_default();
        if let Some(reason) = checker.memory.reasons.get(id).filter(|reason| !ids.contains(reason.as_str())) {
            let message =
                format!("Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{reason}'.");
            checker.fail_at(Check::ReasoningItems, format!("input[{index}]"), message);
        }
        if kind == "item_reference" {
            checker.fail_at(
                Check::ReasoningItems,
                format!("input[{index}]"),
                format!("Item with id '{id}' not found."),
            );
        }
        let rest = &messages[index + 1..];
        let is_stored = checker.memory.items.contains_key(id);
        let is_followed =
            checker.memory.followers.get(id).is_none_or(|follower| is_followed_by(follower, is_stored, rest));
        if kind == "reasoning" && !(is_followed && leads_somewhere(rest)) {
            let message = format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            checker.fail_at(Check::ReasoningItems, format!("input[{index}]"), message);
        }
        if checker.memory.unstored.contains(id) && !item["encrypted_content"].is_string() {
            let message =
                format!("Item with id '{id}' not found. Items are not persisted when `store` is set to false.");
            checker.fail_at(Check::ReasoningItems, format!("input[{index}]"), message);
        }
    }
}

/// Whether a reasoning item stands before what it led to: a stored one before the item of this id, another one before this
/// call, or before an item of this type.
fn is_followed_by(follower: &Value, is_stored: bool, rest: &[Value]) -> bool {
    let kind = |item: &Value| item["type"].as_str().unwrap_or("message").to_owned();
    rest.first().is_some_and(|next| match follower["type"].as_str() {
        _ if is_stored => next["id"] == follower["id"],
        Some("function_call") => next["call_id"] == follower["call_id"],
        _ => kind(next) == kind(follower),
    })
}

/// Whether something of the model's stands behind a reasoning item.
fn leads_somewhere(rest: &[Value]) -> bool {
    let next = rest.iter().find(|item| item["type"] != "reasoning");
    next.is_some_and(|next| next["role"] != "user" && next["type"] != "function_call_output")
}
