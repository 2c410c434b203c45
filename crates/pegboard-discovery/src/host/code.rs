//! Tools as an HTTP API, for models that write programs.

use serde_json::{Value, json};

pub(super) fn api_spec() -> (&'static str, Value) {
    ("", json!({"type": "object"}))
}

pub(super) fn shell() -> (&'static str, Value) {
    ("", json!({"type": "object"}))
}
