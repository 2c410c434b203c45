//! The project's own quality test: the demo catalog and its labelled queries.
//!
//! The figures are part of the product. A change that moves them must update this snapshot.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use crate::harness::{Folder, json};

const RANKERS: [&str; 6] = ["regex", "bm25", "keyword", "sequence", "hinted", "hybrid"];

#[test]
fn figures_on_the_demo_catalog() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pegboard-demo/catalog");
    let output = Folder::new("quality").run(&["eval", demo.to_str().expect("a path in UTF-8"), "--ranker", "all"]);
    let report = json(&output);
    let mut text = format!("{} tools, {} queries\n", report["tools"], report["queries"]);
    for ranker in RANKERS {
        let figures = &report["rankers"][ranker];
        text.push_str(&format!("{ranker:9}"));
        for key in ["recall@1", "recall@5", "recall@10", "ndcg@10", "mrr"] {
            text.push_str(&format!(" {key} {:.3}", figures[key].as_f64().expect("a figure")));
        }
        text.push('\n');
    }
    insta::assert_snapshot!(text);
    let ndcg = |ranker: &str| report["rankers"][ranker]["ndcg@10"].as_f64().expect("a figure");
    for reference in &RANKERS[..5] {
        assert!(ndcg("hybrid") > ndcg(reference), "hybrid must beat {reference}");
    }
}

/// Everyday requests by an author who knew the tools and avoided their words.
#[test]
fn figures_on_everyday_requests() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pegboard-demo/catalog");
    let read = |name: &str| std::fs::read_to_string(demo.join(name)).expect("the demo is part of the project");
    let folder = Folder::new("quality-everyday");
    folder.file("tools.jsonl", read("tools.jsonl"));
    folder.file("queries.jsonl", read("everyday/queries.jsonl")).file("qrels.tsv", read("everyday/qrels.tsv"));
    let report = json(&folder.run(&["eval", ".", "--ranker", "lexical,hybrid"]));
    let recall = |ranker: &str| report["rankers"][ranker]["recall@5"].as_f64().expect("a figure");
    assert_eq!(report["queries"], 150);
    assert!(recall("lexical") < 0.15 && recall("hybrid") > 0.7, "{} {}", recall("lexical"), recall("hybrid"));
}

/// The numbers of the demo queries in other languages than English.
const LANGUAGES: [(&str, std::ops::RangeInclusive<usize>); 5] = [
    ("chinese", 151..=160),
    ("japanese", 161..=167),
    ("spanish", 168..=175),
    ("german", 201..=210),
    ("russian", 211..=220),
];

/// The model reads English. In other languages it must not spoil lexical hits.
#[test]
fn meaning_does_not_spoil_other_languages() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pegboard-demo/catalog");
    let read = |name: &str| std::fs::read_to_string(demo.join(name)).expect("the demo is part of the project");
    let (tools, queries, labels) = (read("tools.jsonl"), read("queries.jsonl"), read("qrels.tsv"));
    let mut first_hits = [0.0, 0.0];
    for (language, numbers) in LANGUAGES {
        let folder = Folder::new(&format!("quality-{language}"));
        let count = numbers.end() - numbers.start() + 1;
        let chosen: Vec<&str> = queries.lines().skip(numbers.start() - 1).take(count).collect();
        folder.file("tools.jsonl", &tools).file("queries.jsonl", chosen.join("\n")).file("qrels.tsv", &labels);
        let report = json(&folder.run(&["eval", ".", "--ranker", "lexical,hybrid"]));
        assert_eq!(report["queries"], count);
        let [lexical, hybrid] = ["lexical", "hybrid"].map(|ranker| {
            ["recall@1", "recall@5"].map(|figure| report["rankers"][ranker][figure].as_f64().expect("a figure"))
        });
        assert!(hybrid[1] >= lexical[1], "{language} recall@5: {} {}", hybrid[1], lexical[1]);
        first_hits[0] += lexical[0] * count as f64;
        first_hits[1] += hybrid[0] * count as f64;
    }
    // Ten queries of a language are too few for the first place of each.
    assert!(first_hits[1] >= first_hits[0], "first hits of all languages: {} {}", first_hits[1], first_hits[0]);
}

/// Queries for English tools, by authors who did not see the word lists.
#[test]
fn figures_on_queries_in_eight_languages() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(project.join(name)).expect("a part of the project");
    let set = read("train/sets/languages.jsonl");
    let labelled: Vec<Value> = set.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let languages: BTreeSet<&str> = labelled.iter().filter_map(|query| query["language"].as_str()).collect();
    let mut text = String::new();
    for language in languages {
        let is_meant = |query: &&Value| query["language"] == language && query["catalog"] == "demo";
        let chosen: Vec<&Value> = labelled.iter().filter(is_meant).collect();
        let labels = chosen.iter().flat_map(|query| {
            let tools = query["tools"].as_array().into_iter().flatten().filter_map(Value::as_str);
            tools.map(|tool| format!("{}\t{tool}\t1\n", query["id"].as_str().expect("an id")))
        });
        let folder = Folder::new(&format!("quality-in-{language}"));
        folder.file("tools.jsonl", read("crates/pegboard-demo/catalog/tools.jsonl"));
        folder.file("queries.jsonl", chosen.iter().map(|query| format!("{query}\n")).collect::<String>());
        folder.file("qrels.tsv", labels.collect::<String>());
        let report = json(&folder.run(&["eval", ".", "--ranker", "lexical,hybrid"]));
        text.push_str(&format!("{language} {} queries", report["queries"]));
        for ranker in ["lexical", "hybrid"] {
            let of = |figure: &str| report["rankers"][ranker][figure].as_f64().expect("a figure");
            text.push_str(&format!(", {ranker} recall@1 {:.2} recall@5 {:.2}", of("recall@1"), of("recall@5")));
        }
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}
