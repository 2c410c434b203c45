//! What must hold for words and meaning together.

use pegboard_core::{Catalog, Ranker, RawTool, Selection, Server};
use proptest::prelude::*;

use super::*;
use crate::lexical::{
    Lexical,
    tests::{OFFICE, any_query, any_tool, catalog, ids},
};

const CALLS: &str = "
    phone/place_call: Call a person on the phone
    phone/hang_up: End the current phone call
    mail/send_email: Send an email to a person
    weather/forecast: The weather of the next days
    files/remove: Delete a file from the disk
    calendar/add_event: Put an event into the calendar
";

fn rank(catalog: &Catalog, query: &Query<'_>) -> Ranking {
    Hybrid::default().rank(query, catalog, &Selection::everything()).expect("the query is fine")
}

#[track_caller]
fn check(lines: &str, query: &str, expected: &[&str]) {
    let found = ids(&rank(&catalog(lines), &Query::new(query).least_confidence(0.0)));
    assert_eq!(found[..expected.len().min(found.len())], *expected, "{query}: {found:?}");
}

#[test]
fn meaning_finds_what_words_do_not() {
    check(CALLS, "ring my colleague", &["phone/place_call"]);
    check(CALLS, "telephone my mother", &["phone/place_call"]);
    check(CALLS, "erase a document", &["files/remove"]);
    check(CALLS, "will it rain tomorrow", &["weather/forecast"]);
    assert_eq!(rank(&catalog(""), &Query::new("ring my colleague")).hits.len(), 0);
}

#[test]
fn a_name_comes_first_whatever_else_is_near() {
    check(CALLS, "hang_up", &["phone/hang_up"]);
    check(CALLS, "use send_email to ring my colleague on the phone", &["mail/send_email"]);
    check(OFFICE, "createIssue", &["github/create_issue"]);
}

#[test]
fn every_request_is_heard() {
    let query = "forecast the rain tomorrow, then email my colleague";
    let found = ids(&rank(&catalog(CALLS), &Query::new(query).least_confidence(0.0)));
    assert!(found[..2].contains(&"weather/forecast".to_owned()), "{found:?}");
    assert!(found[..2].contains(&"mail/send_email".to_owned()), "{found:?}");
}

#[test]
fn what_is_unlikely_is_withheld_and_can_be_had() {
    let catalog = catalog(CALLS);
    let query = Query::new("a recipe for a cake with chocolate");
    let ranking = rank(&catalog, &query);
    assert!(ranking.hits.is_empty() && !ranking.withheld.is_empty(), "{ranking:?}");
    assert!(ranking.confidence.is_some_and(|confidence| confidence < 0.2), "{ranking:?}");
    let shown = rank(&catalog, &query.least_confidence(0.0));
    assert_eq!(ids(&shown).len(), ranking.withheld.len());
    assert!(shown.withheld.is_empty());
    let nothing = rank(&catalog, &Query::new("quantum chromodynamics lecture about gluons"));
    assert!(nothing.hits.is_empty() && nothing.withheld.is_empty() && nothing.confidence == Some(0.0), "{nothing:?}");
    let empty = rank(&catalog, &Query::new("and what of it"));
    assert!(empty.hits.is_empty() && empty.confidence == Some(0.0), "{empty:?}");
    let words = Lexical::default();
    let half = Query::new("call nobody").least_confidence(0.8);
    let ranking = words.rank(&half, &catalog, &Selection::everything()).expect("the query is fine");
    assert!(ranking.hits.is_empty() && !ranking.withheld.is_empty(), "{ranking:?}");
    let strict = rank(&catalog, &Query::new("call a person").least_confidence(1.0));
    assert!(strict.hits.is_empty() && !strict.withheld.is_empty());
    let named = rank(&catalog, &Query::new("place_call").least_confidence(1.0));
    assert_eq!((named.confidence, named.hits.is_empty()), (Some(1.0), false));
}

#[test]
fn languages_that_the_model_does_not_read_are_left_to_words() {
    let lines = "mail: 发送电子邮件给联系人\nmsg: отправить сообщение\nnote: añadir una nota a la lista";
    for (query, best) in [("发邮件", "mail"), ("отправка сообщений в команду", "msg"), ("anadir NOTA", "note")]
    {
        check(lines, query, &[best]);
    }
    let query = Query::new("отправка сообщений в команду").explain(true);
    let ranking = rank(&catalog(lines), &query);
    assert!(ranking.hits[0].why.iter().all(|reason| reason.field != pegboard_core::Field::Meaning));
}

