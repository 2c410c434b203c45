//! The project's own quality test: the demo catalog and its labelled queries.
//!
//! The figures are part of the product. A change that moves them moves this snapshot, on
//! purpose and in sight.

use std::path::Path;

use crate::harness::{Folder, json};

const RANKERS: [&str; 6] = ["regex", "bm25", "keyword", "sequence", "hinted", "hybrid"];

#[test]
fn figures_on_the_demo_catalog() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
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
