//! Offloaded outputs: how models read them.

use serde_json::{Value, json};

pub(super) fn search() -> (&'static str, Value) {
    ("", json!({"type": "object"}))
}

pub(super) fn read() -> (&'static str, Value) {
    ("", json!({"type": "object"}))
}

pub(super) fn query() -> (&'static str, Value) {
    ("", json!({"type": "object"}))
}
