//! Lists, and pages of them.

use std::sync::{Arc, atomic::Ordering};

use pegboard_core::Tool;
use pegboard_discovery::{
    ListedTool, MetaTool, Session, ToolDefinition, estimate_tokens,
    host::results::{self, READ_RESULT},
};
use pegboard_mcp::json::{SharedRaw, raw};
use pegboard_upstream::ListKind;
use serde_json::json;

use crate::{
    catalog::{CatalogView, directory},
    exchange::Exchange,
    metrics::Metrics,
    request::{Caching, Cursor, Outcome, Page, Reply, unknown_cursor},
    savings::{Cost, SavingsLedger},
    setup::Setup,
    steps::offload,
    text::shorten,
};

/// Returns the tools for a client with the tokens of the list, and counts the tokens that this saves.
/// Without `counters`, or where no activity is kept, the tokens of a list of all tools are not computed.
pub(crate) fn tools(
    catalog: &CatalogView,
    setup: &Setup,
    exchange: &Exchange,
    counters: Option<Counters<'_>>,
) -> (Vec<SharedRaw>, u64) {
    if let Some(counters) = &counters {
        counters.metrics.lists.fetch_add(1, Ordering::Relaxed);
    }
    catalog.with_tools(setup, exchange, |tools| {
        if tools.lists_everything() {
            let counters = counters.filter(|_| setup.console.activity.entries > 0);
            let cost = counters.map_or(0, |counters| counters.cost_of_all(exchange, tools).values().sum());
            return (with_fitting_schemas(setup, everything(tools)), cost);
        }
        let items: Vec<SharedRaw> = tools.listed_tools().iter().map(|listed| definition_of(listed, tools)).collect();
        let items = with_fitting_schemas(setup, items);
        let shown = shown_cost(tools);
        if let Some(counters) = &counters {
            counters.count_savings(exchange, tools, &shown);
        }
        (items, shown.values().sum())
    })
}

/// Where a list that a client asks for is counted: once, however many pages it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) savings: &'a SavingsLedger,
}

impl Counters<'_> {
    /// Returns the tokens of all tools that the client may see.
    fn cost_of_all(&self, exchange: &Exchange, tools: &Session) -> Arc<Cost> {
        let viewer = &exchange.viewer;
        let key = (tools.catalog().version(), viewer.caller, viewer.setup);
        self.savings.cost_of_all(key, || cost_of_all(tools))
    }

    fn count_savings(&self, exchange: &Exchange, tools: &Session, shown: &Cost) {
        let all = self.cost_of_all(exchange, tools);
        self.metrics.count_tokens_saved(all.values().sum(), shown.values().sum());
        let client = exchange.session.as_ref().map_or(&exchange.client, |session| &session.client);
        self.savings.count_list(&shorten(client), &all, shown);
    }
}

/// Returns the estimated tokens of the listed definitions for a model, by server: names, descriptions
/// and input schemas. Meta-tools are those of no server.
pub(crate) fn shown_cost(tools: &Session) -> Cost {
    let mut cost = Cost::new();
    for listed in tools.listed_tools() {
        let server = listed.tool.and_then(|tool| tool.server_name()).unwrap_or_default();
        *cost.entry(server.to_owned()).or_default() += tokens_of(listed.definition);
    }
    cost
}

/// Returns the estimated tokens of the definitions of all tools, counted in the same way.
pub(crate) fn cost_of_all(tools: &Session) -> Cost {
    let mut cost = Cost::new();
    for tool in tools.catalog().iter().filter(|tool| tools.selection().allows(tool)) {
        let server = tool.server_name().unwrap_or_default();
        *cost.entry(server.to_owned()).or_default() += tokens_of_tool(tool, &tools.name_of(tool));
    }
    cost
}

/// Returns the estimated tokens of the definition of a tool under this name.
pub(crate) fn tokens_of_tool(tool: &Tool, name: &str) -> u64 {
    tokens_of(&ToolDefinition::of(tool, name))
}

fn tokens_of(definition: &ToolDefinition) -> u64 {
    estimate_tokens(&definition.to_json().to_string()) as u64
}

