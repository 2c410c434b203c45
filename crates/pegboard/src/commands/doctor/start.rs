//! Servers, started once and stopped again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pegboard_upstream::{
    CallError, ConnectError, FailedStart, Fleet, Item, NetworkFault, State, Talk, Upstream,
    config::{HttpKind, ServerConfig, TransportConfig},
};

use super::finding::{Check, Finding, count};
use crate::commands::serve::supervisor;

/// Beyond what a server may take, for what we do ourselves.
const SLACK: Duration = Duration::from_secs(5);

/// A server that takes longer is slow.
const SLOW: Duration = Duration::from_secs(10);

/// How long an address that was not configured may take to answer.
const PROBE: Duration = Duration::from_secs(10);

/// What became of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Ready,
    Failed,
    Disabled,
    NotStarted,
}

impl Condition {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
            Self::NotStarted => "not-started",
        }
    }
}

/// A server that was looked at.
#[derive(Debug)]
pub(super) struct Patient {
    pub(super) name: String,
    pub(super) condition: Condition,
    /// How long it took to get ready.
    pub(super) took: Option<Duration>,
    pub(super) tools: Arc<Vec<Item>>,
    /// What was wrong with its lists.
    pub(super) warnings: Vec<String>,
}

impl Patient {
    pub(super) fn new(name: &str, condition: Condition) -> Self {
        Self { name: name.to_owned(), condition, took: None, tools: Arc::default(), warnings: Vec::new() }
    }
}

/// Starts all servers at once; each with what is wrong with it, in their order.
pub(super) async fn all(servers: Vec<ServerConfig>) -> Vec<(Patient, Vec<Finding>)> {
    let tasks: Vec<_> = servers.into_iter().map(|server| tokio::spawn(one(server))).collect();
    let mut started = Vec::new();
    for task in tasks {
        started.extend(task.await.ok());
    }
    started
}

/// Starts one server. A fleet of its own for each: one that failed is not started again while
/// others are waited for.
async fn one(config: ServerConfig) -> (Patient, Vec<Finding>) {
    let began = Instant::now();
    let (fleet, _notices) = Fleet::start(vec![config.clone()], supervisor());
    fleet.settled(config.timeouts.connect + SLACK).await;
    let mut patient = Patient::new(&config.name, Condition::Failed);
    let mut findings = Vec::new();
    if let Some(server) = fleet.servers().first() {
        match server.failed_start() {
            Some(failed) => findings.extend(failure(&config, &failed).await),
            None => {
                patient.took = Some(began.elapsed());
                findings.extend(success(server, &mut patient));
            }
        }
    }
    fleet.stop().await;
    let findings = findings.into_iter().map(|finding| finding.of(&config.name)).collect();
    (patient, findings)
}

fn success(server: &Upstream, patient: &mut Patient) -> Vec<Finding> {
    let (lists, talk) = (server.lists(), server.talk());
    let mut findings: Vec<Finding> = noise(&talk).into_iter().collect();
    let hint = "run its command by hand to see why";
    match server.state() {
        State::Ready => {}
        State::Failed { reason, .. } => {
            let message = format!("it ends soon after it was ready: {}", without_words(&reason));
            findings.push(Finding::error(Check::StartFailed, message, hint).details(talk.last_words));
            return findings;
        }
        _ if server.hello().is_some() => {
            findings.push(Finding::error(Check::StartFailed, "it ends soon after it was ready", hint));
            return findings;
        }
        _ => {
            findings.push(Finding::error(Check::StartTimeout, "it is not ready after a long time", hint));
            return findings;
        }
    }
    patient.condition = Condition::Ready;
    patient.tools = Arc::clone(&lists.tools);
    patient.warnings.clone_from(&lists.warnings);
    if lists.tools.is_empty() {
        let others = lists.prompts.len() + lists.resources.len() + lists.templates.len();
        let hint = "see in its manual what it needs to offer any: a setting, a permission, a newer version";
        findings.push(match others {
            0 => Finding::warning(Check::NoTools, "it is ready, and offers nothing at all", hint),
            _ => Finding::note(Check::NoTools, "it offers prompts or resources, and no tools", hint),
        });
    }
    findings.extend(patient.took.and_then(slow));
    findings
}

