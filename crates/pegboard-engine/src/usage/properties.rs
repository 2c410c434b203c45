//! What holds of all habits.

use pegboard_core::{Catalog, Field, Hit, LoadLimits, Query, Ranker as _, Ranking, Selection, load};
use proptest::prelude::*;
use serde_json::json;

use super::{
    tests::{DAY, all, catalog, ids, ranker},
    words, *,
};
use crate::Lexical;

/// Tools that have a word in common, more than habits look at.
fn many(count: usize) -> Catalog {
    let words = ["issue", "mail", "file", "ticket", "page"];
    let tool = |at: usize| {
        let (word, text) = (words[at % words.len()], "open ".repeat(1 + at % 7));
        json!({"name": format!("handle_{word}_{at}"), "description": format!("{text} a {word}"), "server": "many"})
    };
    let file = json!((0..count).map(tool).collect::<Vec<_>>()).to_string();
    Catalog::from_tools(load::parse("tools.json", file.as_bytes(), &LoadLimits::default()).expect("tools").tools).0
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
