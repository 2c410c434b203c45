//! The JSON Schema of the configuration file, for editors.

use pegboard_config::{keys::Kind, schema::Definitions};
use serde_json::{Value, json};

use super::{middleware, root_shape};

/// Returns the schema of the whole file (draft 2020-12), made of the keys that the reader knows.
pub(crate) fn schema() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pegboard configuration",
        "allowComments": true,
        "allowTrailingCommas": true,
    });
    let root = definitions.object_schema(&root_shape());
    define_list(&mut definitions, "middleware", "Steps for lists and calls, in order.", |_| true);
    define_list(
        &mut definitions,
        "serverMiddleware",
        "Steps for the lists and calls of one server, in order.",
        middleware::is_for_servers,
    );
    if let (Some(schema), Value::Object(root)) = (schema.as_object_mut(), root) {
        schema.extend(root);
        schema.insert("$defs".to_owned(), definitions.into_sorted());
    }
    schema
}

/// Defines a middleware list, whose `config` depends on the type.
fn define_list(definitions: &mut Definitions, name: &str, about: &str, is_allowed: fn(&middleware::Type) -> bool) {
    let types: Vec<&middleware::Type> = middleware::TYPES.iter().filter(|step| is_allowed(step)).collect();
    let mut entry = definitions.object_schema(&middleware::entry_shape());
    entry["properties"]["type"]["enum"] = types.iter().map(|step| step.name).collect();
    let rules: Vec<Value> = types.into_iter().map(|step| config_of(definitions, step)).collect();
    entry["allOf"] = rules.into();
    definitions.insert(name, json!({"type": "array", "description": about, "items": entry}));
}

fn config_of(definitions: &mut Definitions, step: &middleware::Type) -> Value {
    let config = definitions.kind_schema(Kind::Object(step.shape));
    let mut then = json!({"properties": {"config": config}});
    if !(step.shape)().required.is_empty() {
        then["required"] = json!(["config"]);
    }
    json!({"if": {"properties": {"type": {"const": step.name}}, "required": ["type"]}, "then": then})
}
