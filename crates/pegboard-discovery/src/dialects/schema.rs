//! `schema`: a search that loads its matches and returns their schemas.

use std::sync::Arc;

use pegboard_core::{Origin, QueryError, Tool};
use serde_json::{Map, Value, json};

use super::{Dialect, DialectView, MetaTool, NamedTools};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
};

const SEARCH: &str = "ToolSearch";
const DEFAULT_RESULTS: u64 = 5;
const MAX_RESULTS: u64 = 25;

/// Maximum number of bytes of a description in the list of stubs.
const STUB_BYTES: usize = 120;

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH];

#[derive(Debug)]
pub(super) struct SchemaSearch;

impl Dialect for SchemaSearch {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn default_ranker(&self) -> &'static str {
        "hinted"
    }

    fn defers(&self, tool: &Tool) -> bool {
        tool.origin() == Origin::Mcp
    }

    fn loads_by_search(&self) -> bool {
        true
    }

    fn meta_tools(&self, _view: &DialectView<'_>) -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: SEARCH.to_owned(),
            description: "Get the schemas of deferred tools, and load them. `select:A,B` selects them by name; \
                          anything else is keywords, of which `+word` must match."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "`select:` and names, or keywords"},
                    "max_results": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_RESULTS,
                        "description": "Maximum number of matches for keywords (default: 5)"
                    }
                },
                "required": ["query"]
            }),
        }]
    }

    fn meta_tool(&self, name: &str, _view: &DialectView<'_>) -> Option<MetaTool> {
        (name == SEARCH).then_some(MetaTool::Search)
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        (name == SEARCH).then(|| search(arguments, view).unwrap_or_else(Outcome::error))
    }

    fn loaded_by(&self, name: &str, result: &str) -> Option<Vec<String>> {
        let result: Value = serde_json::from_str(result).ok().filter(|_| name == SEARCH)?;
        let matches = result.get("matches")?.as_array()?;
        Some(matches.iter().filter_map(|hit| hit.get("name")?.as_str()).map(str::to_owned).collect())
    }

    fn instructions(&self, view: &DialectView<'_>, _categories: &[String]) -> String {
        let stubs: Vec<String> =
            view.deferred().map(|tool| format!("- {}: {}", view.names.shown(tool), stub(tool.description()))).collect();
        if stubs.is_empty() {
            return String::new();
        }
        format!(
            "<deferred-tools>\nThe following tools are available. Their full schemas are omitted to save tokens.\n\
             Use ToolSearch(select:<name>) to load one when needed.\n\n{}\n</deferred-tools>",
            stubs.join("\n")
        )
    }
}

fn stub(description: &str) -> String {
    let line = prompt::one_line(description);
    if line.len() <= STUB_BYTES {
        return line;
    }
    format!("{}…", &line[..line.floor_char_boundary(STUB_BYTES - 1)])
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Result<Outcome, String> {
    let query = arguments.get("query").and_then(Value::as_str).ok_or("ToolSearch requires `query` (string)")?;
    let query = query.trim();
    if query.is_empty() {
        return Err("ToolSearch: `query` cannot be empty".to_owned());
    }
    let names = query.strip_prefix("select:").or_else(|| query.strip_prefix("SELECT:"));
    let mut reply = Map::new();
    reply.insert("query".into(), query.into());
    reply.insert("query_kind".into(), if names.is_some() { "select" } else { "keyword" }.into());
    reply.insert("total_deferred_tools".into(), view.deferred().count().into());
    let loaded = match names {
        Some(names) => select(names, view, &mut reply),
        None => keywords(query, arguments, view, &mut reply)?,
    };
    let mut outcome = Outcome::json(Value::Object(reply));
    // A call that names a tool is not a search.
    if names.is_none() {
        outcome.searched.push(view.searched(query, loaded.len(), loaded.iter().map(|(tool, _)| tool)));
    }
    Ok(if loaded.is_empty() { outcome } else { outcome.with_effect(Effect::Load(loaded)) })
}

fn select(names: &str, view: &DialectView<'_>, reply: &mut Map<String, Value>) -> Vec<(Arc<Tool>, String)> {
    let mut found: Vec<(Arc<Tool>, String)> = Vec::new();
    let mut missing = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let tools = view.names.resolve(name);
        if tools.is_empty() {
            missing.push(name);
        }
        for tool in tools {
            if !found.iter().any(|(known, _)| known.id() == tool.id()) {
                let shown = view.names.shown(&tool);
                found.push((tool, shown));
            }
        }
    }
    let (found, unloaded) = view.split_loadable(found);
    let matches: Vec<Value> = found.iter().map(|(tool, shown)| to_match(tool, shown, None)).collect();
    reply.insert("matches".into(), matches.into());
    reply.insert("missing".into(), missing.into());
    note_unloaded(unloaded, reply);
    found
}

/// Adds the names of the tools for which there is no room.
fn note_unloaded(unloaded: NamedTools, reply: &mut Map<String, Value>) {
    if !unloaded.is_empty() {
        let names: Vec<String> = unloaded.into_iter().map(|(_, name)| name).collect();
        reply.insert("not_loaded".into(), names.into());
    }
}

fn keywords(
    query: &str,
    arguments: &Value,
    view: &DialectView<'_>,
    reply: &mut Map<String, Value>,
) -> Result<Vec<(Arc<Tool>, String)>, String> {
    let asked = arguments.get("max_results").and_then(Value::as_u64).unwrap_or(DEFAULT_RESULTS);
    let hits = view.rank_deferred(query, asked.clamp(1, MAX_RESULTS) as usize).map_err(|error| match error {
        QueryError::NoTerms | QueryError::Empty => "ToolSearch: `query` has no scorable terms".to_owned(),
        error => format!("ToolSearch: {error}"),
    })?;
    let (shown, unloaded) = view.split_loadable(super::named(&hits, view));
    let matches: Vec<Value> =
        hits.iter().zip(&shown).map(|(hit, (tool, name))| to_match(tool, name, Some(hit.score))).collect();
    reply.insert("matches".into(), matches.into());
    note_unloaded(unloaded, reply);
    Ok(shown)
}

fn to_match(tool: &Tool, shown: &str, score: Option<f64>) -> Value {
    let definition = ToolDefinition::of(tool, shown);
    let mut entry = Map::new();
    entry.insert("name".into(), shown.into());
    if let Some(score) = score {
        let whole = score.fract() == 0.0;
        entry.insert("score".into(), if whole { json!(score as i64) } else { json!(score) });
    }
    entry.insert("description".into(), tool.description().into());
    entry.insert("parameters".into(), definition.input_schema);
    Value::Object(entry)
}
