//! The requests within a query, for models. The lexical index cuts alike, but at words that
//! it finds; here every word counts that could name something.

use std::ops::Range;

use super::words::{Word, for_each_word};
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
        self.has_telling_word |= !word.is_number && !is_stop_word(folded) && !begins_request(folded);
        self.last_end = word.end();
        self.current
    }

    /// How many requests there are, 1 when they are too few or too many to tell apart.
    pub(super) fn count(&self) -> u32 {
        let count = self.current + u32::from(self.has_telling_word);
        if (2..=MAX_REQUESTS).contains(&count) { count } else { 1 }
    }
}

/// The texts of the requests of a query that asks for several things, without the words that
/// join them; none where it asks for one.
pub(crate) fn requests_of(query: &str) -> Vec<&str> {
    let mut requests = Requests::default();
    let mut places: Vec<(u32, Range<usize>)> = Vec::new();
    let mut folded = String::new();
    for_each_word(query, |word| {
        word.fold_into(&mut folded);
        let number = requests.number(query, &word, &folded);
        match places.last_mut() {
            Some((last, place)) if *last == number => place.end = word.end(),
            _ if begins_request(&folded) => {}
            _ => places.push((number, word.start..word.end())),
        }
        true
    });
    let count = requests.count();
    // What follows the last request without a word that tells something belongs to none.
    places.retain(|(number, _)| *number < count);
    if places.len() < 2 {
        return Vec::new();
    }
    places.into_iter().map(|(_, place)| &query[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: &[&str]) {
        assert_eq!(requests_of(query), expected);
    }

    #[test]
    fn several_requests_have_texts_of_their_own() {
        check("book a flight to Rome", &[]);
        check("book a flight and then ring my colleague!", &["book a flight", "ring my colleague"]);
        check("Weather in Rome? Also, play a song.", &["Weather in Rome", "play a song"]);
        check("订一张机票，播放歌曲", &["订一张机票", "播放歌曲"]);
        check("send a mail and then, please", &[]);
        check("and finally and then", &[]);
        check("Finally, send a mail", &[]);
        check("", &[]);
    }

    #[test]
    fn too_many_are_one() {
        let of = |count: usize| vec!["mail"; count].join(", ");
        assert_eq!(requests_of(&of(16)).len(), 16);
        check(&of(17), &[]);
    }
}
