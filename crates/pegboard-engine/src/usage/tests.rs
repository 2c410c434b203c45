//! What habits may do, and what they may not.

use std::sync::Arc;

use pegboard_core::{Catalog, Field, Hit, Limits, Query, QueryError, Ranker, Ranking, Selection, Tool, load};
use proptest::prelude::*;

use super::{words, *};
use crate::Lexical;

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
    fn boosts(&self, query: &str) -> Vec<Boost> {
        self.0.boosts(query, self.1)
    }
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
    assert!((why[0].weight - 0.15).abs() < 1e-9, "{why:?}");
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
fn habits_fade() {
    let habits = learned(&[("open an issue", "desk/create_ticket")]);
    let amount = |days: u64| habits.boosts("open an issue", days * DAY).first().map_or(0.0, |boost| boost.amount);
    assert!((amount(0) - 0.15).abs() < 1e-12 && (amount(30) - 0.1).abs() < 1e-12, "{} {}", amount(0), amount(30));
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
        for hit in &with.hits {
            let usage: f64 = hit.why.iter().filter(|why| why.field == Field::Usage).map(|why| why.weight).sum();
            if let Some(before) = plain.hits.iter().find(|other| other.tool.id() == hit.tool.id()) {
                prop_assert!((before.score + usage - hit.score).abs() < 1e-9);
            }
        }
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
        prop_assert_eq!(Habits::from_list(settings, habits.iter().cloned()), habits);
    }

    #[test]
    fn the_order_of_lessons_is_nothing_to_learn(lessons in any_lessons(), turn in 0_usize..60, query in any_query()) {
        let one = taught(&lessons, HabitSettings::default());
        let mut turned = lessons.clone();
        turned.rotate_left(turn.min(lessons.len()));
        let other = taught(&turned, HabitSettings::default());
        prop_assert_eq!(one.len(), other.len());
        let at = 400 * DAY;
        for (a, b) in one.boosts(&query, at).iter().zip(&other.boosts(&query, at)) {
            prop_assert!((a.amount - b.amount).abs() < 1e-9, "{a:?} {b:?}");
        }
    }

    #[test]
    fn boosts_only_fade(lessons in any_lessons(), query in any_query(), now in 400 * DAY..500 * DAY, later in 0..500 * DAY) {
        let habits = taught(&lessons, HabitSettings::default());
        let (before, after) = (habits.boosts(&query, now), habits.boosts(&query, now + later));
        prop_assert!(before.iter().map(|boost| boost.amount).sum::<f64>() <= HabitSettings::default().weight);
        for boost in after {
            let before = before.iter().find(|other| other.tool == boost.tool);
            prop_assert!(before.is_some_and(|before| before.amount >= boost.amount - 1e-12));
        }
    }

    #[test]
    fn nothing_that_is_read_is_believed(stems in prop::collection::vec(".{0,40}", 0..30), tool in ".{0,300}", strength: f64, at: u64, query in ".{0,60}") {
        let habits = Habits::from_list(HabitSettings::default(), [Habit { stems, tool, strength, at }]);
        for boost in habits.boosts(&query, 0) {
            prop_assert!((0.0..=0.3).contains(&boost.amount));
        }
    }

    #[test]
    fn any_query_can_be_learned(query in ".{0,200}", tool in ".{0,300}", share: f64) {
        if let Some(lesson) = Lesson::new(&query, &tool, share, 1) {
            let mut habits = Habits::new(HabitSettings::default());
            habits.learn(lesson);
            let again = Habits::from_list(HabitSettings::default(), habits.iter().cloned());
            prop_assert_eq!((again.len(), &again), (1, &habits));
            prop_assert_eq!(habits.boosts(&query, 1).len(), usize::from(share >= 1e-3));
        }
    }
}
