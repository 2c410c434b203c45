//! Responses that are made in one go.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use pegboard_upstream::{
    json::Fields,
    rpc::{Id, Message, RpcError},
};

pub(super) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal. Without an `id` it has none: `null` is no identity of a request.
pub(super) fn refuse(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    let line = match id {
        Some(id) => Message::response(Some(id), Err(error)),
        None => Fields::new().with("jsonrpc", "2.0").with("error", error).to_raw().get().to_owned(),
    };
    json_response(status, line)
}

/// The caller has as many event streams open as it may have.
pub(super) fn too_many_streams(id: Option<&Id>) -> Response<Body> {
    let message = "too many event streams are open with this token (`connections.streamsPerToken`)";
    busy(id, message)
}

/// The bodies of the caller's requests in progress are too large altogether.
pub(super) fn too_much_in_progress() -> Response<Body> {
    busy(None, "too many large requests in progress with this token (`maxBodyBytes`)")
}

/// A limit was reached; a later try can succeed.
fn busy(id: Option<&Id>, message: &str) -> Response<Body> {
    let error = RpcError::new(RpcError::INTERNAL, message);
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(super) fn not_allowed() -> Response<Body> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}
