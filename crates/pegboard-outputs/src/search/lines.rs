//! Searches long lines and shows the text around matches instead of whole lines.

use std::{borrow::Cow, ops::Range};

use regex::Regex;

/// Number of characters shown before and after the start of a match in a long line.
const BEFORE_CHARS: usize = 80;
const AFTER_CHARS: usize = 220;

/// Number of bytes of a line that are searched in one step, so that a search can be stopped in
/// between.
const STEP_BYTES: usize = 256 * 1024;

/// Maximum length of a match beyond the end of a step.
const REACH_BYTES: usize = 64 * 1024;

/// The outcome of one step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WindowStep {
    /// The characters around a match, in bytes of the line.
    Window(Range<usize>),
    /// No match up to here.
    NoMatch,
    /// Whether there is a match depends on more of the line, which the next step searches.
    Undecided,
    /// No match up to the end.
    End,
}

/// The windows around the matches of one line, without overlaps.
pub(super) struct MatchWindows<'a> {
    regex: &'a Regex,
    line: &'a str,
    /// The position at which the search continues.
    at: usize,
    /// Number of bytes that the next step searches.
    piece: usize,
    /// The end of the last window.
    shown: usize,
    is_over: bool,
}

impl<'a> MatchWindows<'a> {
    pub(super) fn new(regex: &'a Regex, line: &'a str) -> Self {
        Self { regex, line, at: 0, piece: STEP_BYTES + REACH_BYTES, shown: 0, is_over: false }
    }

    /// Returns how many bytes were searched.
    pub(super) fn searched(&self) -> usize {
        self.at
    }

    pub(super) fn step(&mut self) -> WindowStep {
        if self.is_over {
            return WindowStep::End;
        }
        // Text after the piece is ignored.
        let end = self.line.floor_char_boundary(self.at + self.piece);
        let found = self.regex.find_at(&self.line[..end], self.at).map(|found| found.range());
        // A match up to the end of a piece may be incomplete, or takes that end for the line's
        // (`$`, `\b`): only more of the line can decide. Every match that ends before does not
        // depend on the end. Pieces grow by doubling, so that all of them together are not much
        // longer than the last one.
        if end < self.line.len() && found.as_ref().is_some_and(|found| found.end == end) {
            self.piece *= 2;
            return WindowStep::Undecided;
        }
        let without_reach = self.piece - REACH_BYTES;
        self.piece = STEP_BYTES + REACH_BYTES;
        let Some(found) = found else {
            self.is_over = end == self.line.len();
            self.at = if self.is_over { end } else { self.line.floor_char_boundary(self.at + without_reach) };
            return if self.is_over { WindowStep::End } else { WindowStep::NoMatch };
        };
        let from = chars_before(self.line, found.start, BEFORE_CHARS).max(self.shown);
        let to = chars_after(self.line, found.start, AFTER_CHARS);
        self.shown = to;
        self.at = self.line.ceil_char_boundary(to.max(found.end));
        self.is_over = self.at >= self.line.len();
        WindowStep::Window(from..to)
    }
}

/// Returns the position `chars` characters before `at`.
fn chars_before(line: &str, at: usize, chars: usize) -> usize {
    line[..at].char_indices().rev().take(chars).last().map_or(at, |(start, _)| start)
}

/// Returns the position `chars` characters after `at`.
fn chars_after(line: &str, at: usize, chars: usize) -> usize {
    line[at..].char_indices().nth(chars).map_or(line.len(), |(offset, _)| at + offset)
}

/// Shortens a context line to so many bytes.
pub(super) fn cut(line: &str, bytes: usize) -> Cow<'_, str> {
    let end = line.floor_char_boundary(bytes);
    if end == line.len() { line.into() } else { format!("{}…", &line[..end]).into() }
}

/// Converts byte positions to character numbers, in ascending order.
pub(super) struct Position<'t> {
    text: &'t str,
    byte: usize,
    char: usize,
}

impl<'t> Position<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, byte: 0, char: 1 }
    }

    /// Returns the number of the character at `byte`, counted from one.
    pub(super) fn at(&mut self, byte: usize) -> usize {
        if byte > self.byte {
            self.char += self.text[self.byte..byte].chars().count();
            self.byte = byte;
        }
        self.char
    }
}
