use pegboard_core::{Catalog, LoadLimits, Selection, load};
use pegboard_engine::Keyword;
use proptest::prelude::*;

use super::*;
use crate::{DialectName, Session, Settings};

/// What a search for `query` answers.
fn answer(tools: &Value, settings: Settings, query: &str) -> String {
    answer_in(tools, settings, query, "")
}

/// The answer in this detail.
fn answer_in(tools: &Value, settings: Settings, query: &str, detail: &str) -> String {
    let loaded = load::parse("t", tools.to_string().as_bytes(), &LoadLimits::default()).expect("tools");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let ranker = Arc::new(Keyword::default());
    let session = Session::new(DialectName::Bridge, settings, catalog, Selection::everything(), ranker);
    session.expect("a session").call(SEARCH, &json!({"query": query, "detail": detail})).reply.to_text()
}

#[track_caller]
fn check_mark(annotations: &Value, expected: &str) {
    let tools = json!([{"name": "save_note", "annotations": annotations}]);
    assert_eq!(answer(&tools, Settings::default(), "save note"), expected);
}

#[test]
fn effects_are_marked_where_annotations_say_so() {
    check_mark(&json!({}), "save_note()");
    check_mark(&json!({"readOnlyHint": true}), "save_note()");
    check_mark(&json!({"readOnlyHint": true, "destructiveHint": true}), "save_note()");
    check_mark(&json!({"readOnlyHint": false}), "save_note() [writes]");
    check_mark(&json!({"destructiveHint": false}), "save_note() [writes]");
    check_mark(&json!({"readOnlyHint": false, "destructiveHint": true}), "save_note() [destroys]");
    let tools = json!([{"name": "save_note", "annotations": {"destructiveHint": true}}]);
    let split = Settings { split_by_risk: true, ..Settings::default() };
    assert_eq!(answer(&tools, split, "save note"), "save_note() [call_destructive_tool]");
}

#[test]
fn full_answers_say_a_short_description_once() {
    let check = |description: &str, expected: &str| {
        let tools = json!([{"name": "save_note", "description": description, "inputSchema": {"type": "object"}}]);
        assert_eq!(answer_in(&tools, Settings::default(), "save note", "full"), expected);
    };
    check("Save a note.", "save_note() — Save a note\n{\"type\":\"object\"}");
    check("Save a note. At once.", "save_note() — Save a note\nSave a note. At once.\n{\"type\":\"object\"}");
    check("", "save_note()\n{\"type\":\"object\"}");
}

/// Tools with one required and so many optional parameters, all of them described.
fn described(tools: usize, optional: usize) -> Value {
    let property = json!({"type": "string", "description": "When it began (ISO 8601, e.g. 2024-01-31)"});
    let mut properties = serde_json::Map::new();
    properties.insert("start".to_owned(), property.clone());
    properties.extend((0..optional).map(|at| (format!("option{at}"), property.clone())));
    let schema = json!({"properties": properties, "required": ["start"]});
    (0..tools)
        .map(|at| json!({"name": format!("note_{at}"), "description": "word ".repeat(18), "inputSchema": schema}))
        .collect()
}

/// How many of the lines have notes on the required parameter, optional types, and other notes.
#[track_caller]
fn check_details(tools: usize, optional: usize, expected: [usize; 3]) {
    let text = answer(&described(tools, optional), Settings::default(), "note");
    let lines = |sign: &str| text.lines().filter(|line| line.contains(sign)).count();
    assert_eq!(text.lines().count(), tools.min(5));
    let found = [lines("(start: string /* "), lines("option0?: string"), lines("option0?: string /* ")];
    assert_eq!(found, expected, "{text}");
}

#[test]
fn notes_give_way_to_the_budget() {
    check_details(1, 2, [1, 1, 1]);
    check_details(5, 1, [5, 5, 2]);
    check_details(5, 2, [5, 5, 0]);
    check_details(5, 5, [1, 4, 0]);
    check_details(5, 6, [1, 2, 0]);
}

proptest! {
    /// Only lines in their briefest form may exceed the room.
    #[test]
    fn answers_stay_within_the_budget(tools in 1..8_usize, optional in 0..9_usize, hits in 1..8_usize) {
        let settings = Settings { hits_per_query: hits, ..Settings::default() };
        let text = answer(&described(tools, optional), settings, "note");
        let is_brief = !text.contains("?: ") && !text.contains("/*");
        prop_assert!(is_brief || estimate_tokens(&text) <= HIT_TOKENS * hits, "{text}");
        prop_assert_eq!(text.lines().count(), tools.min(hits));
    }
}
