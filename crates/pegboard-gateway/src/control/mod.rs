//! Status and control of a running gateway.
//!
//! `GET /control/status` returns a [`Status`], `GET /control/tools` a [`ToolList`] and `GET
//! /control/logs` the last lines of the log; `POST /control/reload` reloads the configuration;
//! `POST /control/servers/NAME/restart` restarts one server. If tokens are configured, every
//! request needs one. A caller that may see only some of the servers sees and restarts only these,
//! and cannot reload.

mod access;
mod activity;
mod approvals;
mod call;
mod caller;
mod cases;
mod console;
mod events;
pub mod host;
mod logs;
mod query;
mod responses;
mod restarts;
mod savings;
mod search;
mod servers;
mod sessions;
mod status;
mod tools;

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    middleware,
    routing::{get, post},
};
use pegboard_upstream::{Fleet, PinReport, Upstream};
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

pub use self::{
    access::{ControlAccess, NoRandomness},
    logs::{FOLLOW_QUEUE, Logs},
    status::{
        About, AuthStatus, ClientStatus, Configuration, EmbeddingsStatus, FORMAT, Latency, LlmProxyStatus,
        ProxyRouteStatus, ServerStatus, Sessions, Status, Totals,
    },
    tools::{ServerTools, ToolChanges, ToolEntry, ToolList},
};
pub(crate) use self::{caller::ControlCaller, events::publish_changes, sessions::handle as session_handle};
use self::{
    caller::{admit, is_from_page},
    logs::LogQuery,
    responses::{answer, error_response, json_response, typed_response},
    restarts::Restarts,
};
use crate::{
    activity::Activity,
    caller::Caller,
    catalog::CatalogView,
    events::Events,
    forward::calls::Forwarder,
    lookalikes::Lookalikes,
    metrics::Metrics,
    pipeline::Pipeline,
    savings::SavingsLedger,
    setup::{Change, Setups},
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

/// The path that calls a tool, for as long as the tool takes.
pub const CALL: &str = "/control/call";

/// The path that makes a URL for the console.
pub const CONSOLE_URL: &str = "/control/console/url";

/// The path of live changes.
pub const EVENTS: &str = "/control/events";

/// Paths that need no token: what they answer without one says only how to get in.
pub const OPEN_PATHS: [&str; 2] = [caller::CONSOLE, caller::LOGIN];

/// Returns the path that restarts a server.
pub fn restart_path(server: &str) -> String {
    format!("{PREFIX}servers/{}/restart", query::percent_encode(server))
}

/// Returns the path of the last `lines` log lines, or of those of one server, followed by new ones
/// if `is_followed`.
pub fn logs_path(server: Option<&str>, lines: usize, is_followed: bool) -> String {
    let server = server.map(|server| format!("&server={}", query::percent_encode(server))).unwrap_or_default();
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
    /// The address of the console, if the program serves it.
    pub console: Option<String>,
    /// The configuration file.
    pub configuration: Option<PathBuf>,
    /// The channel to the code that reloads the configuration.
    pub reload: Option<mpsc::Sender<Reload>>,
    /// The log.
    pub logs: Option<Arc<dyn Logs>>,
    /// The credentials of requests over TCP while no tokens are configured. Without them, every
    /// request that the routes get is admitted: the program guards them itself.
    pub access: Option<Arc<ControlAccess>>,
    /// What the program can do for the console.
    pub host: host::Host,
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

/// The parts that requests of the control API need.
#[derive(Clone, Debug)]
pub(crate) struct ControlState {
    control: Arc<Control>,
    pipeline: Arc<Pipeline>,
    activity: Arc<Activity>,
    savings: Arc<SavingsLedger>,
    events: Arc<Events>,
    options: Arc<Options>,
    searches: Arc<search::SearchViews>,
}

impl ControlState {
    pub(crate) fn new(control: Arc<Control>, pipeline: Arc<Pipeline>, options: Options) -> Self {
        let (activity, savings) = (Arc::clone(&pipeline.activity), Arc::clone(&pipeline.savings));
        let events = Arc::clone(activity.events());
        Self { control, pipeline, activity, savings, events, options: Arc::new(options), searches: Arc::default() }
    }
}

/// Returns the routes of the control API.
pub(crate) fn router(state: ControlState) -> Router {
    Router::new()
        .route(STATUS, get(status))
        .route(TOOLS, get(tools))
        .route(LOGS, get(logs))
        .route(RELOAD, post(reload))
        .merge(console::routes())
        .merge(search::routes())
        .merge(call::routes())
        .merge(servers::routes())
        .merge(activity::routes())
        .merge(sessions::routes())
        .merge(savings::routes())
        .merge(approvals::routes())
        .merge(cases::routes())
        .merge(host::routes())
        .merge(events::routes())
        .route_layer(middleware::from_fn_with_state(state.clone(), admit))
        .with_state(state)
}

async fn status(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let mut status = state.control.status(&asking, &state.options);
    let with_memory = responses::blocking(move || {
        Control::add_memory(&mut status);
        status
    });
    match with_memory.await {
        Ok(status) => answer(&status),
        Err(response) => response,
    }
}

async fn tools(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let setup = state.control.setups.current();
    let token = (!asking.has_full_access()).then(|| setup.token_name(asking.caller()));
    let calls = state.activity.read(|log| log.calls_by_tool(token));
    answer(&state.control.tools(&asking, &calls))
}

async fn logs(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    if !asking.has_full_access() {
        return error_response(StatusCode::FORBIDDEN, "this token is restricted; the log covers all servers");
    }
    // A page of this machine may look at the status, but the log has the words of servers.
    let is_open = state.options.access.is_none() && asking.caller() == Caller::Anybody;
    if is_open && is_from_page(request.headers()) {
        return error_response(StatusCode::FORBIDDEN, "requests from a web page need a token to read the log");
    }
    let Some(logs) = &state.options.logs else {
        return error_response(StatusCode::NOT_FOUND, "this gateway does not keep a log in memory");
    };
    match LogQuery::parse(request.uri().query().unwrap_or_default()).into_body(logs) {
        Some(body) => typed_response(StatusCode::OK, body, "text/plain; charset=utf-8"),
        None => error_response(StatusCode::SERVICE_UNAVAILABLE, "too many clients are following the log"),
    }
}

async fn reload(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    if !asking.has_full_access() {
        return error_response(
            StatusCode::FORBIDDEN,
            "this token is restricted; the configuration affects all callers",
        );
    }
    tracing::info!("configuration reload requested");
    match reload_configuration(&state.options).await {
        Ok(change) => {
            let servers = &change.servers;
            let change = json!({
                "added": servers.added, "changed": servers.changed, "removed": servers.removed,
                "hasSettings": change.has_settings,
            });
            json_response(StatusCode::OK, &change)
        }
        Err(response) => *response,
    }
}

/// Reads the configuration now.
///
/// # Errors
/// The response if there is none, it was rejected, or the gateway is stopping.
async fn reload_configuration(options: &Options) -> Result<Change, Box<Response<Body>>> {
    let Some(reload) = &options.reload else {
        let message = "this gateway has no configuration file to reload";
        return Err(error_response(StatusCode::CONFLICT, message).into());
    };
    let (reply, replied) = oneshot::channel();
    let is_sent = reload.send(reply).await.is_ok();
    match replied.await {
        Ok(Ok(change)) if is_sent => Ok(change),
        Ok(Err(reason)) => Err(error_response(StatusCode::UNPROCESSABLE_ENTITY, &reason).into()),
        _ => Err(error_response(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping").into()),
    }
}

#[cfg(test)]
mod tests;