fn slow(took: Duration) -> Option<Finding> {
    let message = format!("it took {:.0} s to get ready", took.as_secs_f32());
    let hint = "install it beforehand rather than with every start (`npm install -g`, `uv tool install`), or make it \
                `lazy`";
    (took > SLOW).then(|| Finding::warning(Check::SlowStart, message, hint))
}

/// What a server writes where only messages belong.
fn noise(talk: &Talk) -> Option<Finding> {
    let shown = talk.stray.iter().map(|line| if line.trim().is_empty() { "(no text)" } else { line.as_str() });
    let lines = count(talk.stray_count, "line");
    let message = format!("it writes to standard output what is no message ({lines})");
    let hint = "let it log to standard error: `console.error` in Node.js, `print(…, file=sys.stderr)` in Python, \
                `>&2` in scripts";
    (talk.stray_count > 0).then(|| Finding::warning(Check::StdoutNoise, message, hint).details(shown))
}

/// Why a server did not start.
async fn failure(config: &ServerConfig, failed: &FailedStart) -> Vec<Finding> {
    let talk = &failed.talk;
    // What is wrong with it most often stands in what it wrote.
    let mut findings: Vec<Finding> = noise(talk).into_iter().collect();
    let url = match &config.transport {
        TransportConfig::Http { url, .. } => url.as_str(),
        _ => "",
    };
    let finding = match &failed.error {
        ConnectError::Start { .. } => {
            let message = pegboard_upstream::with_causes(&failed.error);
            Finding::error(Check::StartFailed, message, "see that the program can be run, and by you")
        }
        ConnectError::Config(reason) => {
            Finding::error(Check::Configuration, reason.clone(), "correct `url` and `headers`")
        }
        ConnectError::Closed(reason) => {
            let message = format!("it ends before it answers: {}", without_words(reason));
            Finding::error(Check::StartFailed, message, advice(talk)).details(talk.last_words.iter())
        }
        ConnectError::Version(version) => {
            let message = format!("it speaks MCP of `{version}`, which is not known here");
            Finding::error(Check::ProtocolVersion, message, "use another version of the server")
        }
        ConnectError::Timeout(limit) => {
            let message = format!("it is not ready within {} s", limit.as_secs_f32());
            let hint = match (talk.stray_count, url) {
                (0, "") => {
                    "see whether it speaks MCP on its standard output at all, and waits for nobody; if it is \
                            only slow, raise `connectTimeout`"
                }
                (_, "") => "it may speak another protocol than MCP: see its manual for a `stdio` mode",
                _ => "check the address, and that nothing in between holds it up; else raise `connectTimeout`",
            };
            Finding::error(Check::StartTimeout, message, hint).details(talk.last_words.iter())
        }
        ConnectError::Refused(error) => refused(config, error).await,
        error => Finding::error(Check::StartFailed, error.to_string(), "run its command by hand to see more"),
    };
    findings.insert(0, finding);
    findings
}

