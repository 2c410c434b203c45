//! What habits may do, and what they may not.

use std::sync::Arc;

use pegboard_core::{
    Catalog, Field, Hit, Limits, Query, QueryError, Ranker, Ranking, Selection, Tool, ToolVectors, load,
};
use proptest::prelude::*;
use serde_json::json;

use super::{words, *};
use crate::{Hybrid, Lexical};

const DAY: u64 = 86_400;

fn catalog() -> Catalog {
    let file = br#"[
        {"name": "create_issue", "description": "Open an issue in a repository", "server": "github"},
        {"name": "list_issues", "description": "List the issues of a repository", "server": "github"},
        {"name": "create_ticket", "description": "Open a ticket about an issue with a customer", "server": "desk"},
        {"name": "send_mail", "description": "Send a mail", "server": "mail"},
        {"name": "place_call", "description": "Dial a number", "server": "phone"}
    ]"#;
    Catalog::from_tools(load::parse("tools.json", file, &Limits::default()).expect("tools").tools).0
}

/// Habits of one moment.
#[derive(Debug)]
struct At(Habits, u64);

impl BoostSource for At {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        self.0.boosts(query, self.1, is_visible)
    }
}

/// Everything is visible.
fn all(_: &str) -> bool {
    true
}

fn learned(lessons: &[(&str, &str)]) -> Habits {
    let mut habits = Habits::new(HabitSettings::default());
    for (query, tool) in lessons {
        habits.learn(Lesson::new(query, tool, 1.0, 0).expect("a lesson"));
    }
    habits
}

fn ranker(habits: Habits, now: u64) -> Habitual {
    Habitual::new(Arc::new(Lexical::default()), Arc::new(At(habits, now)))
}

fn ids(ranking: &Ranking) -> Vec<&str> {
    ranking.hits.iter().map(|hit| hit.tool.id()).collect()
}

fn first(lessons: &[(&str, &str)], query: &str) -> String {
    let ranking = ranker(learned(lessons), 0).rank(&Query::new(query), &catalog(), &Selection::everything());
    ids(&ranking.expect("a ranking")).first().map_or(String::new(), |id| (*id).to_owned())
}

#[test]
fn what_was_called_comes_first_the_next_time() {
    let often = [("open an issue", "desk/create_ticket"); 5];
    assert_eq!(first(&[], "open an issue"), "github/create_issue");
    assert_eq!(first(&often, "open an issue"), "desk/create_ticket");
    assert_eq!(first(&often, "opening issues"), "desk/create_ticket", "in other forms of the words");
    assert_eq!(first(&often, "list the issues"), "github/list_issues", "another request");
}

#[test]
fn a_name_stays_first_whatever_the_habits() {
    let lessons: Vec<(&str, &str)> = ["create_issue", "create issue", "github/create_issue", "run `create_issue` now"]
        .into_iter()
        .flat_map(|query| [(query, "desk/create_ticket"); 200])
        .collect();
    for query in ["create_issue", "create issue", "github/create_issue", "run `create_issue` now"] {
        assert_eq!(first(&lessons, query), "github/create_issue", "{query}");
    }
}

#[test]
fn a_tool_that_no_word_finds_is_found_by_habit() {
    let lessons = [("ring my colleague", "phone/place_call")];
    assert_eq!(first(&[], "ring my colleague"), "");
    assert_eq!(first(&lessons, "ring my colleague"), "phone/place_call");
    assert_eq!(first(&lessons, "ring bells tomorrow morning"), "", "one word is not enough");
    let query = Query::new("ring my colleague").explain(true);
    let ranking = ranker(learned(&lessons), 0).rank(&query, &catalog(), &Selection::everything()).expect("a ranking");
    let why = &ranking.hits[0].why;
    assert_eq!((why[0].field, why[0].term.as_str(), ranking.total), (Field::Usage, "colleagu ring", 1));
    assert!((why[0].weight - 0.25).abs() < 1e-9, "{why:?}");
}

#[test]
fn what_is_hidden_leaves_no_trace() {
    let habits = learned(&[("open an issue", "desk/create_ticket"), ("open an issue", "nobody/knows")]);
    let hidden = Selection::everything().deny(["desk"]);
    let query = Query::new("open an issue").limit(3).explain(true);
    let with = ranker(habits, 0).rank(&query, &catalog(), &hidden).expect("a ranking");
    let without = Lexical::default().rank(&query, &catalog(), &hidden).expect("a ranking");
    assert_eq!(format!("{with:?}"), format!("{without:?}"));
}

