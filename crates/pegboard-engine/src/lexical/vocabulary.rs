//! The distinct terms of a segment.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::blocks::{Block, BlockError, BlockWriter};

/// The prefix of entries for whole folded names. No folded word contains it.
pub(crate) const NAME_KEY: char = '\u{1}';

/// The prefix of entries for words in the name of a server.
pub(crate) const SERVER_KEY: char = '\u{2}';

/// Terms by number, in one string, so that a term takes its letters and a few bytes.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    text: String,
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    /// The letters of each term as bits; zero for keys. Excludes most terms in a search for similar
    /// spellings without reading them.
    letters: Vec<u32>,
}

fn hash(term: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(term.as_bytes());
    hasher.finish()
}

/// Returns one bit for each letter a to z, one for digits, the rest shared by all others.
pub(crate) fn letter_bits(term: &str) -> u32 {
    term.chars().fold(0, |bits, c| {
        bits | match c {
            'a'..='z' => 1 << (c as u32 - 'a' as u32),
            '0'..='9' => 1 << 26,
            _ => 1 << (27 + c as u32 % 5),
        }
    })
}

impl Vocabulary {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }

    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        self.numbers.find(hash(term), |number| self.get(*number) == term).copied()
    }

    pub(crate) fn insert(&mut self, term: &str) -> u32 {
        if let Some(number) = self.find(term) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.text.push_str(term);
        self.ends.push(self.text.len() as u32);
        self.letters.push(if term.starts_with([NAME_KEY, SERVER_KEY]) { 0 } else { letter_bits(term) });
        let Self { text, ends, numbers, .. } = self;
        numbers.insert_unique(hash(term), number, |number| {
            let at = *number as usize;
            let start = if at == 0 { 0 } else { ends[at - 1] as usize };
            hash(&text[start..ends[at] as usize])
        });
        number
    }

    pub(crate) fn write(&self, writer: &mut BlockWriter) {
        writer.add("words", self.text.as_bytes().to_vec());
        writer.add_u32s("ends", &self.ends);
        writer.add_u32s("letters", &self.letters);
    }

    pub(crate) fn read(block: &Block<'_>) -> Result<Self, BlockError> {
        let (text, ends, letters) = (block.text("words")?, block.u32s("ends")?, block.u32s("letters")?);
        let is_end = |end: &u32| text.is_char_boundary(*end as usize);
        if !ends.is_sorted() || !ends.iter().all(is_end) || ends.last().map_or(0, |end| *end as usize) != text.len() {
            return Err(BlockError::Damaged { part: "ends" });
        }
        if letters.len() != ends.len() {
            return Err(BlockError::Damaged { part: "letters" });
        }
        let mut numbers = HashTable::with_capacity(ends.len());
        let mut start = 0;
        for (number, end) in ends.iter().enumerate() {
            let term = &text[start..*end as usize];
            // The capacity suffices for all terms, so none is hashed again.
            numbers.insert_unique(hash(term), number as u32, |_| 0);
            start = *end as usize;
        }
        Ok(Self { text: text.to_owned(), ends, numbers, letters })
    }

    /// Returns the letter bits of every term, by number.
    pub(crate) fn letters(&self) -> &[u32] {
        &self.letters
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.numbers.clear();
        self.letters.clear();
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.letters.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        // A hash slot is a number and a control byte.
        self.text.capacity() + 4 * (self.ends.capacity() + self.letters.capacity()) + 5 * self.numbers.capacity()
    }
}
