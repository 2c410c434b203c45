//! Schemas of a description as plain JSON Schema without references.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{document::Document, prose};

/// Schemas inside schemas that are kept; what lies deeper is described by its type alone.
pub(super) const MAX_LEVELS: usize = 8;

/// `allOf` inside `allOf` and references to references within one level.
const MAX_STEPS: usize = 32;

/// Bytes of one parameter's description.
const MAX_DESCRIPTION_BYTES: usize = 1 << 10;

/// Work for a schema that writes nothing, so that visiting is bounded as well as writing.
const VISIT: usize = 8;

/// A schema is larger than its bounds.
#[derive(Debug)]
pub(super) struct OverBudget;

/// A schema without references.
pub(super) struct Expanded {
    pub(super) schema: Value,
    /// Part of answers only.
    pub(super) is_read_only: bool,
}

/// How a keyword is carried over. Others (`example`, `xml`, `discriminator`, `x-…`) are dropped,
/// and so are `not` and `if`: cut to fewer levels they would refuse what they should accept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// Schemas by name.
    Named,
    /// A list of schemas.
    List,
    /// A schema.
    Single,
    /// A text for people.
    Text,
    /// Names of required properties.
    Required,
    /// Any JSON.
    Plain,
    /// `true`, and later turned into something else.
    Mark,
}

impl Keyword {
    fn of(key: &str) -> Option<Self> {
        Some(match key {
            "properties" | "patternProperties" => Self::Named,
            "oneOf" | "anyOf" | "prefixItems" => Self::List,
            "items" | "additionalProperties" | "contains" | "propertyNames" => Self::Single,
            "title" | "description" => Self::Text,
            "required" => Self::Required,
            "type" | "format" | "enum" | "const" | "default" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength" | "pattern" | "minItems" | "maxItems"
            | "uniqueItems" | "minProperties" | "maxProperties" | "dependentRequired" | "contentEncoding"
            | "contentMediaType" => Self::Plain,
            "readOnly" | "nullable" | "deprecated" => Self::Mark,
            _ => return None,
        })
    }
}

/// Expands schemas within a number of levels and a budget of bytes.
pub(super) struct Expander<'d, 'a> {
    document: &'d mut Document<'a>,
    levels: usize,
    bytes_left: usize,
    /// The references that are being expanded.
    open: Vec<String>,
}

impl<'d, 'a> Expander<'d, 'a> {
    pub(super) fn new(document: &'d mut Document<'a>, levels: usize, bytes: usize) -> Self {
        Self { document, levels, bytes_left: bytes, open: Vec::new() }
    }

    /// The schema `value` at `level`, counted from the outermost.
    pub(super) fn schema(&mut self, value: &Value, level: usize) -> Result<Expanded, OverBudget> {
        let Value::Object(object) = value else {
            self.charge(VISIT)?;
            let schema = if value.is_boolean() { value.clone() } else { Value::Object(Map::new()) };
            return Ok(Expanded { schema, is_read_only: false });
        };
        Ok(finished(self.members(object, level, 0)?))
    }

    /// One text or flag beside a schema, as a keyword of it.
    pub(super) fn text(&mut self, key: &str, value: &Value) -> Result<Map<String, Value>, OverBudget> {
        let mut text = Map::new();
        self.keyword(&mut text, key, value, 0)?;
        Ok(text)
    }

    /// Takes `amount` off the budget.
    pub(super) fn charge(&mut self, amount: usize) -> Result<(), OverBudget> {
        let left = self.bytes_left.checked_sub(amount).ok_or(OverBudget)?;
        self.bytes_left = left;
        if self.document.spend(amount) { Ok(()) } else { Err(OverBudget) }
    }

