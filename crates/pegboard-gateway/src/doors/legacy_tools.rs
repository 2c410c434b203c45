//! Tool definitions for legacy clients.

use pegboard_mcp::json::{Fields, SharedRaw, raw};
use serde_json::{Value, json};

/// Converts a tool definition to what versions before 2026-07-28 allow: schemas of properties are
/// objects, and an output schema describes an object.
pub(crate) fn to_legacy_definition(definition: SharedRaw) -> SharedRaw {
    let text = definition.get();
    // Few tools have either; looking is cheaper than taking all of them apart.
    let may_have_booleans =
        text.contains(":true") || text.contains(": true") || text.contains(":false") || text.contains(": false");
    if !text.contains("\"outputSchema\"") && !may_have_booleans {
        return definition;
    }
    let Some(mut fields) = Fields::of(&definition) else { return definition };
    let mut is_changed = false;
    if let Some(schema) = fields.object("outputSchema")
        && schema.text("type").as_deref() != Some("object")
    {
        fields.remove("outputSchema");
        is_changed = true;
    }
    for key in ["inputSchema", "outputSchema"] {
        let Some(mut schema) = fields.object(key) else { continue };
        let Some(properties) = schema.object("properties").and_then(without_booleans) else { continue };
        schema.set("properties", properties.to_raw());
        fields.set(key, schema.to_raw());
        is_changed = true;
    }
    if is_changed { fields.to_raw().into() } else { definition }
}

/// Returns the properties with schemas that are objects, if any was not.
fn without_booleans(mut properties: Fields) -> Option<Fields> {
    let booleans: Vec<(String, bool)> =
        properties.iter().filter_map(|(name, schema)| Some((name.to_owned(), schema.get().parse().ok()?))).collect();
    if booleans.is_empty() {
        return None;
    }
    for (name, allows) in booleans {
        let schema: Value = if allows { json!({}) } else { json!({"not": {}}) };
        properties.set(&name, raw(&schema));
    }
    Some(properties)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn definitions_for_legacy_clients() {
        let check = |given: &str, expected: &str| {
            let given: Box<RawValue> = serde_json::from_str(given).expect("JSON");
            assert_eq!(to_legacy_definition(given.into()).get(), expected);
        };
        let plain = r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"default":true}}}}"#;
        check(plain, plain);
        check(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":true,"y":false}},"z":1.0}"#,
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"not":{}}}},"z":1.0}"#,
        );
        check(
            r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#,
            r#"{"name":"a","inputSchema":{"type":"object"}}"#,
        );
    }
}
