//! The startup time of the gateway: cold, with cached tool lists, and with lazy servers.

use std::{fs, path::Path, time::Instant};

use serde_json::{Map, Value, json};

use super::{Session, resident_mb};
use crate::{gateway, say};

/// Servers that the tools are shared out to.
const SERVERS: usize = 20;

/// Starts of each kind.
const STARTS: usize = 10;

/// The folder of everything that is written here.
const FOLDER: &str = "target/bench-starting";

/// What one start took, in milliseconds, and the number of tools.
struct Start {
    listed: f64,
    searched: f64,
    resident: f64,
    tools: usize,
}

/// Measures starts with the tools of a catalog file, or as many synthetic ones.
pub(super) fn run(fixture: &Path, fleet: &str) -> Result<(), String> {
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir_all(FOLDER).map_err(|error| format!("cannot make `{FOLDER}`: {error}"))?;
    let servers = servers(fixture, fleet)?;
    let kinds = [("cold", false, false), ("from manifests", true, false), ("from manifests, lazy", true, true)];
    say(&format!("\n{:<48} {:>9} {:>9} {:>9} {:>9}", "ms from the start of the process", "p50", "max", "search", "MB"));
    for (name, is_kept, is_lazy) in kinds {
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            if !is_kept {
                let _ = fs::remove_dir_all(Path::new(FOLDER).join("state"));
            }
            starts.push(start(&servers, is_lazy)?);
        }
        starts.sort_by(|one, other| one.listed.total_cmp(&other.listed));
        let (middle, last) = (&starts[STARTS / 2], &starts[STARTS - 1]);
        say(&format!(
            "first `tools/list` of {:>5}, {name:<20} {:>9.0} {:>9.0} {:>9.0} {:>9.1}",
            middle.tools, middle.listed, last.listed, middle.searched, middle.resident
        ));
    }
    say("goal: at most 150 from manifests");
    Ok(())
}

/// Starts the gateway, lists everything, and searches once.
fn start(servers: &Value, is_lazy: bool) -> Result<Start, String> {
    let state = Path::new(FOLDER).join("state");
    let state = std::path::absolute(state).map_err(|error| error.to_string())?;
    let config = json!({
        "mcpServers": servers,
        // Clients by this name see everything; others search.
        "pegboard": {"dialect": "bridge", "clients": {"bench": "passthrough"}, "stateFolder": state, "lazy": is_lazy},
    });
    let began = Instant::now();
    let gateway = gateway::RunningGateway::start("release", "bench-starting", &config)?;
    let session = Session::open_as(&gateway.url, "bench")?;
    let (_, answer) = session.post(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}))?;
    // Before it is read: that takes this program, which is not built for speed, longest.
    let listed = began.elapsed();
    let answer: Value = serde_json::from_str(&answer).map_err(|error| format!("no JSON: {error}"))?;
    let tools = answer["result"]["tools"].as_array().map(Vec::len).unwrap_or_default();
    let searching = Session::begin_as(&gateway.url, "somebody")?;
    let params = json!({"name": "search_tools", "arguments": {"query": "create issue"}});
    super::expect_result(&searching.request("tools/call", &params)?)?;
    let searched = began.elapsed();
    Ok(Start {
        listed: listed.as_secs_f64() * 1e3,
        searched: searched.as_secs_f64() * 1e3,
        resident: resident_mb(gateway.pid()),
        tools,
    })
}

/// The entries of the servers, each with its share of the tools.
fn servers(fixture: &Path, fleet: &str) -> Result<Value, String> {
    let text = fs::read_to_string(fleet).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let mut servers = Map::new();
    for at in 0..SERVERS {
        let args = if lines.is_empty() {
            json!(["--tools", (2500 / SERVERS).to_string()])
        } else {
            let share = &lines[lines.len() * at / SERVERS..lines.len() * (at + 1) / SERVERS];
            let file = Path::new(FOLDER).join(format!("{at}.jsonl"));
            fs::write(&file, share.join("\n")).map_err(|error| format!("cannot write a catalog: {error}"))?;
            json!(["--catalog", std::path::absolute(file).map_err(|error| error.to_string())?])
        };
        servers.insert(format!("server{at}"), json!({"command": fixture, "args": args}));
    }
    Ok(servers.into())
}
