//! One test for every fixed bug, named after it.

use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, load};
use pegboard_engine::{Hybrid, RegexRanker};
use pegboard_tantivy::Bm25;

fn first(ranker: &dyn Ranker, tools: &str, query: &str) -> Option<String> {
    let loaded = load::parse("t", tools.as_bytes(), &LoadLimits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let ranking = ranker.rank(&Query::new(query), &catalog, &Selection::everything()).expect("an answer");
    ranking.hits.first().map(|hit| hit.tool.name().to_owned())
}

#[test]
fn overlapping_pairs_of_characters_have_nothing_between_them() {
    let tools = r#"[{"name": "a", "description": "查询公交路线"}, {"name": "b"}]"#;
    assert_eq!(first(&Hybrid::default(), tools, "查询公交路线, then 다용도실 통돌이"), Some("a".into()));
}

#[test]
fn a_stop_word_does_not_outweigh_a_corrected_word() {
    let tools = r#"[{"name": "create_issue", "description": "Open an issue in a repository"},
                    {"name": "get_weather", "description": "Current weather for a city"}]"#;
    assert_eq!(first(&Hybrid::default(), tools, "wether in tokyo"), Some("get_weather".into()));
}

#[test]
fn a_thousand_parentheses_do_not_exhaust_the_stack() {
    let tools = r#"[{"name": "a", "description": "alpha"}]"#;
    let nested = format!("{}alpha{}", "(".repeat(1000), ")".repeat(1000));
    assert_eq!(first(&Bm25::default(), tools, &nested), Some("a".into()));
    let loaded = load::parse("t", tools.as_bytes(), &LoadLimits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let refused = RegexRanker::default().rank(&Query::new(&nested), &catalog, &Selection::everything());
    assert!(refused.is_err_and(|error| error.to_string().starts_with("invalid regex pattern: ")));
}

#[test]
fn quotes_around_deep_parentheses_do_not_exhaust_the_stack() {
    let tools = r#"[{"name": "a", "description": "alpha"}]"#;
    let nested = format!("\" {}alpha{} \"", "(".repeat(8000), ")".repeat(8000));
    assert_eq!(first(&Bm25::default(), tools, &nested), Some("a".into()), "by its words");
    let negated = format!("\" {}alpha \"", "NOT ".repeat(4000));
    assert_eq!(first(&Bm25::default(), tools, &negated), Some("a".into()), "by its words");
}

#[test]
fn what_is_not_a_valid_query_is_searched_by_its_words() {
    let tools = r#"[{"name": "a", "description": "alpha"}]"#;
    let check = |query: &str, expected: Option<&str>| {
        assert_eq!(first(&Bm25::default(), tools, query), expected.map(str::to_owned), "{query}");
    };
    check("name:*", Some("a"));
    check("foo:*", None);
    check("what's the alpha?", Some("a"));
    check("alpha: a question", Some("a"));
    check("say \"alpha", Some("a"));
    check("(((", None);
    check("?!", None);
}

#[test]
fn a_full_name_finds_a_tool_that_is_shown_without_its_server() {
    let tools = r#"[{"name": "create_issue", "server": "github"}, {"name": "send", "server": "mail"}]"#;
    for query in ["github", "name:github", "github*", "create_issue", "name:github___create_issue"] {
        assert_eq!(first(&Bm25::default(), tools, query), Some("create_issue".into()), "{query}");
    }
    assert_eq!(first(&Bm25::default(), tools, "mail"), Some("send".into()));
}

#[test]
fn two_typos_find_what_each_of_them_finds() {
    let tools = r#"[{"name": "open_database"}, {"name": "run_query"}, {"name": "get_weather"}]"#;
    let loaded = load::parse("t", tools.as_bytes(), &LoadLimits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let ranking = RegexRanker::default().rank(&Query::new("databse qeury"), &catalog, &Selection::everything());
    let names: Vec<String> = ranking.expect("hits").hits.iter().map(|hit| hit.tool.name().to_owned()).collect();
    assert_eq!(names, ["open_database", "run_query"]);
}

#[test]
fn a_fuzzy_match_prefers_the_tool_whose_other_words_are_near() {
    let tools = r#"[{"name": "send_a"}, {"name": "send_b"}, {"name": "send_c"}, {"name": "send_d"}, {"name": "send_e"},
                    {"name": "send_message"}, {"name": "get_a"}, {"name": "get_b"}, {"name": "get_weather"}]"#;
    assert_eq!(first(&RegexRanker::default(), tools, "send msg"), Some("send_message".into()));
    assert_eq!(first(&RegexRanker::default(), tools, "get wether"), Some("get_weather".into()));
}

#[test]
fn why_not_can_be_asked_about_several_intents() {
    let folder = crate::harness::Folder::new("why_not_intents");
    let output = folder.run(&["search", "create an issue and send a message", "--why-not", "weather_forecast"]);
    assert_eq!(output.status.code(), Some(0));
}
