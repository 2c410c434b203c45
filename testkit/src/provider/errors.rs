//! Errors in the formats of the providers.

use serde_json::{Value, json};

use super::route::{Vendor, Wire};

/// An error of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ErrorResponse<'a> {
    pub(crate) status: u16,
    pub(crate) message: &'a str,
    /// The position in the body, for providers that have a field for it.
    pub(crate) at: Option<&'a str>,
    /// The delay before a retry, for providers that have it in the body.
    pub(crate) retry_after: Option<&'a str>,
}

/// Returns the body of an error response.
pub(crate) fn body(vendor: Vendor, wire: Wire, complaint: &ErrorResponse) -> Value {
    match (vendor, wire) {
        (Vendor::MiniMax, Wire::Chat) => minimax(complaint),
        (Vendor::MiniMax | Vendor::Anthropic, _) => anthropic(complaint),
        (Vendor::OpenAi, _) => openai(complaint),
        (Vendor::Google, _) => google(complaint),
    }
}

/// Returns the error as an event in a stream: the event's name, if events have one, and its data.
pub(crate) fn event(vendor: Vendor, wire: Wire, complaint: &ErrorResponse) -> (Option<&'static str>, Value) {
    let error = body(vendor, wire, complaint);
    match wire {
        Wire::Messages => (Some("error"), error),
        Wire::Responses => {
            let code = &error["error"]["code"];
            (Some("error"), json!({"type": "error", "code": code, "message": complaint.message, "param": complaint.at}))
        }
        Wire::Chat | Wire::Gemini => (None, error),
    }
}

fn anthropic(complaint: &ErrorResponse) -> Value {
    let kind = match complaint.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": complaint.message}, "request_id": "req_scripted"})
}

fn openai(complaint: &ErrorResponse) -> Value {
    let (kind, code) = match complaint.status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        429 => ("requests", json!("rate_limit_exceeded")),
        503 => ("server_error", json!("server_is_overloaded")),
        500.. => ("server_error", Value::Null),
        _ if complaint.at == Some("previous_response_id") => {
            ("invalid_request_error", json!("previous_response_not_found"))
        }
        _ => ("invalid_request_error", Value::Null),
    };
    json!({"error": {"message": complaint.message, "type": kind, "param": complaint.at, "code": code}})
}

fn google(complaint: &ErrorResponse) -> Value {
    let status = match complaint.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    let mut error = json!({"code": complaint.status, "message": complaint.message, "status": status});
    if let Some(seconds) = complaint.retry_after {
        let hint = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")});
        error["details"] = json!([hint]);
    }
    json!({"error": error})
}

fn minimax(complaint: &ErrorResponse) -> Value {
    let (kind, code) = match complaint.status {
        401 => ("authorized_error", 1004),
        429 => ("rate_limit_error", 1002),
        500.. => ("api_error", 1000),
        _ => ("bad_request_error", 2013),
    };
    let blame = if code == 2013 { "invalid params, " } else { "" };
    let message = format!("{blame}{} ({code})", complaint.message);
    let error = json!({"type": kind, "message": message, "http_code": complaint.status.to_string()});
    json!({"type": "error", "error": error, "request_id": "scripted"})
}
