//! Spellings of names, wherever a conversation takes one.

use pegboard_core::{
    Origin, Server,
    naming::{ShownNames, Style},
};

use super::*;

/// Two servers as a gateway shows them: `a___search`, `b___search`, `b___send`.
fn configured() -> Catalog {
    let mut catalog = Catalog::empty();
    for (server, names) in [("a", &["search"][..]), ("b", &["search", "send"])] {
        let tool = |name: &&str| RawTool {
            name: format!("{server}___{name}"),
            upstream_name: Some((*name).to_owned()),
            description: format!("Does {name}"),
            ..RawTool::default()
        };
        let whose = Server { name: server.to_owned(), origin: Origin::Mcp, ..Server::default() };
        catalog = catalog.with_server(whose, names.iter().map(tool)).0;
    }
    catalog
}

fn open(dialect: DialectName, settings: Settings) -> Session {
    Session::new(dialect, settings, configured(), Selection::everything(), ranker(dialect)).expect("a session")
}

#[test]
fn every_spelling_of_a_name_is_the_tool() {
    for name in ["b___send", "b__send", "b/send", "b:send", "b.send", "mcp__b__send", "send", "Send", "B__SEND"] {
        let mut session = open(DialectName::Explicit, Settings::default());
        let target = session.call(name, &json!({})).target;
        assert_eq!(target.and_then(|target| target.id).as_deref(), Some("b/b___send"), "called as {name}");
        let added = session.call("add_tool", &json!({"tool_names": [name]})).reply.into_text();
        assert_eq!(added, "Added tools: b___send", "added as {name}");
        assert!(session.pin(name), "pinned as {name}");
        let removed = session.call("remove_tool", &json!({"tool_names": [name]})).reply.into_text();
        assert_eq!(removed, "Removed tools: b___send", "removed as {name}");
        let mut session = open(DialectName::Select, Settings::default());
        session.call("tool_search", &json!({"query": format!("select:{name}")}));
        assert!(session.visible_names().contains(&"b___send".to_owned()), "selected as {name}");
        let session = open(DialectName::Explicit, Settings::default()).with_pre_discovered([name.to_owned()]);
        assert!(session.visible_names().contains(&"b___send".to_owned()), "shown from the start as {name}");
        assert_eq!(session.unmatched_names(), Vec::<String>::new());
    }
}

/// A server whose tool names are too long for providers, and are shown shortened.
fn shortened(server: &str, names: &[&str]) -> (Session, Vec<String>) {
    let shown = ShownNames::new(&Style::default(), names.iter().map(|name| (server, *name)));
    let shown: Vec<String> = shown.iter().map(str::to_owned).collect();
    let tool = |(name, shown): (&&str, &String)| RawTool {
        name: shown.clone(),
        upstream_name: Some((*name).to_owned()),
        aliases: vec![(*name).to_owned()],
        ..RawTool::default()
    };
    let whose = Server { name: server.to_owned(), origin: Origin::Mcp, ..Server::default() };
    let (catalog, _) = Catalog::empty().with_server(whose, names.iter().zip(&shown).map(tool));
    let dialect = DialectName::Bridge;
    let everything = Selection::everything();
    let session = Session::new(dialect, Settings::default(), catalog, everything, ranker(dialect));
    (session.expect("a session"), shown)
}

