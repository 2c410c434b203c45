//! Test starts of servers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use pegboard_upstream::{
    ConnectError, FailedStart, Fleet, FleetOptions, Item, Presentation, PresentedTool, ServerOutput, State, Upstream,
    config::{ServerConfig, TransportConfig},
};
use tokio::sync::Semaphore;

use super::{
    finding::{Check, Finding, count, join_names},
    overrides, remote,
};
use crate::{commands::serve::supervisor, progress::Progress};

/// Extra time for Pegboard's own work, beyond the start timeout of a server.
const SLACK: Duration = Duration::from_secs(5);

/// Start time above which a server is slow.
const SLOW: Duration = Duration::from_secs(10);

/// The result of a test start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartResult {
    Ready,
    Failed,
    Disabled,
    NotStarted,
}

impl StartResult {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
            Self::NotStarted => "not-started",
        }
    }
}

/// A checked server.
#[derive(Debug)]
pub(super) struct CheckedServer {
    pub(super) name: String,
    pub(super) result: StartResult,
    /// How long it took to get ready.
    pub(super) took: Option<Duration>,
    /// Its tools as the settings show them.
    pub(super) tools: Vec<Item>,
    /// What was wrong with its lists.
    pub(super) warnings: Vec<String>,
}

impl CheckedServer {
    pub(super) fn new(name: &str, result: StartResult) -> Self {
        Self { name: name.to_owned(), result, took: None, tools: Vec::new(), warnings: Vec::new() }
    }
}

/// Starts the servers, `at_once` at the same time: more would slow each other down, and look slow.
/// Returns each with what is wrong with it, in their order. Their tool lists are kept in the folder
/// `manifests`, for the commands that follow.
pub(super) async fn all(
    servers: Vec<ServerConfig>,
    manifests: Option<&Path>,
    at_once: usize,
    progress: &Arc<Progress>,
) -> Vec<(CheckedServer, Vec<Finding>)> {
    let places = Arc::new(Semaphore::new(at_once));
    let start = |server: ServerConfig| {
        let (progress, manifests) = (Arc::clone(progress), manifests.map(Path::to_owned));
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            let _place = places.acquire().await;
            let started = one(server, manifests).await;
            progress.step();
            started
        })
    };
    let tasks: Vec<_> = servers.into_iter().map(start).collect();
    let mut started = Vec::new();
    for task in tasks {
        started.extend(task.await.ok());
    }
    started
}

/// Starts one server; its time counts from here. A fleet of its own for each: one that failed is not started again while
/// others are waited for.
async fn one(config: ServerConfig, manifests: Option<PathBuf>) -> (CheckedServer, Vec<Finding>) {
    let began = Instant::now();
    let clients = manifests.clone();
    let options = FleetOptions { supervisor: supervisor(), manifests, clients, ..FleetOptions::default() };
    let (fleet, _notices) = Fleet::start_with(vec![config.clone()], options);
    fleet.settled(config.timeouts.connect + SLACK).await;
    let mut checked_server = CheckedServer::new(&config.name, StartResult::Failed);
    let mut findings = Vec::new();
    if let Some(server) = fleet.servers().first() {
        match server.failed_start() {
            Some(failed) => findings.extend(explain_failure(&config, &failed).await),
            None => {
                checked_server.took = Some(began.elapsed());
                findings.extend(check_started(server, &mut checked_server));
            }
        }
    }
    fleet.stop().await;
    let findings = findings.into_iter().map(|finding| finding.of(&config.name)).collect();
    (checked_server, findings)
}

/// Checks a server that a gateway runs already.
pub(super) fn check_running(server: &Upstream) -> (CheckedServer, Vec<Finding>) {
    let mut checked_server = CheckedServer::new(server.name(), StartResult::Failed);
    let findings = check_started(server, &mut checked_server);
    (checked_server, findings)
}

