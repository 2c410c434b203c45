//! One test for every bug that was found, named after it.

use pegboard_core::{Catalog, Limits, Query, Ranker, Selection, load};
use pegboard_engine::{Hybrid, RegexRanker};
use pegboard_tantivy::Bm25;

fn first(ranker: &dyn Ranker, tools: &str, query: &str) -> Option<String> {
    let loaded = load::parse("t", tools.as_bytes(), &Limits::default()).expect("a catalog");
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
    let loaded = load::parse("t", tools.as_bytes(), &Limits::default()).expect("a catalog");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let refused = RegexRanker::default().rank(&Query::new(&nested), &catalog, &Selection::everything());
    assert!(refused.is_err_and(|error| error.to_string().starts_with("invalid regex pattern: ")));
}
