//! The memory of sessions.

use serde_json::{Value, json};

use super::{Session, expect_result, resident_mb};
use crate::{gateway, say};

/// Number of sessions.
const SESSIONS: usize = 1000;

/// Number of sessions before memory is first measured.
const WARM_UP: usize = 100;

/// Number of tools that each session loads.
const LOADED: usize = 10;

/// Measures the memory of sessions that have loaded tools, in the dialect that keeps the most of
/// them.
pub(super) fn run(servers: &Value) -> Result<(), String> {
    let config = json!({"mcpServers": servers, "pegboard": {"exposure": "always", "dialect": "explicit"}});
    let gateway = gateway::RunningGateway::start("release", "bench-sessions", &config)?;
    let all = json!({"tool_names": names(&gateway.url)?});
    let begin = |count: usize| {
        for _ in 0..count {
            let session = Session::begin(&gateway.url)?;
            let params = json!({"name": "add_tool", "arguments": all});
            expect_result(&session.request("tools/call", &params)?)?;
        }
        Ok::<f64, String>(resident_mb(gateway.pid()))
    };
    let before = begin(WARM_UP)?;
    let after = begin(SESSIONS - WARM_UP)?;
    let each = (after - before) * 1024.0 / (SESSIONS - WARM_UP) as f64;
    say(&format!(
        "{SESSIONS} conversations with {LOADED} tools loaded: {after:.1} MB, {each:.1} kB each (goal: at most 50)"
    ));
    Ok(())
}

/// Returns the names of some tools.
fn names(url: &str) -> Result<Vec<String>, String> {
    let session = Session::begin(url)?;
    let params = json!({"name": "search_tools", "arguments": {"query": "."}});
    let answer = session.request("tools/call", &params)?;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let found: Value = serde_json::from_str(text).unwrap_or_default();
    let found = found["tools"].as_array().or(found.as_array()).cloned().unwrap_or_default();
    let names: Vec<String> =
        found.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).take(LOADED).collect();
    if names.is_empty() { Err(format!("no names in {answer}")) } else { Ok(names) }
}
