use serde_json::json;

use super::*;
use crate::config::TransportConfig;

fn item(definition: &serde_json::Value) -> Item {
    let key = definition["name"].as_str().unwrap_or_default().to_owned();
    Item { key, raw: raw(definition).into() }
}

fn lists(tools: &[serde_json::Value]) -> Lists {
    Lists { tools: Arc::new(tools.iter().map(item).collect()), ..Lists::default() }
}

fn config(overrides: &[(&str, ToolOverride)]) -> ServerConfig {
    let transport = TransportConfig::Http { url: String::new(), headers: Vec::new(), kind: Default::default() };
    let mut config = ServerConfig::new("git", transport);
    config.overrides = overrides.iter().map(|(tool, changes)| ((*tool).to_owned(), changes.clone())).collect();
    config
}

fn renamed(name: &str) -> ToolOverride {
    ToolOverride { name: Some(name.to_owned()), ..ToolOverride::default() }
}

fn names<'a>(presentation: &Presentation<'a>) -> Vec<(&'a str, &'a str)> {
    presentation.tools.iter().map(|tool| (tool.name, tool.item.key.as_str())).collect()
}

#[test]
fn renamed_and_hidden_tools() {
    let lists = lists(&[json!({"name": "a"}), json!({"name": "b"}), json!({"name": "c"})]);
    let check = |overrides: &[(&str, ToolOverride)], expected: &[(&str, &str)]| {
        assert_eq!(names(&Presentation::new(&config(overrides), &lists)), expected, "{overrides:?}");
    };
    let hidden = || ToolOverride { is_hidden: true, ..ToolOverride::default() };
    check(&[], &[("a", "a"), ("b", "b"), ("c", "c")]);
    check(&[("a", renamed("x")), ("b", hidden())], &[("x", "a"), ("c", "c")]);
    // Names can be exchanged. A tool whose name the user gives to another one is not shown.
    check(&[("a", renamed("b")), ("b", renamed("a"))], &[("b", "a"), ("a", "b"), ("c", "c")]);
    check(&[("a", renamed("b"))], &[("b", "a"), ("c", "c")]);
    check(&[("a", renamed("b")), ("b", hidden())], &[("b", "a"), ("c", "c")]);
    check(&[("a", renamed("b")), ("b", renamed("c"))], &[("b", "a"), ("c", "b")]);
}

#[test]
fn settings_without_effect() {
    let check = |tools: &[serde_json::Value], overrides: &[(&str, ToolOverride)], expected: &[UnusedOverride]| {
        assert_eq!(Presentation::new(&config(overrides), &lists(tools)).unused, expected, "{overrides:?}");
    };
    let tools = [json!({"name": "create_issue"}), json!({"name": "b"})];
    check(&tools, &[("create_issue", renamed("open"))], &[]);
    let no_tool = UnusedOverride::NoTool { tool: "create_isue".into(), nearest: Some("create_issue".into()) };
    check(&tools, &[("create_isue", renamed("open"))], &[no_tool]);
    let taken = UnusedOverride::NameTaken { tool: "create_issue".into(), name: "b".into() };
    check(&tools, &[("create_issue", renamed("b"))], &[taken]);
    // Nothing is known of a server that has listed nothing.
    check(&[], &[("create_isue", renamed("open"))], &[]);
}

