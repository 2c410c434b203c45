//! Typo tolerance: known terms that are similar to an unknown query word.

use std::cmp::Reverse;

use pegboard_core::naming::edit_distance;

use super::{index::IndexView, plan::share_of, vocabulary::letter_bits};
use crate::analysis::Stemmer;

/// Maximum number of terms for one word.
const MAX_TERMS: usize = 3;

/// Minimum length; shorter words have too many neighbours.
const MIN_LETTERS: usize = 4;

/// Length from which two edits are plausible.
const MIN_LETTERS_FOR_TWO: usize = 8;

/// Minimum length for replacing letters: shorter words have neighbours in other languages with
/// another meaning, such as `sind` and `send`. Words with the same origin mostly differ in their
/// ending, such as `lista` and `list`.
const MIN_LETTERS_TO_REPLACE: usize = 6;

/// Maximum length; longer tokens are not words.
const MAX_BYTES: usize = 64;

/// How a term is similar to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NearKind {
    /// The number of edits.
    Edits(usize),
    /// The word is a prefix of the term.
    Beginning,
    /// The term is one of two that were written as one word.
    Compound,
}

/// A term that replaces a word.
#[derive(Clone, Debug)]
pub(crate) struct NearTerm {
    pub(crate) stem: String,
    pub(crate) count: usize,
    pub(crate) share: f32,
}

/// Finds similar terms; reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct NearTermSearch {
    candidates: Vec<(NearKind, String)>,
    pub(crate) found: Vec<NearTerm>,
}

impl NearTermSearch {
    /// Fills [`found`](Self::found) for the folded `word`, which no visible tool contains. In a
    /// query that is likely in another language, letters of a short word are not replaced.
    pub(crate) fn search(&mut self, word: &str, is_foreign: bool, stemmer: &Stemmer, view: &IndexView<'_>) {
        self.found.clear();
        self.candidates.clear();
        // A number with another digit is another number, and very long words are not typos.
        if word.len() > MAX_BYTES || word.chars().any(|c| c.is_ascii_digit()) {
            return;
        }
        self.collect_candidates(word, &stemmer.stem(word), is_foreign, view);
        self.candidates.retain(|(_, stem)| view.count(stem) > 0);
        if self.candidates.is_empty() {
            self.split_compound(word, stemmer, view);
        }
        let candidates = std::mem::take(&mut self.candidates);
        let mut counted: Vec<(NearKind, Reverse<usize>, &str)> =
            candidates.iter().map(|(kind, stem)| (*kind, Reverse(view.count(stem)), stem.as_str())).collect();
        // Nearest first; of equally near ones the most common.
        counted.sort_unstable();
        counted.dedup();
        for (kind, Reverse(count), stem) in counted.into_iter().take(MAX_TERMS) {
            self.found.push(NearTerm { stem: stem.to_owned(), count, share: share_of(kind, view.settings) });
        }
        self.candidates = candidates;
    }

    fn collect_candidates(&mut self, word: &str, stem: &str, is_foreign: bool, view: &IndexView<'_>) {
        let letters = word.chars().count();
        let edits = match letters {
            ..MIN_LETTERS => 0,
            MIN_LETTERS..MIN_LETTERS_FOR_TWO => 1,
            _ => 2,
        };
        let bits = letter_bits(stem);
        let is_single = letters == 1;
        let may_replace = !is_foreign || letters >= MIN_LETTERS_TO_REPLACE;
        let stem_letters = stem.chars().count();
        for part in &view.parts {
            let vocabulary = &part.segment.vocabulary;
            for (number, other) in vocabulary.letters().iter().enumerate() {
                if *other == 0 {
                    continue;
                }
                // One edit adds a letter, removes one, or does both.
                let could_be_typo = edits > 0 && (bits ^ other).count_ones() as usize <= 2 * edits;
                let could_begin = bits & !other == 0;
                if !could_be_typo && !could_begin {
                    continue;
                }
                let term = vocabulary.get(number as u32);
                let kind = if is_single {
                    // A single character of a script without spaces: any pair that contains it.
                    (!word.is_ascii() && term.contains(word)).then_some(NearKind::Beginning)
                } else if letters >= 3 && term.starts_with(word) {
                    Some(NearKind::Beginning)
                } else if could_be_typo && (may_replace || bits == *other || term.chars().count() != stem_letters) {
                    edit_distance(stem, term, edits).map(NearKind::Edits)
                } else {
                    None
                };
                if let Some(kind) = kind {
                    self.candidates.push((kind, term.to_owned()));
                }
            }
        }
    }

    /// Splits `pullrequest` into `pull` and `request`.
    fn split_compound(&mut self, word: &str, stemmer: &Stemmer, view: &IndexView<'_>) {
        if word.len() < 2 * MIN_LETTERS || !word.is_ascii() {
            return;
        }
        let halves = (3..=word.len() - 3).filter_map(|at| {
            let (first, second) = (stemmer.stem(&word[..at]), stemmer.stem(&word[at..]));
            let rarest = view.count(&first).min(view.count(&second));
            (rarest > 0).then(|| (rarest, first.into_owned(), second.into_owned()))
        });
        if let Some((_, first, second)) = halves.max_by_key(|(rarest, first, _)| (*rarest, Reverse(first.len()))) {
            self.candidates.push((NearKind::Compound, first));
            self.candidates.push((NearKind::Compound, second));
        }
    }
}
