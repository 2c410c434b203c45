//! Errors, and how each provider API writes them.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use serde_json::{Value, json};

use crate::{access::Denied, route::Route};

/// The reason why the proxy cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
    /// The state folder cannot be used.
    #[error("cannot use the state folder")]
    State(#[source] std::io::Error),
    /// No token is configured where one is required.
    #[error("a proxy that other machines can reach needs a token")]
    NoToken,
}

/// The reason why the proxy itself answers a request with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("unknown path; the proxy serves `/anthropic/…`, `/openai/v1/…` and `/gemini/…`")]
    UnknownPath,
    #[error("WebSocket connections are not supported by this proxy; use HTTP requests")]
    Upgrade,
    #[error("request body is over the limit of {limit} bytes (`proxy.maxBodyBytes`)")]
    TooLarge { limit: usize },
    #[error("cannot read the request body")]
    Body(#[source] axum::Error),
    #[error("cannot reach the provider at `{origin}`")]
    Unreachable { origin: String, source: reqwest::Error },
    #[error("the provider's answer is over the fixed limit of {limit} bytes; use the mode `pass`")]
    AnswerTooLarge { limit: usize },
    #[error("an event of the provider's stream is over the fixed limit of {limit} bytes; use the mode `pass`")]
    EventTooLarge { limit: usize },
    #[error("the calls that the proxy holds back are over the fixed limit of {limit} bytes; use the mode `pass`")]
    HeldTooLarge { limit: usize },
    #[error("the model searches in an answer over the fixed limit of {limit} bytes; use the mode `pass`")]
    KeptTooLarge { limit: usize },
    #[error("the answer of the provider ended early")]
    Incomplete,
    #[error("the provider compressed its answer although the request allows no encoding; use the mode `pass` for it")]
    Encoded,
    #[error("the request body did not arrive within {} s", waited.as_secs())]
    SlowBody { waited: Duration },
    #[error("the proxy has reached its memory limit for request bodies; retry later")]
    Busy,
}

impl RequestError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Denied(_) => StatusCode::UNAUTHORIZED,
            Self::UnknownPath => StatusCode::NOT_FOUND,
            // The status on which clients fall back to HTTP.
            Self::Upgrade => StatusCode::UPGRADE_REQUIRED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(_) => StatusCode::BAD_REQUEST,
            Self::SlowBody { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable { .. }
            | Self::AnswerTooLarge { .. }
            | Self::EventTooLarge { .. }
            | Self::HeldTooLarge { .. }
            | Self::KeptTooLarge { .. }
            | Self::Incomplete
            | Self::Encoded => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the error as the provider API of `route` writes errors.
    pub(crate) fn response(&self, route: Route) -> Response<Body> {
        let status = self.status();
        let mut response = Response::new(Body::from(body(route, status, &self.to_string()).to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Returns the JSON of an error in the format of a route.
pub(crate) fn body(route: Route, status: StatusCode, message: &str) -> Value {
    match route {
        Route::Anthropic => {
            let kind = match status {
                StatusCode::UNAUTHORIZED => "authentication_error",
                StatusCode::NOT_FOUND => "not_found_error",
                StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
                status if status.is_client_error() => "invalid_request_error",
                _ => "api_error",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Route::OpenAi => {
            let kind = if status.is_client_error() { "invalid_request_error" } else { "server_error" };
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        Route::Gemini => {
            let kind = match status {
                StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
                StatusCode::NOT_FOUND => "NOT_FOUND",
                status if status.is_client_error() => "INVALID_ARGUMENT",
                _ => "UNAVAILABLE",
            };
            json!({"error": {"code": status.as_u16(), "message": message, "status": kind}})
        }
    }
}
