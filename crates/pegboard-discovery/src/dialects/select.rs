//! `select`: a search that loads its matches.

use std::sync::Arc;

use pegboard_core::QueryError;
use serde_json::{Value, json};

use super::{Dialect, DialectView, MetaTool, NamedTools, named};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
};

const SEARCH: &str = "tool_search";
const DEFAULT_RESULTS: usize = 5;

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH];

#[derive(Debug)]
pub(super) struct Select;

impl Dialect for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn default_ranker(&self) -> &'static str {
        "keyword"
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn loads_by_search(&self) -> bool {
        true
    }

    fn meta_tools(&self, _view: &DialectView<'_>) -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: SEARCH.to_owned(),
            description: "Load tools that are listed by name only, so that they can be called from the next turn on. \
                          The query is keywords (`+word` must match), or `select:name,name` for tools you already \
                          know the names of."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "Keywords, `+required` keywords, or `select:` and names"
                    },
                    "max_results": {"type": "integer", "description": "Maximum number of tools to load for keywords \
                     (default: 5)"}
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
        Some(matches.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn instructions(&self, _view: &DialectView<'_>, categories: &[String]) -> String {
        let how = "Some tools are listed by name only. Load one with tool_search, by keywords or with \
                   `select:name`, before you call it; loaded tools stay.";
        prompt::section(how, categories)
    }

    fn reminder(&self, view: &DialectView<'_>) -> Option<String> {
        let names: Vec<String> = view.deferred().map(|tool| view.names.shown(tool)).collect();
        let names = names.join("\n");
        Some(format!("<available-deferred-tools>\n{names}\n</available-deferred-tools>"))
    }
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Result<Outcome, String> {
    let (query, max_results) = parse(arguments)?;
    let query = query.trim();
    if query.is_empty() {
        return Err("query is required".to_owned());
    }
    let matches: NamedTools = match query.strip_prefix("select:") {
        Some(names) => names.split(',').flat_map(|name| selected(name.trim(), view)).collect(),
        None => match view.rank_deferred(query, max_results) {
            Ok(hits) => named(&hits, view),
            Err(QueryError::NoTerms) => Vec::new(),
            Err(error) => return Err(error.to_string()),
        },
    };
    let (matches, unloaded) = view.split_loadable(matches);
    let names = |tools: &NamedTools| tools.iter().map(|(_, name)| Value::from(name.as_str())).collect::<Vec<_>>();
    let mut reply = json!({"matches": names(&matches)});
    if !unloaded.is_empty() {
        reply["not_loaded"] = names(&unloaded).into();
    }
    let mut outcome = Outcome::json(reply);
    // A call that names a tool is not a search.
    if !query.starts_with("select:") {
        outcome.searched.push(view.searched(query, matches.len(), matches.iter().map(|(tool, _)| tool)));
    }
    Ok(if matches.is_empty() { outcome } else { outcome.with_effect(Effect::Load(matches)) })
}

/// Returns the deferred tools with exactly this name, else the one that another spelling means.
fn selected(name: &str, view: &DialectView<'_>) -> NamedTools {
    let deferred = view.names.resolve(name).into_iter().filter(|tool| !(view.is_static)(tool));
    deferred.map(|tool| (Arc::clone(&tool), view.names.shown(&tool))).collect()
}

fn parse(arguments: &Value) -> Result<(&str, usize), String> {
    let wrong = |what: &str| format!("failed to unmarshal tool search arguments: {what}");
    let object = arguments.as_object().ok_or_else(|| wrong("an object is expected"))?;
    let query = match object.get("query") {
        None | Some(Value::Null) => "",
        Some(Value::String(query)) => query,
        Some(_) => return Err(wrong("`query` must be a string")),
    };
    let max_results = match object.get("max_results") {
        None | Some(Value::Null) => 0,
        Some(number) => number.as_i64().ok_or_else(|| wrong("`max_results` must be an integer"))?,
    };
    let max_results = usize::try_from(max_results).ok().filter(|count| *count > 0).unwrap_or(DEFAULT_RESULTS);
    Ok((query, max_results))
}