/// A server that was reached, or would be, and gave no answer of use.
async fn refused(config: &ServerConfig, error: &CallError) -> Finding {
    let name = &config.name;
    let TransportConfig::Http { url, headers, .. } = &config.transport else {
        let message = format!("it refuses to begin: {}", pegboard_upstream::with_causes(error));
        return Finding::error(Check::StartFailed, message, "try another version of the server, or set `protocol`");
    };
    let shown = place(url);
    if let Some(fault) = error.network_fault() {
        return unreachable(&shown, fault, error);
    }
    match error {
        CallError::Status { status: status @ (401 | 403) } => {
            let has_some = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            let message = match has_some {
                true => format!("`{shown}` refuses the credentials that are configured (HTTP status {status})"),
                false => format!("`{shown}` wants to know who you are (HTTP status {status})"),
            };
            let hint = match has_some {
                true => format!("renew them in `headers`, or take them out and use `pegboard login {name}`"),
                false => format!("`pegboard login {name}`, or set `headers` with an `Authorization`"),
            };
            Finding::error(Check::Login, message, hint)
        }
        CallError::Status { status: status @ (400 | 404 | 405 | 406 | 410 | 415) } => {
            let message = format!("`{shown}` is no MCP server (HTTP status {status})");
            let hint = match working_sibling(config, url).await {
                Some(other) => format!("`{other}` is one: write that as `url`"),
                None => "correct the path; most servers are at `/mcp`, older ones at `/sse`".to_owned(),
            };
            Finding::error(Check::WrongPath, message, hint)
        }
        CallError::Status { status } => {
            let message = format!("`{shown}` answers with HTTP status {status}");
            let hint = if *status >= 500 { "try again later, and tell whoever runs it" } else { "correct the address" };
            Finding::error(Check::HttpStatus, message, hint)
        }
        error => {
            let message = format!("`{shown}` gives no answer of MCP: {}", pegboard_upstream::with_causes(error));
            let hint = "correct the path; most servers are at `/mcp`, older ones at `/sse`";
            Finding::error(Check::WrongPath, message, hint)
        }
    }
}

fn unreachable(shown: &str, fault: NetworkFault, error: &CallError) -> Finding {
    let (check, message, hint) = match fault {
        NetworkFault::UnknownHost => {
            (Check::UnknownHost, "has a host that nobody knows", "correct the host, or see whether you are online")
        }
        NetworkFault::Refused => {
            (Check::Unreachable, "is not there: nothing listens on its port", "start the server, or correct the port")
        }
        NetworkFault::Tls => (
            Check::Tls,
            "cannot prove who it is, or speaks no TLS",
            "write `http://` if it has no certificate; else add its authority to those of the system, or correct the \
             host",
        ),
        NetworkFault::Silent => {
            (Check::Unreachable, "does not answer", "see whether something in between, such as a firewall, holds it up")
        }
        _ => (Check::Unreachable, "cannot be reached", "correct the address, and see that the server runs"),
    };
    let mut finding = Finding::error(check, format!("`{shown}` {message}"), hint);
    if fault == NetworkFault::Tls || fault == NetworkFault::Other {
        finding = finding.details([pegboard_upstream::with_causes(error)]);
    }
    finding
}

/// An address beside the configured one at which there is a server.
async fn working_sibling(config: &ServerConfig, url: &str) -> Option<String> {
    for other in siblings(url) {
        let mut config = config.clone();
        config.timeouts.connect = config.timeouts.connect.min(PROBE);
        if let TransportConfig::Http { url, kind, .. } = &mut config.transport {
            url.clone_from(&other);
            *kind = HttpKind::Auto;
        }
        let (fleet, _notices) = Fleet::start(vec![config], supervisor());
        fleet.settled(PROBE + SLACK).await;
        let is_one = fleet.servers().first().is_some_and(|server| match server.failed_start() {
            Some(failed) => {
                matches!(failed.error, ConnectError::Refused(CallError::Status { status: 401 | 403 }))
            }
            None => server.hello().is_some(),
        });
        fleet.stop().await;
        if is_one {
            return Some(place(&other));
        }
    }
    None
}

