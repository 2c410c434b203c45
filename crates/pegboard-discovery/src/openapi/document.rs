//! The OpenAPI document of one server's tools.

use pegboard_core::{Tool, text::excerpt};
use serde_json::{Map, Value, json};

use super::{
    ApiServer, UniqueNames, identifier, path_of,
    schema::{self, SchemaLimits},
    yaml,
};
use crate::{
    host::code::{TOKEN_VARIABLE, URL_VARIABLE},
    prompt::one_line,
    tokens::estimate_tokens,
};

/// The limits of schemas, tried in this order: without shortage, and for a single tool that is too
/// large.
const SCHEMA_LIMITS: [SchemaLimits; 3] = [
    SchemaLimits { depth: 24, nodes: 5000 },
    SchemaLimits { depth: 6, nodes: 400 },
    SchemaLimits { depth: 3, nodes: 60 },
];

/// Maximum number of bytes of a schema that is parsed.
const MAX_SCHEMA_BYTES: usize = 1 << 20;

/// Maximum number of characters of a tool's summary.
const MAX_SUMMARY: usize = 120;

/// Maximum number of characters of the description of a tool or a server.
const MAX_DESCRIPTION: usize = 4000;

/// Maximum number of characters of an operation's identifier, before its unique suffix.
const MAX_IDENTIFIER: usize = 96;

/// Returns the document for all tools of `server`, or for `only` one, in at most about
/// `max_tokens`.
pub(super) fn write(server: &ApiServer<'_>, only: Option<&Tool>, max_tokens: usize) -> String {
    // The identifier of a tool is the same in a document of one tool and of all tools.
    let mut names = UniqueNames::default();
    let named: Vec<(&Tool, String)> = server
        .tools
        .iter()
        .map(|tool| {
            let name = identifier(tool.bare_name(), MAX_IDENTIFIER);
            (&***tool, names.take(if name.is_empty() { "tool" } else { &name }))
        })
        .collect();
    match only {
        Some(only) => {
            let one: Vec<(&Tool, String)> = named.into_iter().filter(|(tool, _)| std::ptr::eq(*tool, only)).collect();
            let fitting = SCHEMA_LIMITS.iter().find_map(|limits| in_full(server, &one, *limits, max_tokens));
            fitting.unwrap_or_else(|| in_short(server, &one, true, max_tokens))
        }
        None => in_full(server, &named, SCHEMA_LIMITS[0], max_tokens)
            .unwrap_or_else(|| in_short(server, &named, false, max_tokens)),
    }
}

/// Returns the document with the parameters of every tool, if that fits.
fn in_full(
    server: &ApiServer<'_>,
    tools: &[(&Tool, String)],
    limits: SchemaLimits,
    max_tokens: usize,
) -> Option<String> {
    let mut schemas = reply_schemas();
    let mut paths = Map::new();
    let mut tokens = 0;
    for (tool, name) in tools {
        let known = schemas.len();
        let operation = operation(tool, name, limits, &mut schemas);
        let new = schemas.iter().skip(known).map(|(_, schema)| estimate_tokens(&yaml::write(schema)));
        tokens += estimate_tokens(&yaml::write(&operation)) + new.sum::<usize>();
        if tokens > max_tokens {
            return None;
        }
        paths.insert(path_of(tool.server_name(), tool.bare_name()), json!({"post": operation}));
    }
    let text = document(server, "", paths, schemas, false);
    (estimate_tokens(&text) <= max_tokens).then_some(text)
}

/// Returns the document with paths and summaries; if that is too much as well, the last tools are
/// only named.
fn in_short(server: &ApiServer<'_>, tools: &[(&Tool, String)], is_one: bool, max_tokens: usize) -> String {
    let note = if is_one { TOO_LARGE } else { TOO_MANY };
    let operations: Vec<(String, Value, usize)> = tools
        .iter()
        .map(|(tool, name)| {
            let path = path_of(tool.server_name(), tool.bare_name());
            let operation = json!({"post": short_operation(tool, name)});
            let tokens = estimate_tokens(&path) + estimate_tokens(&yaml::write(&operation)) + 2;
            (path, operation, tokens)
        })
        .collect();
    let around = estimate_tokens(&document(server, note, Map::new(), reply_schemas(), true));
    let all: usize = operations.iter().map(|(_, _, tokens)| tokens).sum();
    // A name takes far less than a path with its summary.
    let for_names = if around + all > max_tokens { max_tokens / 4 } else { 0 };
    let mut left = max_tokens.saturating_sub(around + for_names);
    let mut paths = Map::new();
    for (path, operation, tokens) in operations {
        // The first is always told: it may be the one that was asked for.
        if tokens > left && !paths.is_empty() {
            break;
        }
        left = left.saturating_sub(tokens);
        paths.insert(path, operation);
    }
    let unlisted: Vec<&str> = tools.iter().skip(paths.len()).map(|(tool, _)| tool.bare_name()).collect();
    document(server, &format!("{note}{}", also(&unlisted, for_names)), paths, reply_schemas(), true)
}

const TOO_LARGE: &str = "The parameters are omitted because there are too many; any object is accepted.";

const TOO_MANY: &str =
    "The parameters are omitted because there are many tools: get the spec of the tool that you need with `tool_name`.";

