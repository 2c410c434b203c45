//! The terminal: its width, typed text, and its original settings.

use std::io::{IsTerminal, stderr, stdin};

pub(super) use crate::platform::{TerminalModes, discard_typed, read_line};
use crate::{
    platform::{self, MAX_LINE},
    terminal_text::one_line,
};

/// The width without a terminal, or if it does not report one.
const USUAL_WIDTH: usize = 100;

/// Minimum width; a smaller reported width is an error of the terminal.
const LEAST_WIDTH: usize = 20;

/// Returns whether a user is at the terminal, who can read questions and type answers.
pub(super) fn is_attended() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Returns the width of the terminal on standard error.
pub(super) fn width() -> usize {
    let columns = if stderr().is_terminal() { platform::error_size() } else { None };
    let columns = columns.map(|(columns, _)| columns);
    columns.filter(|columns| *columns >= LEAST_WIDTH).unwrap_or(USUAL_WIDTH)
}

/// The keyboard of a conversation: text that is typed while the model works is hidden, since it
/// would mix with the answer, and waits for the next prompt.
pub(super) struct Keyboard {
    found: TerminalModes,
    /// Typed before a question, which it must not answer; it is not submitted by itself either.
    kept: String,
    /// Typed since then.
    ahead: String,
}

/// Text that was typed before a prompt is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedText {
    /// A whole line, ended with Enter.
    Line(String),
    /// The beginning of a line.
    Start(String),
}

impl Keyboard {
    pub(super) fn new(found: TerminalModes) -> Self {
        Self { found, kept: String::new(), ahead: String::new() }
    }

    /// Hides typed keys until the guard is dropped.
    pub(super) fn hide(&self) -> HiddenKeys {
        self.hide_typed();
        HiddenKeys(self.found.clone())
    }

    /// Hides typed keys.
    pub(super) fn hide_typed(&self) {
        self.found.hide_typed();
    }

    /// Saves what was typed so far for the next prompt, and shows typed keys again.
    pub(super) fn keep_typed(&mut self) {
        self.read_typed();
        self.kept.push_str(&std::mem::take(&mut self.ahead));
    }

    /// Reads what was typed so far, and shows typed keys again.
    fn read_typed(&mut self) {
        self.ahead.push_str(&self.found.take_typed());
        self.found.restore();
    }

    /// Takes the next typed line, or the beginning of one. The line editor reads only as much from
    /// the terminal as it needs for one line, and forgets the rest.
    pub(super) fn take_typed(&mut self) -> TypedText {
        self.read_typed();
        take_line(&mut self.kept, &mut self.ahead)
    }
}

fn take_line(kept: &mut String, ahead: &mut String) -> TypedText {
    match ahead.find(['\n', '\r']) {
        Some(end) if kept.is_empty() => {
            let line = one_line(&ahead[..end], MAX_LINE);
            ahead.drain(..=end);
            TypedText::Line(line)
        }
        _ => TypedText::Start(one_line(&(std::mem::take(kept) + &std::mem::take(ahead)), MAX_LINE)),
    }
}

/// Shows typed keys again when it is dropped.
pub(super) struct HiddenKeys(TerminalModes);

impl Drop for HiddenKeys {
    fn drop(&mut self) {
        self.0.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sent_one_by_one() {
        let check = |kept: &str, ahead: &str, expected: TypedText, rest: &str| {
            let (mut kept, mut ahead) = (kept.to_owned(), ahead.to_owned());
            assert_eq!(take_line(&mut kept, &mut ahead), expected);
            assert_eq!((kept.as_str(), ahead.as_str()), ("", rest));
        };
        let (line, start) =
            (|text: &str| TypedText::Line(text.to_owned()), |text: &str| TypedText::Start(text.to_owned()));
        check("", "", start(""), "");
        check("", "half", start("half"), "");
        check("", "one\ntwo\nhalf", line("one"), "two\nhalf");
        check("", "\nhalf", line(""), "half");
        // Typed before a question: nothing is sent by itself.
        check("y\n", "more\n", start("y more"), "");
    }
}
