use std::collections::BTreeMap;

use pegboard_core::{Catalog, Origin, RawTool, Selection, Server};
use pegboard_engine::Keyword;

use super::*;
use crate::{DialectName, Hits, Session, Settings};

/// `servers` servers with `tools` tools each.
fn catalog(servers: usize, tools: usize) -> Catalog {
    let mut catalog = Catalog::empty();
    for server in 0..servers {
        let tool = |at: usize| RawTool {
            name: format!("s{server}___tool_{at}"),
            description: format!("Does thing {at}"),
            ..RawTool::default()
        };
        let server = Server { name: format!("s{server}"), origin: Origin::Mcp, ..Server::default() };
        catalog = catalog.with_server(server, (0..tools).map(tool)).0;
    }
    catalog
}

fn session(catalog: Catalog, change: impl FnOnce(&mut Settings)) -> Session {
    let mut settings = Settings::default();
    change(&mut settings);
    let ranker: Arc<Keyword> = Arc::default();
    Session::expecting(DialectName::Gateway, settings, catalog, Selection::everything(), ranker)
}

#[test]
fn a_random_order_takes_tools_of_all_servers() {
    let mut first = Vec::new();
    for seed in 0..20 {
        let session = session(catalog(8, 50), |settings| {
            settings.max_tools_limit = 40;
            settings.tool_selection_order = vec![SelectionOrder::Random];
            settings.seed = seed;
        });
        let names = session.visible_names();
        let mut servers: BTreeMap<String, usize> = BTreeMap::new();
        for name in names.iter().filter(|name| name.as_str() != SEARCH) {
            *servers.entry(name[..2].to_owned()).or_default() += 1;
        }
        // Five of each are to be expected; a fair order gives one server more than 15 once in
        // 100,000 times.
        assert!(servers.len() >= 6 && servers.values().all(|count| *count <= 15), "seed {seed}: {servers:?}");
        assert!(!first.contains(&names), "another seed, another order");
        first.push(names);
    }
    let again = session(catalog(8, 50), |settings| {
        settings.max_tools_limit = 40;
        settings.tool_selection_order = vec![SelectionOrder::Random];
    });
    assert_eq!(again.visible_names(), first[0], "the same seed, the same order");
}

/// The first and the last line of what a search says.
fn lines(session: &mut Session, query: &str) -> (String, String) {
    let text = session.call(SEARCH, &json!({"query": query})).reply.into_text();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    (first, lines.next_back().unwrap_or_default().to_owned())
}

#[test]
fn a_limit_that_cuts_says_so() {
    let mut session = session(catalog(1, 62), |settings| settings.search_threshold = 0.0);
    let (first, last) = lines(&mut session, "thing");
    assert_eq!((first.as_str(), last.as_str()), ("Found 50 matching tools:", "showing 50 of 62"));
    assert_eq!(session.visible().len(), 51, "as many are listed, and the search");
    let answer = session.call(SEARCH, &json!({"query": "thing"}));
    let searched = &answer.searched[0];
    assert_eq!((searched.matches, searched.passing, searched.hits.len()), (62, 62, 50));
    let (first, last) = lines(&mut session, "tool_7");
    assert!(first.starts_with("Found ") && !last.starts_with("showing"), "{first} {last}");
}

#[test]
fn a_list_that_never_changes() {
    let mut session = session(catalog(2, 3), |settings| {
        settings.max_tools_limit = 2;
        settings.hits = Hits::Callable;
    });
    let listed = session.visible_names();
    assert_eq!(listed, ["s0___tool_0", "s0___tool_1", "call_tool", "search_available_tools"]);
    assert!(session.is_constant());
    let answer = session.call(SEARCH, &json!({"query": "tool_2"}));
    assert!(!answer.list_changed);
    let text = answer.reply.into_text();
    assert!(text.contains("\n1. s0___tool_2 - Does thing 2\n   s0___tool_2()"), "{text}");
    assert_eq!(session.visible_names(), listed);
    let called = session.call(CALL, &json!({"name": "s1___tool_2", "arguments": {"a": 1}}));
    let target = called.target.expect("a target");
    assert_eq!((target.id.as_deref(), target.is_wrapped), (Some("s1/s1___tool_2"), true));
    let nameless = session.call(CALL, &json!({}));
    let expected = "`name` is required: the name of a tool that search_available_tools returned";
    assert_eq!((nameless.is_error, nameless.reply.into_text().as_str()), (true, expected));
}

#[test]
fn without_a_search_everything_is_listed() {
    for hits in [Hits::Listed, Hits::Callable] {
        let mut session = session(catalog(2, 3), |settings| {
            (settings.max_tools_limit, settings.enabled, settings.hits) = (2, false, hits);
        });
        assert_eq!(session.visible().len(), 6);
        assert!(session.call(SEARCH, &json!({"query": "tool"})).is_error);
        assert!(session.call(CALL, &json!({"name": "s0___tool_0"})).is_error);
        assert_eq!(session.prompt(), "");
    }
}

#[test]
fn a_servers_own_call_tool_is_shown_under_its_full_name() {
    for hits in [Hits::Listed, Hits::Callable] {
        let tool = |name: &str| RawTool { name: name.to_owned(), ..RawTool::default() };
        let server = Server { name: "one".to_owned(), origin: Origin::Mcp, ..Server::default() };
        let catalog = Catalog::empty().with_server(server, [tool("call_tool"), tool("other")]).0;
        let session = session(catalog, |settings| settings.hits = hits);
        assert_eq!(session.visible_names(), ["one___call_tool", "other"]);
    }
}