/// Returns a page of a list: `size` items from `cursor` on, or all of them.
pub(crate) fn page(
    kind: ListKind,
    mut items: Vec<SharedRaw>,
    cursor: Cursor,
    size: usize,
    caching: Caching,
) -> Outcome {
    let (start, size) = (cursor.unwrap_or(0), if size == 0 { usize::MAX } else { size });
    if cursor.is_some() && start >= items.len().max(1) {
        return Err(unknown_cursor().into());
    }
    let end = start.saturating_add(size).min(items.len());
    let next = (end < items.len()).then_some(end);
    items.truncate(end);
    items.drain(..start);
    Ok(Reply::Page(Page { kind, items, next, caching }))
}

fn everything(tools: &Session) -> Vec<SharedRaw> {
    let selection = tools.selection();
    let visible = tools.catalog().iter().filter(|tool| selection.allows(tool));
    let tools_of_servers = visible.map(|tool| directory::definition(tool, &tools.name_of(tool)));
    let has_reader = tools.meta_tool(READ_RESULT) == Some(MetaTool::ReadResult);
    tools_of_servers.chain(has_reader.then(|| meta_definition(&results::definition(), true))).collect()
}

/// Returns the definitions without what results do not fit where long ones are replaced.
fn with_fitting_schemas(setup: &Setup, definitions: Vec<SharedRaw>) -> Vec<SharedRaw> {
    match &setup.offload {
        Some(_) => definitions.into_iter().map(offload::without_output_schema).collect(),
        None => definitions,
    }
}

/// Returns the definition of a visible tool for a client.
fn definition_of(listed: &ListedTool<'_>, tools: &Session) -> SharedRaw {
    match listed.tool {
        Some(tool) => directory::definition(tool, &listed.definition.name),
        None => {
            let meta = tools.meta_tool(&listed.definition.name);
            meta_definition(listed.definition, matches!(meta, Some(MetaTool::Search | MetaTool::ReadResult)))
        }
    }
}

/// Returns the definition of a meta-tool for a client.
fn meta_definition(definition: &ToolDefinition, is_read_only: bool) -> SharedRaw {
    let mut definition = definition.to_json();
    if is_read_only {
        definition["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
    }
    raw(&definition).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActivitySettings, ConsoleSettings, GatewaySettings,
        caller::Caller,
        testing::{self, Server, TestParts},
    };

    #[tokio::test]
    async fn the_tokens_of_all_tools_are_computed_for_the_activity_alone() {
        for entries in [0, 1] {
            let activity = ActivitySettings { entries, ..ActivitySettings::default() };
            let console = ConsoleSettings { activity, ..ConsoleSettings::default() };
            let settings = GatewaySettings { console, ..GatewaySettings::default() };
            let parts = TestParts::new(vec![Server::new(&["echo"]).config("one")], settings).await;
            let (exchange, savings) = (testing::exchange(Caller::Anybody, None), SavingsLedger::new(None));
            let counters = Counters { metrics: &parts.metrics, savings: &savings };
            let (items, tokens) = tools(&parts.catalog, &parts.setups.current(), &exchange, Some(counters));
            assert_eq!((items.len(), tokens > 0), (1, entries > 0));
        }
    }

    #[test]
    fn pages() {
        let check = |count: usize, cursor: Cursor, size: usize, expected: Option<(&str, Cursor)>| {
            let items = (0..count).map(|at| raw(&at).into()).collect();
            let caching = Caching { ttl_ms: 0, is_private: false };
            let found = page(ListKind::Tools, items, cursor, size, caching).ok().map(|reply| match reply {
                Reply::Page(page) => {
                    (page.items.iter().map(|item| item.get().to_owned()).collect::<Vec<_>>().join(" "), page.next)
                }
                other => unreachable!("{other:?}"),
            });
            assert_eq!(found, expected.map(|(items, next)| (items.to_owned(), next)), "{count} {cursor:?} {size}");
        };
        check(3, None, 0, Some(("0 1 2", None)));
        check(3, None, 2, Some(("0 1", Some(2))));
        check(3, Some(2), 2, Some(("2", None)));
        check(3, Some(3), 2, None);
        check(0, None, 2, Some(("", None)));
        check(0, Some(1), 2, None);
    }
}
