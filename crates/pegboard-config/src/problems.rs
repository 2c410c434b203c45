//! What is wrong with a file, all of it at once.

use std::{fmt, path::PathBuf};

/// One mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The place in the document, such as `mcpServers.github.args`; empty for the file itself.
    pub path: String,
    /// What is wrong, as a sentence whose subject is the path.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
    /// What is missing, if the file itself is right. Commands that start no server need not
    /// mind.
    pub missing: Option<Missing>,
    /// The server it is of, if it is one's.
    pub server: Option<String>,
}

/// What is missing around a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// A variable that is not set.
    Variable(String),
    /// Something that only another program could ask people for.
    Input,
    /// Another file.
    File,
}

impl Problem {
    /// Adds advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says that the mistake is not in the file but around it.
    #[must_use]
    pub fn outside(mut self, missing: Missing) -> Self {
        self.missing = Some(missing);
        self
    }

    /// Whether the file itself is right and something around it is missing.
    pub fn is_outside(&self) -> bool {
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

/// The mistakes of one file, and what else was looked at for it.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Other files that it names and whose content counts.
    files: Vec<PathBuf>,
    listed: Vec<Problem>,
    /// Mistakes beyond [`Self::MOST`], those of the file and those around it.
    left_out: usize,
    left_out_outside: usize,
}

impl Problems {
    /// Mistakes that are listed; further ones are only counted, so that a file which is wrong
    /// in every line does not fill the memory with its mistakes.
    pub const MOST: usize = 100;

    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of one.
    pub fn push(&mut self, problem: Problem) {
        if !self.is_full() {
            self.listed.push(problem);
        } else if problem.is_outside() {
            self.left_out_outside += 1;
        } else {
            self.left_out += 1;
        }
    }

    /// Takes note of all that another reader found.
    pub fn append(&mut self, other: Self) {
        self.files.extend(other.files);
        other.listed.into_iter().for_each(|problem| self.push(problem));
        self.left_out += other.left_out;
        self.left_out_outside += other.left_out_outside;
    }

    /// Says whose they all are.
    pub fn name_server(&mut self, name: &str) {
        self.listed.iter_mut().for_each(|problem| problem.server = Some(name.to_owned()));
    }

    /// Takes note of another file whose content counts, whether it can be read or not.
    pub fn depends_on(&mut self, file: PathBuf) {
        if !self.files.contains(&file) {
            self.files.push(file);
        }
    }

    /// The other files whose content counts.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Whether more are only counted; then nobody needs to look for hints.
    pub fn is_full(&self) -> bool {
        self.listed.len() >= Self::MOST
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are, listed or not.
    pub fn len(&self) -> usize {
        self.listed.len() + self.left_out + self.left_out_outside
    }

    /// The listed ones, as they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.listed.iter()
    }

    /// Forgets what is wrong around the file and not in it.
    pub fn forgive_outside(&mut self) {
        self.listed.retain(|problem| !problem.is_outside());
        self.left_out_outside = 0;
    }

    /// Forgets what is missing around the file for single servers, which are not started then. What is missing
    /// for the gateway itself stays.
    pub fn forgive_missing_of_servers(&mut self) {
        self.listed.retain(|problem| !problem.is_outside() || problem.server.is_none());
    }

    /// What is missing around the file, in one line.
    pub fn missing(&self) -> Option<String> {
        let outside = self.listed.iter().filter(|problem| problem.is_outside());
        let lines: Vec<String> = outside.map(|problem| format!("`{}` {}", problem.path, problem.message)).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    /// One line of text for each, with its hint, in the order of the file.
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
        (0..Problems::MOST + 2).for_each(|line| problems.push(problem(line)));
        problems.push(problem(1).outside(Missing::File));
        assert_eq!(problems.lines().last().map(String::as_str), Some("and 3 more"));
        problems.forgive_outside();
        assert_eq!(problems.len(), Problems::MOST + 2);
    }
}
