//! Tools: what is listed, and who runs what is called.

mod asking;
mod content;
mod environment;
mod extras;
mod forms;
mod hostile;
mod synthetic;

use serde_json::{Value, json};

use crate::{
    args::Fault,
    call::{Call, Outcome, Stop},
    pages::page,
    wire::RpcError,
};

pub(crate) use content::PNG;
pub(crate) use hostile::text as hostile_text;

/// One tool.
struct Tool {
    name: &'static str,
    description: &'static str,
    input: fn() -> Value,
    run: fn(&Call) -> Outcome,
}

/// `tools/list`.
pub(crate) fn list(call: &Call) -> Outcome {
    let args = &call.server.args;
    let mut items: Vec<Value> = offered(call).map(definition).collect();
    items.extend(synthetic::definitions(call));
    if args.has(Fault::Hostile) {
        items.extend(hostile::definitions());
    }
    if args.has(Fault::Duplicates) {
        items.push(json!({
            "name": items[0]["name"],
            "description": "A second tool of the same name",
            "inputSchema": no_arguments(),
        }));
    }
    if args.has(Fault::NoType) {
        for schema in items.iter_mut().filter_map(|item| item["inputSchema"].as_object_mut()) {
            schema.shift_remove("type");
        }
    }
    page(call, "tools", &items)
}

/// `tools/call`.
pub(crate) fn call(call: &Call) -> Outcome {
    let name = call.param("name")?;
    let tool = offered(call).find(|tool| tool.name == name);
    let hostile = || hostile::run(name).filter(|_| call.server.args.has(Fault::Hostile));
    let outcome = match tool {
        Some(tool) => (tool.run)(call),
        None if synthetic::exists(call, name) => Ok(text_result(&format!("{name} was called"))),
        None => hostile().unwrap_or_else(|| Err(RpcError::invalid_params(format!("unknown tool: `{name}`")).into())),
    };
    match outcome {
        Err(Stop::Failed(text)) => {
            let mut result = text_result(&text);
            result["isError"] = true.into();
            Ok(result)
        }
        outcome => outcome,
    }
}

fn offered(call: &Call) -> impl Iterator<Item = &'static Tool> {
    let extras: &[Tool] = if call.server.args.extras { &extras::TOOLS } else { &[] };
    let environment = call.server.args.environment.then_some(&environment::TOOL);
    content::TOOLS.iter().chain(&asking::TOOLS).chain(extras).chain(environment)
}

fn definition(tool: &'static Tool) -> Value {
    let mut definition = json!({"name": tool.name, "description": tool.description});
    definition["inputSchema"] = (tool.input)();
    extras::adorn(&mut definition);
    definition
}

/// A result of one text.
fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The schema of a tool without arguments.
fn no_arguments() -> Value {
    json!({"type": "object", "properties": {}})
}

/// The schema of a tool with one required string argument.
fn one_string(name: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
    })
}
