//! `ranked`: a search that only ranks.

use pegboard_core::{Hit, Query, QueryError};
use serde_json::{Value, json};

use super::{
    Dialect, DialectView, MetaTool,
    call_tool::{self, CALL},
    named,
};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
    settings::Hits,
};

pub(super) const SEARCH: &str = "tool_search";

/// Empty: a tool of a catalog file may have the name of its search (the original is itself one of
/// the tools).
pub(super) const META_NAMES: &[&str] = &[];

#[derive(Debug)]
pub(super) struct Ranked;

impl Dialect for Ranked {
    fn name(&self) -> &'static str {
        "ranked"
    }

    fn default_ranker(&self) -> &'static str {
        "sequence"
    }

    fn has_fixed_list(&self) -> bool {
        true
    }

    fn meta_tools(&self, view: &DialectView<'_>) -> Vec<ToolDefinition> {
        let (default, most) = (view.settings.default_limit, view.settings.max_limit);
        let search = ToolDefinition {
            name: SEARCH.to_owned(),
            description: "Rank all registered tools for a task described in plain words, best first, with a score \
                          and a hint on when to use each. Call it before you guess a tool's name."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What you want to do"},
                    "limit": {
                        "type": "integer",
                        "description": format!("How many tools to return (default: {default}, at most {most})")
                    }
                },
                "required": ["query"]
            }),
        };
        let call = view.settings.has_constant_list().then(|| call_tool::definition(CALL, call_tool::DESCRIPTION));
        [search].into_iter().chain(call).collect()
    }

    fn meta_tool(&self, name: &str, view: &DialectView<'_>) -> Option<MetaTool> {
        match name {
            SEARCH => Some(MetaTool::Search),
            CALL if view.settings.has_constant_list() => Some(MetaTool::Call),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        Some(match self.meta_tool(name, view)? {
            MetaTool::Call => call_tool::call(arguments, SEARCH, view, |_| None),
            _ => search(arguments, view),
        })
    }

    fn instructions(&self, view: &DialectView<'_>, categories: &[String]) -> String {
        let how = match view.settings.has_constant_list() {
            true => {
                "There are more tools than you can keep in mind. Describe your task to tool_search, then call the \
                 tool that it ranks first, or the next one if that does not fit, through call_tool, with the \
                 arguments that its signature names."
            }
            false => {
                "There are more tools than you can keep in mind. Describe your task to tool_search, then call the \
                 tool that it ranks first, or the next one if that does not fit."
            }
        };
        prompt::section(how, categories)
    }
}

/// Returns the limit in the arguments: a number, or text that is one. Anything else means the
/// default; a number out of range is clamped.
fn limit(arguments: &Value, view: &DialectView<'_>) -> usize {
    let default = view.settings.default_limit as f64;
    let asked = match arguments.get("limit") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<i64>().ok().map(|number| number as f64),
        Some(Value::Bool(true)) => Some(1.0),
        _ => None,
    };
    let asked = asked.filter(|asked| *asked != 0.0).unwrap_or(default).trunc();
    asked.clamp(1.0, view.settings.max_limit as f64) as usize
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let query = match arguments.get("query") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    };
    if query.is_empty() {
        let metadata = json!({"error": "empty_query", "matches": []});
        return Outcome::text("Error: `query` is required. Describe what you are trying to do.")
            .with_metadata(metadata);
    }
    let candidates = view.tools().count();
    if candidates == 0 {
        let metadata = json!({"query": query, "matches": []});
        return Outcome::text("No tools are currently registered on this agent.").with_metadata(metadata);
    }
    let limit = limit(arguments, view);
    let (hits, total) = match view.rank(&Query::new(&query).limit(limit).least_confidence(0.0)) {
        Ok(ranking) => (ranking.hits, ranking.total),
        Err(QueryError::Empty) => (Vec::new(), 0),
        Err(error) => return Outcome::error(error.to_string()),
    };
    let hits = or_exact(hits, &query, view);
    let searched = view.searched(&query, total, hits.iter().map(|hit| &hit.tool));
    if hits.is_empty() {
        let text = format!("No tools matched '{query}'. Try rephrasing or broadening the query.");
        return Outcome::text(text).with_metadata(json!({"query": query, "matches": []})).with_searched([searched]);
    }
    let matches: Vec<Value> = hits.iter().map(to_match).collect();
    let metadata = json!({"query": query, "limit": limit, "total_candidates": candidates, "matches": matches});
    let mut text = to_text(&query, &hits, view);
    let mut loaded = None;
    if view.settings.hits == Hits::Listed {
        let (fitting, others) = view.split_loadable(named(&hits, view));
        if !others.is_empty() {
            let names: Vec<String> = others.into_iter().map(|(_, name)| name).collect();
            text.push_str(&format!("\nNot loaded, the limit of loaded tools is reached: {}", names.join(", ")));
        }
        loaded = Some(Effect::Load(fitting));
    }
    let outcome = Outcome::text(text).with_metadata(metadata).with_searched([searched]);
    match loaded {
        Some(effect) => outcome.with_effect(effect),
        None => outcome,
    }
}

/// Returns the hits, or the tool with the exact name if there are none.
fn or_exact(hits: Vec<Hit>, query: &str, view: &DialectView<'_>) -> Vec<Hit> {
    if !hits.is_empty() {
        return hits;
    }
    view.names.find(query).map(|tool| Hit { tool, score: 0.0, why: Vec::new() }).into_iter().collect()
}

fn to_match(hit: &Hit) -> Value {
    json!({
        "name": hit.tool.name(),
        "description": hit.tool.description(),
        "prompt_instructions": hit.tool.prompt_instructions().unwrap_or_default(),
        "score": hit.score,
    })
}

fn to_text(query: &str, hits: &[Hit], view: &DialectView<'_>) -> String {
    let mut text = format!("Best tools for '{query}' (ranked by relevance):");
    for (at, hit) in hits.iter().enumerate() {
        let description = match hit.tool.description() {
            "" => "No description provided.",
            description => description,
        };
        text.push_str(&format!("\n{}. {} (score={:?}) — {description}", at + 1, hit.tool.name(), hit.score));
        if let Some(instructions) = hit.tool.prompt_instructions().filter(|text| !text.is_empty()) {
            text.push_str(&format!("\n   ↳ when to use: {instructions}"));
        }
        if view.settings.has_constant_list() {
            text.push_str(&format!("\n   {}", view.names.complete_signature(&hit.tool).text));
        }
    }
    text
}
