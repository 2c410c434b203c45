//! Gemini: a content with calls, then one with as many responses.

use serde_json::Value;

use super::super::{Check, Checker};
use crate::provider::ask::{either, items};

pub(in super::super) fn check(checker: &mut Checker) {
    let contents = checker.ask.messages;
    let mut asked: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let calls = parts(content, "functionCall", "function_call");
        let responses = parts(content, "functionResponse", "function_response");
        let at = format!("contents[{index}]");
        if asked.is_empty() && !responses.is_empty() {
            let message = "Please ensure that function response turn comes immediately after a function call turn.";
            checker.fail_at(Check::ToolPairs, at.as_str(), message);
        } else if asked.len() != responses.len() {
            let message = "Please ensure that the number of function response parts is equal to the number of \
                           function call parts of the function call turn.";
            checker.fail_at(Check::ToolPairs, at.as_str(), message);
        } else {
            matched(checker, &at, &asked, &responses);
        }
        if index == 0 && !calls.is_empty() {
            let message = "Please ensure that function call turn comes immediately after a user turn or after a \
                           function response turn.";
            checker.fail_at(Check::ToolPairs, at.as_str(), message);
        }
        asked = calls;
    }
    if !asked.is_empty() {
        checker.fail_at(Check::ToolPairs, "contents", "the last function call turn has no function response turn");
    }
}

fn parts<'a>(content: &'a Value, camel: &str, snake: &str) -> Vec<&'a Value> {
    items(&content["parts"]).iter().map(|part| either(part, camel, snake)).filter(|part| !part.is_null()).collect()
}

/// Checks that each response is of one of the calls, by identifier where calls have one and by
/// name and position where they have none.
fn matched(checker: &mut Checker, at: &str, asked: &[&Value], responses: &[&Value]) {
    for (call, response) in asked.iter().zip(responses) {
        let fits = if call["id"].is_null() {
            call["name"] == response["name"]
        } else {
            asked.iter().any(|call| call["id"] == response["id"] && call["name"] == response["name"])
        };
        if !fits {
            let message = format!("{at}: the function response {} answers no function call", response["name"]);
            checker.fail_at(Check::ToolPairs, at, message);
        }
    }
}
