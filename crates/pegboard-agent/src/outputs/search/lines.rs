//! Long lines: places in them instead of all of them.

use std::{borrow::Cow, ops::Range};

use regex::Regex;

/// Characters shown before and after the beginning of a match in a long line.
const BEFORE_CHARS: usize = 80;
const AFTER_CHARS: usize = 220;

/// How much of a line is searched in one step, so that a search can be ended in between.
const STEP_BYTES: usize = 256 * 1024;

/// How far behind a step its matches may reach.
const REACH_BYTES: usize = 64 * 1024;

/// One step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The characters around a match, in bytes of the line.
    Window(Range<usize>),
    /// No match up to here.
    Nothing,
    /// Whether there is a match depends on more of the line; the next step looks at it.
    Undecided,
    /// No match up to the end.
    End,
}

/// The places of one line where it matches, none within another.
pub(super) struct Windows<'a> {
    regex: &'a Regex,
    line: &'a str,
    /// Where to search on.
    at: usize,
    /// How much of the line the next step looks at.
    piece: usize,
    /// Where the last window ended.
    shown: usize,
    is_over: bool,
}

impl<'a> Windows<'a> {
    pub(super) fn new(regex: &'a Regex, line: &'a str) -> Self {
        Self { regex, line, at: 0, piece: STEP_BYTES + REACH_BYTES, shown: 0, is_over: false }
    }

    /// Up to where was searched.
    pub(super) fn searched(&self) -> usize {
        self.at
    }

    pub(super) fn step(&mut self) -> Step {
        if self.is_over {
            return Step::End;
        }
        // Text behind the piece is as good as not there.
        let end = self.line.floor_char_boundary(self.at + self.piece);
        let found = self.regex.find_at(&self.line[..end], self.at).map(|found| found.range());
        // A match up to the end of a piece may want to go on, or takes that end for the line's
        // (`$`, `\b`): only more of the line can tell. Every match that ends before was made
        // without a look at the end. Pieces grow by doubling, so that all of them together are
        // not much longer than the last one.
        if end < self.line.len() && found.as_ref().is_some_and(|found| found.end == end) {
            self.piece *= 2;
            return Step::Undecided;
        }
        let without_reach = self.piece - REACH_BYTES;
        self.piece = STEP_BYTES + REACH_BYTES;
        let Some(found) = found else {
            self.is_over = end == self.line.len();
            self.at = if self.is_over { end } else { self.line.floor_char_boundary(self.at + without_reach) };
            return if self.is_over { Step::End } else { Step::Nothing };
        };
        let from = back(self.line, found.start, BEFORE_CHARS).max(self.shown);
        let to = forth(self.line, found.start, AFTER_CHARS);
        self.shown = to;
        self.at = self.line.ceil_char_boundary(to.max(found.end));
        self.is_over = self.at >= self.line.len();
        Step::Window(from..to)
    }
}

/// Where the character is that is `chars` before `at`.
fn back(line: &str, at: usize, chars: usize) -> usize {
    line[..at].char_indices().rev().take(chars).last().map_or(at, |(start, _)| start)
}

/// Where the character is that is `chars` after `at`.
fn forth(line: &str, at: usize, chars: usize) -> usize {
    line[at..].char_indices().nth(chars).map_or(line.len(), |(offset, _)| at + offset)
}

/// A line for its context, no longer than so many bytes.
pub(super) fn cut(line: &str, bytes: usize) -> Cow<'_, str> {
    let end = line.floor_char_boundary(bytes);
    if end == line.len() { line.into() } else { format!("{}…", &line[..end]).into() }
}

/// Which character begins at a byte, asked in ascending order.
pub(super) struct Position<'t> {
    text: &'t str,
    byte: usize,
    char: usize,
}

impl<'t> Position<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, byte: 0, char: 1 }
    }

    /// The number of the character at `byte`, counted from one.
    pub(super) fn at(&mut self, byte: usize) -> usize {
        if byte > self.byte {
            self.char += self.text[self.byte..byte].chars().count();
            self.byte = byte;
        }
        self.char
    }
}
