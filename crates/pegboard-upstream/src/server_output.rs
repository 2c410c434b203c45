//! What a server writes beside its messages.

use std::{collections::VecDeque, sync::Mutex};

use pegboard_core::locks::lock;

/// Lines of standard error that are remembered.
const LAST_WORDS: usize = 8;

/// Lines on standard output that are no messages and are remembered.
const STRAY_LINES: usize = 3;

/// Bytes of a server's first output that are kept. A stack trace pushes the line that explains a
/// failure out of the last words.
const OPENING: usize = 16 << 10;

/// What a server has written beside its messages since it was last started, as far as that is
/// remembered. Nothing in it can drive a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    /// The last lines on standard error, for people to read.
    pub last_words: Vec<String>,
    /// The first lines on standard output that are no messages, cut.
    pub stray: Vec<String>,
    /// How many such lines there were.
    pub stray_count: usize,
}

/// Where a server's talk is noted. It outlives connections: what was said explains why there
/// is none.
#[derive(Debug, Default)]
pub(crate) struct TalkNotes(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    last_words: VecDeque<String>,
    stray: Vec<String>,
    stray_count: usize,
    opening: String,
}

impl Noted {
    fn keep_opening(&mut self, line: &str) {
        if self.opening.len() + line.len() < OPENING {
            self.opening.push_str(line);
            self.opening.push('\n');
        }
    }
}

impl TalkNotes {
    /// Forgets everything: the server is started anew.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Noted::default();
    }

    /// Notes a line that the server wrote for people to read.
    pub(crate) fn wrote(&self, line: &str) {
        let mut noted = lock(&self.0);
        if noted.last_words.len() == LAST_WORDS {
            noted.last_words.pop_front();
        }
        noted.last_words.push_back(line.to_owned());
        noted.keep_opening(line);
    }

    /// Notes a line that should have been a message.
    pub(crate) fn strayed(&self, line: &str) {
        let mut noted = lock(&self.0);
        noted.stray_count += 1;
        if noted.stray.len() < STRAY_LINES {
            noted.stray.push(line.to_owned());
        }
        noted.keep_opening(line);
    }

    /// The first and the last lines that the server wrote since it was last started, on either
    /// pipe.
    pub(crate) fn output(&self) -> String {
        let noted = lock(&self.0);
        let last = noted.last_words.iter().map(String::as_str);
        [noted.opening.as_str()].into_iter().chain(last).collect::<Vec<_>>().join("\n")
    }

    /// The last line that was written for people.
    pub(crate) fn last_word(&self) -> Option<String> {
        lock(&self.0).last_words.back().cloned()
    }

    pub(crate) fn all(&self) -> Talk {
        let noted = lock(&self.0);
        Talk {
            last_words: noted.last_words.iter().cloned().collect(),
            stray: noted.stray.clone(),
            stray_count: noted.stray_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_and_the_first_stray_lines_are_kept() {
        let notes = TalkNotes::default();
        assert_eq!(notes.last_word(), None);
        for line in 0..20 {
            notes.wrote(&format!("e{line}"));
            notes.strayed(&format!("o{line}"));
        }
        let talk = notes.all();
        assert_eq!(notes.last_word().as_deref(), Some("e19"));
        assert_eq!(talk.last_words.first().map(String::as_str), Some("e12"));
        assert_eq!((talk.stray.join(" ").as_str(), talk.stray_count), ("o0 o1 o2", 20));
        notes.wrote(&"x".repeat(OPENING));
        notes.wrote("the end");
        let output = notes.output();
        assert!(output.starts_with("e0\no0\n") && output.ends_with("the end") && output.len() < 2 * OPENING);
        notes.clear();
        assert_eq!(notes.all(), Talk::default());
    }
}
