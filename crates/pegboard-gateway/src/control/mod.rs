//! Status and control of a running gateway.
//!
//! `GET /control/status` returns a [`Status`], `GET /control/tools` a [`ToolList`] and `GET
//! /control/logs` the last lines of the log; `POST /control/reload` reloads the configuration;
//! `POST /control/servers/NAME/restart` restarts one server. If tokens are configured, every
//! request needs one. A caller that may see only some of the servers sees and restarts only these,
//! and cannot reload.

mod logs;
mod restarts;
mod status;
mod tools;

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts},
    routing::{get, post},
};
use pegboard_core::{Catalog, Selection};
use pegboard_http::{Owner, Principal};
use pegboard_upstream::{Fleet, PinReport, Upstream};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use self::{logs::LogQuery, restarts::Restarts};
pub use self::{
    logs::{FOLLOW_QUEUE, Logs},
    status::{
        About, ClientStatus, Configuration, EmbeddingsStatus, FORMAT, Latency, ServerStatus, Sessions, Status, Totals,
    },
    tools::{ServerTools, ToolEntry, ToolList},
};
use crate::{
    caller::{Caller, Viewer},
    catalog::CatalogView,
    forward::calls::Forwarder,
    lookalikes::Lookalikes,
    metrics::Metrics,
    setup::{Change, GRACE, Setup, Setups},
};

/// The prefix of the paths of the control API.
pub const PREFIX: &str = "/control/";

/// The path of the status.
pub const STATUS: &str = "/control/status";

/// The path that reloads the configuration.
pub const RELOAD: &str = "/control/reload";

/// The path of the list of all tools.
pub const TOOLS: &str = "/control/tools";

/// The path of the last log lines.
pub const LOGS: &str = "/control/logs";

/// The path that restarts a server.
const RESTART: &str = "/control/servers/{name}/restart";

/// Returns the path that restarts a server.
pub fn restart_path(server: &str) -> String {
    RESTART.replace("{name}", &logs::percent_encode(server))
}

/// Returns the path of the last `lines` log lines, or of those of one server, followed by new ones
/// if `is_followed`.
pub fn logs_path(server: Option<&str>, lines: usize, is_followed: bool) -> String {
    let server = server.map(|server| format!("&server={}", logs::percent_encode(server))).unwrap_or_default();
    format!("{LOGS}?lines={lines}&follow={is_followed}{server}")
}

/// A request to reload the configuration. The answer is the change, or the reason why it was
/// rejected.
pub type Reload = oneshot::Sender<Result<Change, String>>;

/// Settings of the control API that the gateway itself does not know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The address where clients connect.
    pub endpoint: Option<String>,
    /// The configuration file.
    pub configuration: Option<PathBuf>,
    /// The channel to the code that reloads the configuration.
    pub reload: Option<mpsc::Sender<Reload>>,
    /// The log.
    pub logs: Option<Arc<dyn Logs>>,
}

/// Status and control of a running gateway.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setups: Arc<Setups>,
    pub(crate) catalog: Arc<CatalogView>,
    pub(crate) sessions: Arc<crate::sessions::Sessions>,
    pub(crate) forwarder: Arc<Forwarder>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) lookalikes: Arc<Lookalikes>,
    pub(crate) began: Instant,
    restarts: Restarts,
}

impl Control {
    pub(crate) fn new(
        catalog: Arc<CatalogView>,
        sessions: Arc<crate::sessions::Sessions>,
        forwarder: Arc<Forwarder>,
        lookalikes: Arc<Lookalikes>,
    ) -> Self {
        let (fleet, setups) = (Arc::clone(&forwarder.fleet), Arc::clone(&forwarder.setups));
        let (metrics, restarts) = (Arc::clone(&forwarder.metrics), Restarts::default());
        let began = Instant::now();
        Self { fleet, setups, catalog, sessions, forwarder, metrics, lookalikes, began, restarts }
    }

    pub(crate) fn servers(&self) -> Arc<[Arc<Upstream>]> {
        self.fleet.servers()
    }

    pub(crate) fn tool_count(&self) -> usize {
        self.catalog.catalog().len()
    }

    /// Returns the tools that wait for approval.
    pub(crate) fn pins(&self) -> Vec<PinReport> {
        self.servers().iter().flat_map(|server| server.pins().iter().cloned().collect::<Vec<_>>()).collect()
    }
}

#[derive(Clone, Debug)]
struct ControlState {
    control: Arc<Control>,
    options: Arc<Options>,
}

/// Returns the routes of the control API.
pub(crate) fn router(control: Arc<Control>, options: Options) -> Router {
    Router::new()
        .route(STATUS, get(status))
        .route(TOOLS, get(tools))
        .route(LOGS, get(logs))
        .route(RELOAD, post(reload))
        .route(RESTART, post(restart))
        .with_state(ControlState { control, options: Arc::new(options) })
}

/// The caller of a control request, and what it may see.
#[derive(Clone, Debug)]
pub(crate) struct ControlCaller {
    viewer: Viewer,
    has_full_access: bool,
}

impl ControlCaller {
    /// Returns whether the caller may see everything: the operator, and tokens without
    /// restrictions. Without tokens, that is every caller.
    pub(crate) fn has_full_access(&self) -> bool {
        self.has_full_access
    }

    fn selection(&self) -> &Selection {
        &self.viewer.selection
    }

    /// Returns whether the caller sees all of a server, hidden tools included.
    fn sees_whole_server(&self, catalog: &Catalog, server: &str) -> bool {
        let tools = catalog.iter().filter(|tool| tool.server_name() == Some(server)).map(AsRef::as_ref);
        self.has_full_access() || self.selection().allows_all_of(server, tools)
    }

