//! What schemas cost, and what they do not explain.

use pegboard_core::Tool;
use serde_json::{Map, Value};

use super::{Look, listed, report::Finding, rule::Rule, words::Words};

/// A schema from outside may nest without end; what lies deeper explains nothing.
const MAX_DEPTH: usize = 8;

/// Places of a schema that are looked at for an explanation of one parameter.
const MAX_PLACES: usize = 10_000;

/// Parts that are named before the rest is left out.
const MOST_PARTS: usize = 3;

/// Parameters whose names say it all.
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

pub(super) fn look(look: &Look<'_>, findings: &mut Vec<Finding>) {
    for (at, tool) in look.tools.iter().enumerate() {
        // A schema that does not parse (nested too deep) is the loader's business.
        let schema = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok());
        let Some(schema) = schema else { continue };
        findings.extend(costly(look, at, &schema));
        findings.extend(undescribed(look, at, tool, &schema));
    }
}

fn costly(look: &Look<'_>, at: usize, schema: &Value) -> Option<Finding> {
    let limit = look.thresholds.tokens;
    let total = (look.count_tokens)(&schema.to_string());
    if total <= limit {
        return None;
    }
    let mut parts = parts(look, schema);
    // Stable: parts of the same cost stay in the order of the schema.
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
        .take(MOST_PARTS)
        .map(|part| format!("`{}` about {} ({})", part.name, part.cost, part.made_of))
        .collect();
    let of_these = if shown.is_empty() { String::new() } else { format!("; the largest parts: {}", shown.join(", ")) };
    let message = format!("its schema costs about {total} tokens, over the limit of {limit}{of_these}");
    let suggestion = match cut {
        0 => "shorten it; move what only a few calls need into a separate tool".to_owned(),
        1..=MOST_PARTS if left <= limit => format!(
            "{} {}: the rest costs about {left}",
            if parts[..cut].iter().any(|part| part.is_needed) { "shorten or flatten" } else { "shorten or remove" },
            listed(parts[..cut].iter().map(|part| part.name.as_str()))
        ),
        _ => format!(
            "its {} parameters cost too much together: split the tool by use case, shorten descriptions, remove \
             parameters that have a good default",
            parts.len()
        ),
    };
    Some(look.finding(Rule::CostlySchema, at, message, suggestion))
}

struct Part {
    name: String,
    cost: usize,
    made_of: String,
    /// Whether no call can do without it.
    is_needed: bool,
}

/// The parameters, and the definitions that they refer to.
fn parts(look: &Look<'_>, schema: &Value) -> Vec<Part> {
    let below = |key: &str| schema.get(key).and_then(Value::as_object).into_iter().flatten();
    let part = |prefix: &str, (name, value): (&String, &Value)| {
        let name: String = format!("{prefix}{name}").chars().take(80).collect();
        let cost = (look.count_tokens)(&format!("\"{name}\":{value},"));
        let is_needed = !prefix.is_empty() || required(schema).any(|other| other == name);
        Part { name, cost, made_of: made_of(look, value), is_needed }
    };
    let properties = below("properties").map(|entry| part("", entry));
    let definitions = ["$defs", "definitions"].map(|key| (key, below(key)));
    let definitions =
        definitions.into_iter().flat_map(|(key, entries)| entries.map(move |entry| (key, entry)).collect::<Vec<_>>());
    properties.chain(definitions.map(|(key, entry)| part(&format!("{key}/"), entry))).collect()
}

/// What is large in a part, in a few words.
fn made_of(look: &Look<'_>, value: &Value) -> String {
    let mut choices = 0;
    let mut described = 0;
    let mut properties = 0;
    walk(value, MAX_DEPTH, &mut |object| {
        choices += object.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        described += object.get("description").and_then(Value::as_str).map_or(0, |text| (look.count_tokens)(text));
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

/// Calls `visit` for every object in `value`, from the outside in.
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

fn undescribed(look: &Look<'_>, at: usize, tool: &Tool, schema: &Value) -> Option<Finding> {
    let required: Vec<&str> = required(schema).collect();
    let properties = schema.get("properties").and_then(Value::as_object)?;
    // Many a server explains its parameters in the tool's own description.
    let is_told = |name: &str| is_mentioned(look, tool, name);
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
        listed(dark.iter().copied())
    );
    let suggestion = format!(
        "give {them} a `description`: for `{first}` what it is, in which format, and where a model gets it from"
    );
    let parameters = dark.iter().map(|name| (*name).to_owned()).collect();
    Some(Finding { parameters, ..look.finding(Rule::UndescribedParameter, at, message, suggestion) })
}

/// The names of the parameters that must be given.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Ends of names that say in which way a thing is given: `issue_number`, `file_path`.
const ENDS: [&str; 8] = ["id", "ids", "iid", "key", "name", "number", "path", "uri"];

/// Whether a tool speaks of a parameter, as one word or by its parts in their order; or of
/// the thing that the parameter tells the number of.
fn is_mentioned(look: &Look<'_>, tool: &Tool, name: &str) -> bool {
    let parts = Words::of(name);
    let words = Words::of(tool.description());
    if !parts.is_empty() && words.windows(parts.len()).any(|window| window == parts.as_slice()) {
        return true;
    }
    let Some((last, thing)) = parts.split_last().filter(|(_, thing)| !thing.is_empty()) else { return false };
    let stems: Vec<String> = words.iter().chain(&Words::of(tool.name())).map(|word| look.words.stem(word)).collect();
    ENDS.contains(&last.as_str()) && thing.iter().all(|word| stems.contains(&look.words.stem(word)))
}

/// Whether a schema says anything about the value that is meant.
///
/// Looks at no more than `budget` places: a schema that refers to itself has no end of them. One
/// that takes more is not found fault with.
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
    // A list is explained by what it is a list of, an object by what is in it.
    let inner = object.get("items").into_iter();
    let fields = object.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    reference.into_iter().chain(branches).chain(inner).chain(fields).any(|value| explains(value, root, depth, budget))
}
