//! Twenty real servers from npm and PyPI behind one gateway: cold, from manifests, lazily.

use std::{fs, path::Path, time::Instant};

use serde_json::{Map, Value, json};

use super::{Session, expect_result, resident_mb};
use crate::{gateway, peers, say};

/// The folder of everything that is written here.
const FOLDER: &str = "target/bench-real";

/// Measures one start of each kind.
pub(crate) fn run() -> Result<(), String> {
    peers::install()?;
    peers::install_bench()?;
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir_all(FOLDER).map_err(|error| format!("cannot make `{FOLDER}`: {error}"))?;
    let servers = servers()?;
    let kinds = [("cold", false), ("from manifests", false), ("from manifests, lazy", true)];
    say(&format!("{} servers", servers.len()));
    say(&format!(
        "{:<22} {:>8} {:>11} {:>11} {:>6} {:>11} {:>13} {:>10}",
        "", "listens", "first list", "first call", "tools", "gateway MB", "all together", "processes"
    ));
    for (name, is_lazy) in kinds {
        say(&format!("{name:<22} {}", start(&servers, is_lazy)?));
    }
    say("milliseconds from the start of the process; memory of all processes as the sum of their shares (Pss)");
    Ok(())
}

/// Starts the gateway, lists everything, calls one tool, and looks at the memory.
fn start(servers: &Map<String, Value>, is_lazy: bool) -> Result<String, String> {
    let state = std::path::absolute(Path::new(FOLDER).join("state")).map_err(|error| error.to_string())?;
    let config = json!({
        "mcpServers": servers,
        "pegboard": {
            "exposure": "never", "prefix": "always", "stateFolder": state, "lazy": is_lazy, "startupWait": "60s"
        },
    });
    let began = Instant::now();
    let ms = || began.elapsed().as_secs_f64() * 1e3;
    let gateway = gateway::RunningGateway::start("release", "bench-real", &config)?;
    let listens = ms();
    let session = Session::begin(&gateway.url)?;
    let listed = ms();
    let answer = session.request("tools/list", &json!({}))?;
    let tools = answer["result"]["tools"].as_array().map(Vec::len).unwrap_or_default();
    let call = json!({"name": "time___get_current_time", "arguments": {"timezone": "UTC"}});
    expect_result(&session.request("tools/call", &call)?)?;
    let called = ms();
    // What was kept is written a little after a server has said it.
    std::thread::sleep(std::time::Duration::from_secs(if is_lazy { 1 } else { 8 }));
    let processes = below(gateway.pid());
    let together: f64 = processes.iter().map(|pid| share_mb(*pid)).sum();
    Ok(format!(
        "{listens:>8.0} {listed:>11.0} {called:>11.0} {tools:>6} {:>11.1} {together:>13.1} {:>10}",
        resident_mb(gateway.pid()),
        processes.len()
    ))
}

/// The entries of the servers that tests use, and of those for this alone.
pub(crate) fn servers() -> Result<Map<String, Value>, String> {
    servers_in(&["testkit/peers/servers.json", "testkit/peers/bench/servers.json"])
}

/// The entries of the servers in configuration files.
pub(crate) fn servers_in(files: &[&str]) -> Result<Map<String, Value>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let mut servers = Map::new();
    for file in files {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("cannot read `{file}`: {error}"))?;
        let text = text.replace("${PEG_TOOLS}", &root.join(".tools").to_string_lossy());
        let mut file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        servers.extend(file["mcpServers"].as_object_mut().map(std::mem::take).unwrap_or_default());
    }
    Ok(servers)
}

/// A process and all below it.
pub(crate) fn below(root: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let children: Vec<u32> = all.iter().copied().filter(|pid| parent(*pid) == Some(found[at])).collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// What a process occupies, with its share of what it has in common with others.
fn share_mb(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
