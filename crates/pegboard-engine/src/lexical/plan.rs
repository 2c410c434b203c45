//! The plan of a query: its words, the terms that they match, and the weight of each term in the
//! catalog.

use super::{
    document::{TermKind, server_key},
    index::IndexView,
    near_terms::{self, NearTermSearch},
    settings::Settings,
    vocabulary::Vocabulary,
};
use crate::analysis::{Stemmer, TokenKind, Tokenizer, is_stop_word};

/// Maximum number of unknown words that are corrected; a query of random text must not scan the
/// vocabulary for each word.
const MAX_CORRECTED_WORDS: usize = 16;

/// Ratio of unknown to known words from which the unknown words are in another language rather than
/// misspelled.
const FOREIGN: usize = 3;

/// The weight of a stop word if it is needed: less than that of a corrected word.
const STOP_WORD_SHARE: f32 = 0.1;

/// Maximum number of repetitions of a word that count.
const MAX_REPETITIONS: u8 = 5;

/// Marks a term that a segment does not contain.
pub(crate) const NOT_THERE: u32 = u32::MAX;

/// A term to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// The query word that it replaces.
    pub(crate) word: u32,
    /// The weight of a full match.
    pub(crate) weight: f32,
    /// The weight of each further occurrence in the query.
    repetition: f32,
    repetitions_left: u8,
}

impl Term {
    fn new(word: u32, weight: f32, settings: &Settings) -> Self {
        Self { word, weight, repetition: weight * settings.repetition, repetitions_left: MAX_REPETITIONS }
    }
}

/// What became of a query word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordStatus {
    Exactly,
    Nearly,
    Nowhere,
    /// A stop word that is ignored.
    Ignored,
}

/// A word of the query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) found: WordStatus,
}

/// The plan of a query; reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    tokenizer: Tokenizer,
    stemmer: Stemmer,
    tokens: Vec<QueryToken>,
    token_text: String,
    near: NearTermSearch,
    pub(crate) words: Vec<Word>,
    pub(crate) terms: Terms,
}

/// The terms of a plan, and their numbers in the segments of a view.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    list: Vec<Term>,
    /// The stems (or name keys) of the terms, under the same numbers.
    stems: Vocabulary,
    /// The terms' numbers in the segments, a row for each term, a column for each segment.
    numbers: Vec<u32>,
    columns: usize,
    key: String,
}

#[derive(Clone, Copy, Debug)]
struct QueryToken {
    kind: TokenKind,
    is_stop: bool,
    start: usize,
    end: usize,
    text_start: usize,
    text_end: usize,
}

impl Plan {
    /// Plans `query` for `view`.
    pub(crate) fn make(&mut self, query: &str, view: &IndexView<'_>) {
        self.read_tokens(query);
        self.look_up(view, false);
        if self.terms.list.is_empty() {
            // Nothing but stop words, or no other word is known.
            self.look_up(view, true);
        }
        self.correct_unknown_words(view);
    }

    /// Returns the position of the term of that kind with the stem of `token`.
    pub(crate) fn find(&self, kind: TermKind, token: &str) -> Option<usize> {
        let mut key = String::new();
        self.terms.stems.find(&kind.entry(token, &self.stemmer, &mut key)).map(|term| term as usize)
    }

    /// Returns whether the query consists of stop words only.
    pub(crate) fn is_only_stop_words(&self) -> bool {
        self.tokens.iter().filter(|token| token.kind != TokenKind::Part).all(|token| token.is_stop)
    }

    /// Returns an upper bound of scores: all terms in full, and the words that are not found.
    pub(crate) fn worth(&self, view: &IndexView<'_>) -> f32 {
        let unknown = self.words.iter().filter(|word| word.found == WordStatus::Nowhere).count();
        let terms: f32 = self.terms.list.iter().map(|term| term.weight).sum();
        terms + unknown as f32 * view.rarity(0)
    }

    fn read_tokens(&mut self, query: &str) {
        let Self { tokenizer, tokens, token_text, .. } = self;
        tokens.clear();
        token_text.clear();
        tokenizer.tokenize(query, &mut |token| {
            let text_start = token_text.len();
            token_text.push_str(token.text);
            tokens.push(QueryToken {
                kind: token.kind,
                is_stop: token.kind == TokenKind::Word && is_stop_word(token.text),
                start: token.start,
                end: token.end,
                text_start,
                text_end: token_text.len(),
            });
        });
    }

