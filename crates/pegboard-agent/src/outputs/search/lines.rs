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

/// How many times a step becomes twice as long for a match that reaches its end.
const MAX_DOUBLINGS: u32 = 4;

/// One step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The characters around a match, in bytes of the line.
    Window(Range<usize>),
    /// No match up to here.
    Nothing,
    /// No match up to the end.
    End,
}

/// The places of one line where it matches, none within another.
pub(super) struct Windows<'a> {
    regex: &'a Regex,
    line: &'a str,
    /// Where to search on.
    at: usize,
    /// Where the last window ended.
    shown: usize,
    is_over: bool,
}

impl<'a> Windows<'a> {
    pub(super) fn new(regex: &'a Regex, line: &'a str) -> Self {
        Self { regex, line, at: 0, shown: 0, is_over: false }
    }

    /// Up to where was searched.
    pub(super) fn searched(&self) -> usize {
        self.at
    }

    pub(super) fn step(&mut self) -> Step {
        if self.is_over {
            return Step::End;
        }
        let next = self.line.floor_char_boundary(self.at + STEP_BYTES);
        let Some(found) = self.find() else {
            self.is_over = next == self.line.len();
            self.at = next;
            return if self.is_over { Step::End } else { Step::Nothing };
        };
        let from = back(self.line, found.start, BEFORE_CHARS).max(self.shown);
        let to = forth(self.line, found.start, AFTER_CHARS);
        self.shown = to;
        self.at = self.line.ceil_char_boundary(to.max(found.end));
        self.is_over = self.at >= self.line.len();
        Step::Window(from..to)
    }

    /// The next match that begins in this step. Text behind the step's reach is as good as
    /// not there, except to a match that wants to go on there.
    fn find(&self) -> Option<Range<usize>> {
        let mut reach = STEP_BYTES + REACH_BYTES;
        let mut doublings = 0;
        loop {
            let end = self.line.floor_char_boundary(self.at + reach);
            let found = self.regex.find_at(&self.line[..end], self.at)?.range();
            if found.end < end || end == self.line.len() || doublings == MAX_DOUBLINGS {
                return Some(found);
            }
            reach *= 2;
            doublings += 1;
        }
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
