//! Twenty real servers from npm and PyPI behind one gateway: cold, from manifests, lazily; and some of
//! them with connections that clients share or have for themselves.

use std::{fs, path::Path, time::Instant};

use serde_json::{Map, Value, json};

use super::{Session, at, expect_result, resident_mb};
use crate::{gateway, peers, say};

/// The folder of everything that is written here.
const FOLDER: &str = "target/bench-real";

/// Clients of the measurement of connections.
const CLIENTS: usize = 10;

/// Servers of this measurement, each with a call that only reads.
const CALLED: [(&str, &str, &str); 5] = [
    ("time", "get_current_time", r#"{"timezone": "UTC"}"#),
    ("everything", "echo", r#"{"message": "hello"}"#),
    ("memory", "read_graph", "{}"),
    ("filesystem", "list_allowed_directories", "{}"),
    ("sqlite", "list_tables", "{}"),
];

/// Measures one start of each kind, and what connections of clients cost.
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
    say(&format!("{CLIENTS} clients of {} servers", CALLED.len()));
    say(&format!(
        "{:<22} {:>10} {:>10} {:>11} {:>10} {:>13}",
        "connections", "first p50", "first p90", "second p50", "processes", "all together"
    ));
    for mode in ["shared", "auto", "own"] {
        say(&format!("{mode:<22} {}", connections(&servers, mode)?));
    }
    say("milliseconds of the first and the second call of each client to each server");
    Ok(())
}

/// Lets all clients call all servers twice over connections of this mode, and looks at the processes.
fn connections(servers: &Map<String, Value>, mode: &str) -> Result<String, String> {
    let mut chosen = Map::new();
    for (name, ..) in CALLED {
        let mut entry = servers.get(name).ok_or_else(|| format!("no server `{name}`"))?.clone();
        entry["pegboard"] = json!({"connections": mode});
        chosen.insert(name.to_owned(), entry);
    }
    let config = json!({
        "mcpServers": chosen,
        "pegboard": {"exposure": "never", "prefix": "always", "startupWait": "60s"},
    });
    let gateway = gateway::RunningGateway::start("release", "bench-connections", &config)?;
    gateway.wait_until_started()?;
    let clients: Vec<Session> = (0..CLIENTS).map(|_| Session::begin(&gateway.url)).collect::<Result<_, _>>()?;
    let calls = || -> Result<Vec<f64>, String> {
        let mut times = Vec::new();
        for client in &clients {
            for (server, tool, arguments) in CALLED {
                let arguments: Value = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
                let call = json!({"name": format!("{server}___{tool}"), "arguments": arguments});
                let began = Instant::now();
                expect_result(&client.request("tools/call", &call)?)?;
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    };
    let (first, second) = (calls()?, calls()?);
    let processes = below(gateway.pid());
    let together: f64 = processes.iter().map(|pid| share_mb(*pid)).sum();
    Ok(format!(
        "{:>10.1} {:>10.1} {:>11.1} {:>10} {together:>10.1} MB",
        at(&first, 0.5),
        at(&first, 0.9),
        at(&second, 0.5),
        processes.len()
    ))
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
