//! What `hybrid` answers to labelled queries, each over the servers that it names:
//! `cargo run --release --package pegboard-engine --example judge -- TOOLS QUERIES [MODEL]`.
//!
//! `QUERIES` holds JSON lines with `query`, where not all servers of `TOOLS` are meant `catalog`, and the tools that are
//! taken out as `removed`. One JSON line
//! for each goes to standard output: the line itself with `hits` (pairs of tool id and score, ten at most) and
//! `confidence`, whether or not the answer would be that nothing fits (`nothing`), and `translated`, the query in
//! English if it was not.

use std::{
    borrow::Cow,
    collections::HashMap,
    error::Error,
    fs,
    io::{self, BufWriter, Write},
    sync::Arc,
};

use pegboard_core::{Catalog, LoadLimits, Query, Ranker, RawTool, Selection, load};
use pegboard_engine::{Hybrid, Model};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tools, queries, model @ ..] = &arguments[..] else { return Err("usage: judge TOOLS QUERIES [MODEL]".into()) };
    let limits = LoadLimits { file_bytes: usize::MAX, ..LoadLimits::default() };
    let tools = load::parse(tools, &fs::read(tools)?, &limits)?.tools;
    let model = model.first().map(|file| Model::parse(Cow::Owned(fs::read(file)?)).map_err(Box::<dyn Error>::from));
    let model = model.transpose()?.map(Arc::new);
    let ranker = || model.clone().map_or_else(Hybrid::default, Hybrid::new);
    let mut catalogs: HashMap<(Vec<String>, Vec<String>), (Catalog, Hybrid)> = HashMap::new();
    let mut out = BufWriter::new(io::stdout().lock());
    for line in fs::read_to_string(queries)?.lines().filter(|line| !line.trim().is_empty()) {
        let mut query: Value = serde_json::from_str(line)?;
        let servers = names(&query["catalog"]);
        let removed = names(&query["removed"]);
        let (catalog, ranker) = catalogs
            .entry((servers.clone(), removed.clone()))
            .or_insert_with(|| (part(&tools, &servers, &removed), ranker()));
        let text = query["query"].as_str().unwrap_or_default().to_owned();
        let ranking = ranker.rank(&Query::new(&text).least_confidence(0.0), catalog, &Selection::everything())?;
        let usual = ranker.rank(&Query::new(&text), catalog, &Selection::everything())?;
        let hits: Vec<(&str, f64)> = ranking.hits.iter().map(|hit| (hit.tool.id(), hit.score)).collect();
        query["hits"] = json!(hits);
        query["confidence"] = json!(ranking.confidence);
        query["translated"] = json!(ranking.translated);
        query["nothing"] = json!(usual.hits.is_empty());
        writeln!(out, "{query}")?;
    }
    Ok(out.flush()?)
}

fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The tools of these servers, or of all if none is named, without those that were removed.
fn part(tools: &[RawTool], servers: &[String], removed: &[String]) -> Catalog {
    let is_removed = |tool: &RawTool| {
        let id = format!("{}/{}", tool.server.as_deref().unwrap_or_default(), tool.name);
        removed.contains(&id)
    };
    let is_meant = |tool: &&RawTool| {
        (servers.is_empty() || tool.server.as_ref().is_some_and(|server| servers.contains(server))) && !is_removed(tool)
    };
    Catalog::from_tools(tools.iter().filter(is_meant).cloned().collect()).0
}
