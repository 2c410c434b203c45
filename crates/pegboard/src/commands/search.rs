//! `pegboard search`.

use std::{
    borrow::Cow,
    io::{Read, stdin},
    path::Path,
    sync::Arc,
    time::Instant,
};

use pegboard_core::{Catalog, Hit, Query, Ranker, Ranking, Reason, Selection, Tool, naming};
use pegboard_engine::analysis::{TokenKind, Tokenizer, is_stop_word};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Outcome, catalogs,
    cli::{Format, SearchArgs},
    config::{self, Config},
    embeddings::Asked,
    error::{CliError, warn},
    models,
    output::{self, FAINT, STRONG},
    progress::Progress,
    usage,
};

/// A query file is read no further; every ranker refuses far shorter queries.
const MAX_QUERY_FILE_BYTES: usize = 16 << 20;

/// Tools that are named when none fits well enough.
const NEAREST_IN_TEXT: usize = 3;

/// Reasons that a table shows for each hit.
const REASONS_IN_TABLE: usize = 6;

pub(crate) fn run(args: &SearchArgs) -> Result<Outcome, CliError> {
    let config = args.source.config.as_deref().map(config::read_offline).transpose()?.unwrap_or_default();
    let text = query_text(args)?;
    if text.trim().is_empty() {
        return Err(
            CliError::new("the query is blank").hint("say what the tool should do, for instance `create an issue`")
        );
    }
    let progress = Progress::waiting("reading and indexing the catalog");
    let catalog = catalog(args, &config)?;
    let model = models::read(args.model.model.as_deref().or(config.model.as_deref()))?;
    let ranker: Arc<dyn Ranker> = Arc::from(args.ranker.or(config.ranker).unwrap_or_default().build(model.as_ref()));
    let ranker = match &args.usage {
        Some(caller) => with_habits(ranker, caller, args, &config)?,
        None => ranker,
    };
    let query = Query {
        limit: args.limit.or(config.limit).unwrap_or(10),
        threshold: args.threshold.or(config.threshold).unwrap_or(0.0),
        explain: args.explain,
        least_confidence: args.least_confidence,
        ..Query::new(&text)
    };
    ranker.prepare(&catalog);
    drop(progress);
    let asked = Asked::open(&args.embeddings, &config)?;
    // Without vectors of tools that of the query is of no use.
    let asked = asked.filter(|asked| asked.embed_tools(&*ranker, &catalog) && asked.has_tools());
    let vectors = asked.map(|asked| asked.query(&text));
    let query = query.vector(vectors.as_ref().and_then(|vectors| vectors.get(&text)));
    let start = Instant::now();
    let ranking = rank(&*ranker, &query, &catalog)?;
    let took_us = start.elapsed().as_micros();
    let why_not = args.why_not.as_deref().map(|name| why_not(name, &*ranker, &query, &catalog)).transpose()?;
    let found = !ranking.hits.is_empty();
    let report = Report::new(&query, &*ranker, &ranking, took_us, why_not);
    match args.output.format() {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&report.to_text(&catalog))?,
    }
    Ok(if found { Outcome::Yes } else { Outcome::No })
}

fn query_text(args: &SearchArgs) -> Result<Cow<'_, str>, CliError> {
    let Some(path) = &args.query_file else {
        return Ok(Cow::Owned(args.query.join(" ")));
    };
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        stdin()
            .take(MAX_QUERY_FILE_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| CliError::read(Path::new("standard input"), error))?;
        bytes
    } else {
        catalogs::read_bounded(path, MAX_QUERY_FILE_BYTES)?
    };
    let mut text = String::from_utf8(bytes).map_err(|error| CliError::new("the query is not UTF-8").because(error))?;
    // Editors end files with a line break that nobody meant to search for.
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(Cow::Owned(text))
}

fn catalog(args: &SearchArgs, config: &Config) -> Result<Catalog, CliError> {
    let files = if args.source.catalog.is_empty() { &config.catalogs } else { &args.source.catalog };
    if !config.servers.is_empty() {
        warn(&format!(
            "`search` reads catalog files only; the {} configured MCP servers are not started",
            config.servers.len()
        ));
    }
    if files.is_empty() { catalogs::demo() } else { catalogs::read(files, args.source.max_catalog_bytes) }
}

/// `ranker` with what a caller has learned with this catalog.
fn with_habits(
    ranker: Arc<dyn Ranker>,
    caller: &str,
    args: &SearchArgs,
    config: &Config,
) -> Result<Arc<dyn Ranker>, CliError> {
    let book = usage::read(&config.state, args.embeddings.state.as_deref())?;
    let catalog = usage::catalog_of(args.source.config.as_deref(), &args.source.catalog);
    let name = ranker.name();
    usage::with_habits(ranker, &book, (&catalog, caller), config.usage.unwrap_or_default())
        .ok_or_else(|| CliError::new(format!("`{name}` does not learn from use")).hint("`hybrid` and `lexical` do"))
}

