//! What a call is answered with, in all cases: `{"success", "result", "error"}`.

use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// The members in their order.
#[derive(Serialize)]
struct Reply<'a, T> {
    success: bool,
    result: Option<T>,
    error: Option<&'a str>,
}

/// A reply that says what went wrong.
pub(super) fn failure(error: &str) -> String {
    write(&Reply::<()> { success: false, result: None, error: Some(error) })
}

/// A reply with the result of a tool: the value that it gave, else its text; one that is JSON
/// is passed on as it is written, so that no number loses a digit.
pub(super) fn success(text: &str, value: Option<&Value>) -> String {
    if let Some(value) = value {
        return write(&Reply { success: true, result: Some(value), error: None });
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => write(&Reply { success: true, result: Some(json), error: None }),
        Err(_) => write(&Reply { success: true, result: Some(text), error: None }),
    }
}

fn write<T: Serialize>(reply: &Reply<'_, T>) -> String {
    // Texts and JSON values can always be written.
    serde_json::to_string(reply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies() {
        let check = |text: &str, value: Option<Value>, expected: &str| {
            let expected = format!(r#"{{"success":true,"result":{expected},"error":null}}"#);
            assert_eq!(success(text, value.as_ref()), expected, "{text}");
        };
        check("hello", None, r#""hello""#);
        check("", None, r#""""#);
        check(r#"{"a": [1]}"#, None, r#"{"a": [1]}"#);
        check("[]\n", None, "[]");
        check("12345678901234567890123", None, "12345678901234567890123");
        check("null", None, "null");
        check("{broken", None, r#""{broken""#);
        check("ignored", Some(json!({"b": 2, "a": 1})), r#"{"b":2,"a":1}"#);
        check(&"[".repeat(5000), None, &format!("\"{}\"", "[".repeat(5000)));
        assert_eq!(failure("no \"x\""), r#"{"success":false,"result":null,"error":"no \"x\""}"#);
    }
}
