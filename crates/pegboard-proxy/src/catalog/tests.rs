use super::*;
use crate::wires::{Chat, Messages};

fn list(names: &[&str]) -> String {
    let tool = |name: &&str| {
        format!(
            r#"{{"type":"function","function":{{"name":"{name}","description":"Does {name}","parameters":{{"type":"object"}}}}}}"#
        )
    };
    format!("[{}]", names.iter().map(tool).collect::<Vec<_>>().join(", "))
}

#[test]
fn a_list_is_parsed_once() {
    let sets = ToolSets::default();
    let (first, is_new) = sets.get(&list(&["a", "b"]), &Chat);
    assert!(is_new && first.len() == 2 && first.deferrable() == 2 && first.bypass.is_none());
    let (second, is_new) = sets.get(&list(&["a", "b"]), &Chat);
    assert!(!is_new && Arc::ptr_eq(&first, &second));
    assert!(!Arc::ptr_eq(&first, &sets.get(&list(&["b", "a"]), &Chat).0));
    let definition: serde_json::Value = serde_json::from_str(first.definition("b").expect("a tool")).expect("JSON");
    assert_eq!(definition["function"]["name"], "b");
}

#[test]
fn a_list_is_read_in_the_format_of_its_request() {
    let list = list(&["a", "b"]);
    // A program with the base URL of another API sends the list there first.
    let sets = ToolSets::default();
    let (wrong, _) = sets.get(&list, &Messages);
    assert!(wrong.bypass.is_some());
    for is_known in [false, true] {
        let (right, is_new) = sets.get(&list, &Chat);
        assert_eq!((right.bypass, right.deferrable(), is_new), (None, 2, !is_known));
    }
    assert!(Arc::ptr_eq(&wrong, &sets.get(&list, &Messages).0));
}

#[test]
fn cached_lists_are_bounded() {
    let sets = ToolSets::default();
    for at in 0..MAX_CACHED_LISTS + 10 {
        sets.get(&list(&[&format!("t{at}")]), &Chat);
    }
    assert_eq!(sets.lock().sets.len(), MAX_CACHED_LISTS);
    assert!(!sets.get(&list(&[&format!("t{}", MAX_CACHED_LISTS + 9)]), &Chat).1, "the newest is kept");
    assert!(sets.get(&list(&["t0"]), &Chat).1, "the oldest is not");
}

#[test]
fn lists_that_are_not_changed() {
    let check = |list: &str, expected: Option<&str>| {
        assert_eq!(ToolSets::default().get(list, &Chat).0.bypass, expected, "{list}");
    };
    check(&list(&["a"]), None);
    check(&list(&["a", "a"]), Some("duplicate-tools"));
    check(&list(&["search_tools"]), Some("tool-name-taken"));
    check("[1]", Some("unreadable-tools"));
    check("{}", Some("unreadable-tools"));
    check(r#"[{"type":"retrieval"}]"#, Some("unknown-tool-type"));
    check(r#"[{"type":"function","defer_loading":true,"function":{"name":"a"}}]"#, Some("already-deferred"));
}

#[test]
fn searches_find_tools_by_their_texts() {
    let (set, _) = ToolSets::default().get(&list(&["mcp__github__create_issue", "get_weather"]), &Chat);
    let mut session = set.session().expect("tools");
    let answer = session.call(SEARCH, &serde_json::json!({"query": "create issue"}));
    assert!(answer.reply.to_text().contains("mcp__github__create_issue"), "{:?}", answer.reply);
    let names = |own: Vec<ToolDefinition>| own.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    let own = set.own_tools(false).expect("tools");
    assert!(own[0].description.contains("github") && own[0].description.contains(BRIDGE_SEARCH_RESULT), "{own:?}");
    assert_eq!(names(own), [SEARCH, CALL]);
    let own = set.own_tools(true).expect("tools");
    assert!(!own[0].description.contains("call tool"), "{own:?}");
    assert!(own[0].description.ends_with("can be called from then on."), "{own:?}");
    assert_eq!(names(own), [SEARCH]);
}
