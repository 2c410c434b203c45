//! `gateway`: the first tools, and a search that exposes its hits.

use std::sync::Arc;

use pegboard_core::{Query, QueryError, Tool, naming};
use serde_json::{Value, json};

use super::{Dialect, MetaTool, View, named};
use crate::{
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
    settings::{Exposed, SelectionOrder},
};

const SEARCH: &str = "search_available_tools";

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH];

#[derive(Debug)]
pub(super) struct Gateway;

/// Whether there are more tools than may be exposed at once.
fn is_limited(view: &View<'_>) -> bool {
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

    fn lists_last(&self) -> bool {
        true
    }

    fn meta_tools(&self, view: &View<'_>) -> Vec<ToolDefinition> {
        if !is_limited(view) {
            return Vec::new();
        }
        let hidden = view.names.count().saturating_sub(view.settings.max_tools_limit);
        let what_follows = match view.settings.exposed {
            Exposed::Replace => "take the place of those listed now",
            Exposed::Accumulate => "are listed as well",
        };
        vec![ToolDefinition {
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
        }]
    }

    fn exposed_at_first(&self, view: &View<'_>) -> Vec<Arc<Tool>> {
        let mut tools: Vec<(usize, &Arc<Tool>)> = view.tools().enumerate().collect();
        if !is_limited(view) {
            return tools.into_iter().map(|(_, tool)| Arc::clone(tool)).collect();
        }
        let servers: Vec<&str> = view.catalog.servers().iter().map(|server| server.name.as_str()).collect();
        let priority = |tool: &Tool| servers.iter().position(|server| tool.server_name() == Some(server));
        let by = |order: SelectionOrder, a: &Tool, b: &Tool| match order {
            SelectionOrder::ServerPriority => priority(a).cmp(&priority(b)),
            SelectionOrder::Alphabetical => a.name().cmp(b.name()),
            SelectionOrder::Random => scattered(a, view.settings.seed).cmp(&scattered(b, view.settings.seed)),
        };
        tools.sort_by(|(a_at, a), (b_at, b)| {
            let orders = view.settings.tool_selection_order.iter();
            let first = (view.is_static)(b).cmp(&(view.is_static)(a));
            orders.fold(first, |so_far, order| so_far.then_with(|| by(*order, a, b))).then(a_at.cmp(b_at))
        });
        tools.into_iter().take(view.settings.max_tools_limit).map(|(_, tool)| Arc::clone(tool)).collect()
    }

    fn meta_tool(&self, name: &str, view: &View<'_>) -> Option<MetaTool> {
        let is_offered = || is_limited(view) || view.settings.always_searchable;
        (name == SEARCH && is_offered()).then_some(MetaTool::Search)
    }

    fn call(&self, name: &str, arguments: &Value, view: &View<'_>) -> Option<Outcome> {
        self.meta_tool(name, view).map(|_| search(arguments, view))
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

    fn instructions(&self, view: &View<'_>, categories: &[String]) -> String {
        if !is_limited(view) {
            return String::new();
        }
        let how = "Only some of the available tools are listed. When none of them fits, call \
                   search_available_tools with a few words about what you want to do, and look at the list again.";
        prompt::section(how, categories)
    }
}

/// A number that depends on nothing but the tool and the seed.
fn scattered(tool: &Tool, seed: u64) -> u64 {
    naming::fnv1a(tool.id().bytes(), seed)
}

fn search(arguments: &Value, view: &View<'_>) -> Outcome {
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Outcome::error("Missing required 'query' parameter");
    };
    let limit = if view.settings.max_tools_limit == 0 { usize::MAX } else { view.settings.max_tools_limit };
    let asked = Query::new(query).limit(limit).threshold(view.settings.search_threshold).least_confidence(0.0);
    let mut matches = 0;
    let mut hits = match view.rank(&asked) {
        Ok(ranking) => {
            matches = ranking.total;
            named(&ranking.hits, view)
        }
        Err(QueryError::Empty) => Vec::new(),
        Err(error) => return Outcome::error(error.to_string()),
    };
    if hits.is_empty() {
        hits.extend(view.names.find(query).map(|tool| (Arc::clone(&tool), view.names.shown(&tool))));
    }
    let searched = view.searched(query, matches, hits.iter().map(|(tool, _)| tool));
    if hits.is_empty() {
        return Outcome::text(format!("No tools found matching '{query}'. Try a different search term."))
            .with_searched([searched]);
    }
    let mut text = format!("Found {} matching tools:\n", hits.len());
    for (at, (tool, name)) in hits.iter().enumerate() {
        text.push_str(&format!("\n{}. {name}", at + 1));
        if !tool.description().is_empty() {
            text.push_str(&format!(" - {}", prompt::one_line(tool.description())));
        }
    }
    let effect = match view.settings.exposed {
        Exposed::Replace => Effect::Replace(hits),
        Exposed::Accumulate => Effect::Load(hits),
    };
    Outcome::text(text).with_effect(effect).with_searched([searched])
}
