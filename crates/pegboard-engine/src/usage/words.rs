//! The words of a query that are remembered, and the similarity of two sets of words.

use crate::analysis::{Stemmer, TokenKind, Tokenizer, is_stop_word};

/// Maximum number of words of a query; a longer one is a text.
pub(super) const MAX_WORDS: usize = 24;

/// Maximum length of a word in bytes. Longer ones are keys, hashes and addresses.
pub(super) const MAX_WORD_BYTES: usize = 32;

/// Maximum length of a compound name in bytes, such as `createPullRequestReview`.
const MAX_NAME_BYTES: usize = 64;

/// Maximum number of digits of a word, such as `h264` or `base64`. With more it may identify a
/// person or an account.
const MAX_DIGITS: usize = 3;

/// Length in characters from which a longer word has no more weight.
const FULL_LENGTH: usize = 8;

/// Returns the stems of a query, sorted, each once.
pub(super) fn stems(query: &str) -> Vec<String> {
    let stemmer = Stemmer::default();
    let mut stems: Vec<String> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    Tokenizer::default().tokenize(query, &mut |token| {
        let is_word = !is_stop_word(token.text) && !is_number_or_key(token.text, MAX_WORD_BYTES);
        let stem = is_word.then(|| stemmer.stem(token.text).into_owned());
        match token.kind {
            TokenKind::Part => return parts.extend(stem),
            // The parts of a key are as confidential as the key.
            TokenKind::Whole if is_number_or_key(token.text, MAX_NAME_BYTES) => parts.clear(),
            TokenKind::Whole if parts.is_empty() => parts.extend(stem),
            TokenKind::Whole => {}
            TokenKind::Word | TokenKind::Pair => parts.extend(stem),
        }
        for stem in parts.drain(..) {
            if stems.len() < MAX_WORDS && !stems.contains(&stem) {
                stems.push(stem);
            }
        }
    });
    stems.sort_unstable();
    stems
}

/// Returns whether a word is a number or a key: it does not help to find a tool, and may be a
/// secret.
fn is_number_or_key(word: &str, most: usize) -> bool {
    let digits = word.chars().filter(|c| c.is_numeric()).count();
    word.len() > most || digits > MAX_DIGITS || digits == word.chars().count()
}

/// Precomputed data of stems, for fast comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StemOutline {
    /// A bit for each stem. Sets without a common bit have no common stem, which is the usual case.
    bits: u64,
    /// The sum of their weights: longer words weigh more.
    weight: f64,
}

impl StemOutline {
    pub(super) fn of(stems: &[String]) -> Self {
        let bits = stems.iter().fold(0, |bits, stem| bits | bit(stem));
        Self { bits, weight: stems.iter().map(|stem| weight_of(stem)).sum() }
    }

    /// Returns whether there can be a common stem.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        self.bits & other.bits != 0
    }
}

fn weight_of(stem: &str) -> f64 {
    stem.chars().count().min(FULL_LENGTH) as f64
}

fn bit(stem: &str) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = rustc_hash::FxHasher::default();
    stem.hash(&mut hasher);
    1 << (hasher.finish() >> 58)
}

/// Returns the similarity of two queries by their sorted stems, 0 to 1.
pub(super) fn likeness((one, a): (&[String], &StemOutline), (other, b): (&[String], &StemOutline)) -> f64 {
    let all = (a.weight * b.weight).sqrt();
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    let mut shared = 0.0;
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => _ = left.next(),
            std::cmp::Ordering::Greater => _ = right.next(),
            std::cmp::Ordering::Equal => {
                shared += weight_of(a);
                left.next();
                right.next();
            }
        }
    }
    if shared == 0.0 { 0.0 } else { (shared / all).min(1.0) }
}
