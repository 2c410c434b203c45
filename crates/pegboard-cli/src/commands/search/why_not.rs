//! `--why-not`: the reason why a tool is not among the hits.

use std::sync::Arc;

use pegboard_core::{Catalog, Query, Ranker, Ranking, Reason, Tool, naming};
use pegboard_engine::analysis::{TokenKind, Tokenizer, is_stop_word};
use serde::Serialize;
use serde_json::Value;

use super::{
    rank,
    report::{ReasonReport, is_prefixed, reasons},
};
use crate::{
    error::CliError,
    output::{self, STRONG},
};

/// Where a tool ranked and what it lacked.
#[derive(Debug, Serialize)]
pub(super) struct WhyNot {
    id: String,
    name: String,
    rank: Option<usize>,
    score: Option<Value>,
    best_score: Option<Value>,
    matched: Vec<ReasonReport>,
    missing: Vec<String>,
    reason: String,
}

impl WhyNot {
    pub(super) fn to_text(&self) -> String {
        let is_whole = self
            .id
            .strip_suffix(&self.name)
            .is_some_and(|server| server.strip_suffix('/').is_some_and(|server| is_prefixed(&self.name, server)));
        let shown = if is_whole { &self.name } else { &self.id };
        let mut text = format!("{STRONG}{shown}{STRONG:#}: {}\n", self.reason);
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

/// Ranks without a limit and finds the tool in the whole list. `ranking` is the result of the query
/// itself.
pub(super) fn why_not(
    name: &str,
    ranker: &dyn Ranker,
    query: &Query<'_>,
    catalog: &Catalog,
    ranking: &Ranking,
) -> Result<WhyNot, CliError> {
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
        reason: reason(place.zip(score.zip(best)), query, ranking, ranker.name()),
    })
}

/// Returns the reason in words: `found` is the tool's rank, its score, and the best score.
fn reason(found: Option<(usize, (f64, f64))>, query: &Query<'_>, ranking: &Ranking, ranker: &str) -> String {
    let Some((at, (score, best))) = found else {
        return format!("not ranked: {ranker} finds no query term in this tool");
    };
    if score < query.threshold * best {
        return format!("ranked {} but scored less than {} of the best", at + 1, query.threshold);
    }
    let side = if at < query.limit { "within" } else { "beyond" };
    let place = format!("ranked {}, {side} the limit of {}", at + 1, query.limit);
    match ranking.confidence.filter(|_| !ranking.withheld.is_empty()) {
        Some(confidence) => format!("{place}, but hits are withheld: confidence {confidence:.2} is too low"),
        None => place,
    }
}

/// Returns the words of the query that no reason mentions, each once.
pub(crate) fn missing_words(query: &str, matched: &[Reason]) -> Vec<String> {
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

/// Returns the tool that `name` means: by identity, or by name in any spelling.
fn find<'a>(name: &str, catalog: &'a Catalog) -> Result<&'a Tool, CliError> {
    if let Some(tool) = catalog.find(name) {
        return Ok(tool);
    }
    let folded = naming::fold(name);
    let is_it = |tool: &&Arc<Tool>| naming::fold(tool.name()) == folded || naming::fold(tool.id()) == folded;
    if let Some(tool) = catalog.iter().find(is_it) {
        return Ok(tool);
    }
    let near = naming::nearest(name, catalog.iter().map(|tool| tool.name()), 3);
    let error = CliError::new(format!("no tool `{name}` in the catalog"));
    Err(if near.is_empty() { error } else { error.hint(format!("did you mean `{}`?", near.join("` or `"))) })
}
