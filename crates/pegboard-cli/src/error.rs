//! Errors of the command line, with hints for the user.

use std::{
    borrow::Cow,
    error::Error,
    io::{self, IsTerminal as _},
    path::Path,
};

use anstyle::{AnsiColor, Style};

use crate::{output, terminal_text::clean};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// An error that ends a command, with a hint where there is one.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl CliError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, source: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the error that a file cannot be read.
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::new(format!("cannot read `{}`", path.display())).because(source)
    }

    /// Returns the hint.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns whether the reader of the output has closed it.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let source = self.source.as_deref().and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the message, its causes and the hint, for a log.
    pub(crate) fn in_one_line(&self) -> String {
        let text = pegboard_upstream::with_causes(self);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        // A part that ends with a colon continues on the next line.
        format!("{}{hint}", lines.join("; ").replace(":; ", ": "))
    }

    /// Prints the message, its causes and the hint to standard error.
    pub(crate) fn print(&self) {
        // Parts of it come from servers or files, and must not control the terminal.
        let mut text = format!("{ERROR}error{ERROR:#}: {}", clean(&self.message));
        for cause in pegboard_upstream::causes(self) {
            text.push_str(&format!("\n  caused by: {}", clean(&cause.to_string())));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{HINT}hint{HINT:#}: {}", clean(hint)));
        }
        say(&text);
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::new("cannot write the output").because(error)
    }
}

impl From<pegboard_demo::DemoError> for CliError {
    fn from(error: pegboard_demo::DemoError) -> Self {
        Self::new("cannot load the demo").because(error)
    }
}

/// Prints a warning to standard error.
pub(crate) fn warn(message: &str) {
    say(&format!("{WARNING}warning{WARNING:#}: {message}"));
}

/// Prints a line to standard error, and ignores a failure: there is no other place to report it.
pub(crate) fn say(text: &str) {
    use io::Write as _;
    let text = if io::stderr().is_terminal() && io::stdout().is_terminal() { wrap(text) } else { text.into() };
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Wraps a text between words for the terminal.
fn wrap(text: &str) -> Cow<'_, str> {
    let width = output::width();
    let wrap = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        output::wrap(&line[indent..], indent, indent, width)
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_has_no_loose_ends() {
        let error = CliError::new("`x.json` has errors:\n  line 1: a\n  line 2: b").hint("fix them");
        assert_eq!(error.in_one_line(), "`x.json` has errors: line 1: a; line 2: b (fix them)");
    }
}
