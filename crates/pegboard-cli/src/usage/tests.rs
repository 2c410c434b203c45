//! Tests of what is saved, what is dropped, and how damage is handled.

use std::{fs, path::PathBuf, time::Duration};

use pegboard_discovery::{Learner as _, usage::UsageStep};
use pegboard_engine::{
    Hybrid, Keyword,
    usage::{Habit, Lesson},
};
use proptest::prelude::*;

use super::{habit_file::Scope, *};

struct TestFolder(PathBuf);

impl TestFolder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-usage-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn keeper(&self) -> UsageLearner {
        UsageLearner::with_file(self.file(), "tools".to_owned(), HabitSettings::default()).expect("a keeper")
    }

    /// Returns the file with a lock timeout that is long enough for a busy machine.
    fn file(&self) -> HabitFile {
        let mut file = HabitFile::open(&self.0).expect("a folder");
        file.patience = Duration::from_secs(60);
        file
    }

    /// Returns holder, words and tool of all written habits, sorted.
    fn lines(&self) -> Vec<String> {
        let book = self.file().read().expect("a book");
        let mut lines = Vec::new();
        for (_, part) in book.parts() {
            let line = |habit: &Habit| format!("{}: {} → {}", part.name, habit.stems.join(" "), habit.tool);
            lines.extend(part.habits.iter().map(line));
        }
        lines.sort();
        lines
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn learn(keeper: &UsageLearner, holder: Holder<'_>, query: &str, tool: &str) {
    keeper.learn(holder, &UsageStep { query: query.to_owned(), tool: tool.to_owned(), share: 1.0 });
}

const ANN: Holder<'_> = Holder::Token { name: "ann", secret: "secret-ann" };

const OTHER_ANN: Holder<'_> = Holder::Token { name: "ann", secret: "secret-other" };

#[test]
fn what_is_learned_is_there_after_a_restart() {
    let place = TestFolder::new("restart");
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "open an issue", "desk/create_ticket");
    learn(&keeper, ANN, "send mail", "post/send");
    learn(&keeper, OTHER_ANN, "read mail", "post/read");
    learn(&keeper, ANN, "4111111111111111", "post/send");
    assert_eq!(keeper.boosts(ANN, "send a mail").len(), 1, "at once");
    keeper.finish();
    let lines = ["ann: mail read → post/read", "ann: mail send → post/send", "local: issu open → desk/create_ticket"];
    assert_eq!(place.lines(), lines);
    let keeper = place.keeper();
    assert_eq!(keeper.boosts(ANN, "send mail").len(), 1);
    assert_eq!(keeper.boosts(OTHER_ANN, "send mail").len(), 0, "another token of the same name");
    assert_eq!(keeper.boosts(Holder::Anybody, "open an issue").len(), 0);
    let other = UsageLearner::open(&place.0, "other tools".to_owned(), HabitSettings::default()).expect("a keeper");
    assert_eq!(other.boosts(ANN, "send mail").len(), 0, "another catalog");
    let written = fs::read_to_string(place.file().path()).expect("a file");
    assert!(!written.contains("secret") && !written.contains("4111"), "{written}");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(place.file().path()).expect("a file")) & 0o77, 0);
}

#[test]
fn programs_that_share_a_file_lose_nothing() {
    let place = TestFolder::new("shared");
    let (one, other) = (place.keeper(), place.keeper());
    learn(&one, Holder::Local, "open an issue", "desk/create_ticket");
    learn(&other, Holder::Local, "send mail", "post/send");
    one.finish();
    other.finish();
    assert_eq!(place.lines(), ["local: issu open → desk/create_ticket", "local: mail send → post/send"]);
    one.reload_if_changed();
    assert_eq!(one.boosts(Holder::Local, "send mail").len(), 1, "what the other has learned");
}

#[test]
fn what_is_to_be_forgotten_is_forgotten_everywhere() {
    let place = TestFolder::new("reset");
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "open an issue", "desk/create_ticket");
    learn(&keeper, Holder::Local, "send mail", "post/send");
    keeper.finish();
    let is_gone = |_: &Scope, _: &str, habit: &Habit| habit.tool.starts_with("desk/");
    // A lesson of before the reset that is not written yet.
    let gone = place.file().change(|book| book.reset(now() + 60, is_gone)).expect("written").result;
    assert_eq!((gone, place.lines()), (1, vec!["local: mail send → post/send".to_owned()]));
    learn(&keeper, Holder::Local, "open an issue", "desk/create_ticket");
    keeper.reload_if_changed();
    assert_eq!(keeper.boosts(Holder::Local, "open an issue").len(), 0);
    assert_eq!(keeper.boosts(Holder::Local, "send mail").len(), 1);
}

