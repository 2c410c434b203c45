//! Chat Completions: messages of the role `tool` right behind the calls, one for each.

use super::super::{Check, Checker};
use crate::provider::{ask::items, route::Vendor};

pub(in super::super) fn check(checker: &mut Checker) {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in checker.ask.messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|known| *known == id) {
                Some(place) => drop(open.remove(place)),
                None => checker.fail_at(Check::ToolPairs, format!("messages.[{index}].role"), orphan(checker, id)),
            }
            continue;
        }
        unanswered(checker, &open);
        open = items(&message["tool_calls"]).iter().filter_map(|call| call["id"].as_str()).collect();
    }
    unanswered(checker, &open);
}

fn orphan(checker: &Checker, id: &str) -> String {
    match checker.ask.route.vendor {
        Vendor::MiniMax => format!("tool result's tool id({id}) not found"),
        _ => format!(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
             'tool_calls', '{id}' is not."
        ),
    }
}

fn unanswered(checker: &mut Checker, open: &[&str]) {
    if !open.is_empty() {
        let message = format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        );
        checker.fail_at(Check::ToolPairs, "messages", message);
    }
}
