//! OpenAI Responses.

use std::collections::{BTreeSet, HashMap, HashSet};

use pegboard_discovery::transcript::ToolResult;
use serde_json::{Value, json};

use crate::{
    delivery::Delivery,
    rules::{self, RuleError},
    wire::{
        content_text, items,
        repair::{NO_OUTPUT, NO_TEXT, Terms, found_in_words, is_blank, need_object, need_object_text, tame_name},
        text,
    },
};

/// Whether searches of the provider mean something.
fn keeps_searches(terms: &Terms<'_>) -> bool {
    matches!(terms.delivery, Delivery::ClientNative | Delivery::Native)
}

/// Tools that the provider has found in a group or as deferred ones, and the group that a call
/// of them belongs to. One that is known by itself as well needs none.
pub(super) fn groups(messages: &[Value]) -> HashMap<&str, &str> {
    let (mut groups, mut plain) = (HashMap::new(), HashSet::new());
    for tool in messages.iter().filter(|item| is_found(item)).flat_map(|item| items(item, "tools")) {
        for inner in items(tool, "tools") {
            groups.insert(text(inner, "name"), text(tool, "name"));
        }
        if rules::is_deferred(tool) {
            groups.insert(text(tool, "name"), text(tool, "name"));
        } else {
            plain.insert(text(tool, "name"));
        }
    }
    groups.retain(|name, _| !plain.contains(name));
    groups
}

fn is_found(item: &Value) -> bool {
    text(item, "type") == "tool_search_output"
}

/// Mends an item; `rest` is what comes behind it.
pub(super) fn item(terms: &Terms<'_>, groups: &HashMap<&str, &str>, item: &Value, rest: &[Value]) -> Option<Value> {
    let mut item = item.clone();
    let is_ours = text(&item, "execution") == "client";
    match text(&item, "type") {
        // Thoughts that led to nothing are refused.
        "reasoning" if !leads_somewhere(rest) => return None,
        "function_call" => {
            need_object_text(&mut item, "arguments");
            tame_name(&mut item, "name");
            let group = groups.get(text(&item, "name")).map(|group| Value::from(*group));
            if let Some(fields) = item.as_object_mut() {
                if !keeps_searches(terms) {
                    fields.shift_remove("namespace");
                } else if let Some(group) = group {
                    fields.entry("namespace").or_insert(group);
                }
            }
        }
        "tool_search_call" if keeps_searches(terms) => drop(need_object(&mut item, "arguments")),
        "tool_search_call" if is_ours => {
            let arguments = item.get("arguments").filter(|arguments| arguments.is_object());
            let arguments = arguments.map_or_else(|| "{}".to_owned(), Value::to_string);
            item = json!({
                "type": "function_call",
                "call_id": item.get("call_id"),
                "name": terms.search,
                "arguments": arguments,
            });
        }
        "tool_search_call" if !keeps_searches(terms) => return None,
        "tool_search_output" if !keeps_searches(terms) => {
            let found = found(&item);
            // The rest of the search's answer is in the message behind it.
            let is_noted = is_ours && found.is_empty();
            let output = if is_noted { "No new tools.".to_owned() } else { found_in_words(found) };
            item = if is_ours {
                json!({"type": "function_call_output", "call_id": item.get("call_id"), "output": output})
            } else {
                let content = json!([{"type": "output_text", "text": output}]);
                json!({"type": "message", "role": "assistant", "content": content})
            };
        }
        "function_call_output" if is_blank(item.get("output")) => item["output"] = NO_OUTPUT.into(),
        "message" if is_blank(item.get("content")) => {
            if text(&item, "role") == "assistant" {
                return None;
            }
            item["content"] = json!([{"type": "input_text", "text": NO_TEXT}]);
        }
        _ => {}
    }
    Some(item)
}

/// Whether the model has said something behind its thoughts.
fn leads_somewhere(rest: &[Value]) -> bool {
    let next = rest.iter().find(|item| text(item, "type") != "reasoning");
    next.is_some_and(|next| {
        let is_told = matches!(text(next, "role"), "user" | "system" | "developer");
        let is_blank_message = text(next, "type") == "message" && is_blank(next.get("content"));
        let is_answer = text(next, "type") == "function_call_output"
            || (text(next, "type") == "tool_search_output" && text(next, "execution") == "client");
        !is_told && !is_answer && !is_blank_message
    })
}

/// The tools that a search has found, groups taken apart.
pub(super) fn found(item: &Value) -> Vec<&str> {
    if !is_found(item) {
        return Vec::new();
    }
    let mut names = Vec::new();
    for tool in items(item, "tools") {
        let before = names.len();
        names.extend(items(tool, "tools").map(|inner| text(inner, "name")));
        if names.len() == before {
            names.push(text(tool, "name"));
        }
    }
    names
}

/// Takes away the number that ties an item to the thoughts behind it.
pub(super) fn strip(item: &mut Value) {
    if let Some(fields) = item.as_object_mut() {
        fields.shift_remove("id");
    }
}

/// The results of tools in a history, each with the call that it belongs to.
pub(super) fn tool_results(messages: &[Value]) -> Vec<ToolResult> {
    let mut calls: HashMap<String, (&str, Value)> = HashMap::new();
    let mut results = Vec::new();
    for item in messages {
        let id = text(item, "call_id").to_owned();
        match text(item, "type") {
            "function_call" => {
                let arguments = serde_json::from_str(text(item, "arguments")).unwrap_or_default();
                calls.insert(id, (text(item, "name"), arguments));
            }
            "tool_search_call" => {
                calls.insert(id, ("tool_search", item.get("arguments").cloned().unwrap_or_default()));
            }
            "function_call_output" | "tool_search_output" => {
                let Some((name, arguments)) = calls.get(&id) else { continue };
                let found = items(item, "tools").flat_map(|tool| {
                    let inner: Vec<&Value> = items(tool, "tools").collect();
                    if inner.is_empty() { vec![tool] } else { inner }
                });
                results.push(ToolResult {
                    name: (*name).to_owned(),
                    arguments: arguments.clone(),
                    text: content_text(item.get("output")),
                    references: found.map(|tool| text(tool, "name").to_owned()).collect(),
                });
            }
            _ => {}
        }
    }
    results
}

/// The tools that a history calls before a search has found them. Where the provider searches, a
/// call without its group belongs to a tool without one.
pub(super) fn undefined_calls(delivery: Delivery, messages: &[&Value]) -> BTreeSet<String> {
    let mut known: HashSet<&str> = HashSet::new();
    let mut called = BTreeSet::new();
    for item in messages {
        let is_bare = delivery == Delivery::Native && item.get("namespace").is_none();
        match text(item, "type") {
            "function_call" if is_bare || !known.contains(text(item, "name")) => {
                called.insert(text(item, "name").to_owned());
            }
            _ => known.extend(found(item)),
        }
    }
    called
}

/// Checks that calls of grouped or deferred tools name their group.
pub(super) fn check(messages: &[Value], tools: &[(&Value, Option<&str>)]) -> Result<(), RuleError> {
    for item in messages.iter().filter(|item| text(item, "type") == "function_call") {
        let name = text(item, "name");
        let is_grouped = tools
            .iter()
            .any(|(tool, group)| text(tool, "name") == name && (group.is_some() || rules::is_deferred(tool)));
        if is_grouped && item.get("namespace").is_none() {
            return Err(RuleError::MissingNamespace { name: name.to_owned() });
        }
    }
    Ok(())
}
