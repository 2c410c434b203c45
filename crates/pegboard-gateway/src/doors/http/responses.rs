//! Responses without a stream.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use pegboard_mcp::rpc::{Id, RpcError};

use crate::{doors::reply_format::error_line, shares::Document};

pub(super) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(super) fn json_response(status: StatusCode, document: impl Into<Document>) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(document.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns an error response.
pub(super) fn error_response(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    json_response(status, error_line(id, error))
}

pub(super) fn not_allowed() -> Response<Body> {
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    response
}