/// Addresses of the same host at which servers usually are.
fn siblings(url: &str) -> Vec<String> {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    let query = url[path..].find(['?', '#']).map_or(url.len(), |at| path + at);
    let (origin, own, rest) = (&url[..path], url[path..query].trim_end_matches('/'), &url[query..]);
    let base = ["/mcp", "/sse"].iter().find_map(|end| own.strip_suffix(end)).unwrap_or(own);
    let mut found: Vec<String> = Vec::new();
    for path in [format!("{base}/mcp"), format!("{base}/sse"), "/mcp".to_owned(), "/sse".to_owned()] {
        let other = format!("{origin}{path}{rest}");
        if path != own && !found.contains(&other) {
            found.push(other);
        }
    }
    found
}

/// An address without what may be a secret in it.
fn place(url: &str) -> String {
    let short = url.split(['?', '#']).next().unwrap_or_default();
    match short.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or_default())
        }
        None => short.to_owned(),
    }
}

/// How a server ended, without its last words: those are shown line by line.
fn without_words(reason: &str) -> &str {
    reason.split("; it last wrote: ").next().unwrap_or(reason)
}

/// What to do about what servers most often say when they end.
const ADVICE: &[(&[&str], &str)] = &[
    (
        &["E404", "404 Not Found", "not found in the package registry", "No matching distribution", "manifest unknown"],
        "correct the name of the package: there is none like it",
    ),
    (
        &["Cannot find module", "ModuleNotFoundError", "ERR_MODULE_NOT_FOUND", "No module named"],
        "build the server, or install what it depends on",
    ),
    (&["EACCES", "Permission denied", "permission denied"], "let it read and write what it names, or correct the path"),
    (&["EADDRINUSE", "Address already in use", "address already in use"], "end the other program that has its port"),
    (&["docker daemon", "Docker daemon", "docker.sock"], "start Docker, and see that you may use it (`docker info`)"),
    (
        &["API key", "API_KEY", "api key", "_TOKEN", "environment variable", "ENVIRONMENT VARIABLE"],
        "set the variable that it names under `env`: servers get no others than those of Pegboard and these",
    ),
    (&["sage:"], "correct `args`: it does not understand them"),
];

fn advice(talk: &Talk) -> &'static str {
    let lines = || talk.last_words.iter().chain(&talk.stray);
    let says = |needles: &[&str]| lines().any(|line| needles.iter().any(|needle| line.contains(needle)));
    let found = ADVICE.iter().find(|(needles, _)| says(needles)).map(|(_, advice)| *advice);
    found.unwrap_or("run its command by hand to see more, with the same `env`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_try() {
        let check = |url: &str, expected: &[&str]| assert_eq!(siblings(url), expected, "{url}");
        check("https://a", &["https://a/mcp", "https://a/sse"]);
        check("https://a/sse", &["https://a/mcp"]);
        check("https://a/x/mcp/?k=v", &["https://a/x/sse?k=v", "https://a/mcp?k=v", "https://a/sse?k=v"]);
        check("a", &["a/mcp", "a/sse"]);
    }

    #[test]
    fn addresses_are_shown_without_secrets() {
        let check = |url: &str, expected: &str| assert_eq!(place(url), expected, "{url}");
        check("https://u:p@a.example/mcp?key=s3cret#x", "https://a.example/mcp");
        check("https://a.example", "https://a.example");
        check("nonsense", "nonsense");
    }

    #[test]
    fn slow_servers() {
        assert!(slow(Duration::from_secs(10)).is_none());
        assert_eq!(
            slow(Duration::from_secs(21)).map(|found| found.message).as_deref(),
            Some("it took 21 s to get ready")
        );
    }

    #[test]
    fn what_servers_say_at_their_end() {
        let check = |line: &str, expected: &str| {
            let talk = Talk { last_words: vec![line.to_owned()], ..Talk::default() };
            assert!(advice(&talk).contains(expected), "{line}");
        };
        check("npm error code E404", "name of the package");
        check("Error: Cannot find module '/x/build/index.js'", "build the server");
        check("GITHUB_TOKEN environment variable is required", "under `env`");
        check("Usage: server <dir>", "correct `args`");
        check("", "by hand");
    }
}
