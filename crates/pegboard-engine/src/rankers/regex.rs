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

/// Bounds on the compiled pattern and on the cache that matching it may use. Large
/// enough for any pattern that a model writes, small enough to compile in milliseconds.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_NESTING: u32 = 100;

/// At most this many tools answer a pattern that matches none.
const MAX_FUZZY_HITS: usize = 5;

/// Words of a query that the fallback looks at.
const MAX_FUZZY_WORDS: usize = 32;

/// What a tool must reach by similar spelling alone.
const MIN_SIMILARITY: f64 = 0.6;

/// What a word of the query counts that a tool only has in another spelling.
const SIMILAR_WORD: f64 = 0.5;

/// How alike an abbreviation and its word are: not enough by themselves.
const ABBREVIATION: f32 = 0.5;

/// What a tool can reach that does not contain the query as it stands.
const BELOW_SUBSTRING: f64 = 0.9;

/// Matches a regular expression, always without regard to case, in catalog order.
///
/// When no tool matches, the query is taken as words: tools that contain it, tools that
/// share words with it, and tools with words spelled like it, the best five.
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

/// The words of a catalog, for the fallback.
#[derive(Debug, Default)]
struct Words {
    /// All different words, in lower case.
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

/// The query of the fallback: a literal text, and its words with what each known word is
/// worth to them.
struct FuzzyQuery<'a> {
    text: String,
    words: Vec<(String, Vec<f32>)>,
    known: &'a Words,
}

impl<'a> FuzzyQuery<'a> {
    fn new(query: &str, known: &'a Words) -> Self {
        let mut words: Vec<String> = Vec::new();
        Tokenizer::default().tokenize(query, &mut |token| {
            // Single letters come from the syntax of a pattern more often than from a word.
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

    /// Substring, then words, then spelling: the first that applies, each below the one
    /// before it.
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

    /// The word of the tool that is spelled most like a query word, the first of several.
    fn nearest(&self, at: usize, similar: &[f32]) -> Option<(Field, u32, f32)> {
        let words = self.known.by_tool[at].iter().map(|(field, word)| (*field, *word, similar[*word as usize]));
        words.reduce(|best, word| if word.2 > best.2 { word } else { best })
    }

    /// The share of query words that the tool has. The others count a little as far as they
    /// are spelled alike, to tell tools apart that share the same words.
    fn score_words(&self, nearest: &[(Field, u32, f32)]) -> Option<(f64, Vec<Reason>)> {
        if !nearest.iter().any(|(_, _, similarity)| *similarity == 1.0) {
            return None;
        }
        let weight = BELOW_SUBSTRING / self.words.len() as f64;
        let similar = |similarity: f32| f64::from(similarity) * if similarity == 1.0 { 1.0 } else { SIMILAR_WORD };
        Some(self.reasons(nearest, |similarity| weight * similar(similarity)))
    }

    /// The mean similarity of each query word to the tool's nearest word, where one of them alone
    /// is near enough.
    fn score_spelling(&self, nearest: &[(Field, u32, f32)]) -> Option<(f64, Vec<Reason>)> {
        let weight = BELOW_SUBSTRING / self.words.len() as f64;
        let is_near = nearest.iter().any(|(_, _, similarity)| f64::from(*similarity) >= MIN_SIMILARITY);
        is_near.then(|| self.reasons(nearest, |similarity| weight * f64::from(similarity)))
    }

    /// A score and its reasons, one for each query word that is worth something.
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

/// One minus the share of letters that have to change, or a little for an abbreviation; 0
/// below the floor, which a single word cannot reach then either.
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

/// Whether the letters of `short` stand in `long` in that order, from the first on.
fn is_abbreviation(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    let same_start = short.chars().next() == long.chars().next();
    same_start && short.len() < long.len() && short.chars().all(|c| letters.any(|other| other == c))
}
