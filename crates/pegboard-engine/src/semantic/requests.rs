//! Splits a query into requests.
//!
//! A query is split into clauses, at punctuation and conjunctions. A clause is a separate request
//! if it begins a sentence, is joined as a further step, or contains a verb; others, such as items
//! of a list, belong to the previous clause.

use std::ops::Range;

use super::words::{Word, for_each_word};
use crate::{
    actions,
    analysis::{begins_request, begins_step, ends_clause, ends_sentence, is_stop_word},
};

/// Maximum number of requests; a query with more is one text.
const MAX_REQUESTS: usize = 16;

/// Maximum number of clauses that are examined; a query with more is a document.
const MAX_CLAUSES: usize = 256;

/// Splits a query into clauses, word by word.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    /// The second and all further clauses.
    further: Vec<Clause>,
    has_telling_word: bool,
    last_end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Clause {
    start: usize,
    begins_sentence: bool,
}

impl Clauses {
    /// Adds `word`, the next of `query`.
    pub(super) fn add(&mut self, query: &str, word: &Word<'_>, folded: &str) {
        let gap = &query[self.last_end..word.start];
        let begins_sentence = ends_sentence(gap);
        if self.has_telling_word
            && (begins_sentence || ends_clause(gap) || begins_request(folded))
            && self.further.len() <= MAX_CLAUSES
        {
            self.further.push(Clause { start: word.start, begins_sentence });
            self.has_telling_word = false;
        }
        self.has_telling_word |= !word.is_number && !is_stop_word(folded) && !begins_request(folded);
        self.last_end = word.end();
    }

    /// Returns the starts of requests, without the first; empty if there is one request, or too
    /// many.
    pub(super) fn requests(mut self, query: &str) -> Vec<usize> {
        // Text after the last clause without a content word belongs to it.
        if !self.has_telling_word {
            self.further.pop();
        }
        if self.further.is_empty() || self.further.len() >= MAX_CLAUSES {
            return Vec::new();
        }
        let ends = self.further.iter().skip(1).map(|clause| clause.start).chain([query.len()]);
        let is_request = |(clause, end): &(&Clause, usize)| {
            let text = &query[clause.start..*end];
            clause.begins_sentence || begins_step(text) || actions::has_verb(text)
        };
        let starts = self.further.iter().zip(ends).filter(is_request).map(|(clause, _)| clause.start);
        let starts: Vec<usize> = starts.collect();
        if starts.len() < MAX_REQUESTS { starts } else { Vec::new() }
    }
}

/// Returns the starts of the requests of a query, without the first; empty if it has one request.
pub(crate) fn request_starts(query: &str) -> Vec<usize> {
    let mut clauses = Clauses::default();
    let mut folded = String::new();
    for_each_word(query, |word| {
        word.fold_into(&mut folded);
        clauses.add(query, &word, &folded);
        true
    });
    clauses.requests(query)
}

/// Returns the index of the last request that begins before or at `place`.
pub(crate) fn request_at(starts: &[usize], place: usize) -> u32 {
    starts.partition_point(|start| *start <= place) as u32
}

/// Returns the texts of the requests of a query with several requests, without conjunctions; empty
/// if it has one.
pub(crate) fn requests_of(query: &str) -> Vec<&str> {
    let starts = request_starts(query);
    if starts.is_empty() {
        return Vec::new();
    }
    let mut places: Vec<(u32, Range<usize>)> = Vec::new();
    let mut folded = String::new();
    for_each_word(query, |word| {
        word.fold_into(&mut folded);
        let number = request_at(&starts, word.start);
        match places.last_mut() {
            Some((last, place)) if *last == number => place.end = word.end(),
            _ if begins_request(&folded) => {}
            _ => places.push((number, word.start..word.end())),
        }
        true
    });
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
        check("Weather in Rome, and also the tides", &["Weather in Rome", "the tides"]);
        check("订一张机票，播放歌曲", &["订一张机票", "播放歌曲"]);
        check("send a mail and then, please", &[]);
        check("and finally and then", &[]);
        check("Finally, send a mail", &[]);
        check("", &[]);
    }

    #[test]
    fn a_clause_without_a_verb_belongs_to_the_one_before() {
        check("buy milk, bread and eggs", &[]);
        check("prices of flights, hotels, cars", &[]);
        check("find a flight to Rome, Italy, and book a hotel", &["find a flight to Rome, Italy", "book a hotel"]);
        check("list issues, people; milestones", &["list issues, people", "milestones"]);
    }

    #[test]
    fn a_noun_that_could_be_a_verb_counts_at_the_beginning_alone() {
        check("delete the mail, old alert rules", &[]);
        check("delete the mail, alert the team", &["delete the mail", "alert the team"]);
    }

    #[test]
    fn too_many_are_one() {
        let of = |count: usize| vec!["send mail"; count].join(", ");
        assert_eq!(requests_of(&of(16)).len(), 16);
        check(&of(17), &[]);
        check(&of(1000), &[]);
    }
}
