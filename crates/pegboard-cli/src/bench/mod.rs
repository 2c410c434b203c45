//! Speed and memory beside Tantivy: the same tools, the same queries, one run.

mod args;
mod engines;
mod random;
mod synthetic;
#[cfg(feature = "bm25")]
mod tantivy;

use std::{sync::Arc, time::Instant};

use pegboard_core::{Catalog, Tool};
use pegboard_engine::{Model, analysis::is_stop_word, metrics::percentile};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::args::BenchArgs;
use self::{engines::Engine, random::Random};
use crate::{Outcome, catalogs, cli::options::Format, error::CliError, models, output, progress::Progress};

/// Number of timed single-tool replacements per row.
const UPDATES: usize = 40;

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    let model = models::read(args.model.model.as_deref())?;
    let mut rows = Vec::new();
    let progress = Progress::new((args.sizes.len() + args.catalog.len()) * Engine::NAMES.len(), "measuring");
    for size in &args.sizes {
        measure_catalog(&synthetic::catalog(*size), args.queries, model.as_ref(), &progress, &mut rows)?;
    }
    for path in &args.catalog {
        let catalog = catalogs::read(std::slice::from_ref(path), usize::MAX)?;
        measure_catalog(&catalog, args.queries, model.as_ref(), &progress, &mut rows)?;
    }
    drop(progress);
    let report = Report { rows };
    match args.output.format() {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&report.to_text())?,
    }
    Ok(Outcome::Yes)
}

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    engine: &'static str,
    tools: usize,
    build_ms: Value,
    p50_us: Value,
    p99_us: Value,
    update_us: Value,
    bytes_per_tool: usize,
}

impl Report {
    fn to_text(&self) -> String {
        let row = |row: &Row| {
            vec![
                row.engine.to_owned(),
                row.tools.to_string(),
                row.build_ms.to_string(),
                row.p50_us.to_string(),
                row.p99_us.to_string(),
                row.update_us.to_string(),
                row.bytes_per_tool.to_string(),
            ]
        };
        let head = ["ENGINE", "TOOLS", "BUILD ms", "P50 µs", "P99 µs", "UPDATE µs", "BYTES/TOOL"];
        output::table(&head, self.rows.iter().map(row).collect(), &[1, 2, 3, 4, 5, 6])
    }
}

fn measure_catalog(
    catalog: &Catalog,
    queries: usize,
    model: Option<&Arc<Model>>,
    progress: &Progress,
    rows: &mut Vec<Row>,
) -> Result<(), CliError> {
    let queries = two_word_queries(catalog, queries);
    for name in Engine::NAMES {
        rows.push(measure(name, catalog, &queries, model)?);
        progress.step();
    }
    Ok(())
}

fn measure(
    name: &'static str,
    catalog: &Catalog,
    queries: &[String],
    model: Option<&Arc<Model>>,
) -> Result<Row, CliError> {
    let start = Instant::now();
    let mut engine = Engine::build(name, catalog, model)?;
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    // Once to warm up; what is timed is the second pass.
    for query in queries {
        engine.search(query)?;
    }
    let mut times = Vec::with_capacity(queries.len());
    for query in queries {
        let start = Instant::now();
        engine.search(query)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let bytes = engine.bytes();
    let mut updates = Vec::with_capacity(UPDATES);
    let mut random = Random::new(7);
    for round in 0..UPDATES {
        let at = random.below(catalog.len());
        let update = engine.prepare_update(at, round)?;
        let start = Instant::now();
        engine.update(update)?;
        engine.search(&queries[round % queries.len()])?;
        updates.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    updates.sort_by(f64::total_cmp);
    let tenths = |value: f64| output::number((value * 10.0).round() / 10.0);
    Ok(Row {
        engine: name,
        tools: catalog.len(),
        build_ms: tenths(build_ms),
        p50_us: tenths(percentile(&times, 0.5)),
        p99_us: tenths(percentile(&times, 0.99)),
        update_us: tenths(percentile(&updates, 0.5)),
        bytes_per_tool: bytes / catalog.len().max(1),
    })
}

/// Returns queries of two different words from one tool's name and description, as a user who knows
/// the tool would type them.
fn two_word_queries(catalog: &Catalog, count: usize) -> Vec<String> {
    let tools: Vec<&Tool> = catalog.iter().map(|tool| &**tool).collect();
    let mut random = Random::new(42);
    let mut queries = Vec::with_capacity(count);
    // Tools without two words are passed over; a catalog of nothing else must still end.
    for _ in 0..count * 20 {
        if queries.len() == count || tools.is_empty() {
            break;
        }
        let tool = tools[random.below(tools.len())];
        let text = format!("{} {}", tool.name(), tool.description());
        let words: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.chars().count() > 2 && !is_stop_word(&word.to_lowercase()))
            .collect();
        if words.len() < 2 {
            continue;
        }
        let (first, second) = (words[random.below(words.len())], words[random.below(words.len())]);
        if !first.eq_ignore_ascii_case(second) {
            // Capitals would be operators to Tantivy.
            queries.push(format!("{first} {second}").to_lowercase());
        }
    }
    if queries.is_empty() {
        queries.push("create issue".to_owned());
    }
    queries
}
