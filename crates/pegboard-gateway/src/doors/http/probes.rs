//! Routes for operators: probes, metrics and a welcome page.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, StatusCode, header},
};
use pegboard_upstream::{State as Life, Upstream};
use serde_json::{Map, json};

use super::{
    ENDPOINT, EndpointState,
    responses::{json_response, status},
};
use crate::{control::ControlCaller, metrics};

/// Answers the liveness probe. Without a token, if there are tokens, and with a restricted one, it
/// contains no details.
pub(super) async fn health(State(door): State<Arc<EndpointState>>, request: Request) -> Response<Body> {
    if !may_see_details(&door, request) {
        return json_response(StatusCode::OK, json!({"status": "ok"}).to_string());
    }
    let servers = door.control.servers();
    let count = |is_it: fn(&Life) -> bool| servers.iter().filter(|server| is_it(&server.state())).count();
    let failed = count(|state| matches!(state, Life::Failed { .. }));
    let reason = |server: &Arc<Upstream>| match server.state() {
        Life::Failed { reason, .. } => Some((server.name().to_owned(), reason.into())),
        _ => None,
    };
    let status = json!({
        "status": if failed == 0 { "ok" } else { "degraded" },
        "servers": servers.len(),
        "ready": count(|state| *state == Life::Ready),
        "idle": count(|state| *state == Life::Idle),
        "lazy": count(|state| *state == Life::Lazy),
        "starting": count(|state| *state == Life::Starting),
        "failed": failed,
        "tools": door.control.tool_count(),
        "sessions": door.entrance.sessions.count(),
        "failures": servers.iter().filter_map(reason).collect::<Map<_, _>>(),
    });
    json_response(StatusCode::OK, status.to_string())
}

/// Returns whether a request may see details in the liveness probe.
fn may_see_details(door: &EndpointState, request: Request) -> bool {
    let (parts, _) = request.into_parts();
    ControlCaller::of(&door.entrance.setups.current(), &parts).is_some_and(|asking| asking.has_full_access())
}

/// Answers the readiness probe: every server is ready, idle or has failed, so that clients get a
/// complete list.
pub(super) async fn ready(State(door): State<Arc<EndpointState>>, request: Request) -> Response<Body> {
    let starting = door.control.servers().iter().filter(|server| !server.state().is_settled()).count();
    let is_ready = starting == 0 || door.entrance.pipeline.startup.is_over();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = json!({"ready": is_ready});
    if may_see_details(&door, request) {
        answer["starting"] = starting.into();
    }
    json_response(code, answer.to_string())
}

/// Returns the metrics. They cover all servers, so a caller that may see only some of these is
/// rejected.
pub(super) async fn metrics(State(door): State<Arc<EndpointState>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    match ControlCaller::of(&door.entrance.setups.current(), &parts) {
        Some(asking) if asking.has_full_access() => {}
        Some(_) => return status(StatusCode::FORBIDDEN),
        None => return status(StatusCode::UNAUTHORIZED),
    }
    let mut response = Response::new(Body::from(metrics::render(&door.control.metric_families())));
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, form);
    response
}

/// Answers all other paths with a page for a person who opened the address in a browser.
pub(super) async fn show_welcome() -> Response<Body> {
    Response::new(Body::from(format!(
        "This is a Pegboard gateway. MCP clients connect to {ENDPOINT}; `pegboard status` shows its status.\n"
    )))
}

pub(super) async fn not_found() -> Response<Body> {
    let mut response = Response::new(Body::from(format!("not found; the MCP endpoint is {ENDPOINT}\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
