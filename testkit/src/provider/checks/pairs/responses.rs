//! Responses: an output item for every call item, anywhere behind it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{Check, Checker};

/// Items that call, the items that answer them, and what the provider calls them.
const PAIRS: [(&str, &str, &str); 3] = [
    ("function_call", "function_call_output", "function call"),
    ("custom_tool_call", "custom_tool_call_output", "custom tool call"),
    ("tool_search_call", "tool_search_output", "tool search call"),
];

pub(in super::super) fn check(checker: &mut Checker) {
    for (call, output, words) in PAIRS {
        pair(checker, call, output, words);
    }
}

fn pair(checker: &mut Checker, call: &str, output: &str, words: &str) {
    // A search that the provider executed itself has no identifier.
    let id = |item: &Value| item["call_id"].as_str().map(String::from);
    let mut open: BTreeMap<String, bool> = BTreeMap::new();
    for (index, item) in checker.ask.messages.iter().enumerate() {
        if item["type"] == call {
            open.extend(id(item).map(|id| (id, false)));
        }
        if item["type"] != output || item["execution"] == "server" {
            continue;
        }
        let at = format!("input[{index}].call_id");
        match id(item).and_then(|id| open.get_mut(&id)) {
            Some(answered) => *answered = true,
            None => {
                let check = if call == "tool_search_call" { Check::SearchOutput } else { Check::ToolPairs };
                let message = format!("No tool call found for {words} output with call_id {}.", item["call_id"]);
                checker.fail_at(check, at, message);
            }
        }
    }
    for (id, _) in open.iter().filter(|(_, answered)| !**answered) {
        checker.fail_at(Check::ToolPairs, "input", format!("No tool output found for {words} {id}."));
    }
}
