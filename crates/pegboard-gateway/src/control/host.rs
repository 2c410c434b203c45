//! What the program does for the console, because the gateway cannot: its files belong to the
//! program.
//!
//! Every part is optional. The methods may block; they are called on threads where that is allowed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    routing::get,
};
use pegboard_core::{Ranker, Reason};
use pegboard_upstream::{Report, Upstream};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ControlState, LlmProxyStatus, ProxyRouteStatus,
    caller::ControlCaller,
    responses::{answer, blocking, error_response, hint_response, read_body},
};

/// The parts of the program that the console uses.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The rankers by name.
    pub rankers: Option<Arc<dyn NamedRankers>>,
    /// The configuration file.
    pub configuration: Option<Arc<dyn ConfigurationFile>>,
    /// Checks of the configuration.
    pub doctor: Option<Arc<dyn Doctor>>,
    /// The files of MCP clients.
    pub clients: Option<Arc<dyn ClientFiles>>,
    /// Logins to remote servers.
    pub logins: Option<Arc<dyn LoginFlows>>,
    /// The LLM API proxy, if its routes are on the gateway's listener.
    pub llm_proxy: Option<Arc<dyn LlmProxy>>,
    /// The LLM API proxies that run without a gateway.
    pub llm_proxies: Option<Arc<dyn LlmProxies>>,
}

/// The reason why the program cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// What kind of reason it is.
    pub kind: HostErrorKind,
    /// What failed, for the user.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// The kind of a [`HostError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostErrorKind {
    /// There is no such thing.
    NotFound,
    /// It is not possible in the present state.
    Conflict,
    /// The change would not be valid, or the system refuses it.
    Rejected,
}

impl HostError {
    /// Creates an error.
    pub fn new(kind: HostErrorKind, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { kind, message: message.into(), hint }
    }

    pub(super) fn response(&self) -> Response<Body> {
        let status = match self.kind {
            HostErrorKind::NotFound => StatusCode::NOT_FOUND,
            HostErrorKind::Conflict => StatusCode::CONFLICT,
            HostErrorKind::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
        };
        match &self.hint {
            Some(hint) => hint_response(status, &self.message, hint),
            None => error_response(status, &self.message),
        }
    }
}

/// The rankers that users can choose.
pub trait NamedRankers: fmt::Debug + Send + Sync {
    /// Returns their names, the default first.
    fn names(&self) -> Vec<&'static str>;

    /// Returns the ranker with this name; the same one each time, so that its index is shared.
    fn ranker(&self, name: &str) -> Option<Arc<dyn Ranker>>;

    /// Returns the words of a query that no reason mentions.
    fn missing_words(&self, query: &str, matched: &[Reason]) -> Vec<String>;
}

/// The configuration file of the gateway.
pub trait ConfigurationFile: fmt::Debug + Send + Sync {
    /// Returns the configuration as it was read, without secrets.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read(&self) -> Result<ConfigurationView, HostError>;

    /// Enables or disables a server in the file.
    ///
    /// # Errors
    /// When the file has no such server, or cannot be changed.
    fn switch(&self, server: &str, is_on: bool) -> Result<(), HostError>;

    /// Hides tools of a server, by their names at the server.
    ///
    /// # Errors
    /// When the file has no such server, or cannot be changed.
    fn hide_tools(&self, server: &str, tools: &[String]) -> Result<(), HostError>;

    /// Returns the path of the file, for the user.
    fn path(&self) -> String;
}

/// The configuration as it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationView {
    /// The file.
    pub file: Option<String>,
    /// Its text, without secrets; `None` if it cannot be parsed.
    pub text: Option<String>,
    /// The values in it.
    pub settings: Vec<SettingView>,
    /// What is wrong with it.
    pub problems: Vec<ConfigurationProblem>,
    /// Why its present content is not in use; set by the gateway.
    pub refused: Option<String>,
}

/// One value of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingView {
    /// Such as `mcpServers.github.command`.
    pub path: String,
    /// The value; a secret is not shown.
    pub value: Value,
    /// Whether it is a secret.
    pub is_secret: bool,
    /// Whether the file does not set it.
    pub is_default: bool,
    /// Where it is in the file, from 1.
    pub line: Option<usize>,
}

/// A problem of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationProblem {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub line: Option<usize>,
    /// What to do.
    pub hint: Option<String>,
    /// `error` or `warning`.
    pub severity: &'static str,
}

