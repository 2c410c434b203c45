//! The JSON Schema of the configuration file, for editors.

use pegboard_upstream::config::keys::{COMMENT_PREFIXES, Kind, Shape};
use serde_json::{Map, Value, json};

use super::{middleware, root_shape};

/// The schema of the whole file (draft 2020-12), made of the keys that the reader knows.
pub(crate) fn schema() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pegboard configuration",
        "allowComments": true,
        "allowTrailingCommas": true,
    });
    let root = definitions.object(&root_shape());
    definitions.list("middleware", "Steps for lists and calls, in order.", |_| true);
    definitions.list(
        "serverMiddleware",
        "Steps for the lists and calls of one server, in order.",
        middleware::is_for_servers,
    );
    if let (Some(schema), Value::Object(root)) = (schema.as_object_mut(), root) {
        schema.extend(root);
        schema.insert("$defs".to_owned(), definitions.sorted());
    }
    schema
}

/// The objects that the schema refers to by name.
#[derive(Default)]
struct Definitions(Map<String, Value>);

impl Definitions {
    fn kind(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Word => json!({"type": "string", "pattern": r"\S"}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Count { least } => json!({"type": "integer", "minimum": least}),
            Kind::Port => json!({"type": "integer", "minimum": 1, "maximum": 65535}),
            Kind::Share => json!({"type": "number", "minimum": 0, "maximum": 1}),
            Kind::Number => json!({"type": "number"}),
            Kind::Duration { may_be_zero } => time(may_be_zero, 31_536_000),
            Kind::Timeout => time(false, 31_536_000_000),
            Kind::Scalar => json!({"type": ["string", "number", "boolean", "null"]}),
            Kind::Any => json!(true),
            Kind::OneOf(names) => json!({"enum": names}),
            Kind::Shaped { pattern, .. } => json!({"type": "string", "pattern": pattern}),
            Kind::List(item) => json!({"type": "array", "items": self.kind(*item)}),
            Kind::Names => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            Kind::Map(Kind::Any) => json!({"type": "object"}),
            Kind::Map(value) => json!({"type": "object", "additionalProperties": self.kind(*value)}),
            Kind::Either(kinds) => {
                let kinds: Vec<Value> = kinds.iter().map(|kind| self.kind(*kind)).collect();
                json!({"anyOf": kinds})
            }
            Kind::Object(shape) => {
                let shape = shape();
                if !self.0.contains_key(shape.name) {
                    // Put in before its keys are looked at, in case one of them refers to it.
                    self.0.insert(shape.name.to_owned(), Value::Null);
                    let object = self.object(&shape);
                    self.0.insert(shape.name.to_owned(), object);
                }
                reference(shape.name)
            }
            Kind::Elsewhere(name) => reference(name),
        }
    }

    /// An object with known keys. Those of other programs are let through, as are notes.
    fn object(&mut self, shape: &Shape) -> Value {
        let mut properties = Map::new();
        for key in &shape.keys {
            let mut property = self.kind(key.kind);
            if shape.is_null_nothing {
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
        if !shape.needs.is_empty() {
            object["required"] = json!(shape.needs);
        }
        if !shape.needs_one_of.is_empty() {
            let something = if shape.is_null_nothing { json!({"not": {"type": "null"}}) } else { json!(true) };
            let one = |key: &&str| json!({"required": [key], "properties": {*key: something}});
            object["anyOf"] = shape.needs_one_of.iter().map(one).collect();
        }
        object
    }

    /// A list of middleware, whose `config` depends on the type.
    fn list(&mut self, name: &str, about: &str, is_allowed: fn(&middleware::Type) -> bool) {
        let types: Vec<&middleware::Type> = middleware::TYPES.iter().filter(|step| is_allowed(step)).collect();
        let mut entry = self.object(&middleware::entry_shape());
        entry["properties"]["type"]["enum"] = types.iter().map(|step| step.name).collect();
        let rules: Vec<Value> = types.into_iter().map(|step| self.config_of(step)).collect();
        entry["allOf"] = rules.into();
        self.0.insert(name.to_owned(), json!({"type": "array", "description": about, "items": entry}));
    }

    fn config_of(&mut self, step: &middleware::Type) -> Value {
        let config = self.kind(Kind::Object(step.shape));
        let mut then = json!({"properties": {"config": config}});
        if !(step.shape)().needs.is_empty() {
            then["required"] = json!(["config"]);
        }
        json!({"if": {"properties": {"type": {"const": step.name}}, "required": ["type"]}, "then": then})
    }

    fn sorted(mut self) -> Value {
        self.0.sort_keys();
        Value::Object(self.0)
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// A number, or a text with a unit.
fn time(may_be_zero: bool, most: u64) -> Value {
    let lower = if may_be_zero { "minimum" } else { "exclusiveMinimum" };
    let above_zero = if may_be_zero { "" } else { "(?=.*[1-9])" };
    let pattern = format!(r"^{above_zero}\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)\s*$");
    json!({"anyOf": [{"type": "number", lower: 0, "maximum": most}, {"type": "string", "pattern": pattern}]})
}