fn rank(ranker: &dyn Ranker, query: &Query<'_>, catalog: &Catalog) -> Result<Ranking, CliError> {
    ranker.rank(query, catalog, &Selection::everything()).map_err(|error| {
        use pegboard_core::QueryError;
        let cli = CliError::new(error.to_string());
        match error {
            QueryError::InvalidRegex { .. } => {
                cli.hint("put a backslash before a sign that is meant literally, or shorten the pattern")
            }
            QueryError::TooLong { .. } => cli.hint("a few words are enough to find a tool"),
            _ => cli,
        }
    })
}

/// What `search` prints; the order of the fields is part of the interface.
#[derive(Debug, Serialize)]
struct Report<'a> {
    query: &'a str,
    ranker: &'static str,
    total: usize,
    took_us: u128,
    hits: Vec<HitReport<'a>>,
    unmatched_terms: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'static str>,
    /// How likely the best tool is what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// The nearest tools when none fits well enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<WhyNot>,
}

#[derive(Debug, Serialize)]
struct HitReport<'a> {
    id: &'a str,
    name: &'a str,
    server: Option<&'a str>,
    score: Value,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Vec<ReasonReport>>,
}

#[derive(Debug, Serialize)]
struct ReasonReport {
    field: &'static str,
    term: String,
    weight: Value,
}

/// Where a tool ranked and what it lacked.
#[derive(Debug, Serialize)]
struct WhyNot {
    id: String,
    name: String,
    rank: Option<usize>,
    score: Option<Value>,
    best_score: Option<Value>,
    matched: Vec<ReasonReport>,
    missing: Vec<String>,
    reason: String,
}

impl<'a> Report<'a> {
    fn new(
        query: &Query<'a>,
        ranker: &dyn Ranker,
        ranking: &'a Ranking,
        took_us: u128,
        why_not: Option<WhyNot>,
    ) -> Self {
        let hit = |hit: &'a Hit| HitReport {
            id: hit.tool.id(),
            name: hit.tool.name(),
            server: hit.tool.server_name(),
            score: output::number(hit.score),
            description: hit.tool.description(),
            why: query.explain.then(|| reasons(&hit.why)),
        };
        Self {
            query: query.text,
            ranker: ranker.name(),
            total: ranking.total,
            took_us,
            hits: ranking.hits.iter().map(hit).collect(),
            unmatched_terms: &ranking.unmatched,
            fallback: ranking.fallback.map(|fallback| fallback.as_str()),
            confidence: ranking.confidence.map(|confidence| (confidence * 1e4).round() / 1e4),
            withheld: ranking.withheld.iter().map(|hit| hit.tool.name()).collect(),
            why_not,
        }
    }

    fn to_text(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        if !self.withheld.is_empty() {
            text.push_str(&self.withheld_to_text());
        } else if self.hits.is_empty() {
            text.push_str(&format!("No tool matches `{}`.\n", shortened(self.query)));
        } else {
            text.push_str(&self.hits_to_text());
        }
        if !self.unmatched_terms.is_empty() {
            text.push_str(&format!("No tool knows: {}\n", self.unmatched_terms.join(", ")));
        }
        if let Some(why_not) = &self.why_not {
            text.push_str(&why_not.to_text());
        }
        let summary = format!(
            "{} of {} matching tools, {} in the catalog, {} µs ({}{})",
            self.hits.len(),
            self.total,
            catalog.len(),
            self.took_us,
            self.ranker,
            self.fallback.map(|fallback| format!(", {fallback} fallback")).unwrap_or_default(),
        );
        text.push_str(&format!("{FAINT}{summary}{FAINT:#}\n"));
        text
    }

    fn withheld_to_text(&self) -> String {
        let nearest = self.withheld[..self.withheld.len().min(NEAREST_IN_TEXT)].join(", ");
        format!(
            "Nothing fits `{}` well enough. Nearest: {nearest}. `--least-confidence 0` shows them.\n",
            shortened(self.query)
        )
    }

    fn hits_to_text(&self) -> String {
        let row = |hit: &HitReport<'_>| {
            let last = match &hit.why {
                Some(why) => {
                    why.iter().take(REASONS_IN_TABLE).map(ReasonReport::to_text).collect::<Vec<_>>().join(", ")
                }
                None => hit.description.split_whitespace().collect::<Vec<_>>().join(" "),
            };
            vec![score_text(&hit.score), hit.name.to_owned(), hit.server.unwrap_or("-").to_owned(), last]
        };
        let last = if self.hits.iter().any(|hit| hit.why.is_some()) { "WHY" } else { "DESCRIPTION" };
        output::table(&["SCORE", "TOOL", "SERVER", last], self.hits.iter().map(row).collect(), &[0])
    }
}

