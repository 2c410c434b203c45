//! Results of servers, converted to text for a model.

use pegboard_mcp::json::{Raw, range_in};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{call_runner::CallOutcome, unescape};

/// Size in bytes from which a text is decoded within its message, instead of being copied.
const LARGE: usize = 1 << 20;

/// The fields of a `tools/call` result that a model can read.
#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
    #[serde(borrow, rename = "structuredContent", default)]
    structured: Option<&'a RawValue>,
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(rename = "resultType", default)]
    kind: Option<String>,
}

/// A content block. Content that a model cannot read is not decoded.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(rename = "mimeType")]
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    resource: Option<Contents<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Contents<'a> {
    uri: String,
    #[serde(rename = "mimeType")]
    mime_type: Option<String>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    blob: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PromptResult<'a> {
    #[serde(borrow)]
    messages: Vec<PromptMessage<'a>>,
}

#[derive(Deserialize)]
struct PromptMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Block<'a>,
}

#[derive(Deserialize)]
struct ResourceResult<'a> {
    #[serde(borrow)]
    contents: Vec<Contents<'a>>,
}

/// Converts the result of a tool.
pub(crate) fn read_tool_result(result: Raw) -> CallOutcome {
    let Ok(read) = serde_json::from_str::<ToolResult<'_>>(result.get()) else {
        // Violates the protocol, but may be what the model needs.
        return CallOutcome::ok(result.get());
    };
    if read.kind.as_deref() == Some("input_required") {
        return CallOutcome::error("the server requested input during the call, which this agent does not support");
    }
    let value = read.structured.and_then(|value| serde_json::from_str(value.get()).ok());
    let is_error = read.is_error;
    if let [Block { text: Some(text), .. }] = read.content.as_slice()
        && text.get().len() > LARGE
    {
        let place = range_in(result.get(), text);
        return CallOutcome {
            text: unescape::unescape_in_place(String::from(Box::<str>::from(result)), place),
            value,
            is_error,
        };
    }
    let texts: Vec<String> = read.content.into_iter().map(Block::into_text).collect();
    let text = match (texts.is_empty(), read.structured) {
        (true, Some(structured)) => structured.get().to_owned(),
        _ => texts.join("\n"),
    };
    CallOutcome { text, value, is_error }
}

/// Converts the result of `prompts/get`.
pub(crate) fn read_prompt(result: &RawValue) -> CallOutcome {
    match serde_json::from_str::<PromptResult<'_>>(result.get()) {
        Ok(PromptResult { messages }) => {
            let message = |message: PromptMessage<'_>| format!("{}: {}", message.role, message.content.into_text());
            CallOutcome::ok(messages.into_iter().map(message).collect::<Vec<_>>().join("\n\n"))
        }
        Err(_) => CallOutcome::ok(result.get()),
    }
}

/// Converts the result of `resources/read`.
pub(crate) fn read_resource(result: &RawValue) -> CallOutcome {
    match serde_json::from_str::<ResourceResult<'_>>(result.get()) {
        Ok(ResourceResult { contents }) => {
            CallOutcome::ok(contents.into_iter().map(Contents::into_text).collect::<Vec<_>>().join("\n\n"))
        }
        Err(_) => CallOutcome::ok(result.get()),
    }
}

impl Block<'_> {
    fn into_text(self) -> String {
        match (self.kind.as_str(), self.text) {
            ("text", Some(text)) => decode_string(text),
            ("resource", _) => self.resource.map(Contents::into_text).unwrap_or_default(),
            ("resource_link", _) => {
                format!("[resource {}: {}]", self.name.unwrap_or_default(), self.uri.unwrap_or_default())
            }
            (kind, _) => describe_unreadable(kind, self.mime_type.as_deref(), self.data),
        }
    }
}

impl Contents<'_> {
    fn into_text(self) -> String {
        match self.text {
            Some(text) => decode_string(text),
            None => format!("{}: {}", self.uri, describe_unreadable("file", self.mime_type.as_deref(), self.blob)),
        }
    }
}

/// Decodes a JSON string; other JSON is returned unchanged.
fn decode_string(text: &RawValue) -> String {
    match text.get().starts_with('"') {
        true => unescape::unescape_in_place(text.get().to_owned(), 0..text.get().len()),
        false => text.get().to_owned(),
    }
}

/// Describes content that is not text.
fn describe_unreadable(kind: &str, mime_type: Option<&str>, base64: Option<&RawValue>) -> String {
    let kind: String = kind.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    let bytes = base64.map_or(0, |data| data.get().len().saturating_sub(2) / 4 * 3);
    format!("[{kind} {}, about {bytes} bytes, not shown]", mime_type.unwrap_or("of unknown type"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(result: &serde_json::Value, expected: &str, is_error: bool) {
        let raw = serde_json::value::to_raw_value(result).expect("JSON");
        let done = read_tool_result(raw);
        assert_eq!((done.text.as_str(), done.is_error), (expected, is_error), "{result}");
    }

    #[test]
    fn contents() {
        check(&json!({"content": [{"type": "text", "text": "a"}]}), "a", false);
        check(&json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb", false);
        check(&json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "no", true);
        check(&json!({"content": [], "structuredContent": {"a": 1}}), r#"{"a":1}"#, false);
        check(
            &json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAAAAAA"}]}),
            "[image image/png, about 6 bytes, not shown]",
            false,
        );
        check(
            &json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}]}),
            "inside",
            false,
        );
        check(
            &json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "notes"}]}),
            "[resource notes: a:b]",
            false,
        );
        check(&json!({"content": 7}), r#"{"content":7}"#, false);
        check(
            &json!({"resultType": "input_required"}),
            "the server requested input during the call, which this agent does not support",
            true,
        );
    }
}
