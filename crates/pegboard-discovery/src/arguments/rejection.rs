//! The error text of a call with invalid arguments.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    CalledAs, Mistake, Schema,
    verdict::{SchemaCheck, Verdict},
};

/// Maximum number of bytes of a schema in the text.
const MAX_SCHEMA: usize = 6000;

/// Maximum number of bytes of a given value that an example repeats.
const MAX_ECHOED_VALUE: usize = 400;
/// Maximum number of bytes of an example.
const MAX_EXAMPLE: usize = 2000;

/// Maximum depth of an example.
const DEPTH: usize = 4;

/// Keywords that do not restrict values.
const FOR_PEOPLE: [&str; 8] =
    ["description", "title", "examples", "example", "$comment", "$schema", "deprecated", "default"];

/// Writes all that helps to correct the call: the mistakes, the schema and an example.
pub(super) fn write_rejection(
    schema: Option<&Schema>,
    given: &Value,
    mistakes: &[Mistake],
    call: &CalledAs<'_>,
) -> String {
    let mistakes_listed: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let mut text = format!("`{}` was not called: {}", call.name, mistakes_listed.join("; "));
    let Some(schema) = schema else { return text };
    text.push_str(&format!("\nschema: {}", shorten_schema(&schema.root, mistakes)));
    let arguments =
        Example { check: SchemaCheck::new(schema), schema, left: MAX_EXAMPLE }.corrected(&schema.root, given, DEPTH);
    let example = if call.is_wrapped { json!({"name": call.name, "arguments": arguments}) } else { arguments };
    let example = example.to_string();
    if example.len() <= MAX_EXAMPLE {
        text.push_str(&format!("\nfor example: {example}"));
    }
    text
}

/// Returns the schema unchanged if it is short, else without annotations, else only the properties
/// with mistakes.
fn shorten_schema(schema: &Value, mistakes: &[Mistake]) -> String {
    let whole = schema.to_string();
    if whole.len() <= MAX_SCHEMA {
        return whole;
    }
    let bare = without_annotations(schema);
    let text = bare.to_string();
    if text.len() <= MAX_SCHEMA {
        return text;
    }
    let mut part = Map::new();
    let concerned = |name: &str| mistakes.iter().any(|mistake| first_step(&mistake.pointer) == Some(name));
    let mut left = MAX_SCHEMA;
    let mut properties = Map::new();
    for (name, property) in bare.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let size = name.len() + property.to_string().len() + 4;
        if concerned(name) && size < left {
            left -= size;
            properties.insert(name.clone(), property.clone());
        }
    }
    part.insert("properties".to_owned(), Value::Object(properties));
    let required = bare.get("required").filter(|required| required.to_string().len() < left);
    if let Some(required) = required {
        part.insert("required".to_owned(), required.clone());
    }
    format!("(excerpt; {} bytes in total) {}", whole.len(), Value::Object(part))
}

/// Returns the name of the property that a pointer begins with.
fn first_step(pointer: &str) -> Option<&str> {
    pointer.strip_prefix('/')?.split('/').next()
}

/// Returns a schema without keywords that do not restrict values.
fn without_annotations(schema: &Value) -> Value {
    match schema {
        Value::Object(rules) => {
            let kept = rules.iter().filter(|(key, _)| !FOR_PEOPLE.contains(&key.as_str()));
            let pairs = kept.map(|(key, rule)| {
                let rule = match (key.as_str(), rule) {
                    // Names of their own, whatever they are.
                    ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                        named.iter().map(|(name, rule)| (name.clone(), without_annotations(rule))).collect()
                    }
                    ("enum" | "const" | "required", rule) => rule.clone(),
                    (_, rule) => without_annotations(rule),
                };
                (key.clone(), rule)
            });
            pairs.collect()
        }
        Value::Array(list) => list.iter().map(without_annotations).collect(),
        other => other.clone(),
    }
}

/// An example under construction. A few lines of a schema can describe millions of values, so the
/// size is counted.
struct Example<'a> {
    check: SchemaCheck<'a>,
    schema: &'a Schema,
    /// Bytes that may still be written, roughly.
    left: usize,
}

impl Example<'_> {
    /// Returns the given arguments with missing values filled in and invalid ones replaced.
    fn corrected(&mut self, rules: &Value, given: &Value, depth: usize) -> Value {
        let mut arguments = Map::new();
        let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
        for (name, property) in rules.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if self.left == 0 {
                break;
            }
            let value = given.get(name);
            let fits = |value: &&Value| is_short(value) && self.check.check(property, value) != Verdict::No;
            match value.filter(fits) {
                Some(value) => {
                    self.left = self.left.saturating_sub(name.len() + 2);
                    arguments.insert(name.clone(), value.clone());
                }
                None if required.contains(name.as_str()) || value.is_some() => {
                    self.left = self.left.saturating_sub(name.len() + 2);
                    arguments.insert(name.clone(), self.placeholder(property, depth));
                }
                None => {}
            }
        }
        Value::Object(arguments)
    }

    /// Returns a value that is valid according to the type of a schema.
    fn placeholder(&mut self, rules: &Value, depth: usize) -> Value {
        let first = |key: &str| rules.get(key).and_then(|list| list.get(0));
        let given = rules.get("const").or(first("enum")).or(rules.get("default")).or(first("examples"));
        if let Some(value) = given.filter(|value| is_short(value)) {
            return value.clone();
        }
        self.left = self.left.saturating_sub(1);
        if depth == 0 || self.left == 0 {
            return Value::Null;
        }
        let target = rules.get("$ref").and_then(Value::as_str).and_then(|reference| self.schema.target(reference));
        if let Some(inner) = target.or(first("anyOf")).or(first("oneOf")).or(first("allOf")) {
            return self.placeholder(inner, depth - 1);
        }
        let kind = match rules.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
            None if rules.get("properties").is_some() => "object",
            _ => "string",
        };
        match kind {
            "integer" | "number" => rules.get("minimum").cloned().unwrap_or(json!(1)),
            "boolean" => json!(true),
            "array" => json!([self.placeholder(rules.get("items").unwrap_or(&Value::Null), depth - 1)]),
            "object" => self.corrected(rules, &json!({}), depth - 1),
            "null" => Value::Null,
            _ => json!("…"),
        }
    }
}

/// Returns whether a value is short enough to be repeated; a long one is not serialized to find
/// out.
fn is_short(value: &Value) -> bool {
    let pieces = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(object) => object.len(),
        _ => 0,
    };
    pieces <= MAX_ECHOED_VALUE && value.to_string().len() <= MAX_ECHOED_VALUE
}
