//! The requests within a query, for models. The lexical index cuts alike, but at words that
//! it finds; here every word counts that could name something.

use super::words::Word;
use crate::analysis::{begins_request, ends_clause, is_stop_word};

/// A query of more parts than this is taken as one text.
const MAX_REQUESTS: u32 = 16;

/// Numbers the words of a query by the request that they belong to.
#[derive(Debug, Default)]
pub(super) struct Requests {
    current: u32,
    has_telling_word: bool,
    last_end: usize,
}

impl Requests {
    /// The number of the request that `word`, the next of `query`, belongs to.
    pub(super) fn number(&mut self, query: &str, word: &Word<'_>, folded: &str) -> u32 {
        let gap = &query[self.last_end..word.start];
        if self.has_telling_word && (ends_clause(gap) || begins_request(folded)) {
            self.current += 1;
            self.has_telling_word = false;
        }
        self.has_telling_word |= !word.is_number && !is_stop_word(folded);
        self.last_end = word.end();
        self.current
    }

    /// How many requests there are, 1 when they are too few or too many to tell apart.
    pub(super) fn count(&self) -> u32 {
        let count = self.current + u32::from(self.has_telling_word);
        if (2..=MAX_REQUESTS).contains(&count) { count } else { 1 }
    }
}
