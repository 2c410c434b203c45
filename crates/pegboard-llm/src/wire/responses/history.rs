//! OpenAI Responses.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::repair::{
    NO_OUTPUT, NO_TEXT, Terms, found_in_words, is_blank, items, need_object, need_object_text, tame_name, text,
};
use crate::rules;

/// Tools that the provider has found in a group or as deferred ones, and the group that a call
/// of them belongs to. One that is known by itself as well needs none.
pub(crate) fn groups(messages: &[Value]) -> HashMap<&str, &str> {
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
pub(crate) fn item(terms: &Terms<'_>, groups: &HashMap<&str, &str>, item: &Value, rest: &[Value]) -> Option<Value> {
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
                if !terms.keeps_searches() {
                    fields.shift_remove("namespace");
                } else if let Some(group) = group {
                    fields.entry("namespace").or_insert(group);
                }
            }
        }
        "tool_search_call" if terms.keeps_searches() => drop(need_object(&mut item, "arguments")),
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
        "tool_search_call" if !terms.keeps_searches() => return None,
        "tool_search_output" if !terms.keeps_searches() => {
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
pub(crate) fn found(item: &Value) -> Vec<&str> {
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
pub(crate) fn strip(item: &mut Value) {
    if let Some(fields) = item.as_object_mut() {
        fields.shift_remove("id");
    }
}
