//! The responses of the control API.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Maximum size of a request.
const MAX_BYTES: usize = 1 << 20;

pub(super) fn error_response(status: StatusCode, message: &str) -> Response<Body> {
    json_response(status, &json!({"error": message}))
}

pub(super) fn hint_response(status: StatusCode, message: &str, hint: &str) -> Response<Body> {
    json_response(status, &json!({"error": message, "hint": hint}))
}

pub(super) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    typed_response(status, Body::from(value.to_string()), "application/json")
}

/// Returns a value as JSON.
pub(super) fn answer(value: &impl Serialize) -> Response<Body> {
    answer_with(StatusCode::OK, value)
}

pub(super) fn answer_with(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_string(value) {
        Ok(text) => typed_response(status, Body::from(text), "application/json"),
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

pub(super) fn typed_response(status: StatusCode, body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Reads the JSON body of a request.
///
/// # Errors
/// The response to a body that is too large, or is something else.
pub(super) async fn read_body<T: DeserializeOwned>(body: Body) -> Result<T, Response<Body>> {
    read_body_of(body, MAX_BYTES).await
}

/// Reads the JSON body of a request of at most `most` bytes.
pub(super) async fn read_body_of<T: DeserializeOwned>(body: Body, most: usize) -> Result<T, Response<Body>> {
    let bytes: Bytes = axum::body::to_bytes(body, most)
        .await
        .map_err(|_| error_response(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or was interrupted"))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| error_response(StatusCode::BAD_REQUEST, &format!("invalid request body: {error}")))
}

/// Runs work that may block.
///
/// # Errors
/// The response to a gateway that is stopping.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Response<Body>> {
    let stopping = |_| error_response(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping");
    tokio::task::spawn_blocking(work).await.map_err(stopping)
}
