//! What the lexical ranker answers to each query of a labelled set, for training the model
//! that it is fused with: `cargo run --release --package pegboard-engine --example candidates -- DIR LIMIT`.
//!
//! `DIR` holds `tools.jsonl` and `queries.jsonl`. One JSON line for each query goes to
//! standard output: its id, the hits as pairs of tool number and score, how many tools match,
//! the words that none does, and whether words had to be corrected. The first line names the
//! tools in the order of their numbers.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, load};
use pegboard_engine::Lexical;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(dir), Some(limit)) = (arguments.next(), arguments.next()) else {
        return Err("usage: candidates DIR LIMIT".into());
    };
    let (dir, limit) = (PathBuf::from(dir), limit.to_string_lossy().parse::<usize>()?);
    let limits = LoadLimits { file_bytes: usize::MAX, ..LoadLimits::default() };
    let loaded = load::parse("tools.jsonl", &fs::read(dir.join("tools.jsonl"))?, &limits)?;
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    let numbers: HashMap<String, usize> =
        catalog.iter().enumerate().map(|(number, tool)| (tool.id().to_owned(), number)).collect();
    let ranker = Lexical::default();
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}", json!({ "tools": catalog.iter().map(|tool| tool.id()).collect::<Vec<_>>() }))?;
    for line in fs::read_to_string(dir.join("queries.jsonl"))?.lines().filter(|line| !line.trim().is_empty()) {
        let query: Value = serde_json::from_str(line)?;
        let text = query["query"].as_str().unwrap_or_default();
        // A query that is refused found nothing.
        let ranking =
            ranker.rank(&Query::new(text).limit(limit), &catalog, &Selection::everything()).unwrap_or_default();
        let hits: Vec<(usize, f64)> = ranking.hits.iter().map(|hit| (numbers[hit.tool.id()], hit.score)).collect();
        let answer = json!({
            "id": query["id"],
            "hits": hits,
            "total": ranking.total,
            "unmatched": ranking.unmatched,
            "corrected": ranking.fallback.is_some(),
        });
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}
