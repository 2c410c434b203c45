//! `gateway`: the first tools, and a search that exposes its hits.

use std::sync::Arc;

use pegboard_core::{Query, QueryError, Ranking, Tool, naming};
use serde_json::{Value, json};

use super::{
    Dialect, DialectView, MetaTool,
    call_tool::{self, CALL},
    named,
};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
    settings::{Exposed, SelectionOrder},
};

/// The name of its search tool.
pub(super) const SEARCH: &str = "search_available_tools";

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH, CALL];

#[derive(Debug)]
pub(super) struct Gateway;

/// Returns whether there are more tools than may be exposed at once.
fn is_limited(view: &DialectView<'_>) -> bool {
    let limit = view.settings.max_tools_limit;
    view.settings.enabled && limit > 0 && view.names.count() > limit
}

impl Dialect for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn default_ranker(&self) -> &'static str {
        "bm25"
    }

    fn has_constant_form(&self) -> bool {
        // A search can return signatures instead of exposing its hits.
        true
    }

    fn lists_last(&self) -> bool {
        true
    }

    fn loads_by_search(&self) -> bool {
        true
    }

    fn meta_tools(&self, view: &DialectView<'_>) -> Vec<ToolDefinition> {
        if !is_limited(view) {
            return Vec::new();
        }
        let hidden = view.names.count().saturating_sub(view.settings.max_tools_limit);
        let what_follows = match view.settings.exposed {
            _ if view.settings.has_constant_list() => "are returned with their signatures; call them through call_tool",
            Exposed::Replace => "replace those listed now",
            Exposed::Accumulate => "are added to the list",
        };
        let search = ToolDefinition {
            name: SEARCH.to_owned(),
            description: format!(
                "Search through {hidden} additional available tools. Say in a few words what you want to do; the \
                 tools that fit {what_follows}."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What the tool should do"}},
                "required": ["query"]
            }),
        };
        let call = view.settings.has_constant_list().then(|| call_tool::definition(CALL, call_tool::DESCRIPTION));
        call.into_iter().chain([search]).collect()
    }

    fn exposed_at_first(&self, view: &DialectView<'_>) -> Vec<Arc<Tool>> {
        let mut tools: Vec<(usize, &Arc<Tool>)> = view.tools().enumerate().collect();
        if !is_limited(view) {
            return tools.into_iter().map(|(_, tool)| Arc::clone(tool)).collect();
        }
        let servers: Vec<&str> = view.catalog.servers().iter().map(|server| server.name.as_str()).collect();
        let priority = |tool: &Tool| servers.iter().position(|server| tool.server_name() == Some(server));
        let by = |order: SelectionOrder, a: &Tool, b: &Tool| match order {
            SelectionOrder::ServerPriority => priority(a).cmp(&priority(b)),
            SelectionOrder::Alphabetical => a.name().cmp(b.name()),
            SelectionOrder::Random => shuffled(a, view.settings.seed).cmp(&shuffled(b, view.settings.seed)),
        };
        tools.sort_by(|(a_at, a), (b_at, b)| {
            let orders = view.settings.tool_selection_order.iter();
            let first = (view.is_static)(b).cmp(&(view.is_static)(a));
            orders.fold(first, |so_far, order| so_far.then_with(|| by(*order, a, b))).then(a_at.cmp(b_at))
        });
        tools.into_iter().take(view.settings.max_tools_limit).map(|(_, tool)| Arc::clone(tool)).collect()
    }

    fn meta_tool(&self, name: &str, view: &DialectView<'_>) -> Option<MetaTool> {
        match name {
            SEARCH if is_limited(view) || view.settings.always_searchable => Some(MetaTool::Search),
            CALL if is_limited(view) && view.settings.has_constant_list() => Some(MetaTool::Call),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        Some(match self.meta_tool(name, view)? {
            MetaTool::Call => call_tool::call(arguments, SEARCH, view, |_| None),
            _ => search(arguments, view),
        })
    }

    fn loaded_by(&self, name: &str, result: &str) -> Option<Vec<String>> {
        if name != SEARCH || !result.starts_with("Found ") {
            return None;
        }
        let hit = |line: &str| {
            let (number, rest) = line.split_once(". ")?;
            number.parse::<usize>().ok()?;
            Some(rest.split_once(" - ").map_or(rest, |(name, _)| name).to_owned())
        };
        Some(result.lines().filter_map(hit).collect())
    }

    fn instructions(&self, view: &DialectView<'_>, categories: &[String]) -> String {
        if !is_limited(view) {
            return String::new();
        }
        let how = match view.settings.has_constant_list() {
            true => {
                "Only some of the available tools are listed. When none of them fits, call search_available_tools \
                 with a few words about what you want to do, then call the tool that fits through call_tool, with \
                 the arguments that its signature names."
            }
            false => {
                "Only some of the available tools are listed. When none of them fits, call search_available_tools \
                 with a few words about what you want to do, and look at the list again."
            }
        };
        prompt::section(how, categories)
    }
}

