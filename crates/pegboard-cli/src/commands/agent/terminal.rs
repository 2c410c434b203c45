//! The terminal: how wide it is, what is typed into it, and how it was found.

use std::io::{IsTerminal, stderr, stdin};

pub(super) use crate::platform::{TerminalModes, forget_typed, read_line};
use crate::{
    plain::one_line,
    platform::{self, MAX_LINE},
};

/// The width when there is no terminal, or one that does not say.
const USUAL_WIDTH: usize = 100;

/// Narrower than this nothing can be read; a terminal that says so means something else.
const LEAST_WIDTH: usize = 20;

/// Whether a person sits at the other end: one who can read questions and type answers.
pub(super) fn is_attended() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Columns of the terminal that talk goes to.
pub(super) fn width() -> usize {
    let columns = if stderr().is_terminal() { platform::error_size() } else { None };
    let columns = columns.map(|(columns, _)| columns);
    columns.filter(|columns| *columns >= LEAST_WIDTH).unwrap_or(USUAL_WIDTH)
}

/// The keyboard of a conversation: text that is typed while the model works is not shown, since it
/// would mix with the answer, and waits for the next prompt.
pub(super) struct Keyboard {
    found: TerminalModes,
    kept: String,
}

impl Keyboard {
    pub(super) fn new(found: TerminalModes) -> Self {
        Self { found, kept: String::new() }
    }

    /// Does not show typed keys until the guard is dropped.
    pub(super) fn hide(&self) -> Hidden {
        self.hide_typed();
        Hidden(self.found.clone())
    }

    /// Does not show typed keys.
    pub(super) fn hide_typed(&self) {
        self.found.hide_typed();
    }

    /// Keeps what was typed so far for the next prompt, and shows what is typed from now on.
    pub(super) fn keep_typed(&mut self) {
        self.kept.push_str(&self.found.take_typed());
        self.found.restore();
    }

    /// The text that was kept, on one line.
    pub(super) fn take_kept(&mut self) -> String {
        let kept = std::mem::take(&mut self.kept);
        one_line(&kept, MAX_LINE)
    }
}

/// Shows typed keys again when it is dropped.
pub(super) struct Hidden(TerminalModes);

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.restore();
    }
}
