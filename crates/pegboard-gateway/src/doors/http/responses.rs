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

/// A refusal.
pub(super) fn refuse(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    json_response(status, refusal_line(id, error))
}

/// A refusal as one line. Without an `id` it has none: `null` is no identity of a request.
pub(super) fn refusal_line(id: Option<&Id>, error: &RpcError) -> String {
    match id {
        Some(id) => Message::response(Some(id), Err(error)),
        None => Fields::new().with("jsonrpc", "2.0").with("error", error).to_raw().get().to_owned(),
    }
}

pub(super) fn not_allowed() -> Response<Body> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}
