//! Parameters and request body of an operation as one object of arguments.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use serde_json::{Map, Value, json};

use super::{
    document::Document,
    schema::{Expander, OverBudget},
};

/// Headers that the client sets, not the caller.
const CLIENT_HEADERS: [&str; 8] = [
    "accept",
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "proxy-authorization",
    "user-agent",
];

/// The name of the argument that is the whole body.
const BODY: &str = "body";

/// Bytes of a parameter's name and of a media type; longer ones are left out. They are copied
/// for every operation that refers to them.
const MAX_KEY_BYTES: usize = 256;

/// Media types of a body that are looked at.
const MAX_MEDIA_TYPES: usize = 32;

/// What an operation takes.
#[derive(Default)]
pub(super) struct Inputs {
    /// In the order of the document.
    parameters: Vec<Parameter>,
    /// Positions by name and `in`.
    positions: HashMap<(String, String), usize>,
    body: Option<Body>,
}

struct Parameter {
    name: String,
    place: String,
    definition: Rc<Value>,
}

struct Body {
    definition: Rc<Value>,
    media_type: String,
}

impl Inputs {
    /// Adds a list of parameters; one of the same name and place as an earlier one replaces it.
    pub(super) fn add_parameters(&mut self, list: &Value, document: &mut Document<'_>) {
        for parameter in list.as_array().into_iter().flatten() {
            let Some(definition) = document.follow(parameter) else { continue };
            let (Some(name), Some(place)) = (definition["name"].as_str(), definition["in"].as_str()) else { continue };
            if name.len() > MAX_KEY_BYTES || is_left_out(place, name, document) {
                continue;
            }
            let key = (name.to_owned(), place.to_owned());
            let parameter = Parameter { name: key.0.clone(), place: key.1.clone(), definition };
            match self.positions.get(&key) {
                Some(at) => self.parameters[*at] = parameter,
                None => {
                    self.positions.insert(key, self.parameters.len());
                    self.parameters.push(parameter);
                }
            }
        }
    }

    /// Sets the request body: its JSON form if it has one, else its first.
    pub(super) fn set_body(&mut self, body: &Value, document: &mut Document<'_>) {
        let Some(body) = document.follow(body) else { return };
        let Some(content) = body["content"].as_object() else { return };
        let is_json = |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json");
        let mut kinds = content.keys().take(MAX_MEDIA_TYPES).filter(|kind| kind.len() <= MAX_KEY_BYTES);
        let media_type = kinds.clone().find(|kind| is_json(kind)).or_else(|| kinds.next()).cloned();
        self.body = media_type.map(|media_type| Body { definition: body, media_type });
    }

    /// The schema of all arguments.
    pub(super) fn to_schema(&self, expander: &mut Expander<'_, '_>) -> Result<Value, OverBudget> {
        let mut arguments = Arguments::default();
        for parameter in &self.parameters {
            let is_required = parameter.place == "path" || parameter.definition["required"] == true;
            let schema = parameter.schema(expander)?;
            let name = arguments.free_name(&parameter.name, &parameter.place);
            expander.charge(2 * name.len() + 8)?;
            arguments.add(name, schema, is_required);
        }
        if let Some(body) = &self.body {
            body.add_to(&mut arguments, expander)?;
        }
        Ok(arguments.into_schema())
    }
}

fn is_left_out(place: &str, name: &str, document: &Document<'_>) -> bool {
    let is_client_header = || CLIENT_HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name));
    !matches!(place, "path" | "query" | "header" | "cookie")
        || (place == "header" && is_client_header())
        || document.is_credential(place, name)
}

impl Parameter {
    fn schema(&self, expander: &mut Expander<'_, '_>) -> Result<Value, OverBudget> {
        let content = || self.definition.get("content")?.as_object()?.values().next()?.get("schema");
        let schema = self.definition.get("schema").or_else(content);
        let expanded = schema.map(|schema| expander.schema(schema, 1)).transpose()?;
        let mut schema = expanded.map(|expanded| expanded.schema).unwrap_or_else(|| json!({}));
        let own = ["description", "deprecated"].into_iter().filter_map(|key| Some((key, self.definition.get(key)?)));
        for (key, value) in own {
            describe(&mut schema, expander.text(key, value)?);
        }
        Ok(schema)
    }
}

/// Adds the keywords beside a reference, which take precedence.
fn describe(schema: &mut Value, texts: Map<String, Value>) {
    if let Value::Object(schema) = schema {
        schema.extend(texts);
    }
}

impl Body {
    /// Adds the properties of the body beside the parameters, or the whole body as one argument
    /// where names clash or it has no properties.
    fn add_to(&self, arguments: &mut Arguments, expander: &mut Expander<'_, '_>) -> Result<(), OverBudget> {
        let schema = &self.definition["content"][&self.media_type]["schema"];
        let mut schema = expander.schema(schema, 0)?.schema;
        let is_required = self.definition["required"] == true;
        if let Some((properties, required)) = parts_of(&mut schema, arguments) {
            for (name, schema) in properties {
                let is_required = is_required && required.contains(&name);
                arguments.add(name, schema, is_required);
            }
            return Ok(());
        }
        if schema.get("description").is_none()
            && let Some(description) = self.definition.get("description")
        {
            describe(&mut schema, expander.text("description", description)?);
        }
        let name = arguments.free_name(BODY, "request");
        arguments.add(name, schema, is_required);
        Ok(())
    }
}

/// The properties of a body and the required ones among them, unless the body is more than its
/// properties or a name is taken.
fn parts_of(body: &mut Value, arguments: &Arguments) -> Option<(Map<String, Value>, HashSet<String>)> {
    let body = body.as_object_mut()?;
    let is_plain = ["oneOf", "anyOf"].into_iter().all(|key| !body.contains_key(key));
    let properties = body.get("properties").and_then(Value::as_object).filter(|_| is_plain)?;
    let is_free = |name: &String| !arguments.properties.contains_key(name);
    if properties.is_empty() || !properties.keys().all(is_free) {
        return None;
    }
    let Some(Value::Object(properties)) = body.remove("properties") else { return None };
    let required = body.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Some((properties, required))
}

#[derive(Default)]
struct Arguments {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Arguments {
    fn add(&mut self, name: String, schema: Value, is_required: bool) {
        if is_required {
            self.required.push(name.clone());
        }
        self.properties.insert(name, schema);
    }

    /// `name`, or `name_place` where another argument has that name already.
    fn free_name(&self, name: &str, place: &str) -> String {
        let mut free = name.to_owned();
        while self.properties.contains_key(&free) {
            free = format!("{free}_{place}");
        }
        free
    }

    fn into_schema(self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }
}
