//! JSON Schemas made from tables of keys.

use serde_json::{Map, Value, json};

use crate::keys::{COMMENT_PREFIXES, Kind, Shape};

/// The objects that a schema refers to by name (`$defs`).
#[derive(Debug, Default)]
pub struct Definitions(Map<String, Value>);

impl Definitions {
    /// Returns the schema of values of a kind, and defines the objects in it.
    pub fn kind_schema(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Word => json!({"type": "string", "pattern": r"\S"}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Count { least } => json!({"type": "integer", "minimum": least}),
            Kind::Port => json!({"type": "integer", "minimum": 1, "maximum": 65535}),
            Kind::Share => json!({"type": "number", "minimum": 0, "maximum": 1}),
            Kind::Number => json!({"type": "number"}),
            Kind::Duration { may_be_zero } => duration_schema(may_be_zero, 31_536_000),
            Kind::Timeout => duration_schema(false, 31_536_000_000),
            Kind::Scalar => json!({"type": ["string", "number", "boolean", "null"]}),
            Kind::Any => json!(true),
            Kind::OneOf(names) => json!({"enum": names}),
            Kind::Shaped { pattern, .. } => json!({"type": "string", "pattern": pattern}),
            Kind::List(item) => json!({"type": "array", "items": self.kind_schema(*item)}),
            Kind::Names => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            Kind::Map(Kind::Any) => json!({"type": "object"}),
            Kind::Map(value) => json!({"type": "object", "additionalProperties": self.kind_schema(*value)}),
            Kind::Either(kinds) => {
                let kinds: Vec<Value> = kinds.iter().map(|kind| self.kind_schema(*kind)).collect();
                json!({"anyOf": kinds})
            }
            Kind::Object(shape) => {
                let shape = shape();
                if !self.0.contains_key(shape.name) {
                    // Inserted before its keys are read, in case one of them refers to it.
                    self.0.insert(shape.name.to_owned(), Value::Null);
                    let object = self.object_schema(&shape);
                    self.0.insert(shape.name.to_owned(), object);
                }
                reference(shape.name)
            }
            Kind::Reference(name) => reference(name),
        }
    }

    /// Returns the schema of an object with known keys. Keys of other programs and comments are allowed.
    pub fn object_schema(&mut self, shape: &Shape) -> Value {
        let mut properties = Map::new();
        for key in &shape.keys {
            let mut property = self.kind_schema(key.kind);
            if shape.is_null_missing {
                property = json!({"anyOf": [property, {"type": "null"}]});
            }
            if let Some(property) = property.as_object_mut() {
                property.insert("description".to_owned(), key.help.into());
                // Tables are tested to hold JSON.
                let default = key.default.and_then(|default| serde_json::from_str(default).ok());
                property.extend(default.map(|default: Value| ("default".to_owned(), default)));
            }
            properties.insert(key.name.to_owned(), property);
        }
        properties.extend(shape.ignored.iter().map(|key| ((*key).to_owned(), json!(true))));
        let mut object = json!({"type": "object", "description": shape.about, "properties": properties});
        if !shape.is_open {
            let notes = format!("^({})", COMMENT_PREFIXES.join("|"));
            object["patternProperties"] = json!({notes: true});
            object["additionalProperties"] = json!(false);
        }
        if !shape.required.is_empty() {
            object["required"] = json!(shape.required);
        }
        if !shape.required_one_of.is_empty() {
            let something = if shape.is_null_missing { json!({"not": {"type": "null"}}) } else { json!(true) };
            let one = |key: &&str| json!({"required": [key], "properties": {*key: something}});
            object["anyOf"] = shape.required_one_of.iter().map(one).collect();
        }
        object
    }

    /// Adds a definition that other schemas refer to by `name`.
    pub fn insert(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    /// Returns all definitions, by name.
    pub fn into_sorted(mut self) -> Value {
        self.0.sort_keys();
        Value::Object(self.0)
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// Returns the schema of a duration: a number, or a string with a unit.
fn duration_schema(may_be_zero: bool, most: u64) -> Value {
    let lower = if may_be_zero { "minimum" } else { "exclusiveMinimum" };
    let above_zero = if may_be_zero { "" } else { "(?=.*[1-9])" };
    let pattern = format!(r"^{above_zero}\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)\s*$");
    json!({"anyOf": [{"type": "number", lower: 0, "maximum": most}, {"type": "string", "pattern": pattern}]})
}
