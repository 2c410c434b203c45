//! Anthropic: all results of a turn's calls open the message that follows it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{Check, Checker};
use crate::provider::prompt::blocks;

pub(in super::super) fn check(checker: &mut Checker) {
    let turns = turns(checker.ask.messages);
    let mut calls = BTreeSet::new();
    for (turn, next) in turns.iter().zip(turns.iter().skip(1).map(Some).chain([None])) {
        let asked: Vec<&str> = ids(&turn.blocks, "tool_use", "id").collect();
        if let Some(twice) = asked.iter().find(|id| !calls.insert(id.to_string())) {
            checker.fail(Check::ToolPairs, format!("{}: `tool_use` ids must be unique, '{twice}' is not", turn.at));
        }
        answered(checker, turn, next, &asked);
        finished(checker, turn, next, &turns);
    }
    if let Some(first) = turns.first() {
        expected(checker, first, &[]);
    }
}

/// Consecutive messages of one role, which are one turn to the model.
struct RoleTurn {
    role: String,
    blocks: Vec<Value>,
    at: String,
}

fn turns(messages: &[Value]) -> Vec<RoleTurn> {
    let mut turns: Vec<RoleTurn> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        match turns.last_mut().filter(|last| last.role == role) {
            Some(last) => last.blocks.append(&mut blocks(&message["content"])),
            None => {
                let blocks = blocks(&message["content"]);
                turns.push(RoleTurn { role: role.into(), blocks, at: format!("messages.{index}") });
            }
        }
    }
    turns
}

fn ids<'a>(blocks: &'a [Value], kind: &str, key: &str) -> impl Iterator<Item = &'a str> {
    blocks.iter().filter(move |block| block["type"] == kind).filter_map(move |block| block[key].as_str())
}

/// Checks the turn after `turn` for the results of what was `asked`.
fn answered(checker: &mut Checker, turn: &RoleTurn, next: Option<&RoleTurn>, asked: &[&str]) {
    let replies = next.filter(|next| next.role == "user").map_or(&[][..], |next| &next.blocks);
    // Results come first: behind other content they are not immediately after the calls.
    let results: Vec<&str> = ids(leading_results(replies), "tool_result", "tool_use_id").collect();
    let missing: Vec<&str> = asked.iter().filter(|id| !results.contains(id)).copied().collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        let message = format!(
            "{}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}. Each `tool_use` \
             block must have a corresponding `tool_result` block in the next message.",
            turn.at
        );
        checker.fail(Check::ToolPairs, message);
    }
    if let Some(next) = next {
        expected(checker, next, asked);
    }
}

/// Checks that what the provider itself began in `turn` has its result, unless the turn was
/// paused and is the last one, or it waits for the results of the client's tools.
fn finished(checker: &mut Checker, turn: &RoleTurn, next: Option<&RoleTurn>, turns: &[RoleTurn]) {
    let Some(next) = next.filter(|next| next.blocks.iter().any(|block| block["type"] != "tool_result")) else { return };
    let results = turns.iter().flat_map(|turn| &turn.blocks).filter_map(|block| block["tool_use_id"].as_str());
    let results: BTreeSet<&str> = results.collect();
    let open: Vec<&str> = ids(&turn.blocks, "server_tool_use", "id").filter(|id| !results.contains(id)).collect();
    if !open.is_empty() {
        let message = format!(
            "{}: `server_tool_use` ids were found without their result blocks before {}: {}",
            turn.at,
            next.at,
            open.join(", ")
        );
        checker.fail(Check::ToolPairs, message);
    }
}

fn leading_results(blocks: &[Value]) -> &[Value] {
    let end = blocks.iter().position(|block| block["type"] != "tool_result").unwrap_or(blocks.len());
    &blocks[..end]
}

/// Checks that every result in `turn` is of a call in `asked`, the ones before it, and the only one.
fn expected(checker: &mut Checker, turn: &RoleTurn, asked: &[&str]) {
    let mut seen = BTreeSet::new();
    for id in ids(&turn.blocks, "tool_result", "tool_use_id") {
        let at = &turn.at;
        if id.starts_with("srvtoolu_") {
            let message = format!("{at}: `tool_result` for the server tool use '{id}' is not allowed");
            checker.fail(Check::ServerToolResult, message);
        } else if !asked.contains(&id) {
            let message = format!(
                "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                 have a corresponding `tool_use` block in the previous message."
            );
            checker.fail(Check::ToolPairs, message);
        } else if !seen.insert(id) {
            let message = format!("{at}: each tool_use must have a single result, '{id}' has several");
            checker.fail(Check::ToolPairs, message);
        }
    }
}