#[test]
fn what_is_hidden_takes_no_share_of_what_others_add() {
    let visible = [("open an issue", "github/list_issues"), ("open an issue", "github/create_issue")];
    // More than one query raises, and stronger than those that are visible.
    let strangers: Vec<String> = (0..20).map(|at| format!("gone/tool_{at}")).collect();
    let mut lessons = visible.to_vec();
    for tool in strangers.iter().map(String::as_str).chain(["desk/create_ticket"]) {
        lessons.extend([("open an issue", tool); 3]);
    }
    let selection = Selection::everything().deny(["desk"]);
    let query = Query::new("open an issue").explain(true);
    let rank = |lessons: &[(&str, &str)]| {
        format!("{:?}", ranker(learned(lessons), 0).rank(&query, &catalog(), &selection).expect("a ranking"))
    };
    assert_eq!(rank(&lessons), rank(&visible));
    assert_ne!(rank(&visible), rank(&[]));
}

#[test]
fn vectors_reach_the_ranker_below() {
    let source = || Arc::new(At(learned(&[]), 0));
    let vectors = Arc::new(ToolVectors::default());
    assert!(Habitual::new(Arc::new(Hybrid::default()), source()).use_vectors(&vectors));
    assert!(!Habitual::new(Arc::new(Lexical::default()), source()).use_vectors(&vectors));
}

#[test]
fn a_clock_that_was_ahead_is_not_believed() {
    let habit = |tool: &str, at| Habit { stems: vec!["issu".to_owned()], tool: tool.to_owned(), strength: 1.0, at };
    let list = [habit("a/ahead", u64::MAX), habit("b/now", 100 * DAY), habit("c/before", 90 * DAY)];
    let mut habits = Habits::from_list(HabitSettings::default(), list.clone(), 100 * DAY);
    let times = |habits: &Habits| habits.iter().map(|habit| habit.at / DAY).collect::<Vec<_>>();
    assert_eq!(times(&habits), [100, 100, 90]);
    habits.forget(100 * DAY);
    assert_eq!(habits.len(), 3, "nobody is forgotten for it");
    habits.forget(99 * DAY);
    assert_eq!(times(&habits), [99, 99, 90], "the clock was set back");
    let amounts = |days: u64| habits.boosts("issue", days * DAY, all).iter().map(|one| one.amount).sum::<f64>();
    assert!(amounts(200) < amounts(100));
    habits.forget(3650 * DAY);
    assert!(habits.is_empty());
}

#[test]
fn scores_have_six_decimals() {
    let lessons = [("open an issue", "github/list_issues"), ("open the issue", "desk/create_ticket")];
    for times in 1..12 {
        let ranking = ranker(learned(&lessons.repeat(times)), 7 * DAY).rank(
            &Query::new("open issue"),
            &catalog(),
            &Selection::everything(),
        );
        for hit in ranking.expect("a ranking").hits {
            assert_eq!(format!("{}", hit.score), format!("{:.6}", hit.score).trim_end_matches('0'), "{times}");
        }
    }
}

/// Tools that have a word in common, more than habits look at.
fn many(count: usize) -> Catalog {
    let words = ["issue", "mail", "file", "ticket", "page"];
    let tool = |at: usize| {
        let (word, text) = (words[at % words.len()], "open ".repeat(1 + at % 7));
        json!({"name": format!("handle_{word}_{at}"), "description": format!("{text} a {word}"), "server": "many"})
    };
    let file = json!((0..count).map(tool).collect::<Vec<_>>()).to_string();
    Catalog::from_tools(load::parse("tools.json", file.as_bytes(), &Limits::default()).expect("tools").tools).0
}

#[test]
fn habits_fade() {
    let habits = learned(&[("open an issue", "desk/create_ticket")]);
    let amount = |days: u64| habits.boosts("open an issue", days * DAY, all).first().map_or(0.0, |boost| boost.amount);
    assert!((amount(0) - 0.25).abs() < 1e-12 && (amount(30) - 0.5 / 3.0).abs() < 1e-12, "{} {}", amount(0), amount(30));
    assert!(amount(3650) == 0.0);
    let mut old = habits.clone();
    old.forget(3650 * DAY);
    assert!(old.is_empty());
}

#[test]
fn words_that_are_kept() {
    let check = |query: &str, expected: &[&str]| assert_eq!(words::stems(query), expected, "{query}");
    check("Create a new Issue, and create issues!", &["creat", "issu", "new"]);
    check("createIssue", &["creat", "issu"]);
    check("what is it to you", &[]);
    check("pay invoice 20260115 of 4111111111111111", &["invoic", "pay"]);
    check("use sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0ffeeddccbbaa to log in", &["live", "log", "sk", "use"]);
    check("s3 h264", &["h264", "s3"]);
}

