//! The vocabulary of a model, and tokenization with it.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::{
    file::ModelError,
    words::{Word, for_each_hump},
};

/// Length up to which words are not specific to a language: `de`, `en` and `con` are English too.
pub(super) const SHORT: usize = 3;

/// Maximum length of a word; longer ones are keys, hashes or encoded data.
const MAX_WORD_CHARS: usize = 64;

/// The prefix of entries that continue a word.
const INNER: &[u8] = b"##";

/// The vocabulary: words and pieces by number, in byte order.
///
/// A hash table rather than a binary search: it takes a millisecond at start, and a lookup reads
/// one entry instead of fifteen.
#[derive(Debug)]
pub(super) struct PieceVocabulary {
    /// All entries, each followed by a line feed; those with [`INNER`] come first.
    text: Box<[u8]>,
    /// The end of each entry, without its line feed.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    /// The length of the longest entry.
    longest: usize,
}

/// The tokens of a text, and the share of its words that are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tokens {
    pub(super) numbers: Vec<u32>,
    /// Number of words, without numbers.
    pub(super) words: usize,
    /// Number of words, or of their parts, that are whole entries of the vocabulary.
    pub(super) known: usize,
    /// The current word or part of it, folded.
    folded: String,
}

impl Tokens {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        (self.words, self.known) = (0, 0);
    }
}

impl PieceVocabulary {
    pub(super) fn parse(text: &[u8], count: usize) -> Result<Self, ModelError> {
        let wrong_size = ModelError::VocabularySize { expected: count };
        let Some(entries) = text.strip_suffix(b"\n") else {
            return if text.is_empty() && count == 0 { Ok(Self::empty()) } else { Err(wrong_size) };
        };
        let mut pieces = Self { text: text.into(), ends: Vec::with_capacity(count), ..Self::empty() };
        let mut start = 0;
        let mut before: &[u8] = b"";
        for (number, entry) in entries.split(|byte| *byte == b'\n').enumerate() {
            let letters = entry.strip_prefix(INNER).unwrap_or(entry);
            let is_word = letters.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
            if letters.is_empty() || !is_word || entry <= before {
                return Err(ModelError::Vocabulary { entry: number });
            }
            start += entry.len() + 1;
            pieces.ends.push(start as u32 - 1);
            pieces.longest = pieces.longest.max(letters.len());
            before = entry;
        }
        if pieces.ends.len() != count {
            return Err(wrong_size);
        }
        pieces.index();
        Ok(pieces)
    }

    fn empty() -> Self {
        Self { text: Box::default(), ends: Vec::new(), numbers: HashTable::new(), longest: 0 }
    }

    fn index(&mut self) {
        let mut numbers = HashTable::with_capacity(self.ends.len());
        for number in 0..self.ends.len() as u32 {
            // It never grows, so nothing is hashed again.
            numbers.insert_unique(self.hash_of(number), number, |number| self.hash_of(*number));
        }
        self.numbers = numbers;
    }

    fn entry(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize + 1 };
        &self.text[start..self.ends[at] as usize]
    }

    fn hash_of(&self, number: u32) -> u64 {
        let entry = self.entry(number);
        match entry.strip_prefix(INNER) {
            Some(letters) => hash(letters, true),
            None => hash(entry, false),
        }
    }

    /// Returns whether a folded word is an entry.
    pub(super) fn has(&self, word: &str) -> bool {
        self.find(word.as_bytes(), false).is_some()
    }

    fn find(&self, letters: &[u8], is_inner: bool) -> Option<u32> {
        let is_it = |number: &u32| {
            let entry = self.entry(*number);
            if is_inner { entry.strip_prefix(INNER) == Some(letters) } else { entry == letters }
        };
        self.numbers.find(hash(letters, is_inner), is_it).copied()
    }

    /// Appends the tokens of one word.
    pub(super) fn add(&self, word: &Word<'_>, tokens: &mut Tokens) {
        // A number is an argument, not a capability.
        if word.is_number {
            return;
        }
        let counts = usize::from(word.is_foreign || word.chars > SHORT);
        tokens.words += counts;
        if word.is_foreign || word.chars > MAX_WORD_CHARS {
            return;
        }
        word.fold_into(&mut tokens.folded);
        if let Some(number) = self.find(tokens.folded.as_bytes(), false) {
            tokens.numbers.push(number);
            tokens.known += counts;
            return;
        }
        let before = tokens.numbers.len();
        let Tokens { numbers, folded, .. } = tokens;
        let mut parts = 0;
        for_each_hump(word.text, |part| {
            parts += 1;
            super::words::fold(part, folded);
            self.spell(folded.as_bytes(), numbers);
        });
        let pieces = tokens.numbers.len() - before;
        tokens.known += counts * usize::from(pieces > 0 && pieces == parts);
    }

    /// Appends the longest pieces from the left, or nothing if `letters` cannot be composed of
    /// pieces.
    fn spell(&self, letters: &[u8], numbers: &mut Vec<u32>) {
        let before = numbers.len();
        let mut start = 0;
        while start < letters.len() {
            let most = (letters.len() - start).min(self.longest);
            let longest = (1..=most).rev().find_map(|length| {
                let number = self.find(&letters[start..start + length], start > 0)?;
                Some((number, length))
            });
            let Some((number, length)) = longest else {
                numbers.truncate(before);
                return;
            };
            numbers.push(number);
            start += length;
        }
    }
}

fn hash(letters: &[u8], is_inner: bool) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(letters);
    hasher.write_u8(u8::from(is_inner));
    hasher.finish()
}
