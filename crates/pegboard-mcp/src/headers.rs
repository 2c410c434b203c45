//! HTTP headers that repeat parts of a modern request.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a value for a header: unchanged if possible, otherwise as marked base64.
///
/// ```
/// use pegboard_mcp::headers::{decode, encode};
///
/// assert_eq!(encode("us-west1"), "us-west1");
/// assert_eq!(encode("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
/// assert_eq!(decode("=?base64?SGVsbG8sIOS4lueVjA==?=").as_deref(), Some("Hello, 世界"));
/// ```
pub fn encode(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, 0x20..=0x7E | b'\t'));
    let is_trimmed = value.trim_matches([' ', '\t']) == value;
    let looks_encoded = value.starts_with(OPEN) && value.ends_with(CLOSE);
    if is_plain && is_trimmed && !looks_encoded {
        value.to_owned()
    } else {
        format!("{OPEN}{}{CLOSE}", STANDARD.encode(value))
    }
}

/// Decodes the value of a header; `None` if it is marked as encoded but is invalid.
pub fn decode(header: &str) -> Option<String> {
    match header.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

/// A parameter of a tool that a header repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredParameter {
    /// The name of the header after `Mcp-Param-`.
    pub header: String,
    /// The path of the value in the arguments.
    pub path: Vec<String>,
}

impl MirroredParameter {
    /// Returns the value in `arguments`, if a header can repeat it.
    pub fn argument<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let value = self.path.iter().try_fold(arguments, |value, key| value.get(key))?;
        Some(value).filter(|value| value.is_string() || value.is_boolean() || value.is_number())
    }

    /// Returns the value in `arguments` as text.
    pub fn value(&self, arguments: &Value) -> Option<String> {
        match self.argument(arguments)? {
            Value::String(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

/// Maximum depth of a parameter.
const MAX_DEPTH: usize = 16;

/// Returns the parameters of a schema that headers repeat.
///
/// # Errors
/// When the schema marks a parameter that cannot be repeated; such a tool must not be used over
/// HTTP.
pub fn mirrored_parameters(schema: &Value) -> Result<Vec<MirroredParameter>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    if count_marks(schema) != found.len() {
        return Err("`x-mcp-header` in a place other than nested `properties`".to_owned());
    }
    let mut names = HashSet::new();
    if let Some(twice) = found.iter().find(|one| !names.insert(one.header.to_ascii_lowercase())) {
        return Err(format!("two parameters use the header `{}`", twice.header));
    }
    Ok(found)
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<MirroredParameter>) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Ok(());
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get("x-mcp-header") {
            let header = header.as_str().filter(|header| is_token(header));
            let header = header.ok_or_else(|| format!("`x-mcp-header` of `{name}` is not a valid header name"))?;
            let kind = property.get("type").and_then(Value::as_str);
            if !matches!(kind, Some("string" | "integer" | "boolean")) {
                return Err(format!("`x-mcp-header` of `{name}`, whose type is not string, integer or boolean"));
            }
            found.push(MirroredParameter { header: header.to_owned(), path: path.clone() });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Returns the number of occurrences of the keyword `x-mcp-header` at any depth of a schema.
fn count_marks(schema: &Value) -> usize {
    match schema {
        Value::Object(map) => {
            let own = usize::from(map.contains_key("x-mcp-header"));
            own + map.values().map(count_marks).sum::<usize>()
        }
        Value::Array(list) => list.iter().map(count_marks).sum(),
        _ => 0,
    }
}

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_in_schemas() {
        let nested = json!({"properties": {"a": {"properties": {"b": {"type": "string", "x-mcp-header": "Region"}}}}});
        let found = mirrored_parameters(&nested).expect("valid");
        assert_eq!(found, [MirroredParameter { header: "Region".into(), path: vec!["a".into(), "b".into()] }]);
        assert_eq!(found[0].value(&json!({"a": {"b": "eu"}})).as_deref(), Some("eu"));
        assert_eq!(found[0].value(&json!({"a": {"b": null}})), None);
        let bad = |schema: Value| assert!(mirrored_parameters(&schema).is_err(), "{schema}");
        bad(json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}));
        bad(json!({"properties": {"a": {"type": "string", "x-mcp-header": "A b"}}}));
        bad(json!({"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}));
        bad(json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}
        }}));
    }

    proptest! {
        #[test]
        fn what_is_encoded_can_be_decoded(value in ".{0,40}") {
            let header = encode(&value);
            prop_assert!(header.is_ascii() && !header.contains(['\n', '\r']));
            prop_assert_eq!(decode(&header), Some(value));
        }
    }
}
