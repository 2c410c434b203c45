use pegboard_core::{Annotations, Catalog, RawTool};

use super::*;

#[track_caller]
fn check_query(query: &str, expected: &str) {
    assert_eq!(of_query(query).map_or("none", |wanted| name_of(wanted.kinds)), expected, "{query}");
}

#[test]
fn queries() {
    for (query, expected) in [
        ("delete invoice", "delete"),
        ("please get rid of the old entries", "delete"),
        ("take the whole site down for an hour", "stop"),
        ("which volumes are there", "list"),
        ("Deleting users", "delete"),
        ("spin up a machine", "create"),
        ("how many open tickets", "count"),
        ("weather tomorrow", "none"),
        ("status of an issue", "read"),
        ("", "none"),
        ("löschen", "none"),
    ] {
        check_query(query, expected);
    }
}

#[track_caller]
fn check_tool(name: &str, description: &str, read_only: Option<bool>, expected: &str) {
    let annotations = Annotations { read_only, ..Annotations::default() };
    let tool = RawTool { name: name.into(), description: description.into(), annotations, ..RawTool::default() };
    let (catalog, _) = Catalog::from_tools(vec![tool]);
    let action = ToolAction::of(catalog.iter().next().expect("one tool"));
    assert_eq!(action.kinds().as_ref().map_or("none", name_of), expected, "{name}: {description}");
    assert_eq!(ToolAction::from_numbers(action.to_numbers()), action);
}

#[test]
fn tools() {
    check_tool("invoice_void", "", None, "delete");
    check_tool("listInvoices", "", None, "list");
    check_tool("post_v2_projects_id_members", "", None, "create");
    check_tool("GetHTTPStatus", "", None, "read");
    check_tool("membership", "Removes a user from a team.", None, "delete");
    check_tool("weather", "Weather for a city", None, "none");
    // What changes nothing does not create.
    check_tool("make_report", "Create a report", Some(true), "create");
    check_tool("post_search", "Search posts", Some(true), "search");
}

#[test]
fn every_line_of_the_list_is_read() {
    let text = include_str!("verbs.txt");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &lines {
        let (_, kinds) = line.split_once(" = ").expect("a verb and its kinds");
        for kind in kinds.split(' ') {
            let (kind, weight) = kind.split_once(':').unwrap_or((kind, "1"));
            assert!(KINDS.contains(&kind) && weight.parse::<f32>().is_ok_and(|weight| weight > 0.0), "{line}");
        }
    }
    let before = lines.len();
    lines.dedup_by_key(|line| line.split(" = ").next());
    assert_eq!(lines.len(), before, "a verb is there twice");
    assert_eq!(VERBS.entries.len(), before + METHODS.len());
}

#[test]
fn a_plain_verb_clashes_with_another_action() {
    let check = |query: &str, name: &str, description: &str, expected: Clash| {
        let tool = RawTool { name: name.into(), description: description.into(), ..RawTool::default() };
        let (catalog, _) = Catalog::from_tools(vec![tool]);
        let offered = ToolAction::of(catalog.iter().next().expect("a tool")).kinds().expect("a verb");
        assert_eq!(of_query(query).expect("a verb").clash(&offered), expected, "{query} and {name}");
    };
    check("delete invoice", "send_invoice", "Send an invoice", Clash::Harm);
    check("please delete the invoice", "create_invoice", "Create an invoice", Clash::Harm);
    check("delete invoice", "list_invoices", "List invoices", Clash::Other);
    check("delete invoice", "delete_invoice", "Delete an invoice", Clash::None);
    check("show invoices", "search_invoices", "Search invoices", Clash::None);
    check("show invoices", "create_invoice", "Create an invoice", Clash::Harm);
    check("remove a label from an issue", "update_issue", "Update an issue", Clash::None);
    check("get rid of the invoice", "create_invoice", "Create an invoice", Clash::None);
}