/// Says that it is not sure.
#[derive(Debug)]
struct Doubtful;

impl Ranker for Doubtful {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn rank(&self, _: &Query<'_>, catalog: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        let hit = |tool: &Arc<Tool>| Hit { tool: Arc::clone(tool), score: 0.1, why: Vec::new() };
        let (withheld, total) = (catalog.iter().take(3).map(hit).collect(), 3);
        Ok(Ranking { withheld, total, confidence: Some(0.2), ..Ranking::default() })
    }
}

#[test]
fn what_is_withheld_comes_out_for_nearly_the_same_words_only() {
    let source = Arc::new(At(learned(&[("file a ticket please", "desk/create_ticket")]), 0));
    let ranker = Habitual::new(Arc::new(Doubtful), source);
    let rank = |text: &str| ranker.rank(&Query::new(text), &catalog(), &Selection::everything()).expect("a ranking");
    let same = rank("please file the tickets");
    assert_eq!((ids(&same), same.withheld.len(), same.confidence), (vec!["desk/create_ticket"], 0, Some(0.2)));
    let like = rank("file a ticket for the printer");
    assert_eq!((like.hits.len(), like.withheld.len()), (0, 3));
}

fn any_query() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "open",
        "issue",
        "ticket",
        "create",
        "create_issue",
        "mail",
        "send",
        "list",
        "repository",
        "call",
        "人工",
        "x9",
    ]);
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

fn any_tool() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "github/create_issue",
        "github/list_issues",
        "desk/create_ticket",
        "mail/send_mail",
        "phone/place_call",
        "gone/x",
    ])
}

fn any_lessons() -> impl Strategy<Value = Vec<(String, &'static str, u64)>> {
    prop::collection::vec((any_query(), any_tool(), 0..400 * DAY), 0..60)
}