    fn caller(&self) -> Caller {
        self.viewer.caller
    }

    /// Returns the caller of a request; `None` if its token is no longer valid.
    pub(crate) fn of(setup: &Setup, parts: &Parts) -> Option<Self> {
        let caller = match parts.extensions.get::<Principal>() {
            Some(holder) => Caller::Token(*holder),
            None if parts.extensions.get::<Owner>().is_some() => Caller::Pipe,
            None => Caller::Anybody,
        };
        let viewer = setup.viewer(caller)?;
        let has_full_access = match caller {
            Caller::Token(holder) => setup.token(holder)?.selection.is_everything(),
            Caller::Anybody | Caller::Pipe => true,
        };
        Some(Self { viewer, has_full_access })
    }
}

async fn status(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = ControlCaller::of(&state.control.setups.current(), &parts) else { return unknown_caller() };
    match serde_json::to_value(state.control.status(&asking, &state.options)) {
        Ok(status) => json_response(StatusCode::OK, &status),
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn tools(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = ControlCaller::of(&state.control.setups.current(), &parts) else { return unknown_caller() };
    match serde_json::to_string(&state.control.tools(&asking)) {
        Ok(list) => typed_response(StatusCode::OK, Body::from(list), "application/json"),
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn logs(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = ControlCaller::of(&state.control.setups.current(), &parts) else { return unknown_caller() };
    if !asking.has_full_access() {
        return error_response(StatusCode::FORBIDDEN, "this token is restricted; the log covers all servers");
    }
    // A page of this machine may look at the status, but the log has the words of servers.
    if asking.caller() == Caller::Anybody && is_from_page(&parts.headers) {
        return error_response(StatusCode::FORBIDDEN, "requests from a web page need a token to read the log");
    }
    let Some(logs) = &state.options.logs else {
        return error_response(StatusCode::NOT_FOUND, "this gateway does not keep a log in memory");
    };
    match LogQuery::parse(parts.uri.query().unwrap_or_default()).into_body(logs) {
        Some(body) => typed_response(StatusCode::OK, body, "text/plain; charset=utf-8"),
        None => error_response(StatusCode::SERVICE_UNAVAILABLE, "too many clients are following the log"),
    }
}

async fn reload(State(state): State<ControlState>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let asking = match authorize_change(&state, &parts) {
        Ok(asking) => asking,
        Err(refusal) => return *refusal,
    };
    if !asking.has_full_access() {
        return error_response(
            StatusCode::FORBIDDEN,
            "this token is restricted; the configuration affects all callers",
        );
    }
    let Some(reload) = &state.options.reload else {
        return error_response(StatusCode::CONFLICT, "this gateway has no configuration file to reload");
    };
    tracing::info!("configuration reload requested");
    let (reply, replied) = oneshot::channel();
    let is_sent = reload.send(reply).await.is_ok();
    match replied.await {
        Ok(Ok(change)) if is_sent => {
            let servers = &change.servers;
            let change = json!({
                "added": servers.added, "changed": servers.changed, "removed": servers.removed,
                "hasSettings": change.has_settings,
            });
            json_response(StatusCode::OK, &change)
        }
        Ok(Err(reason)) => error_response(StatusCode::UNPROCESSABLE_ENTITY, &reason),
        _ => error_response(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping"),
    }
}

async fn restart(State(state): State<ControlState>, Path(name): Path<String>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let asking = match authorize_change(&state, &parts) {
        Ok(asking) => asking,
        Err(refusal) => return *refusal,
    };
    let is_theirs = asking.sees_whole_server(&state.control.catalog.catalog(), &name);
    let found = state.control.servers().iter().find(|server| server.name() == name).filter(|_| is_theirs).cloned();
    // For a caller that may not see it, a server does not exist.
    let Some(server) = found else { return error_response(StatusCode::NOT_FOUND, "no server of this name") };
    if !server.config().is_enabled {
        return error_response(StatusCode::CONFLICT, "this server is disabled in the configuration");
    }
    if !state.control.restarts.admit(&name, Instant::now()) {
        return error_response(StatusCode::TOO_MANY_REQUESTS, "this server was restarted less than a second ago");
    }
    tracing::info!(server = name, "server restart requested");
    if !state.control.fleet.restart(&name, GRACE).await {
        return error_response(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping");
    }
    json_response(StatusCode::ACCEPTED, &json!({"restarting": name}))
}

/// Returns the caller of a request for a change, if it is authorized.
fn authorize_change(state: &ControlState, parts: &Parts) -> Result<ControlCaller, Box<Response<Body>>> {
    let asking = ControlCaller::of(&state.control.setups.current(), parts).ok_or_else(|| Box::new(unknown_caller()))?;
    if asking.caller() == Caller::Anybody && is_from_page(&parts.headers) {
        return Err(
            error_response(StatusCode::FORBIDDEN, "requests from a web page need a token to make changes").into()
        );
    }
    // What a page can send without asking first is never JSON.
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| !kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(
            error_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type: application/json` is required").into()
        );
    }
    Ok(asking)
}

/// Returns whether a browser sends a request for a web page. Pages of this machine pass the guard,
/// and any user can serve one.
fn is_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

fn unknown_caller() -> Response<Body> {
    // Who may come in has changed since the door let it pass.
    error_response(StatusCode::UNAUTHORIZED, "this token is no longer valid")
}

fn error_response(status: StatusCode, message: &str) -> Response<Body> {
    json_response(status, &json!({"error": message}))
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    typed_response(status, Body::from(value.to_string()), "application/json")
}

fn typed_response(status: StatusCode, body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