/// Returns the names of further tools, as many as fit.
fn also(names: &[&str], max_tokens: usize) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut text = " Other tools: ".to_owned();
    let mut tokens = 0;
    for (at, name) in names.iter().enumerate() {
        let name = one_line(name);
        tokens += estimate_tokens(&name) + 2;
        if tokens > max_tokens {
            text.push_str(&format!("and {} more", names.len() - at));
            return text;
        }
        text.push_str(&name);
        text.push_str(if at + 1 < names.len() { ", " } else { "." });
    }
    text
}

fn document(
    server: &ApiServer<'_>,
    note: &str,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    has_any_arguments: bool,
) -> String {
    let how = format!(
        "Paths are relative to the value of the environment variable {URL_VARIABLE}. Send the value of \
         {TOKEN_VARIABLE} as the bearer token, and the arguments of the tool as the JSON object of a POST."
    );
    let about = excerpt(server.description.trim(), MAX_DESCRIPTION);
    let texts = [&*about, &how, note].into_iter().filter(|text| !text.is_empty());
    let description = texts.collect::<Vec<_>>().join("\n\n");
    let mut components = json!({
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "responses": {
            "Done": response("The tool was called; `success` is true if the call succeeded.", &json!({"$ref": REPLY})),
            "Denied": response("The token is missing or wrong.", &json!({"$ref": REPLY}))
        }
    });
    if has_any_arguments {
        components["requestBodies"] = json!({
            "Arguments": {"content": {"application/json": {"schema": {"type": "object"}}}}
        });
    }
    components["schemas"] = schemas.into();
    let mut document = json!({
        "openapi": "3.0.3",
        "info": {"title": one_line(server.name), "version": "1", "description": description},
        "servers": [{"url": "/", "description": format!("Placeholder for the value of {URL_VARIABLE}.")}],
        "security": [{"token": []}]
    });
    document["paths"] = paths.into();
    document["components"] = components;
    yaml::write(&document)
}

const REPLY: &str = "#/components/schemas/Reply";

/// Returns the schemas of the responses to every call.
fn reply_schemas() -> Map<String, Value> {
    let reply = json!({
        "type": "object",
        "required": ["success", "result", "error"],
        "properties": {
            "success": {"type": "boolean"},
            "result": {
                "nullable": true,
                "description": "Result of the tool: any JSON value, or a string if the tool returned plain text."
            },
            "error": {"type": "string", "nullable": true, "description": "Error message, or null if the call \
             succeeded."}
        }
    });
    Map::from_iter([("Reply".to_owned(), reply)])
}

fn response(description: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": schema}}})
}

/// Returns the operation of one tool.
fn operation(tool: &Tool, name: &str, limits: SchemaLimits, schemas: &mut Map<String, Value>) -> Value {
    let mut operation = head(tool, name);
    let about = excerpt(tool.description().trim(), MAX_DESCRIPTION);
    if operation.get("summary").and_then(Value::as_str) != Some(&*about) && !about.is_empty() {
        operation.insert("description".to_owned(), about.into());
    }
    let arguments = tool.input_schema().and_then(read).unwrap_or_else(|| json!({}));
    let arguments = as_object(schema::convert(&arguments, name, limits, schemas));
    let is_required = arguments.get("required").is_some();
    operation.insert(
        "requestBody".to_owned(),
        json!({"required": is_required, "content": {"application/json": {"schema": arguments}}}),
    );
    let mut done = json!({"$ref": "#/components/responses/Done"});
    if let Some(result) = tool.output_schema().and_then(read) {
        let result = schema::convert(&result, &format!("{name}_result"), limits, schemas);
        let reply = json!({"allOf": [{"$ref": REPLY}, {"type": "object", "properties": {"result": result}}]});
        done = response("The tool was called; `success` is true if the call succeeded.", &reply);
    }
    operation.insert("responses".to_owned(), responses(&done));
    operation.into()
}

/// Returns the operation without parameters.
fn short_operation(tool: &Tool, name: &str) -> Value {
    let mut operation = head(tool, name);
    operation.insert("requestBody".to_owned(), json!({"$ref": "#/components/requestBodies/Arguments"}));
    operation.insert("responses".to_owned(), responses(&json!({"$ref": "#/components/responses/Done"})));
    operation.into()
}

fn responses(done: &Value) -> Value {
    json!({"200": done, "401": {"$ref": "#/components/responses/Denied"}})
}

fn head(tool: &Tool, name: &str) -> Map<String, Value> {
    let mut head = Map::from_iter([("operationId".to_owned(), name.into())]);
    let summary = summary(tool);
    if !summary.is_empty() {
        head.insert("summary".to_owned(), summary.into());
    }
    head
}

/// Returns the first sentence of a tool's description, else its title.
fn summary(tool: &Tool) -> String {
    let text = match tool.description().trim() {
        "" => tool.title().unwrap_or_default(),
        text => text.lines().next().unwrap_or_default(),
    };
    let text = one_line(text);
    let sentence = text.split_inclusive(". ").next().unwrap_or_default().trim_end();
    excerpt(if sentence.is_empty() { &text } else { sentence }.trim(), MAX_SUMMARY).into_owned()
}

/// Returns a schema of type `object`, also if the schema does not declare it.
fn as_object(schema: Value) -> Value {
    match schema {
        Value::Object(map) if !map.contains_key("type") && !map.contains_key("$ref") => {
            let mut typed = Map::from_iter([("type".to_owned(), "object".into())]);
            typed.extend(map);
            typed.into()
        }
        schema => schema,
    }
}

fn read(schema: &str) -> Option<Value> {
    // Nesting that the parser refuses is not for reading either.
    if schema.len() > MAX_SCHEMA_BYTES { None } else { serde_json::from_str(schema).ok() }
}
