//! Routes beside MCP's own, for whoever looks after the gateway.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, StatusCode, header},
};
use pegboard_upstream::{State as Life, Upstream};
use serde_json::{Map, json};

use super::{
    Door, ENDPOINT,
    responses::{json_response, status},
};
use crate::{control::Asking, metrics};

/// Liveness. Without a token, where there are tokens, nothing else is told; nor with one that is
/// restricted.
pub(super) async fn health(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    if !is_told_details(&door, request) {
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

/// Whether a request may learn more than that the gateway lives.
fn is_told_details(door: &Door, request: Request) -> bool {
    let (parts, _) = request.into_parts();
    Asking::of(&door.entrance.setups.current(), &parts).is_some_and(|asking| asking.is_whole())
}

/// Readiness: every server works, sleeps or has failed, so that clients get all there is.
pub(super) async fn ready(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    let starting = door.control.servers().iter().filter(|server| !server.state().is_settled()).count();
    let is_ready = starting == 0 || door.entrance.pipeline.startup.is_over();
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = json!({"ready": is_ready});
    if is_told_details(&door, request) {
        answer["starting"] = starting.into();
    }
    json_response(code, answer.to_string())
}

/// The numbers, for whoever collects them. They are of all servers, so that who may see only
/// some of these has no business with them.
pub(super) async fn numbers(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    match Asking::of(&door.entrance.setups.current(), &parts) {
        Some(asking) if asking.is_whole() => {}
        Some(_) => return status(StatusCode::FORBIDDEN),
        None => return status(StatusCode::UNAUTHORIZED),
    }
    let mut response = Response::new(Body::from(metrics::render(&door.control.numbers())));
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, form);
    response
}

/// Anything else: most likely a slip in an address.
/// For a person who opens the address in a browser.
pub(super) async fn welcome() -> Response<Body> {
    Response::new(Body::from(format!(
        "This is a Pegboard gateway. MCP clients connect to {ENDPOINT}; `pegboard status` shows its status.\n"
    )))
}

pub(super) async fn elsewhere() -> Response<Body> {
    let mut response = Response::new(Body::from(format!("not found; the MCP endpoint is {ENDPOINT}\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
