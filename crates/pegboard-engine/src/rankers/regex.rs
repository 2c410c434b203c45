//! `regex`: a pattern over name and description, with a fuzzy fallback.

use pegboard_core::{
    Catalog, Fallback, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, Tool,
    naming::edit_distance,
    ranking::{MAX_QUERY_BYTES, cut, term_label},
};
use regex::{Regex, RegexBuilder};

use super::visible;
use crate::analysis::{TokenKind, Tokenizer};

/// Bounds on the compiled pattern and on the cache that matching it may use. Large
/// enough for any pattern that a model writes, small enough to compile in milliseconds.
const MAX_PATTERN_BYTES: usize = 2 << 20;
const MAX_NESTING: u32 = 100;

/// At most this many tools answer a pattern that matches none.
const MAX_FUZZY_HITS: usize = 5;

/// What a tool must reach by similar spelling alone.
const MIN_SIMILARITY: f64 = 0.6;

/// What a tool can reach that does not contain the query as it stands.
const BELOW_SUBSTRING: f64 = 0.9;

/// Matches a regular expression, always without regard to case, in catalog order.
///
/// When no tool matches, the query is taken as words: tools that contain it, tools that
/// share words with it, and tools with words spelled like it, the best five.
#[derive(Debug, Default)]
pub struct RegexRanker;

impl Ranker for RegexRanker {
    fn name(&self) -> &'static str {
        "regex"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked_length(MAX_QUERY_BYTES)?;
        if text.is_empty() {
            return Err(QueryError::Empty);
        }
        let pattern = compile(text)?;
        let mut hits: Vec<Hit> = visible(catalog, selection)
            .filter_map(|tool| {
                let (field, found) = [(Field::Name, tool.name()), (Field::Description, tool.description())]
                    .into_iter()
                    .find_map(|(field, text)| Some((field, pattern.find(text)?.as_str())))?;
                let reason = Reason { field, term: found.to_owned(), weight: 1.0 };
                Some(Hit { tool: tool.clone(), score: 1.0, why: query.explain.then_some(reason).into_iter().collect() })
            })
            .collect();
        let mut fallback = None;
        if hits.is_empty() {
            hits = fuzzy(text, query.explain, catalog, selection);
            fallback = (!hits.is_empty()).then_some(Fallback::Fuzzy);
        }
        let total = hits.len();
        cut(&mut hits, query);
        Ok(Ranking { hits, total, fallback, ..Ranking::default() })
    }
}

fn compile(pattern: &str) -> Result<Regex, QueryError> {
    let built = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .nest_limit(MAX_NESTING)
        .build();
    built.map_err(|error| QueryError::InvalidRegex { reason: reason(&error) })
}

/// The last line of the parser's message, without its drawing of the pattern.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("larger than {limit} bytes when compiled"),
        error => {
            let message = error.to_string();
            let last = message.lines().next_back().unwrap_or_default();
            last.trim().trim_start_matches("error: ").to_owned()
        }
    }
}

fn fuzzy(query: &str, explain: bool, catalog: &Catalog, selection: &Selection) -> Vec<Hit> {
    let query = FuzzyQuery::new(query);
    let mut hits: Vec<Hit> = visible(catalog, selection)
        .filter_map(|tool| {
            let (score, mut why) = query.score(tool)?;
            if !explain {
                why.clear();
            }
            Some(Hit { tool: tool.clone(), score, why })
        })
        .collect();
    // Stable: equal scores stay in catalog order.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(MAX_FUZZY_HITS);
    hits
}

/// The query of the fallback: a literal text and its words.
struct FuzzyQuery {
    text: String,
    words: Vec<String>,
}

/// Words of a text in lower case, with the field that they are from.
fn words(field: Field, text: &str) -> Vec<(Field, String)> {
    let mut words = Vec::new();
    Tokenizer::default().tokenize(text, &mut |token| {
        if token.kind != TokenKind::Whole {
            words.push((field, token.text.to_owned()));
        }
    });
    words
}

impl FuzzyQuery {
    fn new(query: &str) -> Self {
        // Single letters come from the syntax of a pattern more often than from a word.
        let words = words(Field::Text, query).into_iter().map(|(_, word)| word);
        let words = words.filter(|word| word.len() > 1).take(64).collect();
        Self { text: query.trim().to_lowercase(), words }
    }

    /// Substring, then words, then spelling: the first that applies, each below the one
    /// before it.
    fn score(&self, tool: &Tool) -> Option<(f64, Vec<Reason>)> {
        for (field, text) in [(Field::Name, tool.name()), (Field::Description, tool.description())] {
            if !self.text.is_empty() && text.to_lowercase().contains(&self.text) {
                return Some((1.0, vec![Reason { field, term: self.text.clone(), weight: 1.0 }]));
            }
        }
        let mut known = words(Field::Name, tool.name());
        known.extend(words(Field::Description, tool.description()));
        self.score_words(&known).or_else(|| self.score_spelling(&known))
    }

    /// The share of query words that the tool has.
    fn score_words(&self, known: &[(Field, String)]) -> Option<(f64, Vec<Reason>)> {
        let count = self.words.len() as f64;
        let mut reasons = Vec::new();
        for word in &self.words {
            if let Some((field, _)) = known.iter().find(|(_, other)| other == word) {
                reasons.push(Reason { field: *field, term: word.clone(), weight: BELOW_SUBSTRING / count });
            }
        }
        (!reasons.is_empty()).then(|| (reasons.iter().map(|reason| reason.weight).sum(), reasons))
    }

    /// The mean similarity of each query word to the tool's nearest word.
    fn score_spelling(&self, known: &[(Field, String)]) -> Option<(f64, Vec<Reason>)> {
        let mut reasons = Vec::new();
        for word in &self.words {
            let nearest = known
                .iter()
                .map(|(field, other)| (similarity(word, other), *field, other))
                .max_by(|a, b| a.0.total_cmp(&b.0))?;
            let term = term_label(word, nearest.2).into_owned();
            reasons.push(Reason { field: nearest.1, term, weight: nearest.0 / self.words.len() as f64 });
        }
        let score: f64 = reasons.iter().map(|reason| reason.weight).sum();
        if score < MIN_SIMILARITY {
            return None;
        }
        reasons.iter_mut().for_each(|reason| reason.weight *= BELOW_SUBSTRING);
        Some((score * BELOW_SUBSTRING, reasons))
    }
}

/// One minus the share of letters that have to change.
fn similarity(a: &str, b: &str) -> f64 {
    let longest = a.chars().count().max(b.chars().count()).max(1);
    // Anything farther apart cannot reach the floor on its own.
    let most = (longest as f64 * (1.0 - MIN_SIMILARITY)).floor() as usize;
    edit_distance(a, b, most).map_or(0.0, |distance| 1.0 - distance as f64 / longest as f64)
}
