//! Looking after a gateway while it runs: how it is, and what can be done about it.
//!
//! `GET /control/status` tells a [`Status`], `GET /control/tools` a [`ToolList`] and `GET
//! /control/logs` the last lines of the log; `POST /control/reload` reads the configuration
//! again; `POST /control/servers/NAME/restart` starts one server again. Where there are
//! tokens each of them needs one, and whoever may see only a part of the servers sees and
//! restarts only these, and cannot reload.

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

use self::{logs::Wanted, restarts::Restarts};
pub use self::{
    logs::{FOLLOWED, Logs},
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

/// What the paths of the control API begin with.
pub const PREFIX: &str = "/control/";

/// Where the status is told.
pub const STATUS: &str = "/control/status";

/// Where the configuration is read again.
pub const RELOAD: &str = "/control/reload";

/// Where all tools are listed.
pub const TOOLS: &str = "/control/tools";

/// Where the last lines of the log are.
pub const LOGS: &str = "/control/logs";

/// Where a server is started again.
const RESTART: &str = "/control/servers/{name}/restart";

/// The path by which a server is restarted.
pub fn restart_path(server: &str) -> String {
    RESTART.replace("{name}", &logs::encoded(server))
}

/// The path of the last `lines` lines of the log, or of those of one server, and of new ones if
/// `is_followed`.
pub fn logs_path(server: Option<&str>, lines: usize, is_followed: bool) -> String {
    let server = server.map(|server| format!("&server={}", logs::encoded(server))).unwrap_or_default();
    format!("{LOGS}?lines={lines}&follow={is_followed}{server}")
}

/// A request to read the configuration again. The answer is what that did, or why it was not
/// taken over.
pub type Reload = oneshot::Sender<Result<Change, String>>;

/// What the gateway itself cannot know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where clients connect.
    pub endpoint: Option<String>,
    /// The configuration file.
    pub configuration: Option<PathBuf>,
    /// Who reads that again when asked.
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

    /// What waits for approval.
    pub(crate) fn pins(&self) -> Vec<PinReport> {
        self.servers().iter().flat_map(|server| server.pins().iter().cloned().collect::<Vec<_>>()).collect()
    }
}

#[derive(Clone, Debug)]
struct Desk {
    control: Arc<Control>,
    options: Arc<Options>,
}

/// The routes of the control API.
pub(crate) fn router(control: Arc<Control>, options: Options) -> Router {
    Router::new()
        .route(STATUS, get(status))
        .route(TOOLS, get(tools))
        .route(LOGS, get(logs))
        .route(RELOAD, post(reload))
        .route(RESTART, post(restart))
        .with_state(Desk { control, options: Arc::new(options) })
}

/// Whoever asks, and what they may know.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    viewer: Viewer,
    is_whole: bool,
}

impl Asking {
    /// Whether they may know everything: who runs the gateway, and tokens that are not
    /// restricted. Where there are no tokens, that is whoever is let in.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn selection(&self) -> &Selection {
        &self.viewer.selection
    }

    /// Whether the caller sees all of a server, hidden tools included.
    fn sees_whole_server(&self, catalog: &Catalog, server: &str) -> bool {
        let tools = catalog.iter().filter(|tool| tool.server_name() == Some(server)).map(AsRef::as_ref);
        self.is_whole() || self.selection().allows_all_of(server, tools)
    }

    fn caller(&self) -> Caller {
        self.viewer.caller
    }

    /// Who a request comes from; `None` when they have no business here any more.
    pub(crate) fn of(setup: &Setup, parts: &Parts) -> Option<Self> {
        let caller = match parts.extensions.get::<Principal>() {
            Some(holder) => Caller::Token(*holder),
            None if parts.extensions.get::<Owner>().is_some() => Caller::Pipe,
            None => Caller::Anybody,
        };
        let viewer = setup.viewer(caller)?;
        let is_whole = match caller {
            Caller::Token(holder) => setup.token(holder)?.selection.is_everything(),
            Caller::Anybody | Caller::Pipe => true,
        };
        Some(Self { viewer, is_whole })
    }
}

