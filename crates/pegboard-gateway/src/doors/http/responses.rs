//! Responses without a stream.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use pegboard_mcp::rpc::{Id, RpcError};

use crate::{doors::reply_format::error_line, shares::Claim};

pub(super) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A text to send, with its claim on its caller's share of memory. The claim is released when the
/// last byte has been sent.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) text: String,
    pub(super) room: Vec<Claim>,
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self { text, room: Vec::new() }
    }
}

impl From<Document> for Bytes {
    fn from(document: Document) -> Self {
        if document.room.is_empty() { Self::from(document.text) } else { Self::from_owner(document) }
    }
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
