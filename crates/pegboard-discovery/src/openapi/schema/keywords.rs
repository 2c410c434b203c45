//! Keywords that are converted without other schemas.

use pegboard_core::{naming::fold, text::excerpt};
use serde_json::{Map, Value, json};

use super::{MAX_DESCRIPTION, MAX_PATTERN};

/// The supported keywords, in the order in which they are written.
const ORDER: [&str; 32] = [
    "$ref",
    "type",
    "nullable",
    "title",
    "description",
    "deprecated",
    "enum",
    "default",
    "example",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "readOnly",
    "writeOnly",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
];

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// The types that a schema allows.
#[derive(Debug, Default)]
pub(super) struct Types {
    names: Vec<&'static str>,
    pub(super) is_nullable: bool,
    pub(super) is_null_only: bool,
}

impl Types {
    pub(super) fn of(map: &Map<String, Value>) -> Self {
        let given: Vec<&str> = match map.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let names: Vec<&str> = TYPES.into_iter().filter(|name| given.contains(name)).collect();
        let has_null = given.contains(&"null") || map.get("nullable") == Some(&Value::Bool(true));
        Self { is_null_only: names.is_empty() && given == ["null"], is_nullable: has_null, names }
    }

    /// Merges the only alternative besides null.
    pub(super) fn merge(&self, choice: Map<String, Value>, out: &mut Map<String, Value>, all: &mut Vec<Value>) {
        let is_text = |key: &str| matches!(key, "title" | "description");
        let clashes = |key: &String| out.contains_key(key) && !is_text(key);
        let has_type = !self.names.is_empty() && choice.contains_key("type");
        if choice.contains_key("$ref") || choice.contains_key("allOf") || has_type || choice.keys().any(clashes) {
            all.push(choice.into());
            return;
        }
        for (key, value) in choice {
            out.entry(key).or_insert(value);
        }
    }

    pub(super) fn write(self, items: Option<Value>, out: &mut Map<String, Value>, all: &mut Vec<Value>) {
        let set = |out: &mut Map<String, Value>, key: &str, value: Value| {
            out.entry(key).or_insert(value);
        };
        if self.is_null_only {
            set(out, "enum", json!([null]));
        }
        match self.names.as_slice() {
            [] => {
                if let Some(items) = items {
                    set(out, "items", items);
                }
            }
            [name] => {
                set(out, "type", json!(name));
                if *name == "array" {
                    set(out, "items", items.unwrap_or_else(|| json!({})));
                }
            }
            several => {
                let mut choices: Vec<Value> = several.iter().map(|name| json!({"type": name})).collect();
                if let Some(at) = several.iter().position(|name| *name == "array") {
                    choices[at]["items"] = items.unwrap_or_else(|| json!({}));
                }
                if self.is_nullable {
                    choices[0]["nullable"] = true.into();
                }
                if out.contains_key("anyOf") {
                    all.push(json!({"anyOf": choices}));
                } else {
                    out.insert("anyOf".to_owned(), choices.into());
                }
                return;
            }
        }
        if self.is_nullable {
            set(out, "nullable", true.into());
        }
    }
}

pub(super) fn texts(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    for key in ["title", "description"] {
        if let Some(text) = map.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
            out.insert(key.to_owned(), excerpt(text, MAX_DESCRIPTION).into());
        }
    }
    for key in ["format", "pattern"] {
        if let Some(text) = map.get(key).and_then(Value::as_str).filter(|text| text.len() <= MAX_PATTERN) {
            out.insert(key.to_owned(), text.into());
        }
    }
    let is_set = |key: &str| map.get(key) == Some(&Value::Bool(true));
    let is_contradiction = is_set("readOnly") && is_set("writeOnly");
    for key in ["deprecated", "readOnly", "writeOnly"] {
        if is_set(key) && (key == "deprecated" || !is_contradiction) {
            out.insert(key.to_owned(), true.into());
        }
    }
}

pub(super) fn bounds(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    for key in ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] {
        if let Some(count) = map.get(key).and_then(Value::as_u64) {
            out.insert(key.to_owned(), count.into());
        }
    }
    if map.get("uniqueItems") == Some(&Value::Bool(true)) {
        out.insert("uniqueItems".to_owned(), true.into());
    }
    if let Some(step) = map.get("multipleOf").filter(|step| step.as_f64().is_some_and(|step| step > 0.0)) {
        out.insert("multipleOf".to_owned(), step.clone());
    }
    bound(map, out, "minimum", "exclusiveMinimum", |exclusive, inclusive| exclusive >= inclusive);
    bound(map, out, "maximum", "exclusiveMaximum", |exclusive, inclusive| exclusive <= inclusive);
}

/// Converts one end of a range. An exclusive bound is a number since draft 6, and a flag before and
/// in OpenAPI 3.0.
fn bound(
    map: &Map<String, Value>,
    out: &mut Map<String, Value>,
    inclusive: &str,
    exclusive: &str,
    is_tighter: fn(f64, f64) -> bool,
) {
    let limit = map.get(inclusive).filter(|limit| limit.is_number());
    match (limit, map.get(exclusive)) {
        (limit, Some(end @ Value::Number(_))) => {
            let number = |value: &Value| value.as_f64().unwrap_or_default();
            if limit.is_none_or(|limit| is_tighter(number(end), number(limit))) {
                out.insert(inclusive.to_owned(), end.clone());
                out.insert(exclusive.to_owned(), true.into());
            } else if let Some(limit) = limit {
                out.insert(inclusive.to_owned(), limit.clone());
            }
        }
        (Some(limit), flag) => {
            out.insert(inclusive.to_owned(), limit.clone());
            if flag == Some(&Value::Bool(true)) {
                out.insert(exclusive.to_owned(), true.into());
            }
        }
        (None, _) => {}
    }
}

/// Converts `default` and `example`, if they match the other keywords; a default of null is
/// dropped.
pub(super) fn default_and_example(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    if let Some(default) = map.get("default").filter(|default| !default.is_null() && fits(default, out)) {
        out.insert("default".to_owned(), default.clone());
    }
    let examples = map.get("examples").and_then(Value::as_array).and_then(|examples| examples.first());
    if let Some(example) = examples.or(map.get("example")).filter(|example| !example.is_null()) {
        out.insert("example".to_owned(), example.clone());
    }
}

/// Returns whether a value has the type and is among the values of a converted schema.
fn fits(value: &Value, schema: &Map<String, Value>) -> bool {
    let is_of_type = match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let values = schema.get("enum").and_then(Value::as_array);
    is_of_type && values.is_none_or(|values| values.contains(value))
}

/// Removes a title that only repeats the name of its property.
pub(super) fn drop_title_like(name: &str, property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    if property.get("title").and_then(Value::as_str).is_some_and(|title| fold(title) == fold(name)) {
        property.shift_remove("title");
    }
}

/// Returns the keywords in their usual order.
pub(super) fn ordered(mut out: Map<String, Value>) -> Map<String, Value> {
    let mut sorted = Map::new();
    for key in ORDER.iter().chain(&["not"]) {
        if let Some(value) = out.remove(*key) {
            sorted.insert((*key).to_owned(), value);
        }
    }
    sorted
}
