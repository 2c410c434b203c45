//! `sequence` compared with Python's `difflib`, which it must equal.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use pegboard_core::{Catalog, Query, Ranker, RawTool, Selection};
use pegboard_engine::Sequence;

/// Reads tools and queries, writes for each query the scores of all tools in order.
const SCRIPT: &str = r#"
import difflib, json, sys
given = json.load(sys.stdin)
answers = []
for query in given["queries"]:
    query = query.strip().lower()
    scores = []
    for name, description in given["tools"]:
        text = f"{name} {description} ".lower()
        ratio = difflib.SequenceMatcher(None, query, text).ratio()
        hits = sum(1 for word in query.split() if word in text)
        scores.append(round(ratio + 0.12 * hits, 4))
    answers.append(scores)
json.dump(answers, sys.stdout)
"#;

/// Returns words of a few letters, so that texts share much; some beyond ASCII.
fn text(seed: &mut u64, words: usize) -> String {
    let mut text = String::new();
    for _ in 0..words {
        for _ in 0..1 + next(seed) % 6 {
            let letters = ['a', 'b', 'e', 'i', 'r', 's', 't', 'É', 'ß', '邮', 'n', 'o'];
            text.push(letters[(next(seed) % letters.len() as u64) as usize]);
        }
        text.push(' ');
    }
    text.trim_end().to_owned()
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn scores_are_those_of_pythons_difflib() {
    let mut seed = 1;
    // From a few characters to far beyond the 200 at which Python starts to ignore some.
    let tools: Vec<(String, String)> = (0..150).map(|at| (format!("t{at}"), text(&mut seed, at))).collect();
    let queries: Vec<String> = (1..25).map(|words| text(&mut seed, words)).collect();
    let given = serde_json::json!({"tools": tools, "queries": queries}).to_string();
    let child = Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = child else {
        println!("skipped: no python3 here");
        return;
    };
    python.stdin.take().expect("a pipe").write_all(given.as_bytes()).expect("python reads");
    let output = python.wait_with_output().expect("python ends");
    let expected: Vec<Vec<f64>> = serde_json::from_slice(&output.stdout).expect("python answers in JSON");

    let raw = |(name, description): &(String, String)| RawTool {
        name: name.clone(),
        description: description.clone(),
        ..RawTool::default()
    };
    let (catalog, _) = Catalog::from_tools(tools.iter().map(raw).collect());
    let ranker = Sequence::default();
    for (query, expected) in queries.iter().zip(&expected) {
        let everything = Query::new(query).limit(usize::MAX);
        let ranking = ranker.rank(&everything, &catalog, &Selection::everything()).expect("an answer");
        for (tool, expected) in catalog.iter().zip(expected) {
            let score = ranking.hits.iter().find(|hit| hit.tool.id() == tool.id()).map(|hit| hit.score);
            assert_eq!(score, Some(*expected).filter(|score| *score > 0.05), "{query} {}", tool.name());
        }
    }
}