#[test]
fn the_full_name_of_a_shortened_tool_is_the_tool() {
    let long = "retrieve_all_pull_requests_of_a_repository_with_their_reviews_and_comments";
    let dotted = "api.v2.users.settings.notifications.channels.preferences.retrieve_all_of_them";
    for server in ["github", "my.corp_git-hub__server", "@scope/name"] {
        let (mut session, shown) = shortened(server, &[long, dotted]);
        for (own, shown) in [long, dotted].iter().zip(&shown) {
            assert!(shown.len() <= 64 && !shown.contains(own), "{shown}");
            for separator in ["___", "__", "/", ":", "."] {
                let full = format!("{server}{separator}{own}");
                for name in [full.clone(), format!("mcp__{full}"), (*own).to_owned()] {
                    let called = session.call(&name, &json!({})).target.map(|target| target.name);
                    assert_eq!(called.as_deref(), Some(*own), "{name}");
                    let wrapped = session.call("call_tool", &json!({"name": name})).target.map(|target| target.name);
                    assert_eq!(wrapped.as_deref(), Some(*own), "{name}");
                }
                // A slip in the full name leads to the shown one.
                for slip in [full.replace("retrieve", "retreive"), full.replace("_of_", "_for_"), format!("{full}s")] {
                    let answer = session.call(&slip, &json!({})).reply.into_text();
                    assert!(answer.contains(&format!("nearest names: {shown}")), "{answer}");
                }
            }
        }
    }
}

#[test]
fn an_ambiguous_name_is_refused_with_the_full_names() {
    let expected = "`search` is on several servers: a___search, b___search";
    for dialect in DialectName::ALL {
        let mut session = open(dialect, Settings::default());
        let direct = session.call("search", &json!({}));
        assert_eq!((direct.is_error, direct.reply.into_text().as_str()), (true, expected), "{dialect:?}");
    }
    let mut session = open(DialectName::Bridge, Settings::default());
    let wrapped = session.call("call_tool", &json!({"name": "search"}));
    assert_eq!((wrapped.is_error, wrapped.reply.into_text().as_str()), (true, expected));
    let mut session = open(DialectName::Explicit, Settings::default());
    let added = session.call("add_tool", &json!({"tool_names": ["search"]})).reply.into_text();
    assert_eq!(added, "Not found: search\nNearest names: a___search, b___search");
    let one = session.call("add_tool", &json!({"tool_names": ["search"], "server": "A"})).reply.into_text();
    assert_eq!(one, "Added tools: a___search", "with its server it is one");
}

#[test]
fn a_name_that_two_tools_of_a_file_have_selects_both() {
    let tool = |server: &str| RawTool {
        name: "search".to_owned(),
        server: Some(server.to_owned()),
        deferred: Some(true),
        ..RawTool::default()
    };
    let catalog = Catalog::from_tools(vec![tool("a"), tool("b")]).0;
    for (dialect, search) in [(DialectName::Select, "tool_search"), (DialectName::Schema, "ToolSearch")] {
        let everything = Selection::everything();
        let session = Session::new(dialect, Settings::default(), catalog.clone(), everything, ranker(dialect));
        let mut session = session.expect("a session");
        let found = session.call(search, &json!({"query": "select:search"})).reply.into_text();
        assert!(found.contains("a__search") && found.contains("b__search"), "{dialect:?}: {found}");
        let visible = session.visible_names();
        assert!(["a__search", "b__search"].iter().all(|name| visible.contains(&(*name).to_owned())), "{visible:?}");
        let one = session.call(search, &json!({"query": "select:b__search"})).reply.into_text();
        assert!(!one.contains("a__search"), "{dialect:?}: {one}");
    }
}

#[test]
fn hits_name_their_server_where_two_share_a_name() {
    let mut session = open(DialectName::Explicit, Settings::default());
    let found = session.call("search_tools", &json!({"query": "Does"})).reply.into_text();
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let servers: Vec<&Value> = found["tools"].as_array().into_iter().flatten().map(|hit| &hit["server"]).collect();
    assert_eq!(servers, [&json!("a"), &json!("b"), &Value::Null]);
}

#[test]
fn names_that_mean_nothing_are_reported() {
    let names = ["sned", "search", "send"].map(str::to_owned);
    let selection = Selection::everything().allow_tools(["a___search", "b:sned"]);
    let dialect = DialectName::Explicit;
    let session = Session::new(dialect, Settings::default(), configured(), selection, ranker(dialect));
    let session = session.expect("a session").with_pre_discovered(names);
    assert_eq!(
        session.unmatched_names(),
        ["no tool `sned`", "no tool `send`", "`b:sned` matches no tool; nearest names: b___send"],
        "what may not be seen is not proposed"
    );
}