#[test]
fn a_damaged_file_is_put_aside_and_learning_goes_on() {
    let place = TestFolder::new("damaged");
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "open an issue", "desk/create_ticket");
    keeper.finish();
    let path = place.file().path();
    let good = fs::read(&path).expect("a file");
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        fs::write(&path, &bad).expect("written");
        assert_eq!(place.lines(), [""; 0], "changed at {at}");
        assert!(!path.exists());
        assert_eq!(fs::read(place.0.join("habits.damaged")).expect("put aside"), bad);
        fs::write(&path, &good[..at]).expect("written");
        assert_eq!(place.lines(), [""; 0], "cut at {at}");
    }
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "send mail", "post/send");
    keeper.finish();
    assert_eq!(place.lines(), ["local: mail send → post/send"]);
}

#[test]
fn rankers_that_reproduce_others_have_no_habits() {
    let place = TestFolder::new("rankers");
    let keeper = place.keeper();
    let keyword: Arc<dyn Ranker> = Arc::new(Keyword::default());
    assert!(Arc::ptr_eq(&keeper.ranker(Holder::Local, Arc::clone(&keyword)), &keyword));
    let hybrid: Arc<dyn Ranker> = Arc::new(Hybrid::default());
    assert!(!Arc::ptr_eq(&keeper.ranker(Holder::Local, Arc::clone(&hybrid)), &hybrid));
}

#[test]
fn a_book_has_its_limits() {
    let letters = |at: usize| at.to_string().bytes().map(|digit| char::from(digit + 49)).collect::<String>();
    let query = |at: usize| ('a'..='w').map(|c| format!("{c}{} ", letters(at).repeat(7))).collect::<String>();
    let long = |at: usize| Lesson::new(&query(at + 100), &"t".repeat(250), 1.0, at as u64);
    let settings = HabitSettings { max_entries: 20_000, ..HabitSettings::default() };
    let mut book = LearnedHabits::default();
    for holder in 0..4 {
        let lessons: Vec<Lesson> = (0..1600).filter_map(|at| long(at + holder)).collect();
        let scope = Scope { catalog: "x".repeat(100), holder: holder.to_string() };
        book.learn(scope, "somebody", settings, lessons.iter(), 10_000);
    }
    assert_eq!(book.parts().map(|(_, part)| part.habits.len()).sum::<usize>(), 6400);
    for holder in 4..600 {
        let scope = Scope { catalog: String::new(), holder: holder.to_string() };
        book.learn(scope, "", settings, long(holder).iter(), 10_000);
    }
    let bytes = book.bounded_bytes();
    assert!(bytes.len() <= 4 << 20 && bytes.len() > 3 << 20 && book.parts().count() <= 500, "{}", bytes.len());
    assert_eq!(LearnedHabits::from_bytes(&bytes).as_ref(), Some(&book));
    // No holder displaces another one with fewer habits, regardless of the order.
    let kept: Vec<usize> = book.parts().map(|(_, part)| part.habits.len()).collect();
    assert!(kept.len() == 500 && kept.iter().filter(|kept| **kept > 900).count() == 4, "{kept:?}");
    // One that is too large alone keeps its strongest, and leaves room for others.
    let lessons: Vec<Lesson> = (0..6000).filter_map(long).collect();
    let mut book = LearnedHabits::default();
    book.learn(Scope { catalog: String::new(), holder: String::new() }, "", settings, lessons.iter(), 10_000);
    let bytes = book.bounded_bytes();
    let kept = book.parts().map(|(_, part)| part.habits.len()).sum::<usize>();
    assert!(bytes.len() <= 2 << 20 && kept > 1000, "{} {kept}", bytes.len());
    let oldest = book.parts().flat_map(|(_, part)| &part.habits).map(|habit| habit.at).min();
    assert_eq!(oldest, Some(6000 - kept as u64), "the newest are the strongest");
}

#[test]
fn a_clock_that_was_ahead_costs_nobody_a_habit() {
    let place = TestFolder::new("clock");
    let habit = |tool: &str, at| Habit { stems: vec!["issu".to_owned()], tool: tool.to_owned(), strength: 1.0, at };
    let list = vec![habit("desk/ahead", u64::MAX), habit("desk/before", now() - 60)];
    let parts = ["local", "anybody"].map(|holder| ("tools".to_owned(), holder.to_owned(), list.clone()));
    place.file().change(|book| *book = LearnedHabits::of(0, parts.to_vec())).expect("written");
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "send mail", "post/send");
    keeper.finish();
    let book = place.file().read().expect("a book");
    let habits: Vec<&Habit> = book.parts().flat_map(|(_, part)| &part.habits).collect();
    assert!(habits.len() == 5 && habits.iter().all(|habit| habit.at <= now()), "{habits:?}");
    let written = fs::read_to_string(place.file().path()).expect("a file");
    assert!(!written.contains(&u64::MAX.to_string()), "{written}");
}

