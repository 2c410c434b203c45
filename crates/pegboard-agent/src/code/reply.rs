//! The reply to a call: always `{"success", "result", "error"}`.

use std::io;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// The members of a reply, in their order.
#[derive(Serialize)]
struct Reply<'a, T> {
    success: bool,
    result: Option<T>,
    error: Option<&'a str>,
}

impl<'a, T> Reply<'a, T> {
    fn success(result: T) -> Self {
        Self { success: true, result: Some(result), error: None }
    }

    fn failure(error: &'a str) -> Self {
        Self { success: false, result: None, error: Some(error) }
    }
}

/// Returns the reply for an error.
pub(super) fn failure(error: &str) -> String {
    // A string can always be serialized.
    serde_json::to_string(&Reply::<()>::failure(error)).unwrap_or_default()
}

/// The output of a tool.
#[derive(Debug)]
pub(super) struct CallOutput {
    pub(super) text: String,
    pub(super) value: Option<Value>,
    pub(super) is_error: bool,
}

impl CallOutput {
    /// Returns the reply with the value, else the text; text that is JSON is passed on verbatim, so
    /// that no number loses a digit. A reply of more than `most` bytes is replaced by an error.
    pub(super) fn reply(&self, most: usize) -> Vec<u8> {
        let mut bounded = BoundedBuffer::new(self.size(most), most);
        match &self.value {
            _ if self.is_error => bounded.put(&Reply::<()>::failure(&self.text)),
            Some(value) => bounded.put(&Reply::success(value)),
            None => match serde_json::from_str::<&RawValue>(&self.text) {
                Ok(json) => bounded.put(&Reply::success(json)),
                Err(_) => bounded.put(&Reply::success(&self.text)),
            },
        }
        bounded.end().unwrap_or_else(|bytes| {
            failure(&format!("the result is {bytes} bytes, over the limit of {most}; request less at a time"))
                .into_bytes()
        })
    }

    /// Estimates the size of the reply in bytes, up to `most`.
    pub(super) fn size(&self, most: usize) -> usize {
        const AROUND: usize = 64;
        let result = match &self.value {
            Some(value) if !self.is_error => size(value, most),
            _ => self.text.len(),
        };
        (AROUND + result).min(most)
    }
}

/// Estimates the serialized size of a value in bytes, up to `most`.
fn size(value: &Value, most: usize) -> usize {
    const AROUND: usize = 4;
    let mut bytes = AROUND;
    let mut add = |name: usize, value: &Value| {
        bytes += name;
        bytes += size(value, most.saturating_sub(bytes));
        bytes < most
    };
    match value {
        Value::String(text) => bytes += text.len(),
        Value::Array(values) => _ = values.iter().all(|value| add(0, value)),
        Value::Object(members) => _ = members.iter().all(|(name, value)| add(name.len(), value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    bytes
}

/// A buffer that drops its content when it exceeds a limit, and still counts the bytes.
struct BoundedBuffer {
    written: Vec<u8>,
    bytes: usize,
    most: usize,
}

impl BoundedBuffer {
    fn new(expected: usize, most: usize) -> Self {
        Self { written: Vec::with_capacity(expected), bytes: 0, most }
    }

    fn put<T: Serialize>(&mut self, reply: &Reply<'_, T>) {
        // Strings and JSON values can always be serialized.
        let _ = serde_json::to_writer(self, reply);
    }

    /// Returns the content, or the number of bytes if they exceed the limit.
    fn end(self) -> Result<Vec<u8>, usize> {
        if self.bytes <= self.most { Ok(self.written) } else { Err(self.bytes) }
    }
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes += piece.len();
        if self.bytes <= self.most {
            self.written.extend_from_slice(piece);
        } else {
            self.written = Vec::new();
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(text: &str, value: Option<Value>) -> CallOutput {
        CallOutput { text: text.to_owned(), value, is_error: false }
    }

    fn reply(given: &CallOutput, most: usize) -> String {
        String::from_utf8(given.reply(most)).expect("a text")
    }

    #[test]
    fn replies() {
        let check = |text: &str, value: Option<Value>, expected: &str| {
            let expected = format!(r#"{{"success":true,"result":{expected},"error":null}}"#);
            assert_eq!(reply(&given(text, value), 10_000), expected, "{text}");
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
        let failed = r#"{"success":false,"result":null,"error":"no \"x\""}"#;
        assert_eq!(failure("no \"x\""), failed);
        assert_eq!(reply(&CallOutput { is_error: true, ..given("no \"x\"", Some(json!(1))) }, 100), failed);
    }

    #[test]
    fn too_large_a_reply_is_counted_and_not_kept() {
        let whole = given(&"x".repeat(59), None);
        assert_eq!(whole.reply(100).len(), 100);
        let told = r#"{"success":false,"result":null,"error":"the result is 100 bytes, over the limit of 99; request less at a time"}"#;
        assert_eq!(reply(&whole, 99), told);
        assert_eq!(reply(&CallOutput { is_error: true, ..given(&"x".repeat(58), None) }, 99), told);
    }

    #[test]
    fn sizes() {
        let check = |given: CallOutput, expected: usize| assert_eq!(given.size(1000), expected, "{given:?}");
        check(given("short", None), 69);
        check(given(&"x".repeat(1000), None), 1000);
        check(given("short", Some(json!({"a": [1, "x"]}))), 64 + 4 + 1 + 4 + 4 + 5);
        check(given("short", Some(json!({"a": ["x".repeat(1000)]}))), 1000);
        check(given("short", Some(json!({"x".repeat(1000): null}))), 1000);
        check(given("short", Some(json!(vec![0; 100]))), 468);
        check(given("short", Some(json!(vec![0; 300]))), 1000);
        check(CallOutput { is_error: true, ..given("short", Some(json!(vec![0; 300]))) }, 69);
    }
}
