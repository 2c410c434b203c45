//! The problems of a configuration file, reported all at once.

use std::{fmt, path::PathBuf};

/// A problem and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The path in the document, such as `mcpServers.github.args`; empty for the file itself.
    pub path: String,
    /// The problem, as a sentence whose subject is the path.
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// The missing thing, if the file itself is valid. Commands that do not start servers ignore
    /// such problems.
    pub missing: Option<Missing>,
    /// The server that has the problem, if it is in the entry of a server.
    pub server: Option<String>,
}

/// Something outside a file that it needs and that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// A variable that is not set.
    Variable(String),
    /// An input that only another program could ask the user for.
    Input,
    /// Another file.
    File,
}

impl Problem {
    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the problem as something missing outside the file.
    #[must_use]
    pub fn with_missing(mut self, missing: Missing) -> Self {
        self.missing = Some(missing);
        self
    }

    /// Returns whether the problem is something missing outside the file.
    pub fn is_missing(&self) -> bool {
        self.missing.is_some()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "line {}: the file {}", self.line, self.message),
            path => write!(f, "line {}: `{path}` {}", self.line, self.message),
        }
    }
}

/// The problems of one file, and the other files that it refers to.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Other files whose content is part of the configuration.
    files: Vec<PathBuf>,
    listed: Vec<Problem>,
    /// Number of problems beyond [`Self::MAX_LISTED`], in the file and outside it.
    left_out: usize,
    left_out_outside: usize,
}

impl Problems {
    /// Maximum number of listed problems; further ones are only counted, to bound the memory for a
    /// file that is wrong in every line.
    pub const MAX_LISTED: usize = 100;

    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a problem.
    pub fn push(&mut self, problem: Problem) {
        if !self.is_full() {
            self.listed.push(problem);
        } else if problem.is_missing() {
            self.left_out_outside += 1;
        } else {
            self.left_out += 1;
        }
    }

    /// Adds all problems and files of another list.
    pub fn append(&mut self, other: Self) {
        self.files.extend(other.files);
        other.listed.into_iter().for_each(|problem| self.push(problem));
        self.left_out += other.left_out;
        self.left_out_outside += other.left_out_outside;
    }

    /// Sets the server of all problems.
    pub fn set_server(&mut self, name: &str) {
        self.listed.iter_mut().for_each(|problem| problem.server = Some(name.to_owned()));
    }

    /// Adds another file whose content is part of the configuration, even if it cannot be read.
    pub fn add_file(&mut self, file: PathBuf) {
        if !self.files.contains(&file) {
            self.files.push(file);
        }
    }

    /// Returns the other files whose content is part of the configuration.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns whether further problems are only counted, so that they need no hints.
    pub fn is_full(&self) -> bool {
        self.listed.len() >= Self::MAX_LISTED
    }

    /// Returns whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of problems, listed or not.
    pub fn len(&self) -> usize {
        self.listed.len() + self.left_out + self.left_out_outside
    }

    /// Returns the listed problems in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.listed.iter()
    }

    /// Removes problems of missing things outside the file.
    pub fn remove_missing(&mut self) {
        self.listed.retain(|problem| !problem.is_missing());
        self.left_out_outside = 0;
    }

    /// Removes problems of missing things of single servers, which are then not started. Those of the
    /// gateway itself stay.
    pub fn remove_missing_of_servers(&mut self) {
        self.listed.retain(|problem| !problem.is_missing() || problem.server.is_none());
    }

    /// Returns the missing things outside the file in one line.
    pub fn missing(&self) -> Option<String> {
        let outside = self.listed.iter().filter(|problem| problem.is_missing());
        let lines: Vec<String> = outside.map(|problem| format!("`{}` {}", problem.path, problem.message)).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    /// Returns a line of text for each problem, with its hint, in the order of the file.
    pub fn lines(&self) -> Vec<String> {
        let mut listed: Vec<&Problem> = self.listed.iter().collect();
        listed.sort_by_key(|problem| problem.line);
        let line = |problem: &Problem| match &problem.hint {
            Some(hint) => format!("{problem} ({hint})"),
            None => problem.to_string(),
        };
        let mut lines: Vec<String> = listed.into_iter().map(line).collect();
        let left_out = self.left_out + self.left_out_outside;
        if left_out > 0 {
            lines.push(format!("and {left_out} more"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: usize) -> Problem {
        Problem {
            line,
            path: "a.b".to_owned(),
            message: "is wrong".to_owned(),
            hint: None,
            missing: None,
            server: None,
        }
    }

    #[test]
    fn mistakes_are_listed_in_the_order_of_the_file() {
        let mut problems = Problems::new();
        problems.push(problem(7).hint("mend it"));
        problems.push(Problem { path: String::new(), ..problem(2) });
        assert_eq!(problems.lines(), ["line 2: the file is wrong", "line 7: `a.b` is wrong (mend it)"]);
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let mut problems = Problems::new();
        (0..Problems::MAX_LISTED + 2).for_each(|line| problems.push(problem(line)));
        problems.push(problem(1).with_missing(Missing::File));
        assert_eq!(problems.lines().last().map(String::as_str), Some("and 3 more"));
        problems.remove_missing();
        assert_eq!(problems.len(), Problems::MAX_LISTED + 2);
    }
}
