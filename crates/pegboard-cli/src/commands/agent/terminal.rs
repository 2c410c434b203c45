//! The terminal: how wide it is, what is typed into it, and how it was found.

use std::io::{self, IsTerminal, stderr, stdin};

use crate::plain::one_line;

/// The width when there is no terminal, or one that does not say.
const USUAL_WIDTH: usize = 100;

/// Narrower than this nothing can be read; a terminal that says so means something else.
const LEAST_WIDTH: usize = 20;

/// The longest line that a terminal hands over.
const MAX_LINE: usize = 4096;

/// Whether a person sits at the other end: one who can read questions and type answers.
pub(super) fn is_attended() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Columns of the terminal that talk goes to.
pub(super) fn width() -> usize {
    let columns = if stderr().is_terminal() { columns() } else { None };
    columns.filter(|columns| *columns >= LEAST_WIDTH).unwrap_or(USUAL_WIDTH)
}

#[cfg(unix)]
fn columns() -> Option<usize> {
    rustix::termios::tcgetwinsize(stderr()).ok().map(|size| usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn columns() -> Option<usize> {
    None
}

/// How the terminal was set when we began.
#[derive(Clone)]
pub(super) struct Found {
    #[cfg(unix)]
    modes: Option<rustix::termios::Termios>,
}

impl Found {
    pub(super) fn look() -> Self {
        Self {
            #[cfg(unix)]
            modes: rustix::termios::tcgetattr(stdin()).ok(),
        }
    }

    /// Changes how it was found, unless another program has the terminal: that would stop this one.
    #[cfg(unix)]
    fn set(&self, change: impl FnOnce(&mut rustix::termios::Termios)) {
        use rustix::termios::{OptionalActions, tcgetpgrp, tcsetattr};
        let is_ours = tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
        if let Some(modes) = self.modes.as_ref().filter(|_| is_ours) {
            let mut modes = modes.clone();
            change(&mut modes);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
    }

    /// Leaves it as it was found: whoever ends in the middle of a line that is being edited
    /// would leave a terminal that shows nothing.
    pub(super) fn restore(&self) {
        #[cfg(unix)]
        if let Some(modes) = &self.modes {
            let _ = rustix::termios::tcsetattr(stdin(), rustix::termios::OptionalActions::Now, modes);
        }
    }
}

/// The keyboard of a conversation: text that is typed while the model works is not shown, since it
/// would mix with the answer, and waits for the next prompt.
pub(super) struct Keyboard {
    found: Found,
    /// Typed before a question, which it must not answer; nor is it sent by itself.
    kept: String,
    /// Typed since then.
    ahead: String,
}

/// What was typed before a prompt is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A whole line, ended with Enter.
    Line(String),
    /// The beginning of a line.
    Start(String),
}

impl Keyboard {
    pub(super) fn new(found: Found) -> Self {
        Self { found, kept: String::new(), ahead: String::new() }
    }

    /// Does not show typed keys until the guard is dropped.
    pub(super) fn hide(&self) -> Hidden {
        self.hide_typed();
        Hidden(self.found.clone())
    }

    /// Does not show typed keys.
    pub(super) fn hide_typed(&self) {
        #[cfg(unix)]
        self.found.set(|modes| modes.local_modes.remove(rustix::termios::LocalModes::ECHO));
    }

    /// Keeps what was typed so far for the next prompt, and shows what is typed from now on.
    pub(super) fn keep_typed(&mut self) {
        self.read_typed();
        self.kept.push_str(&std::mem::take(&mut self.ahead));
    }

    /// Reads what was typed so far, and shows what is typed from now on.
    fn read_typed(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, SpecialCodeIndex};
            // Without lines, everything typed can be read at once.
            self.found.set(|modes| {
                modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
                modes.special_codes[SpecialCodeIndex::VMIN] = 0;
                modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            });
            let mut typed = [0; MAX_LINE];
            if let Ok(length) = rustix::io::read(stdin(), &mut typed) {
                self.ahead.push_str(&String::from_utf8_lossy(&typed[..length]));
            }
        }
        self.found.restore();
    }

    /// The next line of what was typed, or all of it on one line. The line editor takes only as much from the
    /// terminal as it needs for one line, and forgets the rest.
    pub(super) fn take_typed(&mut self) -> Typed {
        self.read_typed();
        take_line(&mut self.kept, &mut self.ahead)
    }
}

fn take_line(kept: &mut String, ahead: &mut String) -> Typed {
    match ahead.find(['\n', '\r']) {
        Some(end) if kept.is_empty() => {
            let line = one_line(&ahead[..end], MAX_LINE);
            ahead.drain(..=end);
            Typed::Line(line)
        }
        _ => Typed::Start(one_line(&(std::mem::take(kept) + &std::mem::take(ahead)), MAX_LINE)),
    }
}

/// Shows typed keys again when it is dropped.
pub(super) struct Hidden(Found);

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.restore();
    }
}

/// Forgets what was typed before it was asked for.
pub(super) fn forget_typed() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Reads one line, unless `is_over` before it is there: then nothing is taken away from
/// whoever reads next. `None` when there are no more lines. Blocks.
#[cfg(unix)]
pub(super) fn read_line(is_over: impl Fn() -> bool) -> io::Result<Option<String>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    /// How soon a question that nobody waits for any more is dropped.
    const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let input = stdin();
    while !is_over() {
        // A terminal is readable when a line is complete; so much is read, and no more.
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                let mut line = [0; MAX_LINE];
                return match rustix::io::read(&input, &mut line)? {
                    0 => Ok(None),
                    length => Ok(Some(String::from_utf8_lossy(&line[..length]).into_owned())),
                };
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Reads one line; `None` when there are no more lines. Blocks.
#[cfg(not(unix))]
pub(super) fn read_line(_is_over: impl Fn() -> bool) -> io::Result<Option<String>> {
    let mut line = String::new();
    Ok((stdin().read_line(&mut line)? > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sent_one_by_one() {
        let check = |kept: &str, ahead: &str, expected: Typed, rest: &str| {
            let (mut kept, mut ahead) = (kept.to_owned(), ahead.to_owned());
            assert_eq!(take_line(&mut kept, &mut ahead), expected);
            assert_eq!((kept.as_str(), ahead.as_str()), ("", rest));
        };
        let (line, start) = (|text: &str| Typed::Line(text.to_owned()), |text: &str| Typed::Start(text.to_owned()));
        check("", "", start(""), "");
        check("", "half", start("half"), "");
        check("", "one\ntwo\nhalf", line("one"), "two\nhalf");
        check("", "\nhalf", line(""), "half");
        // Typed before a question: nothing is sent by itself.
        check("y\n", "more\n", start("y more"), "");
    }
}
