//! `pegboard eval`.

mod args;
mod record;

use std::{cell::OnceCell, collections::HashMap, path::Path, time::Instant};

use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, Vectors};
use pegboard_discovery::Settings;
use pegboard_engine::metrics::{Quality, percentile};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

pub(crate) use self::args::EvalArgs;
use self::args::RankerChoice;
use crate::{
    Outcome, catalogs, cli::options::Format, config::Config, embeddings::EmbeddingsClient, error::CliError, models,
    output, progress::Progress, rankers::RankerName,
};

/// Depth to which rankings are evaluated.
const DEPTH: usize = 100;

pub(crate) fn run(args: &EvalArgs) -> Result<Outcome, CliError> {
    let progress = Progress::waiting("reading the data");
    let data = if args.data.is_file() { record::read(&args.data) } else { Data::read(&args.data) };
    drop(progress);
    let data = data?;
    let mut names: Vec<RankerName> = Vec::new();
    for choice in &args.ranker {
        let chosen = match choice {
            RankerChoice::All => RankerName::compared(),
            RankerChoice::One(name) => vec![*name],
        };
        names.extend(chosen.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    let model = models::read(args.model.model.as_deref())?;
    let asked = EmbeddingsClient::open(&args.embeddings, &Config::default())?.map(|asked| (asked, OnceCell::new()));
    let rankers = names
        .iter()
        .map(|name| measure(&*name.build(model.as_ref(), Settings::default().token_bonus), &data, asked.as_ref()))
        .collect();
    let report = Report {
        data: args.data.display().to_string(),
        tools: data.catalog.len(),
        queries: data.queries.len(),
        rankers: Figures(rankers),
    };
    match args.output.format() {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&report.to_text())?,
    }
    Ok(Outcome::Yes)
}

/// Labelled queries and the tools they refer to.
struct Data {
    catalog: Catalog,
    queries: Vec<Labelled>,
}

struct Labelled {
    text: String,
    relevant: HashMap<String, f64>,
}

#[derive(Deserialize)]
struct QueryLine {
    id: serde_json::Value,
    query: String,
}

impl Data {
    fn read(dir: &Path) -> Result<Self, CliError> {
        // Without either, the message names the usual one.
        let files = ["tools.jsonl", "openapi.json"].map(|name| dir.join(name));
        let file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
        let catalog = catalogs::read(std::slice::from_ref(file), usize::MAX)?;
        let mut labels = read_labels(&dir.join("qrels.tsv"), &catalog)?;
        let path = dir.join("queries.jsonl");
        let mut queries = Vec::new();
        for (at, line) in read_text(&path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let query: QueryLine = serde_json::from_str(line).map_err(|error| {
                CliError::new(format!("{}:{}: not a query", path.display(), at + 1))
                    .because(error)
                    .hint("a line is `{\"id\": …, \"query\": …}`")
            })?;
            let id = query.id.as_str().map_or_else(|| query.id.to_string(), str::to_owned);
            // Without labels there is nothing to measure.
            if let Some(relevant) = labels.remove(&id) {
                queries.push(Labelled { text: query.query, relevant });
            }
        }
        if queries.is_empty() {
            return Err(CliError::new(format!("`{}` has no labelled query", dir.display()))
                .hint("`qrels.tsv` holds query id, tool id and relevance, separated by tabs"));
        }
        Ok(Self { catalog, queries })
    }
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = catalogs::read_bounded(path, LoadLimits::default().file_bytes)?;
    String::from_utf8(bytes).map_err(|error| CliError::new(format!("`{}` is not UTF-8", path.display())).because(error))
}

/// Reads the relevant tools by query; labels of tools that the catalog lacks are ignored.
fn read_labels(path: &Path, catalog: &Catalog) -> Result<HashMap<String, HashMap<String, f64>>, CliError> {
    let known: std::collections::HashSet<&str> = catalog.iter().map(|tool| tool.id()).collect();
    let mut labels: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for (at, line) in read_text(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut columns = line.split('\t');
        let parsed = (|| {
            let (query, tool) = (columns.next()?, columns.next()?);
            let relevance = columns.next().map_or(Some(1.0), |text| text.trim().parse::<f64>().ok())?;
            Some((query, tool, relevance))
        })();
        let Some((query, tool, relevance)) = parsed else {
            return Err(CliError::new(format!("{}:{}: not a label", path.display(), at + 1))
                .hint("a line is query id, tool id and relevance, separated by tabs"));
        };
        if relevance > 0.0 && known.contains(tool) {
            labels.entry(query.to_owned()).or_default().insert(tool.to_owned(), relevance);
        }
    }
    Ok(labels)
}

/// Gives the ranker the vectors of the tools, and returns those of the queries, which are fetched
/// once: after the tools', with which they are compared.
fn vectors<'a>(
    ranker: &dyn Ranker,
    data: &Data,
    (asked, known): &'a (EmbeddingsClient, OnceCell<Vectors>),
) -> Option<&'a Vectors> {
    if !asked.embed_tools(ranker, &data.catalog) || !asked.has_tools() {
        return None;
    }
    Some(known.get_or_init(|| {
        let _progress = Progress::waiting(&format!("embedding queries: {}", data.queries.len()));
        asked.embed_labelled(ranker, data.queries.iter().map(|query| query.text.as_str()))
    }))
}

