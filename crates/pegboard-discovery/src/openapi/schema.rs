//! JSON Schema as the schema objects of OpenAPI 3.0.
//!
//! Upstream schemas may be anything up to draft 2020-12, and hostile. What OpenAPI 3.0
//! cannot say is left out: the result is for reading, and servers check by the original.

mod cycles;
mod keywords;
mod references;

use serde_json::{Map, Value, json};

use self::{keywords::Types, references::References};

/// Limits of a converted schema; parts beyond them allow anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchemaLimits {
    /// Schemas within each other.
    pub(super) depth: usize,
    /// Schemas, properties and values in all.
    pub(super) nodes: usize,
}

/// Maximum number of characters of a description.
const MAX_DESCRIPTION: usize = 2000;

/// Maximum number of bytes of a pattern; longer ones are dropped.
const MAX_PATTERN: usize = 1000;

/// Converts a tool's schema. Referenced schemas are added to `components`, with names that start
/// with `owner`.
pub(super) fn convert(schema: &Value, owner: &str, limits: SchemaLimits, components: &mut Map<String, Value>) -> Value {
    let mut converter = Converter { references: References::new(schema, owner, components), limits, nodes: 0 };
    let mut converted = converter.schema(schema, 0);
    while let Some((target, name)) = converter.references.next() {
        let component = converter.schema(target, 0);
        converter.references.define(name, component);
    }
    let added = converter.references.into_names();
    cycles::cut(&added, components);
    if let Some(root) = converted.as_object_mut() {
        // It only repeats the tool's name.
        root.shift_remove("title");
    }
    converted
}

struct Converter<'a> {
    references: References<'a>,
    limits: SchemaLimits,
    nodes: usize,
}

