use super::*;

fn raw(server: &str, name: &str, description: &str) -> RawTool {
    RawTool {
        name: name.into(),
        description: description.into(),
        server: (!server.is_empty()).then(|| server.into()),
        ..RawTool::default()
    }
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.iter().map(|tool| tool.id()).collect()
}

fn server(name: &str) -> Server {
    Server { name: name.into(), ..Server::default() }
}

#[test]
fn input_order_is_kept_where_servers_alternate() {
    let (catalog, warnings) =
        Catalog::from_tools(vec![raw("b", "x", ""), raw("a", "y", ""), raw("b", "z", ""), raw("", "q", "")]);
    assert_eq!(ids(&catalog), ["b/x", "a/y", "b/z", "q"]);
    assert_eq!(warnings, []);
    let servers: Vec<&str> = catalog.servers().iter().map(|server| server.name.as_str()).collect();
    assert_eq!(servers, ["b", "a"]);
}

/// Definitions are most of what a catalog occupies.
#[test]
fn texts_of_a_definition_are_held_once() {
    let json = r#"{"name":"x","description":"Does it.","inputSchema":{ "type":"object" },"outputSchema":{}}"#;
    let loaded = crate::load::parse("x.json", json.as_bytes(), &crate::LoadLimits::default()).expect("a tool");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let tool = catalog.iter().next().expect("a tool");
    let original = tool.original().expect("a definition").get();
    assert_eq!(original, json);
    let texts = [Some(tool.description()), tool.input_schema(), tool.output_schema()];
    for (text, expected) in texts.into_iter().zip(["Does it.", r#"{ "type":"object" }"#, "{}"]) {
        let text = text.expect("a text");
        assert_eq!(text, expected);
        assert!(original.as_bytes().as_ptr_range().contains(&text.as_ptr()), "{text}");
    }
}

#[test]
fn the_server_in_a_prefixed_name_counts() {
    let (catalog, _) = Catalog::from_tools(vec![raw("", "github___create_issue", "")]);
    assert_eq!(catalog.iter().next().and_then(|tool| tool.server_name()), Some("github"));
}

#[test]
fn duplicates_and_nameless_tools_are_reported_and_left_out() {
    let (catalog, warnings) = Catalog::from_tools(vec![
        raw("a", "x", "first"),
        raw("a", "x", "second"),
        raw("a", "X", "names are case-sensitive"),
        raw("a", " \u{7}", ""),
        raw("b", "x", "another server"),
    ]);
    assert_eq!(ids(&catalog), ["a/x", "a/X", "b/x"]);
    assert_eq!(catalog.find("a/x").map(|tool| tool.description()), Some("first"));
    let kinds: Vec<&str> = warnings.iter().map(|warning| warning.kind.as_str()).collect();
    assert_eq!(kinds, ["duplicate-tool", "empty-name"]);
}

#[test]
fn replacing_a_server_shares_what_did_not_change() {
    let (before, _) =
        Catalog::from_tools(vec![raw("a", "x", "1"), raw("b", "y", "1"), raw("a", "z", "1"), raw("c", "w", "1")]);
    let (after, _) = before.with_server(server("a"), vec![raw("", "x", "1"), raw("", "z", "2"), raw("", "new", "1")]);
    assert_eq!(ids(&after), ["a/x", "a/z", "a/new", "b/y", "c/w"]);
    let shared = |id: &str| match (before.find(id), after.find(id)) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    assert!(shared("a/x") && shared("b/y") && shared("c/w"));
    assert!(!shared("a/z"));

    let changes = after.changes_since(&before);
    let names = |tools: &[Arc<Tool>]| tools.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>();
    assert_eq!((names(&changes.added), names(&changes.removed)), (vec!["z".into(), "new".into()], vec!["z".into()]));
}

#[test]
fn a_server_can_come_and_go() {
    let (catalog, _) = Catalog::from_tools(vec![raw("a", "x", "")]);
    let (catalog, _) = catalog.with_server(server("b"), vec![raw("", "y", "")]);
    assert_eq!(ids(&catalog), ["a/x", "b/y"]);
    let catalog = catalog.without_server("a");
    assert_eq!((ids(&catalog), catalog.version()), (vec!["b/y"], 3));
}

#[test]
fn an_id_that_another_server_uses_is_a_duplicate() {
    let (catalog, _) = Catalog::from_tools(vec![raw("a", "x", "")]);
    let clash = RawTool { id: Some("a/x".into()), ..raw("", "other", "") };
    let (catalog, warnings) = catalog.with_server(server("b"), vec![clash]);
    assert_eq!((ids(&catalog), warnings.len()), (vec!["a/x"], 1));
}

#[test]
fn servers_can_be_put_in_order() {
    let (catalog, _) = Catalog::from_tools(vec![raw("b", "x", ""), raw("c", "y", ""), raw("a", "z", "")]);
    let ordered = catalog.ordered_by(&["a", "b"]);
    assert_eq!(ids(&ordered), ["a/z", "b/x", "c/y"]);
    assert!(ordered.ordered_by(&["a", "b"]).same_snapshot(&ordered));
    let changes = ordered.changes_since(&catalog);
    assert!(changes.added.is_empty() && changes.removed.is_empty());
}
