//! A tool in one line that a model can call without having seen its schema.

use pegboard_core::Tool;
use serde_json::{Map, Value};

use crate::prompt::one_line;

/// Characters of a purpose.
const MAX_PURPOSE: usize = 90;

/// Optional parameters that are spelled out; the others are only counted.
const MAX_OPTIONAL: usize = 6;

/// Levels of objects that are spelled out.
const MAX_DEPTH: usize = 2;

/// `name(param: type, optional?: type = default) — purpose`.
pub(crate) fn signature(tool: &Tool, shown_as: &str) -> String {
    let schema = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema.get()).ok());
    let parameters = schema.as_ref().map(|schema| parameters(schema, MAX_DEPTH)).unwrap_or_default();
    let purpose = purpose(tool.description());
    if purpose.is_empty() {
        format!("{shown_as}({parameters})")
    } else {
        format!("{shown_as}({parameters}) — {purpose}")
    }
}

fn parameters(schema: &Value, depth: usize) -> String {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let is_required = |name: &str| required.contains(&name);
    let mut parts: Vec<String> = Vec::new();
    for (name, property) in properties.iter().filter(|(name, _)| is_required(name)) {
        parts.push(format!("{name}: {}", type_of(property, depth)));
    }
    let optional: Vec<(&String, &Value)> = properties.iter().filter(|(name, _)| !is_required(name)).collect();
    for (name, property) in optional.iter().take(MAX_OPTIONAL) {
        let default = property.get("default").filter(|default| !default.is_null() && is_short(default));
        let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
        parts.push(format!("{name}?: {}{default}", type_of(property, depth)));
    }
    if optional.len() > MAX_OPTIONAL {
        parts.push(format!("…{} more optional", optional.len() - MAX_OPTIONAL));
    }
    parts.join(", ")
}

fn is_short(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && value.to_string().len() <= 20
}

/// The type of a parameter as a reader of TypeScript would write it.
fn type_of(schema: &Value, depth: usize) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(key).and_then(Value::as_array) {
            let mut types: Vec<String> = branches.iter().map(|branch| type_of(branch, depth)).collect();
            types.dedup();
            return types.join("|");
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => named_type(name, schema, depth),
        Some(Value::Array(names)) => {
            let types = names.iter().filter_map(Value::as_str).map(|name| named_type(name, schema, depth));
            types.collect::<Vec<_>>().join("|")
        }
        _ if schema.get("properties").is_some() => named_type("object", schema, depth),
        _ => "any".to_owned(),
    }
}

fn named_type(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "array" => {
            let items = schema.get("items").map_or_else(|| "any".to_owned(), |items| type_of(items, depth));
            if items.contains('|') { format!("({items})[]") } else { format!("{items}[]") }
        }
        "object" if schema.get("properties").is_some() && depth > 0 => {
            format!("{{{}}}", parameters(schema, depth - 1))
        }
        name => name.to_owned(),
    }
}

/// The first sentence of a description, cut at a word.
fn purpose(description: &str) -> String {
    let line = one_line(description);
    let sentence = line.split_once(". ").map_or(line.as_str(), |(first, _)| first);
    let sentence = sentence.split_once('。').map_or(sentence, |(first, _)| first).trim_end_matches('.');
    if sentence.chars().count() <= MAX_PURPOSE {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(MAX_PURPOSE).collect();
    let cut = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{cut}…")
}
