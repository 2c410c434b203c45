//! Lists, whole or in pages.

use serde_json::{Value, json};

use crate::{
    call::{Call, Era, Outcome},
    wire::RpcError,
};

/// How long a client may keep a list.
const LIST_TTL_MS: u64 = 60_000;

/// The part of `items` that the request's cursor points at, under `key`.
pub(crate) fn page(call: &Call, key: &str, items: &[Value]) -> Outcome {
    let start = match &call.request.params["cursor"] {
        Value::Null => 0,
        cursor => offset(cursor).filter(|start| *start < items.len()).ok_or_else(bad_cursor)?,
    };
    let size = call.server.args.page_size.unwrap_or(usize::MAX);
    let end = start.saturating_add(size).min(items.len());
    let mut result = json!({key: items[start..end]});
    if end < items.len() {
        result["nextCursor"] = cursor(end).into();
    }
    Ok(cacheable(call, result, LIST_TTL_MS, "public"))
}

/// Adds to a result what the modern era wants to know of those that may be kept.
pub(crate) fn cacheable(call: &Call, mut result: Value, ttl_ms: u64, scope: &str) -> Value {
    if call.client.era == Era::Modern {
        result["ttlMs"] = ttl_ms.into();
        result["cacheScope"] = scope.into();
    }
    result
}

/// Cursors are opaque; this one does not even look like a number.
fn cursor(offset: usize) -> String {
    format!("after:{offset:x}")
}

fn offset(cursor: &Value) -> Option<usize> {
    usize::from_str_radix(cursor.as_str()?.strip_prefix("after:")?, 16).ok()
}

fn bad_cursor() -> RpcError {
    RpcError::invalid_params("unknown cursor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_as_they_went() {
        for n in [0, 1, 255, 100_000] {
            assert_eq!(offset(&cursor(n).into()), Some(n));
        }
        assert_eq!(offset(&json!("12")), None);
        assert_eq!(offset(&json!(12)), None);
    }
}