async fn status(State(desk): State<Desk>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = Asking::of(&desk.control.setups.current(), &parts) else { return unknown_caller() };
    match serde_json::to_value(desk.control.status(&asking, &desk.options)) {
        Ok(status) => answer(StatusCode::OK, &status),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn tools(State(desk): State<Desk>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = Asking::of(&desk.control.setups.current(), &parts) else { return unknown_caller() };
    match serde_json::to_string(&desk.control.tools(&asking)) {
        Ok(list) => with_type(StatusCode::OK, Body::from(list), "application/json"),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn logs(State(desk): State<Desk>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let Some(asking) = Asking::of(&desk.control.setups.current(), &parts) else { return unknown_caller() };
    if !asking.is_whole() {
        return refuse(StatusCode::FORBIDDEN, "this token is restricted; the log covers all servers");
    }
    // A page of this machine may look at the status, but the log has the words of servers.
    if asking.caller() == Caller::Anybody && is_from_page(&parts.headers) {
        return refuse(StatusCode::FORBIDDEN, "requests from a web page need a token to read the log");
    }
    let Some(logs) = &desk.options.logs else {
        return refuse(StatusCode::NOT_FOUND, "this gateway does not keep a log in memory");
    };
    match Wanted::read(parts.uri.query().unwrap_or_default()).body(logs) {
        Some(body) => with_type(StatusCode::OK, body, "text/plain; charset=utf-8"),
        None => refuse(StatusCode::SERVICE_UNAVAILABLE, "too many clients are following the log"),
    }
}

async fn reload(State(desk): State<Desk>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let asking = match changing(&desk, &parts) {
        Ok(asking) => asking,
        Err(refusal) => return *refusal,
    };
    if !asking.is_whole() {
        return refuse(StatusCode::FORBIDDEN, "this token is restricted; the configuration affects all callers");
    }
    let Some(reload) = &desk.options.reload else {
        return refuse(StatusCode::CONFLICT, "this gateway has no configuration file to reload");
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
            answer(StatusCode::OK, &change)
        }
        Ok(Err(reason)) => refuse(StatusCode::UNPROCESSABLE_ENTITY, &reason),
        _ => refuse(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping"),
    }
}

async fn restart(State(desk): State<Desk>, Path(name): Path<String>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let asking = match changing(&desk, &parts) {
        Ok(asking) => asking,
        Err(refusal) => return *refusal,
    };
    let is_theirs = asking.sees_whole_server(&desk.control.catalog.catalog(), &name);
    let found = desk.control.servers().iter().find(|server| server.name() == name).filter(|_| is_theirs).cloned();
    // To whoever may not see it, a server does not exist.
    let Some(server) = found else { return refuse(StatusCode::NOT_FOUND, "no server of this name") };
    if !server.config().is_enabled {
        return refuse(StatusCode::CONFLICT, "this server is disabled in the configuration");
    }
    if !desk.control.restarts.admit(&name, Instant::now()) {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "this server was restarted less than a second ago");
    }
    tracing::info!(server = name, "server restart requested");
    if !desk.control.fleet.restart(&name, GRACE).await {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping");
    }
    answer(StatusCode::ACCEPTED, &json!({"restarting": name}))
}

/// Whoever asks for a change, if they may.
fn changing(desk: &Desk, parts: &Parts) -> Result<Asking, Box<Response<Body>>> {
    let asking = Asking::of(&desk.control.setups.current(), parts).ok_or_else(|| Box::new(unknown_caller()))?;
    if asking.caller() == Caller::Anybody && is_from_page(&parts.headers) {
        return Err(refuse(StatusCode::FORBIDDEN, "requests from a web page need a token to make changes").into());
    }
    // What a page can send without asking first is never JSON.
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| !kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type: application/json` is required").into());
    }
    Ok(asking)
}

/// Whether a browser sends a request for a page. The door lets pages of this machine in, and
/// anybody can serve one.
fn is_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

fn unknown_caller() -> Response<Body> {
    // Who may come in has changed since the door let it pass.
    refuse(StatusCode::UNAUTHORIZED, "this token is no longer valid")
}

fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    answer(status, &json!({"error": message}))
}

fn answer(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, Body::from(value.to_string()), "application/json")
}

fn with_type(status: StatusCode, body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