impl Converter<'_> {
    /// Takes one unit off the budget; `false` if it is used up.
    fn take(&mut self) -> bool {
        self.nodes += 1;
        self.nodes <= self.limits.nodes
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        if depth >= self.limits.depth || !self.take() {
            return json!({});
        }
        match schema {
            Value::Bool(false) => json!({"not": {}}),
            Value::Object(map) => self.object(map, depth),
            _ => json!({}),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, depth: usize) -> Value {
        let target = map.get("$ref").and_then(Value::as_str);
        let reference = target.and_then(|target| self.references.component(target));
        let mut out = Map::new();
        let mut types = Types::of(map);
        keywords::texts(map, &mut out);
        self.values(map, &mut out, &mut types);
        keywords::bounds(map, &mut out);
        self.properties(map, &mut out, depth);
        let items = self.items(map, depth);
        let mut all = Vec::new();
        all.extend(reference);
        all.extend(self.list(map, "allOf", depth));
        self.alternatives(map, &mut out, &mut types, &mut all, depth);
        if let Some(not) = map.get("not") {
            let not = self.schema(not, depth + 1);
            // Nothing is left of what was forbidden: then nothing is forbidden.
            if not.as_object().is_some_and(|not| !not.is_empty()) {
                out.insert("not".to_owned(), not);
            }
        }
        types.write(items, &mut out, &mut all);
        keywords::default_and_example(map, &mut out);
        if out.is_empty() && all.len() == 1 {
            return all.remove(0);
        }
        if !all.is_empty() {
            out.insert("allOf".to_owned(), all.into());
        }
        Value::Object(keywords::ordered(out))
    }

    /// Converts `enum` and `const`.
    fn values(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, types: &mut Types) {
        let values: Vec<Value> = match (map.get("const"), map.get("enum")) {
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) => values.clone(),
            _ => return,
        };
        // A list that is cut would forbid the rest.
        if values.is_empty() || !values.iter().all(|_| self.take()) {
            return;
        }
        types.is_nullable |= values.contains(&Value::Null);
        out.insert("enum".to_owned(), values.into());
    }

    fn properties(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        let mut properties = Map::new();
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if self.nodes >= self.limits.nodes {
                break;
            }
            let mut property = self.schema(schema, depth + 1);
            keywords::drop_title_like(name, &mut property);
            properties.insert(name.clone(), property);
        }
        let mut required: Vec<Value> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let names = map.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in names.filter_map(Value::as_str) {
            if !seen.insert(name) || (!properties.contains_key(name) && !self.take()) {
                continue;
            }
            // What is required must be there to be read about.
            properties.entry(name).or_insert_with(|| json!({}));
            required.push(name.into());
        }
        let has_patterns = map.get("patternProperties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        let was_cut = self.nodes >= self.limits.nodes;
        match map.get("additionalProperties") {
            // Closed but for patterns that cannot be told, or for properties that were cut.
            Some(Value::Bool(false)) if !has_patterns && !was_cut => {
                out.insert("additionalProperties".to_owned(), false.into());
            }
            Some(schema @ Value::Object(_)) if !has_patterns => {
                let schema = self.schema(schema, depth + 1);
                out.insert("additionalProperties".to_owned(), schema);
            }
            _ => {}
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), properties.into());
        }
        if !required.is_empty() {
            out.insert("required".to_owned(), required.into());
        }
    }

    /// Converts the items of an array. A tuple becomes a choice: OpenAPI 3.0 has no positions.
    fn items(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let tuple = map.get("prefixItems").or(map.get("items")).and_then(Value::as_array);
        let Some(tuple) = tuple else {
            return map.get("items").map(|items| self.schema(items, depth + 1));
        };
        let rest = match map.get("prefixItems") {
            Some(_) => map.get("items"),
            None => map.get("additionalItems"),
        };
        let mut choices: Vec<Value> = Vec::new();
        for schema in tuple.iter().chain(rest.filter(|rest| rest.is_object())) {
            let choice = self.schema(schema, depth + 2);
            if !choices.contains(&choice) {
                choices.push(choice);
            }
            if choices.len() > MAX_CHOICES {
                return Some(json!({}));
            }
        }
        Some(match choices.len() {
            0 => json!({}),
            1 => choices.remove(0),
            _ if choices.contains(&json!({})) => json!({}),
            _ => json!({"anyOf": choices}),
        })
    }

    /// Converts the schemas of `allOf`, `anyOf` or `oneOf`.
    fn list(&mut self, map: &Map<String, Value>, key: &str, depth: usize) -> Vec<Value> {
        let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
        let mut converted = Vec::new();
        for schema in list.filter(|schema| !is_null_type(schema)) {
            if self.nodes >= self.limits.nodes {
                // A choice that is cut would forbid the rest.
                return if key == "allOf" { converted } else { vec![json!({})] };
            }
            converted.push(self.schema(schema, depth + 1));
        }
        converted
    }

    /// Converts `anyOf` and `oneOf`; an alternative that is null becomes `nullable`.
    fn alternatives(
        &mut self,
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
        types: &mut Types,
        all: &mut Vec<Value>,
        depth: usize,
    ) {
        for key in ["anyOf", "oneOf"] {
            let Some(given) = map.get(key).and_then(Value::as_array) else { continue };
            let has_null = given.iter().any(is_null_type);
            let mut choices = self.list(map, key, depth);
            if choices.len() < 2 {
                types.is_nullable |= has_null;
                types.is_null_only |= has_null && choices.is_empty();
                if let Some(Value::Object(only)) = choices.pop() {
                    types.merge(only, out, all);
                }
                continue;
            }
            if has_null {
                // It counts only beside a type.
                match choices.iter_mut().find(|choice| choice.get("type").is_some()) {
                    Some(typed) => typed["nullable"] = true.into(),
                    None => types.is_nullable = true,
                }
            }
            out.insert(key.to_owned(), choices.into());
        }
    }
}

/// Maximum number of different items of a tuple.
const MAX_CHOICES: usize = 50;

fn is_null_type(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").and_then(Value::as_array).is_some_and(|values| matches!(&values[..], [Value::Null]))
}

#[cfg(test)]
mod tests;
