//! The output of a server outside the protocol: standard error, and stray lines on standard output.

use std::{collections::VecDeque, sync::Mutex};

use pegboard_core::locks::lock;

/// Number of lines of standard error that are kept.
const STDERR_LINES: usize = 8;

/// Number of lines on standard output that are kept although they are not messages.
const STRAY_LINES: usize = 3;

/// Bytes of a server's first output that are kept. A stack trace pushes the line that explains a
/// failure out of the last lines.
const MAX_OPENING: usize = 16 << 10;

/// The output of a server outside the protocol since it was last started. It is bounded and has
/// no control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOutput {
    /// The last lines on standard error.
    pub stderr_lines: Vec<String>,
    /// The first lines on standard output that are not messages, shortened.
    pub stray_lines: Vec<String>,
    /// Number of all lines on standard output that are not messages.
    pub stray_count: usize,
}

/// Collects the output of a server. It outlives connections, because the output explains why a
/// connection failed.
#[derive(Debug, Default)]
pub(crate) struct OutputLog(Mutex<Collected>);

#[derive(Debug, Default)]
struct Collected {
    stderr_lines: VecDeque<String>,
    stray_lines: Vec<String>,
    stray_count: usize,
    opening: String,
}

impl Collected {
    fn keep_opening(&mut self, line: &str) {
        if self.opening.len() + line.len() < MAX_OPENING {
            self.opening.push_str(line);
            self.opening.push('\n');
        }
    }
}

impl OutputLog {
    /// Removes all output, before the server is started again.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Collected::default();
    }

    /// Adds a line of standard error.
    pub(crate) fn add_stderr(&self, line: &str) {
        let mut collected = lock(&self.0);
        if collected.stderr_lines.len() == STDERR_LINES {
            collected.stderr_lines.pop_front();
        }
        collected.stderr_lines.push_back(line.to_owned());
        collected.keep_opening(line);
    }

    /// Adds a line of standard output that is not a message.
    pub(crate) fn add_stray(&self, line: &str) {
        let mut collected = lock(&self.0);
        collected.stray_count += 1;
        if collected.stray_lines.len() < STRAY_LINES {
            collected.stray_lines.push(line.to_owned());
        }
        collected.keep_opening(line);
    }

    /// Returns the first and the last lines that the server wrote since it was last started, on
    /// either pipe.
    pub(crate) fn excerpt(&self) -> String {
        let collected = lock(&self.0);
        let last = collected.stderr_lines.iter().map(String::as_str);
        [collected.opening.as_str()].into_iter().chain(last).collect::<Vec<_>>().join("\n")
    }

    /// Returns the last line of standard error.
    pub(crate) fn last_stderr_line(&self) -> Option<String> {
        lock(&self.0).stderr_lines.back().cloned()
    }

    /// Returns a copy of the output so far.
    pub(crate) fn snapshot(&self) -> ServerOutput {
        let collected = lock(&self.0);
        ServerOutput {
            stderr_lines: collected.stderr_lines.iter().cloned().collect(),
            stray_lines: collected.stray_lines.clone(),
            stray_count: collected.stray_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_stderr_and_the_first_stray_lines_are_kept() {
        let log = OutputLog::default();
        assert_eq!(log.last_stderr_line(), None);
        for line in 0..20 {
            log.add_stderr(&format!("e{line}"));
            log.add_stray(&format!("o{line}"));
        }
        let output = log.snapshot();
        assert_eq!(log.last_stderr_line().as_deref(), Some("e19"));
        assert_eq!(output.stderr_lines.first().map(String::as_str), Some("e12"));
        assert_eq!((output.stray_lines.join(" ").as_str(), output.stray_count), ("o0 o1 o2", 20));
        log.add_stderr(&"x".repeat(MAX_OPENING));
        log.add_stderr("the end");
        let excerpt = log.excerpt();
        assert!(excerpt.starts_with("e0\no0\n") && excerpt.ends_with("the end") && excerpt.len() < 2 * MAX_OPENING);
        log.clear();
        assert_eq!(log.snapshot(), ServerOutput::default());
    }
}
