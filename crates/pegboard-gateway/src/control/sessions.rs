//! The sessions of clients, and which tools they have loaded.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{Response, StatusCode},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    ControlState,
    caller::ControlCaller,
    responses::{answer, error_response, read_body},
};
use crate::{
    activity::{Log, SessionCounts},
    events::Audience,
    lock,
    routes::lists,
    sessions::ClientSession,
};

/// Maximum number of listed sessions; further ones are counted.
const MAX_SESSIONS: usize = 500;

/// Maximum number of names in one request.
const MAX_NAMES: usize = 1000;

pub(super) fn routes() -> Router<ControlState> {
    Router::new()
        .route("/control/sessions", get(sessions))
        .route("/control/sessions/{handle}/unload", post(unload))
        .route("/control/sessions/{handle}/keep", post(keep))
}

/// Returns the name of a session for people. Its id would give access to it.
pub(crate) fn handle(owner: u64) -> String {
    format!("s{owner}")
}

#[derive(Debug, Serialize)]
struct SessionList {
    sessions: Vec<SessionView>,
    total: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    handle: String,
    client: String,
    era: &'static str,
    transport: &'static str,
    profile: &'static str,
    dialect: &'static str,
    token: Option<String>,
    since: u64,
    idle_ms: u64,
    loaded: Vec<LoadedView>,
    tools: usize,
    tokens_shown: u64,
    tokens_of_all: u64,
    searches: u64,
    calls: u64,
    can_unload: bool,
    can_keep: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoadedView {
    name: String,
    server: Option<String>,
    tokens: u64,
    is_kept: bool,
    is_fixed: bool,
}

/// Returns the sessions that a caller may see, the most recently used first.
fn visible(state: &ControlState, asking: &ControlCaller) -> Vec<Arc<ClientSession>> {
    let mut sessions = state.control.sessions.all();
    sessions.retain(|session| asking.has_full_access() || session.caller() == asking.caller());
    sessions.sort_by_key(|session| (session.idle_time(), session.owner));
    sessions
}

async fn sessions(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let all = visible(&state, &asking);
    let counts = state.activity.read(Log::counts_by_session);
    let shown = all.iter().take(MAX_SESSIONS).map(|session| view(&state, session, &counts));
    answer(&SessionList { sessions: shown.collect(), total: all.len() })
}

/// Returns a session after a change of its tools.
fn changed(state: &ControlState, session: &ClientSession) -> Response<Body> {
    answer(&view(state, session, &state.activity.read(Log::counts_by_session)))
}

fn view(state: &ControlState, session: &ClientSession, counts: &SessionCounts) -> SessionView {
    let setup = state.control.setups.current();
    let (name, viewer) = (handle(session.owner), session.viewer());
    let (searches, calls) = counts.get(&name).copied().unwrap_or_default();
    let token = setup.token_name(viewer.caller);
    let tools = lock(&session.tools);
    let key = (tools.catalog().version(), viewer.caller, viewer.setup);
    let of_all = state.savings.cost_of_all(key, || lists::cost_of_all(&tools));
    let loaded: Vec<LoadedView> = tools
        .session_tools()
        .into_iter()
        .map(|shown| LoadedView {
            tokens: lists::tokens_of_tool(&shown.tool, &shown.name),
            server: shown.tool.server_name().map(str::to_owned),
            name: shown.name,
            is_kept: shown.is_pinned,
            is_fixed: shown.is_fixed,
        })
        .collect();
    let tokens_of_all = of_all.values().sum();
    let lists_everything = tools.lists_everything();
    SessionView {
        handle: name,
        client: session.client.clone(),
        era: "legacy",
        transport: if session.has_pipe() { "stdio" } else { "http" },
        profile: session.profile.as_str(),
        dialect: tools.dialect_name().as_str(),
        token: (!token.is_empty()).then(|| token.to_owned()),
        since: session.since,
        idle_ms: u64::try_from(session.idle_time().as_millis()).unwrap_or(u64::MAX),
        tools: tools.known_names().len(),
        tokens_shown: if lists_everything { tokens_of_all } else { lists::shown_cost(&tools).values().sum() },
        tokens_of_all,
        searches,
        calls,
        can_unload: !lists_everything && !loaded.is_empty(),
        can_keep: !lists_everything && loaded.iter().any(|tool| !tool.is_fixed),
        loaded: if lists_everything { Vec::new() } else { loaded },
    }
}

#[derive(Debug, Deserialize)]
struct SessionTools {
    tools: Vec<String>,
    #[serde(default = "yes")]
    keep: bool,
}

fn yes() -> bool {
    true
}

/// Returns the session of a request and the named tools.
async fn chosen(
    state: &ControlState,
    asking: &ControlCaller,
    name: &str,
    body: Body,
) -> Result<(Arc<ClientSession>, SessionTools), Response<Body>> {
    let wanted: SessionTools = read_body(body).await?;
    if wanted.tools.len() > MAX_NAMES {
        let message = format!("more than {MAX_NAMES} tools are named");
        return Err(error_response(StatusCode::BAD_REQUEST, &message));
    }
    let session = visible(state, asking).into_iter().find(|session| handle(session.owner) == name);
    session.map(|session| (session, wanted)).ok_or_else(|| error_response(StatusCode::NOT_FOUND, "no such session"))
}

async fn unload(
    State(state): State<ControlState>,
    Path(name): Path<String>,
    asking: ControlCaller,
    request: Request,
) -> Response<Body> {
    let (session, wanted) = match chosen(&state, &asking, &name, request.into_body()).await {
        Ok(chosen) => chosen,
        Err(response) => return response,
    };
    let is_changed = lock(&session.tools).put_away(&wanted.tools);
    if is_changed {
        state.control.sessions.save_if_changed(&session).await;
        session.announce("notifications/tools/list_changed");
    }
    changed(&state, &session)
}

async fn keep(
    State(state): State<ControlState>,
    Path(name): Path<String>,
    asking: ControlCaller,
    request: Request,
) -> Response<Body> {
    let (session, wanted) = match chosen(&state, &asking, &name, request.into_body()).await {
        Ok(chosen) => chosen,
        Err(response) => return response,
    };
    let missing = {
        let mut tools = lock(&session.tools);
        let mut set = |tool: &String| if wanted.keep { tools.pin(tool) } else { tools.unpin(tool) };
        wanted.tools.iter().find(|tool| !set(tool)).cloned()
    };
    // The tools before one that is not loaded were changed too.
    state.control.sessions.save(&session).await;
    let audience = Audience::Caller(session.caller());
    state.events.publish("session", audience, || json!({"handle": name, "change": "tools"}));
    match missing {
        Some(tool) => error_response(StatusCode::CONFLICT, &format!("`{tool}` is not loaded in this session")),
        None => changed(&state, &session),
    }
}
