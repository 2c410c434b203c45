//! A tool's definition in a form that can be compared.

use serde_json::{Map, Value, value::RawValue};

/// The parts of a definition that a model sees: a change of any of them is a change of the tool.
const PARTS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// A normalized definition: only the relevant parts, with sorted keys, so that definitions with
/// the same meaning are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Definition(pub(super) Map<String, Value>);

impl Definition {
    pub(super) fn of(raw: &RawValue) -> Self {
        let mut fields: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
        // The part of `_meta` that searches use; the rest may change with every start.
        let hint = fields.get_mut("_meta").and_then(|meta| meta.get_mut("anthropic/searchHint")).map(Value::take);
        let mut parts: Vec<(String, Value)> =
            fields.into_iter().filter(|(key, _)| PARTS.contains(&key.as_str())).collect();
        parts.extend(hint.map(|hint| ("searchHint".to_owned(), hint)));
        // `null` is the same as a missing value.
        parts.retain(|(_, value)| !value.is_null());
        parts.sort_by(|one, other| one.0.cmp(&other.0));
        Self(parts.into_iter().map(|(key, value)| (key, sorted(value))).collect())
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        // The order of a list matters: the first of several choices may be the default.
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_searches_use_counts() {
        let of = |text: &str| Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON"));
        let hinted = |hint: &str| of(&format!(r#"{{"name":"a","_meta":{{"anthropic/searchHint":"{hint}","x":1}}}}"#));
        assert_eq!(hinted("one"), hinted("one"));
        assert_ne!(hinted("one"), hinted("two"));
        assert_ne!(hinted("one"), of(r#"{"name":"a"}"#));
        assert_eq!(of(r#"{"name":"a","_meta":{"x":1}}"#), of(r#"{"name":"a","_meta":{"x":2}}"#));
    }

    #[test]
    fn order_counts_in_lists_alone() {
        let of = |text: &str| Definition::of(&serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON"));
        let schema = |text: &str| of(&format!(r#"{{"name":"a","inputSchema":{text}}}"#));
        assert_eq!(schema(r#"{"a":1,"b":[{"c":1,"d":2}]}"#).0, schema(r#"{"b":[{"d":2,"c":1}],"a":1}"#).0);
        let keys = |definition: &Definition| serde_json::to_string(&definition.0).expect("JSON");
        assert_eq!(
            keys(&schema(r#"{"b":[{"d":2,"c":1}],"a":1}"#)),
            r#"{"inputSchema":{"a":1,"b":[{"c":1,"d":2}]},"name":"a"}"#
        );
        assert_ne!(schema(r#"{"enum":["x","y"]}"#), schema(r#"{"enum":["y","x"]}"#));
        assert_eq!(of(r#"{"name":"a","title":null}"#), of(r#"{"name":"a"}"#));
        assert_ne!(of(r#"{"name":"a","title":"b"}"#), of(r#"{"name":"a"}"#));
    }
}
