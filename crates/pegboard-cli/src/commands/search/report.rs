//! Output of `pegboard search`.

use std::borrow::Cow;

use pegboard_core::{Catalog, Hit, Query, Ranker, Ranking, Reason, text::excerpt};
use serde::Serialize;
use serde_json::Value;

use super::why_not::WhyNot;
use crate::output::{self, FAINT};

/// Number of nearest tools that are named if none matches well enough.
const NEAREST_IN_TEXT: usize = 3;

/// Maximum number of reasons per hit in text output.
const REASONS_IN_TEXT: usize = 6;

/// Indent of reasons below their hit.
const INDENT: usize = 8;

/// The result of `search`; the order of the fields is part of the interface.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    query: &'a str,
    ranker: &'static str,
    total: usize,
    took_us: u128,
    hits: Vec<HitReport<'a>>,
    unmatched_terms: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'static str>,
    /// The English translation of the query, if that was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    translated: Option<&'a str>,
    /// The estimated probability that the best tool is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// The nearest tools if none matches well enough.
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
pub(super) struct ReasonReport {
    field: &'static str,
    term: String,
    weight: Value,
}

impl<'a> Report<'a> {
    pub(super) fn new(
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
            translated: ranking.translated.as_deref(),
            // Rounded down: a withheld hit must not look as if it had enough confidence.
            confidence: ranking.confidence.map(|confidence| (confidence * 1e4).floor() / 1e4),
            withheld: ranking.withheld.iter().map(|hit| hit.tool.name()).collect(),
            why_not,
        }
    }

    pub(super) fn to_text(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        if !self.withheld.is_empty() {
            text.push_str(&self.withheld_to_text());
        } else if self.hits.is_empty() {
            text.push_str(&format!("No tool matches `{}`.\n", shorten(self.query)));
        } else {
            text.push_str(&self.hits_to_text());
        }
        if !self.unmatched_terms.is_empty() {
            text.push_str(&format!("No tool matches these words: {}\n", self.unmatched_terms.join(", ")));
        }
        if let Some(translated) = self.translated {
            let line = format!("Searched for in English: {}", shorten(translated));
            text.push_str(&format!("{}\n", output::wrap(&line, 0, 0, output::width())));
        }
        if let Some(why_not) = &self.why_not {
            text.push_str(&why_not.to_text());
        }
        let summary = format!(
            "{} of {} matching tools, {} in the catalog{}, {} µs ({}{})",
            output::count(self.hits.len() as u64),
            output::count(self.total as u64),
            output::count(catalog.len() as u64),
            self.confidence.map(|confidence| format!(", confidence {confidence:.2}")).unwrap_or_default(),
            output::count(u64::try_from(self.took_us).unwrap_or(u64::MAX)),
            self.ranker,
            self.fallback.map(|fallback| format!(", {fallback} fallback")).unwrap_or_default(),
        );
        let summary = output::wrap(&summary, 0, 0, output::width());
        text.push_str(&format!("{FAINT}{summary}{FAINT:#}\n"));
        text
    }

    fn withheld_to_text(&self) -> String {
        let nearest = self.withheld[..self.withheld.len().min(NEAREST_IN_TEXT)].join(", ");
        let text = format!(
            "No tool matches `{}` well enough. Nearest: {nearest}. `--least-confidence 0` shows them.",
            shorten(self.query)
        );
        format!("{}\n", output::wrap(&text, 0, 0, output::width()))
    }

    fn hits_to_text(&self) -> String {
        if self.hits.iter().any(|hit| hit.why.is_some()) {
            return self.explained_to_text();
        }
        let row = |hit: &HitReport<'_>| {
            let description = hit.description.split_whitespace().collect::<Vec<_>>().join(" ");
            [hit.cells(self.has_servers()).as_slice(), &[description]].concat()
        };
        let head = [self.head(), &["DESCRIPTION"]].concat();
        output::table(&head, self.hits.iter().map(row).collect(), &[0])
    }

    /// Returns whether the servers have a column of their own, which would repeat prefixes of
    /// names.
    fn has_servers(&self) -> bool {
        !self.hits.iter().all(|hit| hit.server.is_some_and(|server| is_prefixed(hit.name, server)))
    }

    fn head(&self) -> &'static [&'static str] {
        if self.has_servers() { &["SCORE", "TOOL", "SERVER"] } else { &["SCORE", "TOOL"] }
    }

    /// Renders each hit with its reasons below it.
    fn explained_to_text(&self) -> String {
        let rows = self.hits.iter().map(|hit| hit.cells(self.has_servers())).collect();
        let table = output::table(self.head(), rows, &[0]);
        let (head, rows) = table.split_once('\n').unwrap_or((&table, ""));
        let mut text = format!("{head}\n");
        for (row, hit) in rows.lines().zip(&self.hits) {
            text.push_str(&format!("{row}\n"));
            let why = hit.why.iter().flatten().take(REASONS_IN_TEXT).map(ReasonReport::to_text);
            let why = why.collect::<Vec<_>>().join(", ");
            if !why.is_empty() {
                text.push_str(&format!("{}\n", output::wrap(&why, INDENT, INDENT, output::width())));
            }
        }
        text
    }
}

impl HitReport<'_> {
    fn cells(&self, has_server: bool) -> Vec<String> {
        let server = has_server.then(|| self.server.unwrap_or("-").to_owned());
        [score_text(&self.score), self.name.to_owned()].into_iter().chain(server).collect()
    }
}

/// Returns whether the name of a tool begins with that of its server.
pub(super) fn is_prefixed(name: &str, server: &str) -> bool {
    name.strip_prefix(server).is_some_and(|rest| rest.starts_with("___"))
}

impl ReasonReport {
    pub(super) fn to_text(&self) -> String {
        format!("{}:{} {}", self.field, self.term, score_text(&self.weight))
    }
}

fn score_text(score: &Value) -> String {
    match score.as_f64() {
        Some(number) if score.is_f64() => format!("{number:.4}"),
        _ => score.to_string(),
    }
}

fn shorten(text: &str) -> Cow<'_, str> {
    excerpt(text, 80)
}

pub(super) fn reasons(why: &[Reason]) -> Vec<ReasonReport> {
    let rounded = |weight: f64| (weight * 1e6).round() / 1e6;
    why.iter()
        .map(|reason| ReasonReport {
            field: reason.field.as_str(),
            term: reason.term.clone(),
            weight: output::number(rounded(reason.weight)),
        })
        .collect()
}
