//! The requests within a query.
//!
//! A query is cut into clauses, at punctuation and connecting words. A clause is a request of its own when it
//! begins a sentence, is joined as a further step, or has a verb; others, such as the further things of a list, belong to the clause before.

use std::ops::Range;

use super::words::{Word, for_each_word};
use crate::{
    actions,
    analysis::{begins_request, begins_step, ends_clause, ends_sentence, is_stop_word},
};

/// A query of more requests than this is taken as one text.
const MAX_REQUESTS: usize = 16;

/// Clauses of a query that are looked at; with more of them it is a document.
const MAX_CLAUSES: usize = 256;

/// Cuts a query into clauses, word by word.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    /// The second and all further ones.
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
    /// Takes `word`, the next of `query`.
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

    /// Where requests begin, after the first; nothing if there is one, or there are too many to tell apart.
    pub(super) fn requests(mut self, query: &str) -> Vec<usize> {
        // What follows the last clause without a telling word belongs to it.
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

/// Where the requests of a query begin, after the first; nothing if it holds one.
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

/// The number of the request that begins last before or at `place`.
pub(crate) fn request_at(starts: &[usize], place: usize) -> u32 {
    starts.partition_point(|start| *start <= place) as u32
}

/// The texts of the requests of a query that asks for several things, without the words that
/// join them; none where it asks for one.
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