#[test]
fn a_lock_that_nobody_gives_back_keeps_nobody_from_ending() {
    let place = TestFolder::new("locked");
    let lock = place.file().lock().expect("a lock");
    let mut file = place.file();
    file.patience = Duration::from_millis(20);
    let keeper = UsageLearner::with_file(file, "tools".to_owned(), HabitSettings::default()).expect("a keeper");
    learn(&keeper, Holder::Local, "send mail", "post/send");
    keeper.finish();
    assert_eq!(keeper.boosts(Holder::Local, "send mail").len(), 1, "it is known all the same");
    // Before the lock is given back: the thread that writes may still be waiting for it.
    assert_eq!(place.lines(), [""; 0]);
    drop(lock);
}

#[test]
fn what_is_learned_during_a_write_is_not_taken_for_written() {
    let place = TestFolder::new("numbers");
    let keeper = place.keeper();
    let lock = place.file().lock().expect("a lock");
    // More than may wait: the first three go, whether they were just being written or not.
    (0..1003).for_each(|at| learn(&keeper, Holder::Local, "send mail", &format!("post/{at}")));
    assert_eq!(keeper.apply(1000), [1001, 1002, 1003]);
    drop(lock);
    keeper.finish();
    let lines = place.lines();
    for at in 1000..1003 {
        assert!(lines.contains(&format!("local: mail send → post/{at}")), "{at}");
    }
}

#[test]
fn a_token_is_nobody_else_whatever_its_name() {
    let place = TestFolder::new("names");
    let keeper = place.keeper();
    learn(&keeper, Holder::Local, "open an issue", "desk/local");
    for (name, secret, tool) in
        [("local", "1", "desk/one"), ("anybody", "2", "desk/two"), ("token:x", "3", "desk/three")]
    {
        learn(&keeper, Holder::Token { name, secret }, "open an issue", tool);
    }
    learn(&keeper, ANN, "open an issue", "desk/ann");
    keeper.finish();
    let book = place.file().read().expect("a book");
    let mut callers: Vec<String> = Vec::new();
    for (scope, part) in book.parts() {
        callers.extend(part.habits.iter().map(|habit| format!("{} {}", scope.caller(&part.name), habit.tool)));
    }
    callers.sort();
    let expected = [
        "ann desk/ann",
        "local desk/local",
        "token:anybody desk/two",
        "token:local desk/one",
        "token:token:x desk/three",
    ];
    assert_eq!(callers, expected);
    let file = br#"[{"name": "local", "server": "desk"}, {"name": "one", "server": "desk"}, {"name": "two", "server": "desk"}]"#;
    let catalog = pegboard_core::load::parse("tools.json", file, &pegboard_core::LoadLimits::default()).expect("tools");
    let catalog = pegboard_core::Catalog::from_tools(catalog.tools).0;
    let found = |caller: &str| {
        let ranker = with_habits(
            Arc::new(pegboard_engine::Lexical::default()),
            &book,
            ("tools", caller),
            HabitSettings::default(),
        );
        let query = pegboard_core::Query::new("open an issue");
        let ranking = ranker.expect("a ranker").rank(&query, &catalog, &pegboard_core::Selection::everything());
        ranking.expect("a ranking").hits.iter().map(|hit| hit.tool.id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("local"), ["desk/local"]);
    assert_eq!(found("token:local"), ["desk/one"]);
    assert_eq!(found("anybody"), [""; 0]);
}

fn any_habit() -> impl Strategy<Value = Habit> {
    (prop::collection::vec(".{0,12}", 0..4), ".{0,20}", 1e-3..1e6_f64, any::<u64>())
        .prop_map(|(stems, tool, strength, at)| Habit { stems, tool, strength, at })
}

proptest! {
    #[test]
    fn what_is_written_can_be_read(parts in prop::collection::vec((".{0,9}", ".{0,9}", prop::collection::vec(any_habit(), 1..5)), 0..4), reset_at: u64) {
        let mut book = LearnedHabits::of(reset_at, parts);
        let bytes = book.bounded_bytes();
        prop_assert_eq!(LearnedHabits::from_bytes(&bytes), Some(book));
    }

    #[test]
    fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[\\[\\]{}\":,a-z0-9]{0,200}") {
        let _ = LearnedHabits::from_bytes(&bytes);
        let _ = LearnedHabits::from_bytes(text.as_bytes());
    }
}
