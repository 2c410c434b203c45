//! Rules on schemas: their size, and parameters without description.

use pegboard_core::Tool;
use serde_json::{Map, Value};

use super::{LintPass, list_names, report::Finding, rule::Rule, words::Words};

/// Maximum depth of a schema that is examined; deeper parts explain nothing.
const MAX_DEPTH: usize = 8;

/// Maximum number of places of a schema that are examined for the description of one parameter.
const MAX_PLACES: usize = 10_000;

/// Maximum number of parts in a message.
const MAX_PARTS: usize = 3;

/// Parameters whose names are self-explanatory.
const PLAIN: [&str; 26] = [
    "body",
    "color",
    "content",
    "country",
    "cursor",
    "date",
    "description",
    "email",
    "enabled",
    "filename",
    "height",
    "language",
    "latitude",
    "limit",
    "longitude",
    "message",
    "name",
    "offset",
    "page",
    "password",
    "query",
    "text",
    "title",
    "url",
    "username",
    "width",
];

pub(super) fn check(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    for (at, tool) in pass.tools.iter().enumerate() {
        // A schema that does not parse (nested too deep) is reported by the loader.
        let schema = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok());
        let Some(schema) = schema else { continue };
        findings.extend(costly(pass, at, &schema));
        findings.extend(undescribed(pass, at, tool, &schema));
    }
}

fn costly(pass: &LintPass<'_>, at: usize, schema: &Value) -> Option<Finding> {
    let limit = pass.thresholds.tokens;
    let total = (pass.count_tokens)(&schema.to_string());
    if total <= limit {
        return None;
    }
    let mut parts = parts(pass, schema);
    // Stable: parts of the same size stay in the order of the schema.
    parts.sort_by_key(|part| std::cmp::Reverse(part.cost));
    let mut left = total;
    let mut cut = 0;
    for part in &parts {
        if left <= limit {
            break;
        }
        left = left.saturating_sub(part.cost);
        cut += 1;
    }
    let shown: Vec<String> = parts
        .iter()
        .take(MAX_PARTS)
        .map(|part| format!("`{}` about {} ({})", part.name, part.cost, part.made_of))
        .collect();
    let of_these = if shown.is_empty() { String::new() } else { format!("; the largest parts: {}", shown.join(", ")) };
    let message = format!("its schema costs about {total} tokens, over the limit of {limit}{of_these}");
    let suggestion = match cut {
        0 => "shorten it; move what only a few calls need into a separate tool".to_owned(),
        1..=MAX_PARTS if left <= limit => format!(
            "{} {}: the rest costs about {left}",
            if parts[..cut].iter().any(|part| part.is_needed) { "shorten or flatten" } else { "shorten or remove" },
            list_names(parts[..cut].iter().map(|part| part.name.as_str()))
        ),
        _ => format!(
            "its {} parameters cost too much together: split the tool by use case, shorten descriptions, remove \
             parameters that have a good default",
            parts.len()
        ),
    };
    Some(pass.finding(Rule::CostlySchema, at, message, suggestion))
}

struct Part {
    name: String,
    cost: usize,
    made_of: String,
    /// Whether it is required.
    is_needed: bool,
}

/// Returns the parameters, and the definitions that they refer to.
fn parts(pass: &LintPass<'_>, schema: &Value) -> Vec<Part> {
    let below = |key: &str| schema.get(key).and_then(Value::as_object).into_iter().flatten();
    let part = |prefix: &str, (name, value): (&String, &Value)| {
        let name: String = format!("{prefix}{name}").chars().take(80).collect();
        let cost = (pass.count_tokens)(&format!("\"{name}\":{value},"));
        let is_needed = !prefix.is_empty() || required(schema).any(|other| other == name);
        Part { name, cost, made_of: describe_part(pass, value), is_needed }
    };
    let properties = below("properties").map(|entry| part("", entry));
    let definitions = ["$defs", "definitions"].map(|key| (key, below(key)));
    let definitions =
        definitions.into_iter().flat_map(|(key, entries)| entries.map(move |entry| (key, entry)).collect::<Vec<_>>());
    properties.chain(definitions.map(|(key, entry)| part(&format!("{key}/"), entry))).collect()
}

