//! Many real servers from npm and PyPI: listed alone and through the gateway in both revisions,
//! started cold and from manifests, and what doctor finds in them.

mod compare;
mod listing;
mod names;
mod processes;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use self::{
    compare::Known,
    listing::{Alone, Era, Tool},
};
use crate::{bench_gateway::real_servers, gateway, peers, say};

/// The folder of all files of a run.
const FOLDER: &str = "target/fleet";

/// Timeout for the start of all servers.
const SETTLING: Duration = Duration::from_secs(600);

/// How long the first list may take if all servers are known. A list that waits for starting servers takes
/// at least twice as long.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// Definitions that differ through the gateway, with the reason. A row that no longer occurs fails.
const KNOWN: &[Known] = &[Known {
    server: "atlassian",
    tools: &["jira_get_board_issues", "jira_get_issue", "jira_get_sprint_issues", "jira_search"],
    at: &["/inputSchema/properties/fields/default"],
    reason: "the server writes the names of the default fields in another order at every start",
}];

/// One start of the gateway in front of all servers.
struct Start {
    listening: Duration,
    first_list: Duration,
    /// The first list, which may come before all servers are ready.
    first: Vec<Tool>,
    settled: Duration,
    legacy: Vec<Tool>,
    modern: Vec<Tool>,
    processes: usize,
    orphans: Vec<String>,
}

/// Runs everything with the binary of `profile`, prints tables, and fails on what is not explained.
pub(crate) fn run(profile: &str) -> Result<(), String> {
    peers::install()?;
    peers::install_bench()?;
    peers::install_fleet()?;
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir_all(FOLDER).map_err(|error| format!("cannot create `{FOLDER}`: {error}"))?;
    let servers = real_servers::servers_in(&[
        "testkit/peers/servers.json",
        "testkit/peers/bench/servers.json",
        "testkit/peers/fleet/servers.json",
    ])?;
    let (alone, mut problems) = list_alone(&servers);
    let tools: usize = alone.values().map(|server| server.legacy.len()).sum();
    say(&format!("{} servers, {} list, {tools} tools", servers.len(), alone.len()));
    for Known { server, tools, reason, .. } in KNOWN {
        say(&format!("  {server} differs in {}: {reason}", tools.join(", ")));
    }
    let mut before: Option<Start> = None;
    for name in ["cold", "from manifests"] {
        let start = start(profile, &servers)?;
        report(name, &start);
        for (era, listed) in [(Era::Legacy, &start.legacy), (Era::Modern, &start.modern)] {
            let found = compare::compare(&alone, listed, era, KNOWN);
            problems.extend(found.into_iter().map(|problem| format!("{name}, {}: {problem}", era.revision())));
        }
        problems.extend(start.orphans.iter().map(|orphan| format!("{name}: left behind: {orphan}")));
        if let Some(before) = &before {
            problems.extend(check_first_list(before, &start).into_iter().map(|problem| format!("{name}: {problem}")));
        }
        before = Some(start);
    }
    problems.extend(doctor(profile, &servers)?);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The definitions of all servers, each started by itself, and the servers that do not list.
fn list_alone(servers: &Map<String, Value>) -> (BTreeMap<String, Alone>, Vec<String>) {
    let mut listed = BTreeMap::new();
    let mut problems = Vec::new();
    say(&format!("{:<24} {:>6}  {:<6} {:>8}", "server", "tools", "eras", "ms alone"));
    for (name, entry) in servers {
        let began = Instant::now();
        match listing::alone(entry) {
            Ok(alone) => {
                let eras = if alone.modern.is_none() { "legacy" } else { "both" };
                let (tools, ms) = (alone.legacy.len(), began.elapsed().as_millis());
                say(&format!("{name:<24} {tools:>6}  {eras:<6} {ms:>8}"));
                listed.insert(name.clone(), alone);
            }
            Err(error) => problems.push(format!("{name} does not list by itself: {error}")),
        }
    }
    (listed, problems)
}

/// Starts the gateway, lists as soon as possible and once all servers are ready, and ends it.
fn start(profile: &str, servers: &Map<String, Value>) -> Result<Start, String> {
    let config = json!({
        "mcpServers": servers,
        "pegboard": {"exposure": "never", "prefix": "always", "stateFolder": state_folder()?},
    });
    let began = Instant::now();
    let gateway = gateway::RunningGateway::start(profile, "fleet", &config)?;
    let listening = began.elapsed();
    let first = listing::through(&gateway.url, Era::Legacy)?;
    let first_list = began.elapsed();
    gateway.wait_until_started_within(SETTLING)?;
    let settled = began.elapsed();
    let legacy = listing::through(&gateway.url, Era::Legacy)?;
    let modern = listing::through(&gateway.url, Era::Modern)?;
    let processes = processes::below(gateway.pid());
    drop(gateway);
    Ok(Start {
        listening,
        first_list,
        first,
        settled,
        legacy,
        modern,
        processes: processes.len(),
        orphans: processes::still_running(&processes),
    })
}

fn report(name: &str, start: &Start) {
    say(&format!(
        "{name}: listens after {} ms, first list of {} tools after {} ms, all ready after {:.1} s with {} processes; \
         {} tools in 2025-11-25, {} in 2026-07-28; {} processes left behind",
        start.listening.as_millis(),
        start.first.len(),
        start.first_list.as_millis(),
        start.settled.as_secs_f64(),
        start.processes,
        start.legacy.len(),
        start.modern.len(),
        start.orphans.len()
    ));
}

/// Returns what is wrong with the first list after the servers became known: it must come at once, with all
/// their tools.
fn check_first_list(before: &Start, now: &Start) -> Vec<String> {
    let mut problems = compare::find_missing(&before.legacy, &now.first);
    let took = now.first_list.saturating_sub(now.listening);
    if took > FIRST_LIST {
        problems.push(format!("the first list took {:.1} s", took.as_secs_f64()));
    }
    problems
}

/// Findings of doctor that are wrong here whatever their severity: every server has listed by itself.
const NOT_EXPECTED: &[&str] = &["start-timeout", "slow-start"];

/// Runs doctor on the same configuration, counts its findings, and returns the errors.
fn doctor(profile: &str, servers: &Map<String, Value>) -> Result<Vec<String>, String> {
    let file = Path::new(FOLDER).join("doctor.json");
    fs::write(&file, json!({"mcpServers": servers}).to_string()).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let output = Command::new(Path::new("target").join(profile).join("pegboard"))
        .arg("doctor")
        .arg(&file)
        .args(["--state", "none", "--format", "json"])
        .output()
        .map_err(|error| format!("cannot run doctor: {error}"))?;
    let report: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("doctor wrote no JSON: {error}"))?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors = Vec::new();
    for finding in report["findings"].as_array().into_iter().flatten() {
        let word = |key: &str| finding[key].as_str().unwrap_or_default();
        if word("severity") == "error" || NOT_EXPECTED.contains(&word("check")) {
            errors.push(format!("doctor: {} of {}: {}", word("check"), word("server"), word("message")));
        }
        *counts.entry(format!("{} {}", word("severity"), word("check"))).or_default() += 1;
    }
    say(&format!("doctor: {:.1} s, exit {}", began.elapsed().as_secs_f64(), output.status.code().unwrap_or(-1)));
    for (finding, count) in counts {
        say(&format!("  {count:>4} {finding}"));
    }
    Ok(errors)
}

fn state_folder() -> Result<PathBuf, String> {
    std::path::absolute(Path::new(FOLDER).join("state")).map_err(|error| error.to_string())
}
