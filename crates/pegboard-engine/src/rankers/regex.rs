//! `regex`: a pattern over name and description, with a fuzzy fallback.

use pegboard_core::{
    Catalog, Fallback, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, SnapshotCache, Tool,
    naming::edit_distance,
    ranking::{MAX_QUERY_BYTES, cut, term_label},
};
use regex::{Regex, RegexBuilder};

use rustc_hash::FxHashMap;

use super::{re2, visible};
use crate::{
    analysis::{TokenKind, Tokenizer},
    lexical::letter_bits,
};

/// Limits on the compiled pattern and on the cache for matching it. Large enough for any pattern
/// that a model writes, small enough to compile in milliseconds.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_NESTING: u32 = 100;

/// Maximum number of fuzzy hits for a pattern without a match.
const MAX_FUZZY_HITS: usize = 5;

/// Maximum number of query words in the fallback.
const MAX_FUZZY_WORDS: usize = 32;

/// Minimum score by similar spelling alone.
const MIN_SIMILARITY: f64 = 0.6;

/// The weight of a query word that a tool only contains in another spelling.
const SIMILAR_WORD: f64 = 0.5;

/// The similarity of an abbreviation and its word: not sufficient by itself.
const ABBREVIATION: f32 = 0.5;

/// Maximum score of a tool that does not contain the query literally.
const BELOW_SUBSTRING: f64 = 0.9;

/// Matches a regular expression, always case-insensitively, in catalog order.
///
/// If no tool matches, the query is used as words: the best five tools that contain it, share words
/// with it, or contain words with a similar spelling.
#[derive(Debug, Default)]
pub struct RegexRanker {
    words: SnapshotCache<Words>,
}

impl RegexRanker {
    fn fuzzy(&self, query: &str, explain: bool, catalog: &Catalog, selection: &Selection) -> Vec<Hit> {
        let words = self.words.get(catalog, |_| Words::new(catalog));
        let query = FuzzyQuery::new(query, &words);
        let tools = catalog.iter().enumerate().filter(|(_, tool)| selection.allows(tool));
        let mut hits: Vec<Hit> = tools
            .filter_map(|(at, tool)| {
                let (score, why) = query.score(at, tool)?;
                Some(Hit { tool: tool.clone(), score, why: if explain { why } else { Vec::new() } })
            })
            .collect();
        // Stable: equal scores stay in catalog order.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(MAX_FUZZY_HITS);
        hits
    }
}

impl Ranker for RegexRanker {
    fn name(&self) -> &'static str {
        "regex"
    }

    fn returns_all_matches(&self) -> bool {
        true
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
            hits = self.fuzzy(text, query.explain, catalog, selection);
            fallback = (!hits.is_empty()).then_some(Fallback::Fuzzy);
        }
        let total = hits.len();
        let passing = cut(&mut hits, query);
        Ok(Ranking { hits, total, passing, fallback, ..Ranking::default() })
    }
}

fn compile(pattern: &str) -> Result<Regex, QueryError> {
    let pattern = re2::translate(pattern).map_err(|reason| QueryError::InvalidRegex { reason })?;
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(true)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .nest_limit(MAX_NESTING)
        .build();
    built.map_err(|error| QueryError::InvalidRegex { reason: reason(&error) })
}

/// Returns the last line of the parser's message, without its drawing of the pattern.
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

/// The words of a catalog, for the fallback.
#[derive(Debug, Default)]
struct Words {
    /// All distinct words, in lower case.
    known: Vec<String>,
    /// The words of each tool, name first, by number.
    by_tool: Vec<Vec<(Field, u32)>>,
}

impl Words {
    fn new(catalog: &Catalog) -> Self {
        let mut words = Self::default();
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut tokenizer = Tokenizer::default();
        for tool in catalog.iter() {
            let mut of_tool: Vec<(Field, u32)> = Vec::new();
            for (field, text) in [(Field::Name, tool.name()), (Field::Description, tool.description())] {
                tokenizer.tokenize(text, &mut |token| {
                    if token.kind == TokenKind::Whole {
                        return;
                    }
                    let number = numbers.get(token.text).copied().unwrap_or_else(|| {
                        let number = words.known.len() as u32;
                        words.known.push(token.text.to_owned());
                        numbers.insert(token.text.to_owned(), number);
                        number
                    });
                    of_tool.push((field, number));
                });
            }
            words.by_tool.push(of_tool);
        }
        words
    }
}

/// The query of the fallback: a literal text, and its words with the similarity of each known word.
struct FuzzyQuery<'a> {
    text: String,
    words: Vec<(String, Vec<f32>)>,
    known: &'a Words,
}