/// Checks of the configuration and its servers.
pub trait Doctor: fmt::Debug + Send + Sync {
    /// Checks everything that can be checked without starting servers: the configuration, and the servers that run.
    ///
    /// # Errors
    /// When the configuration cannot be read at all.
    fn examine(&self) -> Result<Vec<HealthFinding>, HostError>;
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthFinding {
    /// Its code.
    pub check: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// The server that it concerns.
    pub server: Option<String>,
    /// The problem in a sentence.
    pub message: String,
    /// Evidence.
    pub details: Vec<String>,
    /// How to fix it.
    pub hint: String,
    /// What the console can do about it; set by the gateway.
    pub fix: Option<HealthFix>,
}

/// What the console can do about a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthFix {
    /// The action.
    pub action: &'static str,
    /// The server.
    pub server: Option<String>,
    /// The text of the button.
    pub label: &'static str,
}

/// The files of MCP clients of this machine.
pub trait ClientFiles: fmt::Debug + Send + Sync {
    /// Returns the clients.
    fn list(&self) -> Vec<McpClient>;

    /// Previews, writes or undoes a connection.
    ///
    /// # Errors
    /// When there is no such client, its file cannot be changed, or has changed since the preview.
    fn change(&self, change: &ClientChange) -> Result<ClientPreview, HostError>;
}

/// An MCP client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpClient {
    /// Its name on the command line.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// Its configuration file.
    pub path: String,
    /// Whether it seems to be installed.
    pub found: bool,
    /// Its entry for Pegboard.
    pub connected: Option<McpConnection>,
    /// The number of its other servers.
    pub servers: usize,
    /// What is wrong with its file.
    pub problem: Option<String>,
    /// Whether the last change can be undone.
    pub can_undo: bool,
    /// The possible connections.
    pub transports: Vec<&'static str>,
}

/// A client's entry for Pegboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpConnection {
    /// The name of the entry.
    pub name: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
}

/// A change of a client's file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClientChange {
    /// The client.
    pub client: String,
    /// What to do.
    pub action: ClientAction,
    /// `stdio` or `http`.
    #[serde(default)]
    pub transport: Option<String>,
    /// Whether servers that the gateway has too are removed.
    #[serde(default)]
    pub replace: bool,
    /// The state of the file that the user has seen.
    #[serde(default)]
    pub expects: Option<String>,
}

/// What to do with a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientAction {
    /// Show the change.
    Preview,
    /// Make it.
    Write,
    /// Restore the file from before the last change.
    Undo,
}

/// A change that was made or could be made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientPreview {
    /// The client.
    pub client: String,
    /// Its file.
    pub path: String,
    /// The text before the change, without secrets.
    pub old: Option<String>,
    /// The text after the change, without secrets.
    pub new: String,
    /// Pegboard's entry.
    pub entry: Value,
    /// Names the state of the file before the change.
    pub version: String,
    /// Whether the file was written.
    pub is_written: bool,
    /// The copy of the file from before the change.
    pub backup: Option<String>,
    /// What the user has to do or know.
    pub notes: Vec<String>,
}

/// Logins to remote servers.
pub trait LoginFlows: fmt::Debug + Send + Sync {
    /// Begins a login in the background, and returns the URL where the user continues. The server is
    /// restarted after the login.
    ///
    /// # Errors
    /// When the server needs none, or its authorization server does not answer.
    fn begin(&self, server: &str) -> Result<String, HostError>;
}

/// The LLM API proxy on the gateway's listener.
pub trait LlmProxy: fmt::Debug + Send + Sync {
    /// Returns the numbers of each route, by its name.
    fn routes(&self) -> BTreeMap<String, ProxyRouteStatus>;
}

/// The LLM API proxies of the same user on this machine that run without a gateway.
pub trait LlmProxies: fmt::Debug + Send + Sync {
    /// Returns those that answer.
    fn list(&self) -> Vec<LlmProxyStatus>;
}

pub(super) fn routes() -> Router<ControlState> {
    Router::new()
        .route("/control/health", get(health))
        .route("/control/configuration", get(configuration))
        .route("/control/clients", get(clients).post(change_client))
        .route("/control/llm-proxies", get(llm_proxies))
}