fn check_started(server: &Upstream, checked_server: &mut CheckedServer) -> Vec<Finding> {
    let (lists, output) = (server.lists(), server.output());
    let mut findings: Vec<Finding> = check_stdout(&output).into_iter().collect();
    let hint = "run its command manually to see why";
    match server.state() {
        State::Ready => {}
        State::Failed { reason, .. } => {
            let message = format!("failed soon after the start: {}", without_words(&reason));
            findings.push(Finding::error(Check::StartFailed, message, hint).details(output.stderr_lines));
            return findings;
        }
        _ if server.hello().is_some() => {
            findings.push(Finding::error(Check::StartFailed, "the server exited soon after the start", hint));
            return findings;
        }
        _ => {
            findings.push(Finding::error(Check::StartTimeout, "the server did not become ready", hint));
            return findings;
        }
    }
    checked_server.result = StartResult::Ready;
    let presentation = Presentation::new(server.config(), &lists);
    findings.extend(overrides::check_overrides(server.config(), &presentation));
    let shown = |tool: &PresentedTool<'_>| Item { key: tool.name.to_owned(), raw: tool.definition(tool.name) };
    checked_server.tools = presentation.tools.iter().map(shown).collect();
    checked_server.warnings.clone_from(&lists.warnings);
    if lists.tools.is_empty() {
        let others = lists.prompts.len() + lists.resources.len() + lists.templates.len();
        let hint = "check in its documentation what it needs to offer tools: a setting, a permission, a newer version";
        findings.push(match others {
            0 => Finding::warning(Check::NoTools, "the server is ready but offers nothing", hint),
            _ => Finding::note(Check::NoTools, "the server offers prompts or resources, but no tools", hint),
        });
    }
    findings.extend(checked_server.took.and_then(check_start_time));
    findings
}

fn check_start_time(took: Duration) -> Option<Finding> {
    let message = format!("the server took {:.0} s to start", took.as_secs_f32());
    let hint = "install it once instead of at every start (`npm install -g`, `uv tool install`), or make it `lazy`";
    (took > SLOW).then(|| Finding::warning(Check::SlowStart, message, hint))
}

/// Finds output that is not an MCP message.
fn check_stdout(output: &ServerOutput) -> Option<Finding> {
    let shown = output.stray_lines.iter().map(|line| if line.trim().is_empty() { "(no text)" } else { line.as_str() });
    let lines = count(output.stray_count, "line");
    let message = format!("the server writes non-MCP output to standard output ({lines})");
    let hint = "make it log to standard error: `console.error` in Node.js, `print(…, file=sys.stderr)` in Python, \
                `>&2` in scripts";
    (output.stray_count > 0).then(|| Finding::warning(Check::StdoutNoise, message, hint).details(shown))
}

/// Explains why a server did not start.
async fn explain_failure(config: &ServerConfig, failed: &FailedStart) -> Vec<Finding> {
    let output = &failed.output;
    // The reason is most often in its output.
    let mut findings: Vec<Finding> = check_stdout(output).into_iter().collect();
    let url = match &config.transport {
        TransportConfig::Http { url, .. } => url.as_str(),
        _ => "",
    };
    let finding = match &failed.error {
        ConnectError::Start { .. } => {
            let message = pegboard_upstream::with_causes(&failed.error);
            Finding::error(Check::StartFailed, message, "check that the program exists and that you may run it")
        }
        ConnectError::Config(reason) => {
            Finding::error(Check::Configuration, reason.clone(), "correct `url` and `headers`")
        }
        ConnectError::Closed(reason) => {
            let message = format!("start failed: {}", without_words(reason));
            Finding::error(Check::StartFailed, message, advice(output)).details(output.stderr_lines.iter())
        }
        ConnectError::Version(version) => {
            let message = format!("the server speaks MCP version `{version}`, which is not supported");
            Finding::error(Check::ProtocolVersion, message, "use another version of the server")
        }
        ConnectError::Timeout(limit) => {
            let message = format!("the server was not ready within {} s", limit.as_secs_f32());
            let hint = match (output.stray_count, url) {
                (0, "") => {
                    "check that it speaks MCP on standard output and does not wait for other input; if it is only \
                     slow, raise `connectTimeout`"
                }
                (_, "") => "it may not speak MCP on standard output; check its documentation for a `stdio` mode",
                _ => "check the URL, proxies and firewalls; if the server is only slow, raise `connectTimeout`",
            };
            Finding::error(Check::StartTimeout, message, hint).details(output.stderr_lines.iter())
        }
        ConnectError::Refused(error) => remote::explain_failure(config, error).await,
        error => Finding::error(Check::StartFailed, error.to_string(), "run its command manually to see more"),
    };
    findings.insert(0, finding);
    findings.extend(find_withheld_variables(&failed.withheld));
    findings
}