#[test]
fn definitions_for_clients() {
    let check = |definition: serde_json::Value, changes: ToolOverride, expected: &str| {
        let (config, lists) = (config(&[("a", changes)]), lists(&[definition]));
        let shown = Presentation::new(&config, &lists).tools[0].definition("git___x");
        assert_eq!(shown.get(), expected);
    };
    check(
        json!({"name": "a", "_meta": {"x": 1.0}}),
        ToolOverride::default(),
        r#"{"name":"git___x","_meta":{"x":1.0}}"#,
    );
    let annotations = Annotations { read_only: Some(true), destructive: Some(false), ..Annotations::default() };
    let texts = ToolOverride {
        title: Some("Title".to_owned()),
        description: Some("Text".to_owned()),
        annotations,
        ..ToolOverride::default()
    };
    check(
        json!({"name": "a", "description": "old", "annotations": {"title": "t", "destructiveHint": true, "x": 1}}),
        texts.clone(),
        r#"{"name":"git___x","description":"Text","annotations":{"title":"Title","destructiveHint":false,"x":1,"readOnlyHint":true},"title":"Title"}"#,
    );
    check(
        json!({"name": "a"}),
        texts,
        r#"{"name":"git___x","description":"Text","title":"Title","annotations":{"readOnlyHint":true,"destructiveHint":false}}"#,
    );
}

#[test]
fn catalogs_know_the_new_name_and_the_servers_own() {
    let (config, lists) = (config(&[("a", renamed("x"))]), lists(&[json!({"name": "a"}), json!({"name": "b"})]));
    let presentation = Presentation::new(&config, &lists);
    let tool = presentation.tools[0].to_raw("git___x").expect("a tool");
    assert_eq!((tool.name.as_str(), tool.bare_name.as_deref(), tool.aliases), ("git___x", Some("x"), vec!["x".into()]));
    assert_eq!(tool.upstream_name.as_deref(), Some("a"));
    let tool = presentation.tools[1].to_raw("b").expect("a tool");
    assert_eq!((tool.bare_name, tool.aliases, tool.upstream_name.as_deref()), (None, Vec::new(), Some("b")));
    assert!(Arc::ptr_eq(&presentation.tools[1].definition("b"), &lists.tools[1].raw));
}

#[test]
fn always_listed_tools() {
    let always = |name: &str| json!({"name": name, "_meta": {"anthropic/alwaysLoad": true}});
    let lists = lists(&[always("a"), always("b"), json!({"name": "c"})]);
    let cost = estimate_tokens(lists.tools[0].raw.get());
    let check = |is_trusted: bool, max_tokens: usize, shown: &[(&str, bool)], expected: [Option<bool>; 3], ignored| {
        let shows = |is: bool| ToolOverride { always_show: Some(is), ..ToolOverride::default() };
        let overrides: Vec<(&str, ToolOverride)> = shown.iter().map(|(tool, is)| (*tool, shows(*is))).collect();
        let mut config = config(&overrides);
        config.always_load = crate::config::AlwaysLoad { is_trusted, max_tokens };
        let presentation = Presentation::new(&config, &lists);
        let deferred: Vec<Option<bool>> =
            presentation.tools.iter().map(|tool| tool.to_raw("x").expect("a tool").deferred).collect();
        assert_eq!((deferred.as_slice(), presentation.not_always_loaded.len()), (&expected[..], ignored));
    };
    // A server that is not trusted cannot keep its tools listed; the user can.
    check(false, 1000, &[], [None, None, None], 2);
    check(false, 1000, &[("a", true), ("c", true)], [Some(false), None, Some(false)], 1);
    check(true, 1000, &[], [Some(false), Some(false), None], 0);
    check(true, 1000, &[("a", false)], [Some(true), Some(false), None], 1);
    check(true, cost, &[], [Some(false), None, None], 1);
    check(true, cost - 1, &[], [None, None, None], 2);
    // What is hidden takes nothing of the tokens.
    let mut config = config(&[]);
    config.always_load = crate::config::AlwaysLoad { is_trusted: true, max_tokens: cost };
    let shown = Presentation::of_shown(&config, &lists, |item| item.key != "a");
    let deferred = |tool: &PresentedTool<'_>| (tool.name.to_owned(), tool.deferred());
    let shown: Vec<_> = shown.tools.iter().map(deferred).collect();
    assert_eq!(shown, [("b".to_owned(), Some(false)), ("c".to_owned(), None)]);
}