impl<'a> FuzzyQuery<'a> {
    fn new(query: &str, known: &'a Words) -> Self {
        let mut words: Vec<String> = Vec::new();
        Tokenizer::default().tokenize(query, &mut |token| {
            // Single letters are more often pattern syntax than words.
            let is_word = token.kind != TokenKind::Whole && token.text.len() > 1;
            if is_word && words.len() < MAX_FUZZY_WORDS && !words.iter().any(|word| word == token.text) {
                words.push(token.text.to_owned());
            }
        });
        let compared = |word: String| {
            let letters = letter_bits(&word);
            let similar = known.known.iter().map(|other| similarity(&word, letters, other)).collect();
            (word, similar)
        };
        Self { text: query.trim().to_lowercase(), words: words.into_iter().map(compared).collect(), known }
    }

    /// Scores by substring, then by words, then by spelling: the first that applies, each below the
    /// previous one.
    fn score(&self, at: usize, tool: &Tool) -> Option<(f64, Vec<Reason>)> {
        for (field, text) in [(Field::Name, tool.name()), (Field::Description, tool.description())] {
            if !self.text.is_empty() && text.to_lowercase().contains(&self.text) {
                return Some((1.0, vec![Reason { field, term: self.text.clone(), weight: 1.0 }]));
            }
        }
        if self.words.is_empty() || self.known.by_tool[at].is_empty() {
            return None;
        }
        let nearest: Vec<(Field, u32, f32)> = self.words.iter().filter_map(|word| self.nearest(at, &word.1)).collect();
        self.score_words(&nearest).or_else(|| self.score_spelling(&nearest))
    }

    /// Returns the word of the tool with the most similar spelling, the first of several.
    fn nearest(&self, at: usize, similar: &[f32]) -> Option<(Field, u32, f32)> {
        let words = self.known.by_tool[at].iter().map(|(field, word)| (*field, *word, similar[*word as usize]));
        words.reduce(|best, word| if word.2 > best.2 { word } else { best })
    }

    /// Scores by the share of query words that the tool contains. The others count a little by
    /// similar spelling, to order tools that share the same words.
    fn score_words(&self, nearest: &[(Field, u32, f32)]) -> Option<(f64, Vec<Reason>)> {
        if !nearest.iter().any(|(_, _, similarity)| *similarity == 1.0) {
            return None;
        }
        let weight = BELOW_SUBSTRING / self.words.len() as f64;
        let similar = |similarity: f32| f64::from(similarity) * if similarity == 1.0 { 1.0 } else { SIMILAR_WORD };
        Some(self.reasons(nearest, |similarity| weight * similar(similarity)))
    }

    /// Scores by the mean similarity of each query word to the tool's nearest word, if one of them
    /// alone is near enough.
    fn score_spelling(&self, nearest: &[(Field, u32, f32)]) -> Option<(f64, Vec<Reason>)> {
        let weight = BELOW_SUBSTRING / self.words.len() as f64;
        let is_near = nearest.iter().any(|(_, _, similarity)| f64::from(*similarity) >= MIN_SIMILARITY);
        is_near.then(|| self.reasons(nearest, |similarity| weight * f64::from(similarity)))
    }

    /// Returns a score and its reasons, one for each query word that contributes.
    fn reasons(&self, nearest: &[(Field, u32, f32)], weight: impl Fn(f32) -> f64) -> (f64, Vec<Reason>) {
        let similar = self.words.iter().zip(nearest).filter(|(_, (_, _, similarity))| *similarity > 0.0);
        let reasons: Vec<Reason> = similar
            .map(|((asked, _), (field, word, similarity))| Reason {
                field: *field,
                term: term_label(asked, &self.known.known[*word as usize]).into_owned(),
                weight: weight(*similarity),
            })
            .collect();
        (reasons.iter().map(|reason| reason.weight).sum(), reasons)
    }
}

/// Returns one minus the share of edited letters, or a constant for an abbreviation; 0 below the
/// minimum, which a single word cannot reach then either.
fn similarity(word: &str, letters: u32, other: &str) -> f32 {
    if word == other {
        return 1.0;
    }
    let longest = word.chars().count().max(other.chars().count()).max(1);
    let most = (longest as f64 * (1.0 - MIN_SIMILARITY)).floor() as usize;
    // Each edit adds a letter, removes one, or does both.
    let could_be = (letters ^ letter_bits(other)).count_ones() as usize <= 2 * most;
    match could_be.then(|| edit_distance(word, other, most)).flatten() {
        Some(distance) => 1.0 - distance as f32 / longest as f32,
        None if is_abbreviation(word, other) => ABBREVIATION,
        None => 0.0,
    }
}

/// Returns whether the letters of `short` occur in `long` in that order, beginning with the first.
fn is_abbreviation(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    let same_start = short.chars().next() == long.chars().next();
    same_start && short.len() < long.len() && short.chars().all(|c| letters.any(|other| other == c))
}
