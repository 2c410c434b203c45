//! `bridge`: ready-to-call signatures and one call tool. The list of tools never changes.

use std::sync::Arc;

use pegboard_core::{Query, Tool};
use serde_json::{Map, Value, json};

use super::{Dialect, View, named};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
    signature::signature,
    tokens::estimate_tokens,
};

const SEARCH: &str = "search_tools";
const CALL: &str = "call_tool";
const CALL_READ: &str = "call_read_tool";
const CALL_WRITE: &str = "call_write_tool";
const CALL_DESTRUCTIVE: &str = "call_destructive_tool";

/// Queries in one call.
const MAX_QUERIES: usize = 5;

/// Tokens (estimated) of the summary of what lies behind the search.
const SUMMARY_TOKENS: usize = 90;

/// Mistakes that one answer names.
const MAX_MISTAKES: usize = 5;

#[derive(Debug)]
pub(super) struct Bridge;

/// What calling a tool may do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Risk {
    Read,
    Write,
    Destructive,
}

impl Risk {
    /// What the tool's annotations say; without a word it may destroy.
    fn of(tool: &Tool) -> Self {
        let annotations = tool.annotations();
        match (annotations.read_only, annotations.destructive) {
            (Some(true), _) => Self::Read,
            (_, Some(false)) => Self::Write,
            _ => Self::Destructive,
        }
    }

    fn call_tool(self) -> &'static str {
        match self {
            Self::Read => CALL_READ,
            Self::Write => CALL_WRITE,
            Self::Destructive => CALL_DESTRUCTIVE,
        }
    }
}

impl Dialect for Bridge {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn default_ranker(&self) -> &'static str {
        "hybrid"
    }

    fn meta_tools(&self, view: &View<'_>) -> Vec<ToolDefinition> {
        let mut tools = vec![ToolDefinition {
            name: SEARCH.to_owned(),
            description: format!(
                "Find tools and how to call them. {} Returns signatures for the call tool.",
                summary(view)
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What you want to do"},
                    "queries": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_QUERIES},
                    "detail": {"enum": ["full"]}
                }
            }),
        }];
        let call = |name: &str, description: &str| ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
                "required": ["name"]
            }),
        };
        if view.settings.split_by_risk {
            tools.push(call(CALL_READ, "Call a found tool that only reads."));
            tools.push(call(CALL_WRITE, "Call a found tool that adds or changes."));
            tools.push(call(CALL_DESTRUCTIVE, "Call a found tool that may delete or overwrite."));
        } else {
            tools.push(call(CALL, "Call a found tool by its name."));
        }
        tools
    }

    fn call(&self, name: &str, arguments: &Value, view: &View<'_>) -> Option<Outcome> {
        match name {
            SEARCH => Some(search(arguments, view)),
            CALL if !view.settings.split_by_risk => Some(call(arguments, None, view)),
            CALL_READ if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Read), view)),
            CALL_WRITE if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Write), view)),
            CALL_DESTRUCTIVE if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Destructive), view)),
            _ => None,
        }
    }

    fn instructions(&self, _view: &View<'_>, categories: &[String]) -> String {
        let how = "Call search_tools with what you want to do, then call the tool that fits through the call tool, \
                   with the arguments that its signature names. Several needs can go into one search.";
        prompt::section(how, categories)
    }
}

/// What lies behind the search: the largest servers, their sizes and main verbs.
fn summary(view: &View<'_>) -> String {
    let mut servers = prompt::by_server(view.catalog, view.selection);
    let total = view.tools().count();
    servers.sort_by(|a, b| b.2.len().cmp(&a.2.len()).then_with(|| a.0.cmp(&b.0)));
    let mut text = format!("{total} tools");
    for (at, (server, _, tools)) in servers.iter().enumerate() {
        let entry = format!(
            "{}{server} {} ({})",
            if at == 0 { ": " } else { ", " },
            tools.len(),
            prompt::verbs(tools, 3).join("/")
        );
        let left = servers.len() - at;
        if estimate_tokens(&text) + estimate_tokens(&entry) > SUMMARY_TOKENS {
            let joint = if at == 0 { ": " } else { ", and " };
            text.push_str(&format!("{joint}{left} more"));
            break;
        }
        text.push_str(&entry);
    }
    text.push('.');
    text
}

/// `query`, `queries`, or a query that is a list; at most five.
fn queries(arguments: &Value) -> Result<Vec<String>, String> {
    let mut queries: Vec<String> = Vec::new();
    for value in ["query", "queries"].iter().filter_map(|key| arguments.get(key)) {
        match value {
            Value::String(query) => queries.push(query.clone()),
            Value::Array(list) => queries.extend(list.iter().filter_map(Value::as_str).map(str::to_owned)),
            Value::Null => {}
            _ => return Err("`query` must be a string".to_owned()),
        }
    }
    queries.retain(|query| !query.trim().is_empty());
    if queries.is_empty() {
        return Err("`query` is required: say what you want to do".to_owned());
    }
    if queries.len() > MAX_QUERIES {
        return Err(format!("at most {MAX_QUERIES} queries at once, not {}", queries.len()));
    }
    Ok(queries)
}

