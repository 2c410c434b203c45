//! Usage learning on the command line, and its effect in figures.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, load};
use pegboard_engine::{
    Hybrid, Lexical,
    usage::{Boost, BoostSource, HabitSettings, Habits, Lesson, UsageRanker},
};
use serde_json::{Value, json};

use crate::harness::{Folder, json as json_of, show};

const TOOLS: &str = r#"[
    {"name": "create_issue", "description": "Open an issue in a repository", "server": "github"},
    {"name": "create_ticket", "description": "Open a ticket about an issue with a customer", "server": "desk"},
    {"name": "place_call", "description": "Dial a number", "server": "phone"}
]"#;

/// Runs a session in which a tool is called after a search, several times.
fn practise(folder: &Folder, query: &str, tool: &str, times: usize) {
    let search = json!({"op": "call", "name": "search_tools", "arguments": {"query": query}});
    let call = json!({"op": "call", "name": "call_tool", "arguments": {"name": tool, "arguments": {}}});
    let lines = format!("{search}\n{call}\n").repeat(times);
    let args = ["session", "--catalog", "tools.json", "--usage", "--state", "state"];
    let output = folder.run_with_input(&args, lines.as_bytes());
    assert!(output.status.success(), "{}", show(&output));
}

#[test]
fn what_is_learned_is_shown_and_forgotten() {
    let folder = Folder::new("usage-shown");
    folder.file("tools.json", TOOLS);
    let place = folder.path().canonicalize().expect("a folder").display().to_string();
    let shown = |args: &[&str]| {
        let text = folder.show(&[args, &["--state", "state", "--format", "text"]].concat()).replace(&place, "[folder]");
        format!("$ pegboard {}\n{text}\n", args.join(" "))
    };
    let search = ["search", "open an issue", "--catalog", "tools.json", "--explain"];
    let mut page = shown(&["usage"]);
    practise(&folder, "open an issue", "create_ticket", 4);
    practise(&folder, "open issues for Ms Smith, 4111111111111111", "create_ticket", 1);
    page.push_str(&shown(&search));
    page.push_str(&shown(&[&search[..], &["--usage"]].concat()));
    page.push_str(&shown(&[&search[..], &["--usage=anybody"]].concat()));
    page.push_str(&shown(&[&search[..], &["--usage", "--ranker", "keyword"]].concat()));
    page.push_str(&shown(&["usage"]));
    page.push_str(&shown(&["usage", "--reset", "--server", "dessk"]));
    page.push_str(&shown(&["usage", "--reset", "--server", "desk"]));
    page.push_str(&shown(&["usage"]));
    insta::assert_snapshot!(page);
}

#[test]
fn nothing_is_kept_unless_asked_for() {
    let folder = Folder::new("usage-off");
    folder.file("tools.json", TOOLS);
    let lines = r#"{"op":"call","name":"search_tools","arguments":{"query":"open an issue"}}
{"op":"call","name":"call_tool","arguments":{"name":"create_ticket","arguments":{}}}
"#;
    folder.run_with_input(&["session", "--catalog", "tools.json", "--state", "state"], lines.as_bytes());
    let found =
        json_of(&folder.run(&["search", "open an issue", "--catalog", "tools.json", "--usage", "--state", "state"]));
    assert_eq!(found["hits"][0]["id"], "github/create_issue");
    assert!(!folder.path().join("state").exists());
}

