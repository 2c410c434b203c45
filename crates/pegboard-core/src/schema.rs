//! The searchable texts of a JSON Schema.

use serde_json::Value;

/// Maximum depth of a schema from outside; deeper parts are not searched.
const MAX_DEPTH: usize = 16;

/// A piece of text inside a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaText<'a> {
    /// A property's name.
    ParameterName(&'a str),
    /// A property's description, or that of any schema inside it.
    ParameterDescription(&'a str),
    /// A value that a property may take.
    Value(&'a str),
}

/// Visits every parameter name, description and allowed value of `schema`, nested ones
/// included, in document order.
///
/// ```
/// use pegboard_core::schema::{SchemaText, visit};
///
/// let schema = serde_json::json!({
///     "properties": {"unit": {"description": "Scale", "enum": ["celsius"]}}
/// });
/// let mut texts = Vec::new();
/// visit(&schema, &mut |text| texts.push(text));
/// assert_eq!(
///     texts,
///     [
///         SchemaText::ParameterName("unit"),
///         SchemaText::ParameterDescription("Scale"),
///         SchemaText::Value("celsius"),
///     ]
/// );
/// ```
pub fn visit<'a>(schema: &'a Value, emit: &mut impl FnMut(SchemaText<'a>)) {
    // The root's own description repeats the tool's; only what is inside counts.
    visit_children(schema, emit, MAX_DEPTH);
}

fn visit_schema<'a>(schema: &'a Value, emit: &mut impl FnMut(SchemaText<'a>), depth: usize) {
    let Some(object) = schema.as_object() else { return };
    if let Some(description) = object.get("description").and_then(Value::as_str) {
        emit(SchemaText::ParameterDescription(description));
    }
    for value in object.get("enum").and_then(Value::as_array).into_iter().flatten().chain(object.get("const")) {
        if let Some(value) = value.as_str() {
            emit(SchemaText::Value(value));
        }
    }
    visit_children(schema, emit, depth);
}

fn visit_children<'a>(schema: &'a Value, emit: &mut impl FnMut(SchemaText<'a>), depth: usize) {
    let Some(object) = schema.as_object() else { return };
    let Some(depth) = depth.checked_sub(1) else { return };
    for (key, value) in object {
        match key.as_str() {
            "properties" | "patternProperties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    emit(SchemaText::ParameterName(name));
                    visit_schema(property, emit, depth);
                }
            }
            // References inside a document lead here; following them would visit twice.
            "$defs" | "definitions" => {
                for definition in value.as_object().into_iter().flat_map(|map| map.values()) {
                    visit_schema(definition, emit, depth);
                }
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                for branch in value.as_array().into_iter().flatten() {
                    visit_schema(branch, emit, depth);
                }
            }
            "items" | "additionalProperties" | "if" | "then" | "else" => visit_schema(value, emit, depth),
            _ => {}
        }
    }
}