#[test]
fn reasons_name_the_words_that_mean_it_and_add_up() {
    let catalog = catalog(CALLS);
    for text in ["ring my colleague", "call a person", "use place_call now", "call my colleague, then email the file"] {
        for hit in rank(&catalog, &Query::new(text).explain(true).least_confidence(0.0)).hits {
            let sum: f64 = hit.why.iter().map(|reason| reason.weight).sum();
            assert!((sum - hit.score).abs() < 1e-6, "{text} {} {sum} {}", hit.tool.id(), hit.score);
            assert!(hit.why.is_sorted_by(|a, b| a.weight >= b.weight), "{:?}", hit.why);
        }
    }
    let hit = rank(&catalog, &Query::new("telephone my mother").explain(true).least_confidence(0.0)).hits.remove(0);
    let meaning: Vec<&str> = hit.why.iter().map(|reason| reason.term.as_str()).collect();
    assert_eq!((hit.tool.name(), meaning), ("place_call", vec!["telephone"]));
}

#[test]
fn vectors_are_small_and_only_where_they_are_needed() {
    let lines: String = (0..1000).map(|number| format!("s/tool_{number}: sends message {number}\n")).collect();
    let catalog = catalog(&lines);
    let more = Hybrid::default().index_bytes(&catalog) - Lexical::default().index_bytes(&catalog);
    assert!(more <= 300 * catalog.len() && more >= 256 * catalog.len(), "{more}");
}