fn measure(
    ranker: &dyn Ranker,
    data: &Data,
    asked: Option<&(EmbeddingsClient, OnceCell<Vectors>)>,
) -> (&'static str, Measured) {
    ranker.prepare(&data.catalog);
    let vectors = asked.and_then(|asked| vectors(ranker, data, asked));
    let progress = Progress::new(data.queries.len(), ranker.name());
    let mut quality = Quality::default();
    let mut times = Vec::with_capacity(data.queries.len());
    let everything = Selection::everything();
    // The first query of a ranker may still build what it keeps per catalog.
    let _ = ranker.rank(&Query::new(&data.queries[0].text), &data.catalog, &everything);
    for labelled in &data.queries {
        // Only the order is measured, so nothing is withheld.
        let query = Query::new(&labelled.text).limit(DEPTH).least_confidence(0.0).vectors(vectors);
        let start = Instant::now();
        // A query that a ranker refuses found nothing.
        let hits = ranker.rank(&query, &data.catalog, &everything).map(|ranking| ranking.hits).unwrap_or_default();
        times.push(start.elapsed().as_secs_f64() * 1e6);
        quality.add(Quality::of(hits.iter().map(|hit| hit.tool.id()), &labelled.relevant));
        progress.step();
    }
    times.sort_by(f64::total_cmp);
    let mean = quality.mean(data.queries.len());
    (ranker.name(), Measured { quality: mean, p50_us: percentile(&times, 0.5), p99_us: percentile(&times, 0.99) })
}

struct Measured {
    quality: Quality,
    p50_us: f64,
    p99_us: f64,
}

impl Measured {
    fn columns(&self) -> [(&'static str, f64); 7] {
        let share = |value: f64| (value * 1e4).round() / 1e4;
        let micros = |value: f64| (value * 10.0).round() / 10.0;
        [
            ("recall@1", share(self.quality.recall_at_1)),
            ("recall@5", share(self.quality.recall_at_5)),
            ("recall@10", share(self.quality.recall_at_10)),
            ("ndcg@10", share(self.quality.ndcg_at_10)),
            ("mrr", share(self.quality.mrr)),
            ("p50_us", micros(self.p50_us)),
            ("p99_us", micros(self.p99_us)),
        ]
    }
}

#[derive(Serialize)]
struct Report {
    data: String,
    tools: usize,
    queries: usize,
    rankers: Figures,
}

/// Measurements by ranker, in the order of the command line.
struct Figures(Vec<(&'static str, Measured)>);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, measured) in &self.0 {
            let figures: serde_json::Map<String, serde_json::Value> =
                measured.columns().into_iter().map(|(key, value)| (key.to_owned(), output::number(value))).collect();
            map.serialize_entry(name, &figures)?;
        }
        map.end()
    }
}

impl Report {
    fn to_text(&self) -> String {
        let row = |(name, measured): &(&'static str, Measured)| {
            let figures = measured
                .columns()
                .into_iter()
                .map(|(key, value)| if key.ends_with("_us") { format!("{value:.1}") } else { format!("{value:.4}") });
            std::iter::once((*name).to_owned()).chain(figures).collect()
        };
        let head = ["RANKER", "RECALL@1", "RECALL@5", "RECALL@10", "NDCG@10", "MRR", "P50 µs", "P99 µs"];
        let rows = self.rankers.0.iter().map(row).collect();
        let table = output::table(&head, rows, &[1, 2, 3, 4, 5, 6, 7]);
        let tools = output::pluralize(self.tools, "tool");
        let queries = if self.queries == 1 { "query" } else { "queries" };
        format!("{} ({tools}, {} {queries})\n{table}", self.data, self.queries)
    }
}