    fn look_up(&mut self, view: &IndexView<'_>, with_stop_words: bool) {
        let Self { stemmer, tokens, token_text, words, terms, .. } = self;
        words.clear();
        terms.clear(view.parts.len());
        let mut first_part = 0;
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind != TokenKind::Part) {
            let mut word = Word { start: token.start, end: token.end, found: WordStatus::Ignored };
            if !token.is_stop || with_stop_words {
                let number = words.len() as u32;
                let mut look_up = |token: &QueryToken, share| {
                    terms.look_up(&stemmer.stem(token.text(token_text)), number, share, view)
                };
                let whole = look_up(token, if token.is_stop { STOP_WORD_SHARE } else { 1.0 });
                let share = if whole { view.settings.part_in_query } else { 1.0 };
                let parts = tokens[first_part..at].iter().filter(|part| look_up(part, share)).count();
                word.found = match (whole || parts > 0, token.is_stop) {
                    (true, _) => WordStatus::Exactly,
                    (false, true) => WordStatus::Ignored,
                    (false, false) => WordStatus::Nowhere,
                };
            }
            words.push(word);
            first_part = at + 1;
        }
    }

    fn correct_unknown_words(&mut self, view: &IndexView<'_>) {
        let Self { stemmer, tokens, token_text, near, words, terms, .. } = self;
        let count = |found| words.iter().filter(|word| word.found == found).count();
        let is_foreign = count(WordStatus::Nowhere) >= count(WordStatus::Exactly) + FOREIGN;
        let tokens = tokens.iter().filter(|token| token.kind != TokenKind::Part);
        let unknown = tokens.zip(words).enumerate().filter(|(_, (_, word))| word.found == WordStatus::Nowhere);
        for (number, (token, word)) in unknown.take(MAX_CORRECTED_WORDS) {
            near.search(token.text(token_text), is_foreign, stemmer, view);
            for found in &near.found {
                let weight = view.rarity(found.count) * found.share;
                terms.add(&found.stem, number as u32, weight, view);
                terms.add_server_word(&found.stem, number as u32, weight, found.count, view);
                word.found = WordStatus::Nearly;
            }
        }
    }
}

impl QueryToken {
    fn text(self, all: &str) -> &str {
        &all[self.text_start..self.text_end]
    }
}

impl Terms {
    fn clear(&mut self, columns: usize) {
        self.list.clear();
        self.stems.clear();
        self.numbers.clear();
        self.columns = columns;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Term)> + Clone {
        self.list.iter().enumerate()
    }

    pub(crate) fn get(&self, term: usize) -> Term {
        self.list[term]
    }

    /// Returns the number of `term` in each segment of the view.
    pub(crate) fn numbers(&self, term: usize) -> &[u32] {
        &self.numbers[term * self.columns..(term + 1) * self.columns]
    }

    /// Returns the stem (or name key) of `term`.
    pub(crate) fn stem(&self, term: usize) -> &str {
        self.stems.get(term as u32)
    }

    /// Adds a term that visible tools contain, unless it is there already.
    pub(crate) fn add(&mut self, stem: &str, word: u32, weight: f32, view: &IndexView<'_>) {
        if self.stems.insert(stem) as usize == self.list.len() {
            self.list.push(Term::new(word, weight, view.settings));
            let numbers = view.parts.iter().map(|part| part.segment.vocabulary.find(stem).unwrap_or(NOT_THERE));
            self.numbers.extend(numbers);
        }
    }

    /// Adds a term if any visible tool contains it; returns whether one does.
    fn look_up(&mut self, stem: &str, word: u32, share: f32, view: &IndexView<'_>) -> bool {
        if let Some(known) = self.stems.find(stem) {
            let term = &mut self.list[known as usize];
            if term.repetitions_left > 0 {
                term.repetitions_left -= 1;
                term.weight += term.repetition;
            }
            return true;
        }
        let row = self.numbers.len();
        let mut count = 0;
        for part in &view.parts {
            let number = part.segment.vocabulary.find(stem);
            count += number.map_or(0, |number| part.count(number));
            self.numbers.push(number.unwrap_or(NOT_THERE));
        }
        if count == 0 {
            self.numbers.truncate(row);
            return false;
        }
        self.stems.insert(stem);
        let is_number = stem.bytes().all(|byte| byte.is_ascii_digit());
        let weight = view.rarity(count) * share * if is_number { view.settings.number } else { 1.0 };
        self.list.push(Term::new(word, weight, view.settings));
        self.add_server_word(stem, word, weight, count, view);
        true
    }

    /// Adds `stem` as a word in the names of servers, if it distinguishes them. `count` visible
    /// tools contain it anywhere, and a full match has the weight `weight`.
    ///
    /// A word that is mostly contained in tools of servers with that name is a name; a word that
    /// many other tools contain is in the name by chance.
    fn add_server_word(&mut self, stem: &str, word: u32, weight: f32, count: usize, view: &IndexView<'_>) {
        let mut key = std::mem::take(&mut self.key);
        let named = view.count(server_key(stem, &mut key));
        let share = view.settings.server_share(named, count);
        if share > 0.0 {
            self.add(&key, word, weight * share, view);
        }
        self.key = key;
    }
}

/// Returns the share of a word's weight for a similar spelling.
pub(crate) fn share_of(kind: near_terms::NearKind, settings: &Settings) -> f32 {
    match kind {
        near_terms::NearKind::Edits(edits) => settings.typo.powi(edits as i32),
        near_terms::NearKind::Beginning | near_terms::NearKind::Compound => settings.prefix,
    }
}
