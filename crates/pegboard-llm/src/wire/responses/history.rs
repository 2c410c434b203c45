//! Histories of OpenAI Responses: repairs, results, found tools, rules.

use std::collections::{BTreeSet, HashMap, HashSet};

use pegboard_discovery::transcript::ToolResult;
use serde_json::{Value, json};

use crate::{
    delivery::Delivery,
    rules::{self, RuleError},
    wire::{
        content_text, items,
        repair::{
            NO_OUTPUT, NO_TEXT, RepairContext, describe_found, ensure_object, ensure_object_text, ensure_valid_name,
            is_blank,
        },
        text,
    },
};

/// Whether searches of the provider stay as they are.
fn keeps_searches(context: &RepairContext<'_>) -> bool {
    matches!(context.delivery, Delivery::ClientNative | Delivery::Native)
}

/// Returns the group of each tool that the provider has found in a group or as a deferred tool; a
/// call must name it. A tool that is known without a group as well is left out.
pub(super) fn groups_of_found_tools(messages: &[Value]) -> HashMap<&str, &str> {
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

/// Repairs an item; `rest` are the items after it. `None` if nothing is left of it.
pub(super) fn repair_item(
    context: &RepairContext<'_>,
    groups: &HashMap<&str, &str>,
    item: &Value,
    rest: &[Value],
) -> Option<Value> {
    let mut item = item.clone();
    let is_ours = text(&item, "execution") == "client";
    match text(&item, "type") {
        // Reasoning without output after it is refused.
        "reasoning" if !is_followed_by_output(rest) => return None,
        "function_call" => {
            ensure_object_text(&mut item, "arguments");
            ensure_valid_name(&mut item, "name");
            let group = groups.get(text(&item, "name")).map(|group| Value::from(*group));
            if let Some(fields) = item.as_object_mut() {
                if !keeps_searches(context) {
                    fields.shift_remove("namespace");
                } else if let Some(group) = group {
                    fields.entry("namespace").or_insert(group);
                }
            }
        }
        "tool_search_call" if keeps_searches(context) => drop(ensure_object(&mut item, "arguments")),
        "tool_search_call" if is_ours => {
            let arguments = item.get("arguments").filter(|arguments| arguments.is_object());
            let arguments = arguments.map_or_else(|| "{}".to_owned(), Value::to_string);
            item = json!({
                "type": "function_call",
                "call_id": item.get("call_id"),
                "name": context.search,
                "arguments": arguments,
            });
        }
        "tool_search_call" if !keeps_searches(context) => return None,
        "tool_search_output" if !keeps_searches(context) => {
            let found = found_tools(&item);
            // The rest of the answer is in the message after it.
            let is_noted = is_ours && found.is_empty();
            let output = if is_noted { "No new tools.".to_owned() } else { describe_found(found) };
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

/// Returns the items of turns whose reasoning has led to a search that does not stay: the reasoning and everything behind it
/// until the next input. The provider refuses such reasoning, and knows the ids of what it has led to only together with it.
pub(super) fn behind_lost_searches(context: &RepairContext<'_>, messages: &[Value]) -> Vec<bool> {
    let mut is_behind = false;
    let place = |(at, item): (usize, &Value)| {
        match text(item, "type") {
            "reasoning" => is_behind |= leads_to_search(&messages[at + 1..]),
            _ if matches!(text(item, "role"), "user" | "system" | "developer") => is_behind = false,
            _ => {}
        }
        is_behind && !keeps_searches(context)
    };
    messages.iter().enumerate().map(place).collect()
}

/// Whether the model searched after its reasoning.
pub(super) fn leads_to_search(rest: &[Value]) -> bool {
    let next = rest.iter().find(|item| text(item, "type") != "reasoning");
    next.is_some_and(|next| text(next, "type") == "tool_search_call")
}

/// Whether the model's output follows its reasoning.
fn is_followed_by_output(rest: &[Value]) -> bool {
    let next = rest.iter().find(|item| text(item, "type") != "reasoning");
    next.is_some_and(|next| {
        let is_input = matches!(text(next, "role"), "user" | "system" | "developer");
        let is_blank_message = text(next, "type") == "message" && is_blank(next.get("content"));
        let is_answer = text(next, "type") == "function_call_output"
            || (text(next, "type") == "tool_search_output" && text(next, "execution") == "client");
        !is_input && !is_answer && !is_blank_message
    })
}

/// Returns the tools that a search has found, those of groups one by one.
pub(super) fn found_tools(item: &Value) -> Vec<&str> {
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

/// Removes the id that ties an item to the reasoning before it.
pub(super) fn remove_id(item: &mut Value) {
    if let Some(fields) = item.as_object_mut() {
        fields.shift_remove("id");
    }
}

/// Returns the results of tools in a history, each with the call that it belongs to.
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

/// Returns the tools that a history calls before a search has found them. Where the provider searches, a
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
            _ => known.extend(found_tools(item)),
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