/// Describes what is large in a part.
fn describe_part(pass: &LintPass<'_>, value: &Value) -> String {
    let mut choices = 0;
    let mut described = 0;
    let mut properties = 0;
    walk(value, MAX_DEPTH, &mut |object| {
        choices += object.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        described += object.get("description").and_then(Value::as_str).map_or(0, |text| (pass.count_tokens)(text));
        properties += object.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    });
    let mut said = Vec::new();
    if properties > 0 {
        said.push(format!("{properties} nested properties"));
    }
    if choices > 10 {
        said.push(format!("{choices} choices"));
    }
    if described > 0 {
        said.push(format!("descriptions {described}"));
    }
    if said.is_empty() { "its types".to_owned() } else { said.join(", ") }
}

/// Calls `visit` for every object in `value`, outermost first.
fn walk(value: &Value, depth: usize, visit: &mut impl FnMut(&Map<String, Value>)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Object(object) => {
            visit(object);
            object.values().for_each(|value| walk(value, depth, visit));
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, depth, visit)),
        _ => {}
    }
}

fn undescribed(pass: &LintPass<'_>, at: usize, tool: &Tool, schema: &Value) -> Option<Finding> {
    let required: Vec<&str> = required(schema).collect();
    let properties = schema.get("properties").and_then(Value::as_object)?;
    // Many servers explain parameters in the tool's description.
    let is_told = |name: &str| is_mentioned(pass, tool, name);
    let is_dark = |(name, value): &(&String, &Value)| {
        required.contains(&name.as_str())
            && !PLAIN.contains(&name.to_lowercase().as_str())
            && !is_told(name)
            && !explains(value, schema, MAX_DEPTH, &mut { MAX_PLACES })
    };
    let dark: Vec<&str> = properties.iter().filter(is_dark).map(|(name, _)| name.as_str()).collect();
    let first = dark.first()?;
    let (verb, them) = if dark.len() == 1 { ("is", "it") } else { ("are", "them") };
    let message = format!(
        "{} of {} required parameters {verb} not described: {}",
        dark.len(),
        required.len().max(dark.len()),
        list_names(dark.iter().copied())
    );
    let suggestion = format!(
        "give {them} a `description`: for `{first}` what it is, in which format, and where a model gets it from"
    );
    let parameters = dark.iter().map(|name| (*name).to_owned()).collect();
    Some(Finding { parameters, ..pass.finding(Rule::UndescribedParameter, at, message, suggestion) })
}

/// Returns the names of the required parameters.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Suffixes of names that tell how a thing is identified: `issue_number`, `file_path`.
const ENDS: [&str; 8] = ["id", "ids", "iid", "key", "name", "number", "path", "uri"];

/// Returns whether a tool's text mentions a parameter, as one word or by its parts in order; or the
/// thing that the parameter identifies.
fn is_mentioned(pass: &LintPass<'_>, tool: &Tool, name: &str) -> bool {
    let parts = Words::of(name);
    let words = Words::of(tool.description());
    if !parts.is_empty() && words.windows(parts.len()).any(|window| window == parts.as_slice()) {
        return true;
    }
    let Some((last, thing)) = parts.split_last().filter(|(_, thing)| !thing.is_empty()) else { return false };
    let stems: Vec<String> = words.iter().chain(&Words::of(tool.name())).map(|word| pass.words.stem(word)).collect();
    ENDS.contains(&last.as_str()) && thing.iter().all(|word| stems.contains(&pass.words.stem(word)))
}

/// Returns whether a schema describes its value.
///
/// Examines at most `budget` places, since a schema may refer to itself. A larger one counts as
/// described.
fn explains(value: &Value, root: &Value, depth: usize, budget: &mut usize) -> bool {
    let (Some(object), Some(depth)) = (value.as_object(), depth.checked_sub(1)) else { return false };
    let Some(left) = budget.checked_sub(1) else { return true };
    *budget = left;
    let has = |key: &str| object.get(key).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
    if ["description", "enum", "const", "examples", "example", "format"].into_iter().any(has) {
        return true;
    }
    let reference = object.get("$ref").and_then(Value::as_str).and_then(|at| root.pointer(at.strip_prefix('#')?));
    let branches = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| object.get(key)?.as_array()).flatten();
    // A list is described by its items, an object by its members.
    let inner = object.get("items").into_iter();
    let fields = object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    reference.into_iter().chain(branches).chain(inner).chain(fields).any(|value| explains(value, root, depth, budget))
}
