//! The arguments of a call.

use serde_json::{Map, Value};

use super::world::{MAX_TEXT, ToolError, shorten};

/// Arguments that fit their tool's schema, with its defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Arguments(pub(super) Map<String, Value>);

impl Arguments {
    /// Checks `given` against `schema`; the error names all mistakes.
    pub(super) fn check(schema: &Value, given: Map<String, Value>) -> Result<Self, ToolError> {
        let mut problems = Vec::new();
        let mut given = Value::Object(given);
        check(schema, &given, "", &mut problems);
        let known = schema["properties"].as_object().cloned().unwrap_or_default();
        for name in given.as_object().into_iter().flat_map(Map::keys).filter(|name| !known.contains_key(*name)) {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            problems.push(format!("unknown argument `{}`; known: {}", shorten(name), names.join(", ")));
        }
        if !problems.is_empty() {
            return Err(problems.join("; ").into());
        }
        let mut arguments = Map::new();
        // In the order of the schema, because earlier arguments may decide what later ones refer
        // to.
        for (name, property) in &known {
            let value = if given[name].is_null() { property["default"].clone() } else { given[name].take() };
            if !value.is_null() {
                arguments.insert(name.clone(), value);
            }
        }
        Ok(Self(arguments))
    }

    /// Returns the text under `name`; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns whether there is anything under `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the number under `name`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    /// Returns the whole number under `name`.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        let number = self.0.get(name)?;
        number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))
    }

    /// Returns whether the flag `name` is set.
    pub(super) fn is(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the list under `name`; empty if there is none.
    pub(super) fn list(&self, name: &str) -> &[Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the texts in the list under `name`.
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        self.list(name).iter().filter_map(Value::as_str).collect()
    }

    /// Returns the value under `name`; null if there is none.
    pub(super) fn value(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// Sets the argument `name`.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Removes and returns the argument `name`.
    pub(super) fn take(&mut self, name: &str) -> Value {
        self.0.shift_remove(name).unwrap_or_default()
    }
}

/// Checks a value against the part of JSON Schema that the demo's tools use.
fn check(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    let name = if path.is_empty() { "the arguments" } else { path };
    if let Some(kind) = schema["type"].as_str().filter(|kind| !is_of(kind, value)) {
        problems.push(format!("`{name}` must be of type {kind}"));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        problems.push(format!("`{name}` must be one of {}", Value::from(allowed.clone())));
    }
    check_size(schema, value, name, problems);
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value[key].is_null() {
            problems.push(format!("the required argument `{}` is missing", below(key)));
        }
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        if !value[key].is_null() {
            check(schema, &value[key], &below(key), problems);
        }
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        check(&schema["items"], item, &format!("{path}[]"), problems);
    }
}

fn check_size(schema: &Value, value: &Value, name: &str, problems: &mut Vec<String>) {
    let number = value.as_f64();
    let length = value.as_str().map(|text| text.chars().count()).or_else(|| value.as_array().map(Vec::len));
    let length = length.map(|length| length as f64);
    let limits = [
        ("minimum", number, "at least"),
        ("maximum", number, "at most"),
        ("minLength", length, "of length at least"),
        ("maxLength", length, "of length at most"),
        ("minItems", length, "of length at least"),
        ("maxItems", length, "of length at most"),
    ];
    for (keyword, found, words) in limits {
        let (Some(limit), Some(found)) = (schema[keyword].as_f64(), found) else { continue };
        if if keyword.starts_with("min") { found < limit } else { found > limit } {
            problems.push(format!("`{name}` must be {words} {limit}"));
        }
    }
    if schema["exclusiveMinimum"].as_f64().zip(number).is_some_and(|(limit, found)| found <= limit) {
        problems.push(format!("`{name}` must be greater than {}", schema["exclusiveMinimum"]));
    }
    if value.as_str().is_some_and(|text| text.len() > MAX_TEXT) {
        problems.push(format!("`{name}` is longer than the demo's {MAX_TEXT} bytes"));
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}