/// The vectors of the index of `catalog`, in catalog order.
fn vectors(ranker: &Hybrid, catalog: &Catalog) -> Vec<(String, crate::semantic::Vector)> {
    let index = ranker.index(catalog);
    let view = index.view(&Selection::everything());
    let mut found = Vec::new();
    for part in &view.parts {
        for (doc, tool) in part.segment.tools.iter().enumerate() {
            if part.visible_word(doc / 64) >> (doc % 64) & 1 == 1 {
                found.push((tool.id().to_owned(), part.segment.vectors.get(doc as u32, 256)));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

type RankingParts = (Vec<(String, f64)>, usize, Option<f64>, Vec<String>);

fn full(ranker: &Hybrid, query: &str, limit: usize, catalog: &Catalog, selection: &Selection) -> RankingParts {
    let ranking = ranker.rank(&Query::new(query).limit(limit), catalog, selection).unwrap();
    let names = |hits: &[pegboard_core::Hit]| hits.iter().map(|hit| hit.tool.id().to_owned()).collect();
    let hits = ranking.hits.iter().map(|hit| (hit.tool.id().to_owned(), hit.score)).collect();
    (hits, ranking.total, ranking.confidence, names(&ranking.withheld))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_updated_index_equals_a_fresh_one(
        first in prop::collection::vec(any_tool(), 0..60),
        steps in prop::collection::vec((0..4_usize, prop::collection::vec(any_tool(), 0..30)), 1..6),
        query in any_query(),
    ) {
        let ranker = Hybrid::default();
        let (mut catalog, _) = Catalog::from_tools(first);
        ranker.prepare(&catalog);
        for (server, tools) in steps {
            let server = Server { name: format!("s{server}"), ..Server::default() };
            (catalog, _) = if tools.is_empty() {
                (catalog.without_server(&server.name), Vec::new())
            } else {
                catalog.with_server(server, tools)
            };
            let fresh = Hybrid::default();
            prop_assert_eq!(
                full(&ranker, &query, 10, &catalog, &Selection::everything()),
                full(&fresh, &query, 10, &catalog, &Selection::everything())
            );
            prop_assert_eq!(vectors(&ranker, &catalog), vectors(&fresh, &catalog));
        }
    }

    #[test]
    fn a_selection_equals_a_smaller_catalog(
        tools in prop::collection::vec(any_tool(), 0..90),
        query in any_query(),
    ) {
        let (catalog, _) = Catalog::from_tools(tools.clone());
        let selection = Selection::everything().allow_servers(["s1", "s3"]);
        let visible = tools.into_iter().filter(|tool| ["s1", "s3"].contains(&tool.server.as_deref().unwrap_or("")));
        let (smaller, _) = Catalog::from_tools(visible.collect());
        prop_assert_eq!(
            full(&Hybrid::default(), &query, 10, &catalog, &selection),
            full(&Hybrid::default(), &query, 10, &smaller, &Selection::everything())
        );
    }

    #[test]
    fn a_limit_only_cuts(
        tools in prop::collection::vec(any_tool(), 0..200),
        query in any_query(),
        limit in 0..12_usize,
    ) {
        let (catalog, _) = Catalog::from_tools(tools);
        let ranker = Hybrid::default();
        let some = full(&ranker, &query, limit, &catalog, &Selection::everything());
        let mut all = full(&ranker, &query, usize::MAX, &catalog, &Selection::everything());
        all.0.truncate(limit);
        all.3.truncate(limit);
        prop_assert_eq!(some, all);
    }

    /// The lexical half of a fused score is what the lexical ranker gives.
    #[test]
    fn without_a_known_word_it_is_the_lexical_order(
        tools in prop::collection::vec(any_tool(), 0..60),
        words in prop::collection::vec(prop::sample::select(&["จดหมาย", "ค้นหา", "γραφή"][..]), 1..5),
    ) {
        let (catalog, _) = Catalog::from_tools(tools);
        let text = words.join(" ");
        let query = Query::new(&text).limit(usize::MAX);
        let lexical = Lexical::default().rank(&query, &catalog, &Selection::everything()).unwrap();
        let hybrid = Hybrid::default().rank(&query, &catalog, &Selection::everything()).unwrap();
        prop_assert_eq!(ids(&hybrid), ids(&lexical));
        prop_assert_eq!(hybrid.total, lexical.total);
    }

    #[test]
    fn any_text_is_answered(query in ".{0,200}", tools in prop::collection::vec((".{1,20}", ".{0,60}"), 0..10)) {
        let tool = |(name, description): (String, String)| RawTool { name, description, ..RawTool::default() };
        let (catalog, _) = Catalog::from_tools(tools.into_iter().map(tool).collect());
        let query = Query::new(&query).explain(true).least_confidence(0.0);
        if let Ok(ranking) = Hybrid::default().rank(&query, &catalog, &Selection::everything()) {
            prop_assert!(ranking.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
            prop_assert!(ranking.hits.len() <= ranking.total && ranking.withheld.is_empty());
        }
    }
}

/// A coarse pass must not lose what an exact one finds.
#[test]
fn a_coarse_pass_keeps_the_best() {
    let verbs =
        ["create", "delete", "list", "send", "search", "update", "convert", "schedule", "translate", "summarize"];
    let things = [
        "invoice",
        "email",
        "meeting",
        "photo",
        "database",
        "ticket",
        "contract",
        "song",
        "flight",
        "recipe",
        "report",
        "customer",
        "password",
        "branch",
        "container",
        "budget",
        "podcast",
        "hotel",
        "survey",
        "warehouse",
    ];
    let places = ["office", "cloud", "phone", "school", "hospital", "shop", "bank", "factory", "museum", "airport"];
    let mut lines = String::new();
    for verb in verbs {
        for thing in things {
            for place in places {
                lines.push_str(&format!("{place}/{verb}_{thing}: {verb} a {thing} of the {place}\n"));
            }
        }
    }
    let catalog = catalog(&lines);
    let ranker = Hybrid::default();
    let index = ranker.index(&catalog);
    let view = index.view(&Selection::everything());
    let coarse = scan::Scan { coarse_above: 0, kept: catalog.len() / 20 };
    let mut found = 0;
    let queries = [
        "ring the bank",
        "throw away old pictures",
        "put the bill into the books",
        "plan a trip by plane",
        "make a playlist",
        "who bought something",
        "remind me of the appointment",
        "cook dinner",
    ];
    for query in queries {
        let vector = Model::embedded().query_vector(query).expect("all words are known");
        let best = |scan: scan::Scan| {
            let mut layers = Vec::new();
            scan.run(&view, std::slice::from_ref(&vector), &[], &mut layers);
            let layer = layers.remove(0);
            let mut order: Vec<usize> = (0..layer.values.len()).collect();
            order.sort_by(|a, b| layer.values[*b].total_cmp(&layer.values[*a]).then(a.cmp(b)));
            order.truncate(10);
            order
        };
        let (exact, coarse) = (best(scan::Scan::default()), best(coarse));
        found += exact.iter().filter(|row| coarse.contains(row)).count();
    }
    assert!(found >= 10 * queries.len() * 95 / 100, "{found} of {}", 10 * queries.len());
}
