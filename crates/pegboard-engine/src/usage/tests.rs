//! What habits may do, and what they may not.

use std::sync::Arc;

use pegboard_core::{
    Catalog, Field, Hit, LoadLimits, Query, QueryError, Ranker, Ranking, Selection, Tool, ToolVectors, load,
};

use super::{words, *};
use crate::{Hybrid, Keyword, Lexical, RegexRanker};

pub(super) const DAY: u64 = 86_400;

pub(super) fn catalog() -> Catalog {
    let file = br#"[
        {"name": "create_issue", "description": "Open an issue in a repository", "server": "github"},
        {"name": "list_issues", "description": "List the issues of a repository", "server": "github"},
        {"name": "create_ticket", "description": "Open a ticket about an issue with a customer", "server": "desk"},
        {"name": "send_mail", "description": "Send a mail", "server": "mail"},
        {"name": "place_call", "description": "Dial a number", "server": "phone"}
    ]"#;
    Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default()).expect("tools").tools).0
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
pub(super) fn all(_: &str) -> bool {
    true
}

fn learned(lessons: &[(&str, &str)]) -> Habits {
    let mut habits = Habits::new(HabitSettings::default());
    for (query, tool) in lessons {
        habits.learn(Lesson::new(query, tool, 1.0, 0).expect("a lesson"));
    }
    habits
}

pub(super) fn ranker(habits: Habits, now: u64) -> UsageRanker {
    UsageRanker::new(Arc::new(Lexical::default()), Arc::new(At(habits, now)))
}

pub(super) fn ids(ranking: &Ranking) -> Vec<&str> {
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
    assert!(UsageRanker::new(Arc::new(Hybrid::default()), source()).use_vectors(&vectors));
    let query = "航班预订，播放歌曲";
    assert_eq!(UsageRanker::new(Arc::new(Hybrid::default()), source()).requests(query), ["航班预订", "播放歌曲"]);
    assert!(!UsageRanker::new(Arc::new(Lexical::default()), source()).use_vectors(&vectors));
}

#[test]
fn a_clock_that_was_ahead_is_not_believed() {
    let habit = |tool: &str, at| Habit { stems: vec!["issu".to_owned()], tool: tool.to_owned(), strength: 1.0, at };
    let list = [habit("a/ahead", u64::MAX), habit("b/now", 100 * DAY), habit("c/before", 90 * DAY)];
    let mut habits = Habits::from_list(HabitSettings::default(), list, 100 * DAY);
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
    let ranker = UsageRanker::new(Arc::new(Doubtful), source);
    let rank = |text: &str| ranker.rank(&Query::new(text), &catalog(), &Selection::everything()).expect("a ranking");
    let same = rank("please file the tickets");
    assert_eq!((ids(&same), same.withheld.len(), same.confidence), (vec!["desk/create_ticket"], 0, Some(0.2)));
    let like = rank("file a ticket for the printer");
    assert_eq!((like.hits.len(), like.withheld.len()), (0, 3));
}

#[test]
fn abilities_of_the_ranker_below_are_passed_on() {
    let check = |inner: Arc<dyn Ranker>| {
        let outer = UsageRanker::new(Arc::clone(&inner), Arc::new(At(Habits::default(), 0)));
        let abilities = |ranker: &dyn Ranker| {
            (ranker.learns_from_usage(), ranker.reads_required_words(), ranker.returns_all_matches())
        };
        assert_eq!((outer.name(), abilities(&outer)), (inner.name(), abilities(&*inner)));
    };
    check(Arc::new(RegexRanker::default()));
    check(Arc::new(Keyword::default()));
    check(Arc::new(Hybrid::default()));
}