fn search(arguments: &Value, view: &View<'_>) -> Outcome {
    let queries = match queries(arguments) {
        Ok(queries) => queries,
        Err(message) => return Outcome::error(message),
    };
    let is_full = arguments.get("detail").and_then(Value::as_str) == Some("full");
    let mut text = String::new();
    let mut budget = view.settings.answer_tokens;
    for query in &queries {
        let ranking = match view.rank(&Query::new(query).limit(view.settings.hits_per_query)) {
            Ok(ranking) => ranking,
            Err(error) => return Outcome::error(error.to_string()),
        };
        if queries.len() > 1 {
            text.push_str(&format!("{}# {}\n", if text.is_empty() { "" } else { "\n" }, prompt::one_line(query)));
        }
        let hits = named(&ranking.hits, view);
        if hits.is_empty() {
            text.push_str("No tool fits; try other words.\n");
        }
        for (at, (tool, name)) in hits.iter().enumerate() {
            let entry = entry(tool, name, is_full, view);
            let length = estimate_tokens(&entry) + 1;
            // The best hit is always worth its length.
            if length > budget && at > 0 {
                text.push_str(&format!("… {} more, ask for fewer at once\n", hits.len() - at));
                break;
            }
            budget = budget.saturating_sub(length);
            text.push_str(&entry);
            text.push('\n');
        }
        if !ranking.unmatched.is_empty() {
            text.push_str(&format!("(no tool knows: {})\n", ranking.unmatched.join(", ")));
        }
    }
    text.truncate(text.trim_end().len());
    Outcome::text(text)
}

fn entry(tool: &Tool, name: &str, is_full: bool, view: &View<'_>) -> String {
    let mut entry = signature(tool, name);
    if view.settings.split_by_risk {
        entry.push_str(&format!(" [{}]", Risk::of(tool).call_tool()));
    }
    if is_full {
        let definition = ToolDefinition::of(tool, name);
        entry.push_str(&format!("\n{}\n{}", definition.description, definition.input_schema));
    }
    entry
}

fn call(arguments: &Value, expected: Option<Risk>, view: &View<'_>) -> Outcome {
    let Some(name) = arguments.get("name").and_then(Value::as_str) else {
        return Outcome::error("`name` is required: the name of a tool that search_tools returned");
    };
    let Some(tool) = view.names.find(name) else {
        return Outcome::error(unknown(name, view));
    };
    if let Some(expected) = expected
        && Risk::of(&tool) != expected
    {
        let right = Risk::of(&tool).call_tool();
        return Outcome::error(format!("`{name}` must be called through `{right}`"));
    }
    let given = match arguments.get("arguments") {
        None | Some(Value::Null) => json!({}),
        // Some models write the object as text.
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        Some(value) => value.clone(),
    };
    let mistakes = mistakes(&tool, &given);
    if !mistakes.is_empty() {
        return Outcome::error(explain_mistakes(&tool, name, &given, &mistakes));
    }
    Outcome::text("").with_effect(Effect::Invoke { tool, arguments: given })
}

/// What to say about a name that no visible tool has.
pub(crate) fn unknown(name: &str, view: &View<'_>) -> String {
    let nearest = view.names.nearest(name);
    if nearest.is_empty() {
        return format!("no tool `{name}`; search for what you want to do");
    }
    format!("no tool `{name}`; nearest names: {}", nearest.join(", "))
}

/// What is wrong with `arguments` by the tool's own schema. A schema that is itself
/// broken forbids nothing.
fn mistakes(tool: &Tool, arguments: &Value) -> Vec<String> {
    if !arguments.is_object() {
        return vec!["`arguments` must be an object".to_owned()];
    }
    let Some(schema) = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema.get()).ok()) else {
        return Vec::new();
    };
    let Ok(validator) = jsonschema::draft202012::new(&schema) else { return Vec::new() };
    let errors = validator.iter_errors(arguments).take(MAX_MISTAKES);
    errors
        .map(|error| match error.instance_path().to_string().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        })
        .collect()
}

fn explain_mistakes(tool: &Arc<Tool>, name: &str, given: &Value, mistakes: &[String]) -> String {
    let definition = ToolDefinition::of(tool, name);
    let example = json!({"name": name, "arguments": corrected(&definition.input_schema, given)});
    format!(
        "`{name}` was not called: {}\nschema: {}\nfor example: {example}",
        mistakes.join("; "),
        definition.input_schema
    )
}

/// The given arguments with what is missing filled in and what does not fit replaced.
fn corrected(schema: &Value, given: &Value) -> Value {
    let mut arguments = Map::new();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let given = given.as_object();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let value = given.and_then(|given| given.get(name));
        let fits = |value: &&Value| jsonschema::draft202012::new(property).is_ok_and(|schema| schema.is_valid(value));
        match value.filter(fits) {
            Some(value) => {
                arguments.insert(name.clone(), value.clone());
            }
            None if required.contains(&name.as_str()) || value.is_some() => {
                arguments.insert(name.clone(), placeholder(property, 3));
            }
            None => {}
        }
    }
    Value::Object(arguments)
}

/// A value that fits a schema as far as its type tells.
fn placeholder(schema: &Value, depth: usize) -> Value {
    if let Some(value) = schema.get("default").or(schema.get("const")).or(schema.get("enum").and_then(|e| e.get(0))) {
        return value.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
        _ => "string",
    };
    match kind {
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "array" if depth > 0 => json!([placeholder(schema.get("items").unwrap_or(&Value::Null), depth - 1)]),
        "object" if depth > 0 => corrected(schema, &json!({})),
        "array" => json!([]),
        "object" => json!({}),
        "null" => Value::Null,
        _ => json!("…"),
    }
}
