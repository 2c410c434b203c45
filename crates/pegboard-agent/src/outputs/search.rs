//! Regular expressions over outputs, line by line, in the shape that `grep` prints.

mod lines;

use std::time::{Duration, Instant};

use pegboard_discovery::host::outputs::{NO_MATCHES, search_cut, search_full, search_late};
use regex::{Regex, RegexBuilder};

use super::{budget, error::ReadError, settings::SearchLimits};
use lines::{Position, Windows, cut};

/// Lines shown before and after each that matches.
const CONTEXT: usize = 2;

/// Lines of more bytes than this are not shown whole. Outputs of servers are often one
/// line of many megabytes.
const LONG_LINE_BYTES: usize = 500;

/// How much is searched between two looks at the clock.
const LOOK_BYTES: usize = 64 * 1024;

/// How deeply a pattern may nest.
const MAX_NESTING: u32 = 50;

/// The pattern, compiled within the limits.
pub(super) fn compile(pattern: &str, case_sensitive: bool, limits: &SearchLimits) -> Result<Regex, ReadError> {
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

/// What a search shows at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_results: usize,
    /// The length of the answer.
    pub(super) tokens: usize,
    /// How long it may take.
    pub(super) wall: Duration,
}

/// The lines of `text` that match, with those around them.
pub(super) fn run(text: &str, regex: &Regex, bounds: Bounds) -> String {
    let mut search = Search::new(text, regex, bounds);
    let ended = search.lines();
    if search.results == 0 && ended == Ended::Whole {
        return NO_MATCHES.to_owned();
    }
    let shown = search.shown.trim_end_matches('\n');
    let mut end = budget::fit(shown, bounds.tokens);
    let mut ended = ended;
    if end < shown.len() {
        end = shown[..end].rfind('\n').unwrap_or(end);
        ended = Ended::Long;
    }
    let note = match ended {
        Ended::Whole => String::new(),
        Ended::Full => search_full(search.results),
        Ended::Long => search_cut(),
        Ended::Late => search_late(bounds.wall.as_secs(), search.position.at(search.searched)),
    };
    format!("{}{note}", &shown[..end]).trim_start().to_owned()
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It has seen everything.
    Whole,
    /// It has found as much as it may.
    Full,
    /// What it found is more than can be shown.
    Long,
    /// It took too long.
    Late,
}

struct Search<'t> {
    text: &'t str,
    regex: &'t Regex,
    bounds: Bounds,
    began: Instant,
    /// What is shown so far.
    shown: String,
    /// Of which this many lines, or places in long lines, match.
    results: usize,
    /// Up to where lines were shown, as their number.
    shown_to: usize,
    /// Up to where was searched, in bytes.
    searched: usize,
    /// When the clock was looked at, in bytes.
    looked: usize,
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
            looked: 0,
            position: Position::new(text),
        }
    }

    fn lines(&mut self) -> Ended {
        let mut before: [&str; CONTEXT] = [""; CONTEXT];
        let mut last_match = None;
        for (index, line) in self.text.lines().enumerate() {
            let number = index + 1;
            let results = self.results;
            if let Err(ended) = self.line(number, line, &before) {
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
                return Ended::Long;
            }
        }
        Ended::Whole
    }

    /// Shows the line if it matches, after those before it.
    fn line(&mut self, number: usize, line: &str, before: &[&str; CONTEXT]) -> Result<(), Ended> {
        let start = line.as_ptr().addr() - self.text.as_ptr().addr();
        self.searched = start;
        if self.is_late() {
            return Err(Ended::Late);
        }
        if line.len() <= LONG_LINE_BYTES {
            if self.regex.is_match(line) {
                self.found(number, before)?;
                self.show(number, ':', line);
            }
            return Ok(());
        }
        let mut windows = Windows::new(self.regex, line);
        loop {
            self.searched = start + windows.searched();
            if self.is_late() {
                return Err(Ended::Late);
            }
            match windows.step() {
                lines::Step::End => return Ok(()),
                lines::Step::Nothing => {}
                // It has worked without getting on.
                lines::Step::Undecided if self.is_over_time() => return Err(Ended::Late),
                lines::Step::Undecided => {}
                lines::Step::Window(window) => {
                    self.found(number, before)?;
                    let from = self.position.at(start + window.start);
                    self.show(number, ':', &format!("[from character {from}] {}", &line[window]));
                }
            }
            if self.shown.len() > budget::bytes_of_answer(self.bounds.tokens) {
                return Err(Ended::Long);
            }
        }
    }

    /// Counts a result and shows what stands before it.
    fn found(&mut self, number: usize, before: &[&str; CONTEXT]) -> Result<(), Ended> {
        if self.results == self.bounds.max_results {
            return Err(Ended::Full);
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
        if self.searched - self.looked < LOOK_BYTES {
            return false;
        }
        self.looked = self.searched;
        self.is_over_time()
    }

    fn is_over_time(&self) -> bool {
        self.began.elapsed() > self.bounds.wall
    }
}

#[cfg(test)]
mod tests;