    /// The keywords of a schema, of what it refers to and of its `allOf`, its own first.
    fn members(
        &mut self,
        object: &Map<String, Value>,
        level: usize,
        steps: usize,
    ) -> Result<Map<String, Value>, OverBudget> {
        self.charge(VISIT)?;
        let mut merged = Map::new();
        for (key, value) in object {
            self.keyword(&mut merged, key, value, level)?;
        }
        if steps >= MAX_STEPS {
            return Ok(merged);
        }
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            merge(&mut merged, self.reference(reference, level, steps)?);
        }
        for member in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.charge(1)?;
            if let Value::Object(member) = member {
                merge(&mut merged, self.members(member, level, steps + 1)?);
            }
        }
        Ok(merged)
    }

    fn reference(&mut self, reference: &str, level: usize, steps: usize) -> Result<Map<String, Value>, OverBudget> {
        self.charge(reference.len())?;
        let Some((pointer, target)) = self.document.resolve(reference) else { return Ok(Map::new()) };
        let Value::Object(target) = &*target else { return Ok(Map::new()) };
        if self.open.contains(&pointer) {
            return self.outline(target);
        }
        self.open.push(pointer);
        let expanded = self.members(target, level, steps + 1);
        self.open.pop();
        expanded
    }

    /// What a schema says without its parts, for one that contains itself.
    fn outline(&mut self, object: &Map<String, Value>) -> Result<Map<String, Value>, OverBudget> {
        let mut outline = Map::new();
        for (key, value) in object {
            self.keyword(&mut outline, key, value, self.levels)?;
        }
        Ok(outline)
    }

    fn keyword(
        &mut self,
        into: &mut Map<String, Value>,
        key: &str,
        value: &Value,
        level: usize,
    ) -> Result<(), OverBudget> {
        self.charge(1)?;
        let Some(keyword) = Keyword::of(key) else { return Ok(()) };
        // Required names and closed objects would be wrong without the properties.
        let needs_parts = matches!(keyword, Keyword::Named | Keyword::List | Keyword::Single | Keyword::Required);
        if needs_parts && level >= self.levels {
            return Ok(());
        }
        self.charge(key.len() + 4)?;
        let carried = match (keyword, value) {
            (Keyword::Named, Value::Object(schemas)) => Some(self.named(schemas, level)?),
            (Keyword::List, Value::Array(schemas)) => Some(self.list(schemas, level)?),
            (Keyword::Single, Value::Object(_) | Value::Bool(_)) => {
                let schema = self.schema(value, level + 1)?.schema;
                // Every object accepts further properties unless it says otherwise.
                let is_default = schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty);
                (key != "additionalProperties" || !is_default).then_some(schema)
            }
            (Keyword::Text, Value::String(text)) => {
                self.charge(text.len().min(4 * MAX_DESCRIPTION_BYTES))?;
                Some(prose::plain(text, MAX_DESCRIPTION_BYTES)).filter(|text| !text.is_empty()).map(Value::String)
            }
            (Keyword::Required, Value::Array(names)) => Some(self.names(names)?),
            (Keyword::Mark, Value::Bool(true)) => Some(Value::Bool(true)),
            (Keyword::Plain, value) => {
                self.charge_value(value)?;
                Some(value.clone())
            }
            _ => None,
        };
        if let Some(carried) = carried {
            into.insert(key.to_owned(), carried);
        }
        Ok(())
    }

    fn named(&mut self, schemas: &Map<String, Value>, level: usize) -> Result<Value, OverBudget> {
        let mut named = Map::new();
        for (name, schema) in schemas {
            self.charge(name.len() + 4)?;
            let expanded = self.schema(schema, level + 1)?;
            if !expanded.is_read_only {
                named.insert(name.clone(), expanded.schema);
            }
        }
        Ok(Value::Object(named))
    }

    fn list(&mut self, schemas: &[Value], level: usize) -> Result<Value, OverBudget> {
        let schemas: Result<Vec<Value>, OverBudget> =
            schemas.iter().map(|schema| Ok(self.schema(schema, level + 1)?.schema)).collect();
        schemas.map(Value::Array)
    }

    fn names(&mut self, names: &[Value]) -> Result<Value, OverBudget> {
        let mut texts = Vec::new();
        for name in names {
            self.charge_value(name)?;
            if name.is_string() {
                texts.push(name.clone());
            }
        }
        Ok(Value::Array(texts))
    }

    fn charge_value(&mut self, value: &Value) -> Result<(), OverBudget> {
        match value {
            Value::String(text) => self.charge(text.len() + 3),
            Value::Array(items) => {
                self.charge(3)?;
                items.iter().try_for_each(|item| self.charge_value(item))
            }
            Value::Object(map) => {
                self.charge(3)?;
                map.iter().try_for_each(|(key, value)| {
                    self.charge(key.len() + 4)?;
                    self.charge_value(value)
                })
            }
            _ => self.charge(4),
        }
    }
}

/// Adds what `from` says beyond `into`: properties and required names of both, and of all
/// other keywords the first.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (None, value) => {
                into.insert(key, value);
            }
            (Some(Value::Object(own)), Value::Object(others)) if key == "properties" => merge_properties(own, others),
            (Some(Value::Array(own)), Value::Array(others)) if key == "required" => own.extend(others),
            _ => {}
        }
    }
}

fn merge_properties(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, schema) in from {
        match (into.get_mut(&name), schema) {
            (Some(Value::Object(own)), Value::Object(other)) => merge(own, other),
            (Some(_), _) => {}
            (None, schema) => {
                into.insert(name, schema);
            }
        }
    }
}

/// Turns what only OpenAPI 3.0 says into JSON Schema, once all members are merged.
fn finished(mut schema: Map<String, Value>) -> Expanded {
    let is_read_only = schema.remove("readOnly").is_some();
    if schema.remove("nullable").is_some() {
        allow_null(&mut schema);
    }
    exclude(&mut schema, "exclusiveMinimum", "minimum");
    exclude(&mut schema, "exclusiveMaximum", "maximum");
    if schema.contains_key("description") {
        schema.remove("title");
    }
    keep_known_names(&mut schema);
    Expanded { schema: Value::Object(schema), is_read_only }
}

fn allow_null(schema: &mut Map<String, Value>) {
    match schema.get_mut("type") {
        Some(Value::Array(names)) if !names.iter().any(|name| name == "null") => names.push(Value::from("null")),
        Some(name) if name.is_string() && name != "null" => *name = json!([name.take(), "null"]),
        Some(_) => {}
        None => {
            let key = if schema.contains_key("oneOf") { "oneOf" } else { "anyOf" };
            if let Some(Value::Array(branches)) = schema.get_mut(key) {
                branches.push(json!({"type": "null"}));
            }
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.iter().any(Value::is_null)
    {
        values.push(Value::Null);
    }
}

/// `"minimum": 1, "exclusiveMinimum": true` is `"exclusiveMinimum": 1` since OpenAPI 3.1.
fn exclude(schema: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    if let Some(Value::Bool(is_exclusive)) = schema.get(exclusive) {
        let is_exclusive = *is_exclusive;
        schema.remove(exclusive);
        if is_exclusive && let Some(bound) = schema.remove(inclusive) {
            schema.insert(exclusive.to_owned(), bound);
        }
    }
}

/// Drops required names of properties that were left out, and names that are said twice.
fn keep_known_names(schema: &mut Map<String, Value>) {
    let Some(Value::Array(mut names)) = schema.remove("required") else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut seen = HashSet::new();
    names.retain(|name| {
        let Some(name) = name.as_str() else { return false };
        properties.is_none_or(|properties| properties.contains_key(name)) && seen.insert(name.to_owned())
    });
    if !names.is_empty() {
        schema.insert("required".to_owned(), Value::Array(names));
    }
}
