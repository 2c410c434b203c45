//! Property tests for each parser of text from outside.
//!
//! The catalog and configuration parsers have theirs beside their code.

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, RawTool, Selection, Tool};
use pegboard_engine::{Hinted, Hybrid, Keyword, RegexRanker, Sequence};
use pegboard_tantivy::Bm25;
use proptest::prelude::*;

fn rankers() -> [Box<dyn Ranker>; 6] {
    [
        Box::new(Hybrid::default()),
        Box::new(RegexRanker::default()),
        Box::new(Bm25::default()),
        Box::new(Keyword::default()),
        Box::new(Sequence::default()),
        Box::new(Hinted::default()),
    ]
}

fn catalog() -> Catalog {
    let tool = |name: &str, description: &str| RawTool {
        name: name.into(),
        description: description.into(),
        server: Some("s".into()),
        ..RawTool::default()
    };
    let long = "word ".repeat(60);
    Catalog::from_tools(vec![
        tool("create_issue", "Create a new issue"),
        tool("github___get", "Get issues from GitHub"),
        tool("发送邮件", "发送电子邮件"),
        tool("ÜberTool", "é̂ combining"),
        tool("long", &long),
        tool("x", ""),
    ])
    .0
}

/// Checks the promises of a ranker for any query.
fn check(ranker: &dyn Ranker, query: &str, catalog: &Catalog) -> Result<(), TestCaseError> {
    let name = ranker.name();
    let ask = |query: Query<'_>| ranker.rank(&query, catalog, &Selection::everything());
    match ask(Query::new(query).explain(true)) {
        Ok(ranking) => {
            prop_assert!(ranking.hits.len() <= ranking.total, "{}", name);
            prop_assert!(ranking.hits.iter().all(|hit| hit.score.is_finite()), "{}", name);
            prop_assert!(ranking.hits.is_sorted_by(|a, b| a.score >= b.score), "{}", name);
            let again = ask(Query::new(query).explain(true)).expect("the same answer");
            let ids = |hits: &[pegboard_core::Hit]| hits.iter().map(|hit| hit.tool.id().to_owned()).collect::<Vec<_>>();
            prop_assert_eq!(ids(&ranking.hits), ids(&again.hits), "{}", name);
            let none = ask(Query::new(query).limit(0)).expect("the same answer");
            prop_assert!(none.hits.is_empty() && none.total == ranking.total, "{}", name);
            let all = ask(Query::new(query).limit(usize::MAX)).expect("the same answer");
            let first: Vec<String> = ids(&all.hits).into_iter().take(10).collect();
            prop_assert_eq!(ids(&ranking.hits), first, "{}: a limit only cuts", name);
            check_selection(ranker, query, catalog)?;
        }
        Err(error) => prop_assert!(!error.to_string().is_empty(), "{}", name),
    }
    Ok(())
}

/// Checks that a selection ranks like a catalog without the hidden tools.
fn check_selection(ranker: &dyn Ranker, query: &str, catalog: &Catalog) -> Result<(), TestCaseError> {
    let selection = Selection::everything().deny(["create_issue", "long"]);
    let raw = |tool: &Tool| RawTool {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        server: tool.server_name().map(str::to_owned),
        ..RawTool::default()
    };
    let visible = catalog.iter().filter(|tool| selection.allows(tool)).map(|tool| raw(tool));
    let (smaller, _) = Catalog::from_tools(visible.collect());
    let show = |ranking: Result<Ranking, QueryError>| {
        let ranking = ranking.expect("an answer");
        let hits: Vec<(String, f64)> = ranking.hits.iter().map(|hit| (hit.tool.id().to_owned(), hit.score)).collect();
        (hits, ranking.total, ranking.unmatched)
    };
    let selected = show(ranker.rank(&Query::new(query), catalog, &selection));
    let expected = show(ranker.rank(&Query::new(query), &smaller, &Selection::everything()));
    prop_assert_eq!(selected, expected, "{}", ranker.name());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_query_on_any_ranker(query in ".{0,120}") {
        let catalog = catalog();
        for ranker in rankers() {
            check(&*ranker, &query, &catalog)?;
        }
    }

    #[test]
    fn pieces_of_query_syntax(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        let catalog = catalog();
        let query = pieces.concat();
        for ranker in rankers() {
            check(&*ranker, &query, &catalog)?;
        }
    }

    #[test]
    fn one_piece_over_and_over(piece in prop::sample::select(PIECES), count in 1..4000_usize) {
        let catalog = catalog();
        let query = piece.repeat(count);
        // `sequence` compares letter by letter, and is bounded by its own limit.
        for ranker in rankers().iter().filter(|ranker| ranker.name() != "sequence") {
            check(&**ranker, &query, &catalog)?;
        }
    }
}

/// Parts of the query languages.
const PIECES: &[&str] = &[
    "(", ")", "[", "]", "{", "}", "*", "+", "?", "|", "^", "$", "\\", ".", "a", "issue", "create_", " ", " AND ",
    " OR ", "NOT ", "-", "+", "\"", "'", ":", "name:", "server:", "~2", "^2.5", "IN [", " TO ", "{1,1000}", "(?i)",
    "(?P<x>", "select:", "发", "é", "\u{301}", "\u{0}", "\n", "/", "//", "`",
];