fn taught(lessons: &[(String, &'static str, u64)], settings: HabitSettings) -> Habits {
    let mut habits = Habits::new(settings);
    lessons.iter().filter_map(|(query, tool, at)| Lesson::new(query, tool, 1.0, *at)).for_each(|one| habits.learn(one));
    habits
}

proptest! {
    #[test]
    fn a_boost_moves_no_named_tool_and_invents_nothing(
        lessons in any_lessons(), query in any_query(), limit in 1_usize..8, denied in any_tool(), now in 0..500 * DAY,
    ) {
        let selection = Selection::everything().deny([denied.replace('/', ":")]);
        let settings = HabitSettings { weight: 1.0, ..HabitSettings::default() };
        let query = Query::new(&query).limit(limit).explain(true);
        let plain = Lexical::default().rank(&query, &catalog(), &selection).expect("a ranking");
        let with = ranker(taught(&lessons, settings), now).rank(&query, &catalog(), &selection).expect("a ranking");
        let again = ranker(taught(&lessons, settings), now).rank(&query, &catalog(), &selection).expect("a ranking");
        prop_assert_eq!(format!("{with:?}"), format!("{again:?}"));
        prop_assert!(with.hits.len() <= limit && with.hits.len() >= plain.hits.len());
        prop_assert!(with.hits.is_sorted_by(|a, b| a.score >= b.score));
        prop_assert!(with.hits.iter().all(|hit| selection.allows(&hit.tool)));
        let named = |ranking: &Ranking| -> Vec<String> {
            ranking.hits.iter().filter(|hit| hit.score >= 0.9).map(|hit| format!("{} {}", hit.tool.id(), hit.score)).collect()
        };
        prop_assert_eq!(named(&plain), named(&with));
        prop_assert!(with.hits.iter().skip(named(&with).len()).all(|hit| hit.score < 0.9));
        // Those without a habit stay in their order.
        let is_plain = |hit: &&Hit| !hit.why.iter().any(|why| why.field == Field::Usage);
        let rest: Vec<&str> = with.hits.iter().filter(is_plain).map(|hit| hit.tool.id()).collect();
        let before = ids(&plain);
        let places: Vec<usize> = rest.iter().filter_map(|id| before.iter().position(|other| other == id)).collect();
        prop_assert!(places.len() == rest.len() && places.is_sorted(), "{rest:?} {before:?}");
    }

    #[test]
    fn more_hits_only_add_to_the_end(
        count in 60_usize..90, few in 0_usize..100, more in 0_usize..100, weight in 0.01..1.0,
        lessons in prop::collection::vec((prop::sample::select(vec!["open", "open issue", "open a new file", "dial"]), 0_usize..90), 1..12),
        query in prop::sample::select(vec!["open", "open an issue", "open the new file", "open mail", "dial", "handle_mail_1 open"]),
    ) {
        let catalog = many(count);
        let ids: Vec<String> = catalog.iter().map(|tool| tool.upstream_id()).collect();
        let mut habits = Habits::new(HabitSettings { weight, ..HabitSettings::default() });
        for (query, at) in &lessons {
            habits.learn(Lesson::new(query, &ids[at % count], 1.0, 0).expect("a lesson"));
        }
        let ranker = ranker(habits, 0);
        let rank = |limit| {
            ranker.rank(&Query::new(query).limit(limit).explain(true), &catalog, &Selection::everything()).expect("a ranking")
        };
        let (few, all) = (few.min(more), rank(usize::MAX));
        let (short, long) = (rank(few), rank(more));
        prop_assert_eq!((short.total, long.total), (all.hits.len(), all.hits.len()));
        prop_assert_eq!((short.hits.len(), long.hits.len()), (few.min(all.total), more.min(all.total)));
        prop_assert_eq!(format!("{:?}", short.hits), format!("{:?}", &long.hits[..short.hits.len()]));
        prop_assert_eq!(format!("{:?}", long.hits), format!("{:?}", &all.hits[..long.hits.len()]));
    }

    #[test]
    fn habits_are_bounded(lessons in any_lessons(), most in 0_usize..12) {
        let settings = HabitSettings { max_entries: most, ..HabitSettings::default() };
        let habits = taught(&lessons, settings);
        prop_assert!(habits.len() <= most);
        // What was learned last is there.
        let last = lessons.last().and_then(|(query, tool, at)| Lesson::new(query, tool, 1.0, *at));
        if most > 0 && let Some(last) = last {
            prop_assert!(habits.iter().any(|habit| habit.stems == words::stems(&lessons[lessons.len() - 1].0)), "{:?}", last);
        }
        prop_assert_eq!(Habits::from_list(settings, habits.iter().cloned(), u64::MAX), habits);
    }

    #[test]
    fn the_order_of_lessons_is_nothing_to_learn(lessons in any_lessons(), turn in 0_usize..60, query in any_query()) {
        let one = taught(&lessons, HabitSettings::default());
        let mut turned = lessons.clone();
        turned.rotate_left(turn.min(lessons.len()));
        let other = taught(&turned, HabitSettings::default());
        prop_assert_eq!(one.len(), other.len());
        let at = 400 * DAY;
        for (a, b) in one.boosts(&query, at, all).iter().zip(&other.boosts(&query, at, all)) {
            prop_assert!((a.amount - b.amount).abs() < 1e-9, "{a:?} {b:?}");
        }
    }

    #[test]
    fn boosts_only_fade(lessons in any_lessons(), query in any_query(), now in 400 * DAY..500 * DAY, later in 0..500 * DAY) {
        let habits = taught(&lessons, HabitSettings::default());
        let (before, after) = (habits.boosts(&query, now, all), habits.boosts(&query, now + later, all));
        prop_assert!(before.iter().map(|boost| boost.amount).sum::<f64>() <= HabitSettings::default().weight);
        for boost in after {
            let before = before.iter().find(|other| other.tool == boost.tool);
            prop_assert!(before.is_some_and(|before| before.amount >= boost.amount - 1e-12));
        }
    }

    #[test]
    fn nothing_that_is_read_is_believed(stems in prop::collection::vec(".{0,40}", 0..30), tool in ".{0,300}", strength: f64, at: u64, now: u64, query in ".{0,60}") {
        let habits = Habits::from_list(HabitSettings::default(), [Habit { stems, tool, strength, at }], now);
        prop_assert!(habits.iter().all(|habit| habit.at <= now));
        for boost in habits.boosts(&query, 0, all) {
            prop_assert!((0.0..=0.5).contains(&boost.amount));
        }
    }

    #[test]
    fn any_query_can_be_learned(query in ".{0,200}", tool in ".{0,300}", share: f64) {
        if let Some(lesson) = Lesson::new(&query, &tool, share, 1) {
            let mut habits = Habits::new(HabitSettings::default());
            habits.learn(lesson);
            let again = Habits::from_list(HabitSettings::default(), habits.iter().cloned(), 1);
            prop_assert_eq!((again.len(), &again), (1, &habits));
            // In between it depends on how it is divided.
            if !(1e-4..1e-3).contains(&share) {
                prop_assert_eq!(habits.boosts(&query, 1, all).len(), usize::from(share >= 1e-3));
            }
        }
    }
}