/// Returns the rank of a tool in the order of `seed`. All orders are equally likely, and adding or
/// removing a tool does not move the others.
fn shuffled(tool: &Tool, seed: u64) -> u64 {
    mix(naming::fnv1a(tool.id().bytes(), 0) ^ mix(seed))
}

/// The output function of SplitMix64: each bit of the result depends on every bit of `x`, which is
/// not so for FNV alone.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Outcome::error("Missing required 'query' parameter");
    };
    let limit = if view.settings.max_tools_limit == 0 { usize::MAX } else { view.settings.max_tools_limit };
    let asked = Query::new(query).limit(limit).threshold(view.settings.search_threshold).least_confidence(0.0);
    let ranking = match view.rank(&asked) {
        Ok(ranking) => ranking,
        Err(QueryError::Empty) => Ranking::default(),
        Err(error) => return Outcome::error(error.to_string()),
    };
    let mut hits = named(&ranking.hits, view);
    if hits.is_empty() {
        hits.extend(view.names.find(query).map(|tool| (Arc::clone(&tool), view.names.shown(&tool))));
    }
    // A ranker that looks for the best alone does not know how many others reach the threshold.
    let passing = if ranking.passing > limit || hits.len() < limit { ranking.passing } else { ranking.total };
    let passing = passing.max(hits.len());
    if view.settings.exposed == Exposed::Accumulate && !view.settings.has_constant_list() {
        hits = view.split_loadable(hits).0;
    }
    let mut searched = view.searched(query, ranking.total, hits.iter().map(|(tool, _)| tool));
    searched.passing = passing;
    if hits.is_empty() {
        return Outcome::text(format!("No tools found matching '{query}'. Try a different search term."))
            .with_searched([searched]);
    }
    let text = to_text(&hits, passing, view);
    let outcome = Outcome::text(text).with_searched([searched]);
    match view.settings.exposed {
        _ if view.settings.has_constant_list() => outcome,
        Exposed::Replace => outcome.with_effect(Effect::Replace(hits)),
        Exposed::Accumulate => outcome.with_effect(Effect::Load(hits)),
    }
}

/// Returns the hits in the documented format, with the number of matches that the limit left out.
fn to_text(hits: &[(Arc<Tool>, String)], passing: usize, view: &DialectView<'_>) -> String {
    let mut text = format!("Found {} matching tools:\n", hits.len());
    for (at, (tool, name)) in hits.iter().enumerate() {
        text.push_str(&format!("\n{}. {name}", at + 1));
        if !tool.description().is_empty() {
            text.push_str(&format!(" - {}", prompt::one_line(tool.description())));
        }
        if view.settings.has_constant_list() {
            text.push_str(&format!("\n   {}", view.names.complete_signature(tool).text));
        }
    }
    if passing > hits.len() {
        text.push_str(&format!("\n\nshowing {} of {passing}", hits.len()));
    }
    text
}

#[cfg(test)]
mod tests;
