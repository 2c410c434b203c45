//! Parsing of typed tool arguments.

use std::collections::HashSet;

use pegboard_core::Tool;
use pegboard_mcp::json::{Raw, raw};
use serde_json::{Map, Value};

use crate::{commands::tools, error::CliError};

/// Parses `given`: one JSON object, unchanged, or objects and `key=value` pairs, of which later
/// ones take precedence.
///
/// # Errors
/// If it is neither, two pairs have the same key, or a value does not fit the schema of
/// the tool, where that is known.
pub(super) fn read(given: &[String], tool: Option<&Tool>) -> Result<Raw, CliError> {
    let is_document = |text: &str| text.trim_start().starts_with('{');
    let broken = |error: serde_json::Error| {
        CliError::new("the arguments are not a JSON object").because(error).hint("quote them for your shell")
    };
    if let [document] = given
        && is_document(document)
    {
        return serde_json::from_str(document).map_err(broken);
    }
    let mut arguments = Map::new();
    let mut keys = HashSet::new();
    for text in given {
        if is_document(text) {
            arguments.extend(serde_json::from_str::<Map<String, Value>>(text).map_err(broken)?);
            continue;
        }
        let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            let parameters = tool.map(|tool| format!("; {}", tools::parameters(tool))).unwrap_or_default();
            CliError::new(format!("`{text}` is not in the form key=value"))
                .hint(format!("give JSON objects, or key=value for each argument{parameters}"))
        })?;
        if !keys.insert(key) {
            return Err(CliError::new(format!("`{key}` is given twice"))
                .hint(format!("a list is one argument in JSON: `{key}='[\"a\", \"b\"]'`")));
        }
        arguments.insert(key.to_owned(), value_of(key, value, tool)?);
    }
    Ok(raw(&arguments))
}

/// Parses a value by the type in the tool's schema; without a type, as JSON or else as text.
fn value_of(key: &str, text: &str, tool: Option<&Tool>) -> Result<Value, CliError> {
    let schema = tool.and_then(|tool| tool.input_schema());
    let schema: Value = schema.and_then(|schema| serde_json::from_str(schema).ok()).unwrap_or_default();
    let types: Vec<&str> = match &schema["properties"][key]["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let parsed = serde_json::from_str::<Value>(text).ok();
    if types.is_empty() {
        return Ok(parsed.unwrap_or_else(|| text.into()));
    }
    if let Some(value) = parsed.filter(|value| types.iter().any(|kind| is_of(value, kind))) {
        return Ok(value);
    }
    let Some(tool) = tool.filter(|_| !types.contains(&"string")) else { return Ok(text.into()) };
    let kinds = types.join(" or ");
    Err(CliError::new(format!("`{key}={text}`: `{key}` of `{}` must be of type {kinds}", tool.name()))
        .hint(tools::parameters(tool)))
}

/// Returns whether a typed value is of a JSON Schema type. Unquoted text is not mistaken for
/// another type: only `"string"` removes quotes.
fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => false,
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Catalog, RawTool};
    use serde_json::json;

    use super::*;

    fn check(given: &[&str], expected: Result<Value, &str>) {
        let schema = json!({"type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "any": {}, "maybe": {"type": ["string", "null"]},
            "list": {"type": "array"}, "flag": {"type": "boolean"}
        }});
        let tool = RawTool { name: "t".into(), input_schema: Some(raw(&schema)), ..RawTool::default() };
        let catalog = Catalog::from_tools(vec![tool]).0;
        let tool = catalog.iter().next().expect("a tool");
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        let found = read(&given, Some(tool)).map_err(|error| error.to_string());
        let found = found.map(|arguments| serde_json::from_str::<Value>(arguments.get()).expect("JSON"));
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn values_follow_the_schema() {
        check(&[], Ok(json!({})));
        check(&[r#"{"text": "a=b"}"#], Ok(json!({"text": "a=b"})));
        check(&["text=5", "count=5"], Ok(json!({"text": "5", "count": 5})));
        check(&["text=a=b"], Ok(json!({"text": "a=b"})));
        check(&["any=[1]", "other=word"], Ok(json!({"any": [1], "other": "word"})));
        check(&["maybe=null", "flag=true", "list=[\"x\"]"], Ok(json!({"maybe": null, "flag": true, "list": ["x"]})));
        check(&["count=five"], Err("`count=five`: `count` of `t` must be of type integer"));
        check(&[r#"{"count": 1, "flag": true}"#, "count=2"], Ok(json!({"count": 2, "flag": true})));
        check(&["count=1", r#"{"count": 2}"#], Ok(json!({"count": 2})));
        check(&["count=1", "flag=true", "count=2"], Err("`count` is given twice"));
        check(&["word"], Err("`word` is not in the form key=value"));
        check(&["=1"], Err("`=1` is not in the form key=value"));
        check(&["{broken"], Err("the arguments are not a JSON object"));
    }
}