#[test]
fn habits_that_cannot_be_read_are_told_of() {
    let folder = Folder::new("usage-damaged");
    folder.file("tools.json", TOOLS);
    let search = || {
        let output = folder.run(&["search", "open an issue", "--catalog", "tools.json", "--usage", "--state", "state"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for name in ["habits.usage", "key"] {
        practise(&folder, "open an issue", "create_ticket", 4);
        assert_eq!(search(), (Some(0), String::new()));
        fs::write(folder.path().join("state/usage").join(name), "?".repeat(32)).expect("it is written");
        let (code, said) = search();
        assert!(code == Some(0) && said.contains("learned usage is unreadable; moved to"), "{name}: {code:?} {said}");
        assert_eq!(search(), (Some(0), String::new()), "it is said once");
    }
    let key = folder.path().join("state/usage/key");
    fs::remove_file(&key).and_then(|()| fs::create_dir(&key)).expect("a folder in its place");
    let (code, said) = search();
    assert!(code == Some(2) && said.contains("cannot read learned usage"), "{code:?} {said}");
}

#[test]
fn two_programs_share_one_file() {
    let folder = Folder::new("usage-shared");
    folder.file("tools.json", TOOLS);
    std::thread::scope(|scope| {
        for (query, tool) in [("open an issue", "create_ticket"), ("open a ticket", "create_ticket")] {
            let folder = &folder;
            scope.spawn(move || (0..3).for_each(|_| practise(folder, query, tool, 2)));
        }
    });
    let learned = json_of(&folder.run(&["usage", "--state", "state"]));
    let strengths: Vec<f64> =
        learned["habits"].as_array().into_iter().flatten().filter_map(|habit| habit["strength"].as_f64()).collect();
    // Each search that was followed by a call counts once, regardless of which program recorded it.
    assert!(strengths.len() == 2 && strengths.iter().all(|strength| (strength - 6.0).abs() < 0.01), "{learned}");
}

/// Habits at one moment.
#[derive(Debug)]
struct Learned(Habits);

impl BoostSource for Learned {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        self.0.boosts(query, 0, is_visible)
    }
}

/// A labelled query of the demo, and its relevant tools.
struct Labelled {
    query: String,
    relevant: Vec<String>,
}

fn labelled() -> Vec<Labelled> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pegboard-demo/catalog");
    let read = |name: &str| fs::read_to_string(demo.join(name)).expect("a file");
    let mut relevant: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
    for line in read("qrels.tsv").lines() {
        let mut fields = line.split('\t');
        let (Some(id), Some(tool), Some(grade)) = (fields.next(), fields.next(), fields.next()) else { continue };
        relevant.entry(id.to_owned()).or_default().push((grade.parse().unwrap_or(0), tool.to_owned()));
    }
    let of = |line: &str| {
        let query: Value = serde_json::from_str(line).expect("JSON");
        let tools = relevant.get(query["id"].as_str()?)?;
        let best = tools.iter().map(|(grade, _)| *grade).max()?;
        let relevant = tools.iter().filter(|(grade, _)| *grade == best).map(|(_, tool)| tool.clone()).collect();
        Some(Labelled { query: query["query"].as_str()?.to_owned(), relevant })
    };
    read("queries.jsonl").lines().filter_map(of).collect()
}

/// Returns the same request in other words, as far as that can be computed: reversed, inflected,
/// with words around it, and without its last word if it has several.
fn reworded(query: &str) -> String {
    let mut words: Vec<&str> = query.split_whitespace().collect();
    if words.len() > 4 {
        words.pop();
    }
    words.reverse();
    format!("could you {} for the new project", words.join(" "))
}

/// The gain for a user who uses the same tools again. Every second query is asked once; the right
/// tool is called if it is among the ten that are shown.
#[test]
fn figures_of_what_habits_are_good_for() {
    let tools =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../pegboard-demo/catalog/tools.jsonl")).expect("a file");
    let catalog = Catalog::from_tools(load::parse("demo", &tools, &LoadLimits::default()).expect("tools").tools).0;
    let rank = |ranker: &dyn Ranker, query: &str| -> Vec<String> {
        let ranking = ranker.rank(&Query::new(query), &catalog, &Selection::everything()).expect("a ranking");
        ranking.hits.iter().map(|hit| hit.tool.upstream_id()).collect()
    };
    let queries = labelled();
    let (asked, others): (Vec<_>, Vec<_>) = queries.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let mut page = String::new();
    let rankers: [Arc<dyn Ranker>; 2] = [Arc::new(Lexical::default()), Arc::new(Hybrid::default())];
    for (plain, calls) in rankers.iter().flat_map(|ranker| [(ranker, 1), (ranker, 3)]) {
        let mut habits = Habits::new(HabitSettings::default());
        for (_, one) in &asked {
            let called = rank(&**plain, &one.query).into_iter().find(|tool| one.relevant.contains(tool));
            for lesson in called.iter().filter_map(|tool| Lesson::new(&one.query, tool, 1.0, 0)) {
                (0..calls).for_each(|_| habits.learn(lesson.clone()));
            }
        }
        let learned = UsageRanker::new(Arc::clone(plain), Arc::new(Learned(habits)));
        let first = |ranker: &dyn Ranker, one: &Labelled, query: &str| {
            rank(ranker, query).first().is_some_and(|tool| one.relevant.contains(tool))
        };
        let share = |ranker: &dyn Ranker, list: &[(usize, &Labelled)], word: &dyn Fn(&str) -> String| {
            let right = list.iter().filter(|(_, one)| first(ranker, one, &word(&one.query))).count();
            right as f64 / list.len() as f64
        };
        let same = |query: &str| query.to_owned();
        let is_other = |one: &Labelled| rank(&**plain, &one.query) != rank(&learned, &one.query);
        let changed: Vec<&str> =
            others.iter().filter(|(_, one)| is_other(one)).map(|(_, one)| one.query.as_str()).collect();
        page.push_str(&format!("{}, after {calls} call(s) each: how often the right tool is first\n", plain.name()));
        let mut line = |about: &str, list: &[(usize, &Labelled)], word: &dyn Fn(&str) -> String| {
            let (before, after) = (share(&**plain, list, word), share(&learned, list, word));
            page.push_str(&format!("  {about:14} {before:.2} → {after:.2}\n"));
        };
        line("the same query", &asked, &same);
        line("in other words", &asked, &reworded);
        line("other queries", &others, &same);
        page.push_str(&format!("  other lists of {}: {changed:?}\n", others.len()));
        assert!(share(&learned, &asked, &same) > share(&**plain, &asked, &same));
        // Habits may cost other queries one first hit.
        let one = 1.0 / others.len() as f64;
        assert!(share(&learned, &others, &same) + 1.5 * one > share(&**plain, &others, &same));
    }
    insta::assert_snapshot!(page);
}
