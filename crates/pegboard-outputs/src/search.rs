//! Searches outputs by regular expression, line by line, in the format of `grep`.

mod lines;

use std::time::{Duration, Instant};

use pegboard_discovery::host::outputs::{NO_MATCHES, search_cut, search_full, search_late};
use regex::{Regex, RegexBuilder};

use super::{budget, error::ReadError, limits::SearchLimits};
use lines::{MatchWindows, Position, cut};

/// Number of context lines before and after each matching line.
const CONTEXT: usize = 2;

/// Lines of more bytes are shown in part. Outputs of servers are often one line of many megabytes.
const LONG_LINE_BYTES: usize = 500;

/// Number of bytes that are searched between two checks of the time.
const CHECK_BYTES: usize = 64 * 1024;

/// Maximum nesting depth of a pattern.
const MAX_NESTING: u32 = 50;

/// The pattern, compiled within the limits.
pub(crate) fn compile(pattern: &str, case_sensitive: bool, limits: &SearchLimits) -> Result<Regex, ReadError> {
    if pattern.len() > limits.pattern_bytes {
        return Err(ReadError::TooLong { name: "pattern", limit: limits.pattern_bytes });
    }
    RegexBuilder::new(pattern)
        .case_insensitive(!case_sensitive)
        .size_limit(limits.compiled_bytes)
        .dfa_size_limit(limits.compiled_bytes)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| ReadError::Pattern(error.to_string()))
}

/// The limits of one search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_results: usize,
    /// The length of the answer.
    pub(crate) tokens: usize,
    /// How long it may take.
    pub(crate) wall: Duration,
}

/// The lines of `text` that match, with those around them.
pub(crate) fn run(text: &str, regex: &Regex, bounds: Bounds) -> String {
    let mut search = Search::new(text, regex, bounds);
    let ended = search.search_lines();
    if search.results == 0 && ended == SearchEnd::Complete {
        return NO_MATCHES.to_owned();
    }
    let shown = search.shown.trim_end_matches('\n');
    let mut end = budget::fit(shown, bounds.tokens);
    let mut ended = ended;
    if end < shown.len() {
        end = shown[..end].rfind('\n').unwrap_or(end);
        ended = SearchEnd::TooLong;
    }
    let note = match ended {
        SearchEnd::Complete => String::new(),
        SearchEnd::MaxResults => search_full(search.results),
        SearchEnd::TooLong => search_cut(),
        SearchEnd::Timeout => search_late(bounds.wall.as_secs(), search.position.at(search.searched)),
    };
    format!("{}{note}", &shown[..end]).trim_start().to_owned()
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchEnd {
    /// The whole text was searched.
    Complete,
    /// The maximum number of results was reached.
    MaxResults,
    /// The answer would be too long.
    TooLong,
    /// The time limit was reached.
    Timeout,
}

struct Search<'t> {
    text: &'t str,
    regex: &'t Regex,
    bounds: Bounds,
    began: Instant,
    /// The answer so far.
    shown: String,
    /// Number of matching lines, or of places in long lines.
    results: usize,
    /// Number of the last line in the answer.
    shown_to: usize,
    /// Number of bytes that were searched.
    searched: usize,
    /// Number of bytes that were searched at the last check of the time.
    checked: usize,
    position: Position<'t>,
}

impl<'t> Search<'t> {
    fn new(text: &'t str, regex: &'t Regex, bounds: Bounds) -> Self {
        Self {
            text,
            regex,
            bounds,
            began: Instant::now(),
            shown: String::new(),
            results: 0,
            shown_to: 0,
            searched: 0,
            checked: 0,
            position: Position::new(text),
        }
    }

    fn search_lines(&mut self) -> SearchEnd {
        let mut before: [&str; CONTEXT] = [""; CONTEXT];
        let mut last_match = None;
        for (index, line) in self.text.lines().enumerate() {
            let number = index + 1;
            let results = self.results;
            if let Err(ended) = self.search_line(number, line, &before) {
                return ended;
            }
            if self.results > results {
                last_match = Some(number);
            } else if last_match.is_some_and(|last| number - last <= CONTEXT) {
                self.show(number, '-', &cut(line, LONG_LINE_BYTES));
            }
            before.rotate_left(1);
            before[CONTEXT - 1] = line;
            if self.shown.len() > budget::bytes_of_answer(self.bounds.tokens) {
                return SearchEnd::TooLong;
            }
        }
        SearchEnd::Complete
    }

    /// Adds the line to the answer if it matches, after its context.
    fn search_line(&mut self, number: usize, line: &str, before: &[&str; CONTEXT]) -> Result<(), SearchEnd> {
        let start = line.as_ptr().addr() - self.text.as_ptr().addr();
        self.searched = start;
        if self.is_late() {
            return Err(SearchEnd::Timeout);
        }
        if line.len() <= LONG_LINE_BYTES {
            if self.regex.is_match(line) {
                self.add_result(number, before)?;
                self.show(number, ':', line);
            }
            return Ok(());
        }
        let mut windows = MatchWindows::new(self.regex, line);
        loop {
            self.searched = start + windows.searched();
            if self.is_late() {
                return Err(SearchEnd::Timeout);
            }
            match windows.step() {
                lines::WindowStep::End => return Ok(()),
                lines::WindowStep::NoMatch => {}
                // No progress without more time.
                lines::WindowStep::Undecided if self.is_over_time() => return Err(SearchEnd::Timeout),
                lines::WindowStep::Undecided => {}
                lines::WindowStep::Window(window) => {
                    self.add_result(number, before)?;
                    let from = self.position.at(start + window.start);
                    self.show(number, ':', &format!("[from character {from}] {}", &line[window]));
                }
            }
            if self.shown.len() > budget::bytes_of_answer(self.bounds.tokens) {
                return Err(SearchEnd::TooLong);
            }
        }
    }

    /// Counts a result and adds the context before it.
    fn add_result(&mut self, number: usize, before: &[&str; CONTEXT]) -> Result<(), SearchEnd> {
        if self.results == self.bounds.max_results {
            return Err(SearchEnd::MaxResults);
        }
        self.results += 1;
        let first = number.saturating_sub(CONTEXT).max(1).max(self.shown_to + 1);
        if self.shown_to > 0 && first > self.shown_to + 1 {
            self.shown.push_str("--\n");
        }
        for earlier in first..number {
            self.show(earlier, '-', &cut(before[CONTEXT - (number - earlier)], LONG_LINE_BYTES));
        }
        Ok(())
    }

    fn show(&mut self, number: usize, sign: char, line: &str) {
        self.shown.push_str(&format!("{number}{sign}{line}\n"));
        self.shown_to = number;
    }

    fn is_late(&mut self) -> bool {
        if self.searched - self.checked < CHECK_BYTES {
            return false;
        }
        self.checked = self.searched;
        self.is_over_time()
    }

    fn is_over_time(&self) -> bool {
        self.began.elapsed() > self.bounds.wall
    }
}

#[cfg(test)]
mod tests;