/// Finds variables that are set, but not passed to the server, and that it may need.
fn find_withheld_variables(names: &[String]) -> Option<Finding> {
    let (first, others) = names.split_first()?;
    let verb = if others.is_empty() { "is" } else { "are" };
    let message =
        format!("{} {verb} set here but not passed to the server", join_names(names.iter().map(String::as_str)));
    let quoted: Vec<String> = names.iter().map(|name| serde_json::json!(name).to_string()).collect();
    let setting = format!("\"pegboard\": {{\"inheritEnv\": [{}]}}", quoted.join(", "));
    let hint = format!("add `{setting}` to its entry, or set `{first}` under `env`");
    Some(Finding::warning(Check::WithheldVariable, message, hint))
}

/// Returns how a server ended, without its last output: that is shown line by line.
fn without_words(reason: &str) -> &str {
    reason.split("; last output: ").next().unwrap_or(reason)
}

/// Hints for common error messages of servers.
const ADVICE: &[(&[&str], &str)] = &[
    (
        &["E404", "404 Not Found", "not found in the package registry", "No matching distribution", "manifest unknown"],
        "correct the name of the package: it does not exist",
    ),
    (
        &["Cannot find module", "ModuleNotFoundError", "ERR_MODULE_NOT_FOUND", "No module named"],
        "build the server, or install what it depends on",
    ),
    (
        &["EACCES", "Permission denied", "permission denied"],
        "give it access to the path that it names, or correct the path",
    ),
    (&["EADDRINUSE", "Address already in use", "address already in use"], "stop the other program that uses its port"),
    (&["docker daemon", "Docker daemon", "docker.sock"], "start Docker, and check that you may use it (`docker info`)"),
    (
        &["API key", "API_KEY", "api key", "_TOKEN", "environment variable", "ENVIRONMENT VARIABLE"],
        "set the variable that it names under `env`: servers inherit it from Pegboard only if `inheritEnv` names it",
    ),
    (&["sage:"], "correct `args`: the server does not accept them"),
];

fn advice(output: &ServerOutput) -> &'static str {
    let lines = || output.stderr_lines.iter().chain(&output.stray_lines);
    let says = |needles: &[&str]| lines().any(|line| needles.iter().any(|needle| line.contains(needle)));
    let found = ADVICE.iter().find(|(needles, _)| says(needles)).map(|(_, advice)| *advice);
    found.unwrap_or("run its command manually to see more, with the same `env`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_servers() {
        assert!(check_start_time(Duration::from_secs(10)).is_none());
        assert_eq!(
            check_start_time(Duration::from_secs(21)).map(|found| found.message).as_deref(),
            Some("the server took 21 s to start")
        );
    }

    #[test]
    fn withheld_variables() {
        let check = |names: &[&str], expected: Option<&str>| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = find_withheld_variables(&names).map(|found| format!("{} → {}", found.message, found.hint));
            assert_eq!(found.as_deref(), expected);
        };
        check(&[], None);
        check(
            &["A_KEY", "B"],
            Some(
                "`A_KEY`, `B` are set here but not passed to the server → add `\"pegboard\": \
                 {\"inheritEnv\": [\"A_KEY\", \"B\"]}` to its entry, or set `A_KEY` under `env`",
            ),
        );
    }

    #[test]
    fn what_servers_say_at_their_end() {
        let check = |line: &str, expected: &str| {
            let output = ServerOutput { stderr_lines: vec![line.to_owned()], ..ServerOutput::default() };
            assert!(advice(&output).contains(expected), "{line}");
        };
        check("npm error code E404", "name of the package");
        check("Error: Cannot find module '/x/build/index.js'", "build the server");
        check("GITHUB_TOKEN environment variable is required", "under `env`");
        check("Usage: server <dir>", "correct `args`");
        check("", "manually");
    }
}