/// Returns a part of the program for a caller with full access.
///
/// # Errors
/// The response if there is no such part, or the caller is restricted.
pub(super) fn part_for<'a, T: ?Sized>(
    asking: &ControlCaller,
    part: Option<&'a Arc<T>>,
    what: &str,
) -> Result<&'a Arc<T>, Box<Response<Body>>> {
    if !asking.has_full_access() {
        let message = format!("this token is restricted; {what} concerns all servers");
        return Err(error_response(StatusCode::FORBIDDEN, &message).into());
    }
    part.ok_or_else(|| error_response(StatusCode::NOT_FOUND, &format!("{what} is not available here")).into())
}

/// The response with the findings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    findings: Vec<HealthFinding>,
    servers: Vec<ServerState>,
    checked_at: u64,
    took_ms: u64,
}

#[derive(Debug, Serialize)]
struct ServerState {
    name: String,
    state: &'static str,
}

async fn health(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let doctor = match part_for(&asking, state.options.host.doctor.as_ref(), "the health check") {
        Ok(doctor) => Arc::clone(doctor),
        Err(response) => return *response,
    };
    let began = std::time::Instant::now();
    let mut findings = match blocking(move || doctor.examine()).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => return error.response(),
        Err(response) => return response,
    };
    findings.extend(running_findings(&state));
    findings.iter_mut().for_each(|finding| finding.fix = fix_of(finding));
    let servers = state.control.servers();
    let states =
        servers.iter().map(|server| ServerState { name: server.name().to_owned(), state: server.state().as_str() });
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    answer(&Health { findings, servers: states.collect(), checked_at: crate::activity::now(), took_ms })
}

/// Returns what the running gateway knows of its servers.
fn running_findings(state: &ControlState) -> Vec<HealthFinding> {
    let servers = state.control.servers();
    let failed = servers.iter().map(|server| (server, server.report())).filter(|(_, report)| report.state == "failed");
    let finding = |(server, report): (&Arc<Upstream>, Report)| {
        let (check, hint) = match server.needs_credentials() {
            true => ("login", "log in, or correct `headers` of the server's entry"),
            false => ("start-failed", "check its log, correct its entry, then restart it"),
        };
        HealthFinding {
            check: check.to_owned(),
            severity: "error".to_owned(),
            server: Some(report.name),
            message: report.reason.unwrap_or_else(|| "the server does not run".to_owned()),
            details: server.output().stderr_lines,
            hint: hint.to_owned(),
            fix: None,
        }
    };
    failed.map(finding).collect()
}

fn fix_of(finding: &HealthFinding) -> Option<HealthFix> {
    let of_server = |action, label| Some(HealthFix { action, server: finding.server.clone(), label });
    match finding.check.as_str() {
        "start-failed" | "start-timeout" => of_server("restart", "Restart"),
        "login" => of_server("login", "Log in"),
        "held-tools" => of_server("approve", "Review the tools"),
        _ => None,
    }
}

async fn configuration(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let file = match part_for(&asking, state.options.host.configuration.as_ref(), "the configuration") {
        Ok(file) => Arc::clone(file),
        Err(response) => return *response,
    };
    match blocking(move || file.read()).await {
        Ok(Ok(view)) => answer(&ConfigurationView { refused: state.control.setups.rejection(), ..view }),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

#[derive(Debug, Serialize)]
struct ClientList {
    clients: Vec<McpClient>,
}

async fn clients(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let files = match part_for(&asking, state.options.host.clients.as_ref(), "the list of MCP clients") {
        Ok(files) => Arc::clone(files),
        Err(response) => return *response,
    };
    match blocking(move || files.list()).await {
        Ok(clients) => answer(&ClientList { clients }),
        Err(response) => response,
    }
}

async fn change_client(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let files = match part_for(&asking, state.options.host.clients.as_ref(), "the list of MCP clients") {
        Ok(files) => Arc::clone(files),
        Err(response) => return *response,
    };
    let change: ClientChange = match read_body(request.into_body()).await {
        Ok(change) => change,
        Err(response) => return response,
    };
    if change.action != ClientAction::Preview {
        tracing::info!(client = change.client, action = ?change.action, "change of an MCP client requested");
    }
    match blocking(move || files.change(&change)).await {
        Ok(Ok(preview)) => answer(&preview),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

#[derive(Debug, Serialize)]
struct LlmProxyList {
    proxies: Vec<LlmProxyStatus>,
}

async fn llm_proxies(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let found = match part_for(&asking, state.options.host.llm_proxies.as_ref(), "the list of LLM API proxies") {
        Ok(found) => Arc::clone(found),
        Err(response) => return *response,
    };
    match blocking(move || found.list()).await {
        Ok(proxies) => answer(&LlmProxyList { proxies }),
        Err(response) => response,
    }
}