impl ReasonReport {
    fn to_text(&self) -> String {
        format!("{}:{} {}", self.field, self.term, score_text(&self.weight))
    }
}

impl WhyNot {
    fn to_text(&self) -> String {
        let mut text = format!("{STRONG}{}{STRONG:#}: {}\n", self.id, self.reason);
        if !self.matched.is_empty() {
            let matched: Vec<String> = self.matched.iter().map(ReasonReport::to_text).collect();
            text.push_str(&format!("  matched: {}\n", matched.join(", ")));
        }
        if !self.missing.is_empty() {
            text.push_str(&format!("  missing: {}\n", self.missing.join(", ")));
        }
        text
    }
}

fn score_text(score: &Value) -> String {
    match score.as_f64() {
        Some(number) if score.is_f64() => format!("{number:.4}"),
        _ => score.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn reasons(why: &[Reason]) -> Vec<ReasonReport> {
    let rounded = |weight: f64| (weight * 1e6).round() / 1e6;
    why.iter()
        .map(|reason| ReasonReport {
            field: reason.field.as_str(),
            term: reason.term.clone(),
            weight: output::number(rounded(reason.weight)),
        })
        .collect()
}

/// Ranks without a limit and looks for the tool in the whole list.
fn why_not(name: &str, ranker: &dyn Ranker, query: &Query<'_>, catalog: &Catalog) -> Result<WhyNot, CliError> {
    let tool = find(name, catalog)?;
    let everything = Query { limit: usize::MAX, threshold: 0.0, explain: false, least_confidence: Some(0.0), ..*query };
    let hits = rank(ranker, &everything, catalog)?.hits;
    let best = hits.first().map(|hit| hit.score);
    let place = hits.iter().position(|hit| hit.tool.id() == tool.id());
    let score = place.map(|at| hits[at].score);
    let mut matched = Vec::new();
    if let Some(at) = place {
        let explained = rank(ranker, &Query { limit: at + 1, explain: true, ..everything }, catalog)?.hits;
        matched = explained.into_iter().nth(at).map(|hit| hit.why).unwrap_or_default();
    }
    Ok(WhyNot {
        id: tool.id().to_owned(),
        name: tool.name().to_owned(),
        rank: place.map(|at| at + 1),
        score: score.map(output::number),
        best_score: best.map(output::number),
        missing: missing_words(query.text, &matched),
        matched: reasons(&matched),
        reason: why_not_reason(place, score, best, query, ranker.name()),
    })
}

fn why_not_reason(
    place: Option<usize>,
    score: Option<f64>,
    best: Option<f64>,
    query: &Query<'_>,
    ranker: &str,
) -> String {
    let (Some(at), Some(score), Some(best)) = (place, score, best) else {
        return format!("not ranked: {ranker} finds nothing of the query in it");
    };
    if score < query.threshold * best {
        return format!("ranked {} but scored less than {} of the best", at + 1, query.threshold);
    }
    let side = if at < query.limit { "within" } else { "beyond" };
    format!("ranked {}, {side} the limit of {}", at + 1, query.limit)
}

/// Words of the query that no reason speaks of, each once.
fn missing_words(query: &str, matched: &[Reason]) -> Vec<String> {
    let whole = query.trim().to_lowercase();
    let has_spaces = whole.contains(char::is_whitespace);
    let terms: Vec<String> = matched.iter().map(|reason| reason.term.to_lowercase()).collect();
    // A ranker that compares whole texts gives the whole query as a reason.
    let is_matched = |word: &str| terms.iter().any(|term| (!has_spaces || *term != whole) && term.contains(word));
    let mut missing: Vec<String> = Vec::new();
    for word in query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        // Scripts without spaces are matched by pairs of characters; one is enough.
        let mut is_found = is_matched(&word);
        Tokenizer::default().tokenize(&word, &mut |token| {
            is_found |= token.kind == TokenKind::Pair && is_matched(token.text);
        });
        if !is_found && !missing.contains(&word) && !is_stop_word(&word) {
            missing.push(word);
        }
    }
    missing
}

/// The tool that `name` means: by identity, or by name in any spelling.
fn find<'a>(name: &str, catalog: &'a Catalog) -> Result<&'a Tool, CliError> {
    if let Some(tool) = catalog.find(name) {
        return Ok(tool);
    }
    let folded = naming::fold(name);
    let is_it = |tool: &&std::sync::Arc<Tool>| naming::fold(tool.name()) == folded || naming::fold(tool.id()) == folded;
    if let Some(tool) = catalog.iter().find(is_it) {
        return Ok(tool);
    }
    let near = naming::nearest(name, catalog.iter().map(|tool| tool.name()), 3);
    let error = CliError::new(format!("no tool `{name}` in the catalog"));
    Err(if near.is_empty() { error } else { error.hint(format!("did you mean `{}`?", near.join("` or `"))) })
}