#[test]
fn the_advice_for_an_unknown_name_depends_on_the_search() {
    let check = |mut session: Session, expected: &str| {
        assert_eq!(session.call("qwertz", &json!({})).reply.into_text(), format!("no tool `qwertz`; {expected}"));
    };
    let search = "search for what you want to do";
    for dialect in [DialectName::Bridge, DialectName::Explicit, DialectName::Select] {
        check(open(dialect, Settings::default()), search);
    }
    let listed = "call one of the listed tools";
    check(open(DialectName::Code, Settings::default()), listed);
    check(open(DialectName::Bridge, Settings::default()).with_everything_listed(), listed);
}

/// A catalog of ten tools that one word finds.
fn ten() -> Catalog {
    let tool = |at: usize| RawTool { name: format!("thing_{at}"), ..RawTool::default() };
    Catalog::from_tools((0..10).map(tool).collect()).0
}

#[test]
fn hits_of_a_search_give_way_to_nothing_older() {
    let settings = Settings { max_loaded: 3, ..Settings::default() };
    let dialect = DialectName::Select;
    let mut session =
        Session::new(dialect, settings, ten(), Selection::everything(), ranker(dialect)).expect("a session");
    let loaded = |session: &Session| {
        session.visible_names().into_iter().filter(|name| name != "tool_search").collect::<Vec<_>>().join(" ")
    };
    session.call("tool_search", &json!({"query": "select:thing_7,thing_8"}));
    let answer = session.call("tool_search", &json!({"query": "select:thing_1,thing_2"}));
    assert_eq!(
        (loaded(&session).as_str(), answer.evicted.as_slice()),
        ("thing_7 thing_1 thing_2", &["thing_8".to_owned()][..])
    );
    let answer = session.call("tool_search", &json!({"query": "select:thing_3,thing_4,thing_5,thing_6"}));
    assert_eq!(loaded(&session), "thing_3 thing_4 thing_5");
    let expected = json!({"matches": ["thing_3", "thing_4", "thing_5"], "not_loaded": ["thing_6"]});
    assert_eq!(serde_json::from_str::<Value>(&answer.reply.into_text()).ok(), Some(expected));
    assert!(session.pin("thing_4"));
    let answer = session.call("tool_search", &json!({"query": "select:thing_7,thing_8,thing_9"}));
    assert_eq!(loaded(&session), "thing_4 thing_7 thing_8", "a pinned tool stays");
    assert!(answer.reply.into_text().contains(r#""not_loaded":["thing_9"]"#));
}

#[test]
fn reading_tools_have_words_of_their_own() {
    let readers = HostTool::OUTPUTS.map(HostTool::to_raw);
    let host = Server { name: "pegboard".to_owned(), origin: Origin::Host, ..Server::default() };
    let catalog = ten().with_server(host, readers).0;
    for dialect in DialectName::ALL {
        let mut settings = Settings { output_offloading: true, ..Settings::default() };
        settings.validation.is_on = Some(true);
        let session = Session::new(dialect, settings, catalog.clone(), Selection::everything(), ranker(dialect));
        let mut session = session.expect("a session");
        let visible = session.visible_names();
        assert!(
            HostTool::OUTPUTS.iter().all(|tool| visible.contains(&tool.name().to_owned())),
            "{dialect:?} {visible:?}"
        );
        let answer = session.call("read_large_output", &json!({"filename": "a", "start": 0}));
        let text = answer.reply.into_text();
        assert_eq!((answer.is_error, text.as_str()), (true, "start must be 1 or greater"), "{dialect:?}");
        assert!(session.call("read_large_output", &json!({"filename": "a", "start": 1})).target.is_some());
    }
}
