//! Patterns over tool names.

use regex::{Regex, RegexBuilder};

/// A pattern over tool names: a regular expression, or a glob with `*` and `?` if it is not a valid
/// regular expression (`*_file`).
#[derive(Clone, Debug)]
pub struct NamePattern {
    regex: Regex,
}

/// A pattern that is neither a regular expression nor a glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is neither a regular expression nor a name with `*`: {reason}")]
pub struct PatternError {
    pattern: String,
    reason: String,
}

/// Maximum size of a compiled pattern.
const SIZE_LIMIT: usize = 1 << 20;

impl NamePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// When it can be read neither way.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let as_regex = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build();
        let regex = as_regex.or_else(|error| match glob(pattern) {
            Some(glob) => RegexBuilder::new(&glob).size_limit(SIZE_LIMIT).build(),
            None => Err(error),
        });
        let wrong = |error: regex::Error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            PatternError { pattern: pattern.to_owned(), reason: reason.to_owned() }
        };
        Ok(Self { regex: regex.map_err(wrong)? })
    }

    /// Returns whether the pattern matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }
}

/// Returns `pattern` as a regular expression if only `*` and `?` in it are special.
fn glob(pattern: &str) -> Option<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:* ?".contains(c);
    if !pattern.chars().all(is_plain) {
        return None;
    }
    let part = |c: char| match c {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        c => regex::escape(&c.to_string()),
    };
    Some(format!("^{}$", pattern.chars().map(part).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_and_names_with_stars() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let pattern = NamePattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        };
        check("^read_", "read_file", true);
        check("^read_", "thread_list", false);
        check("*_file", "read_file", true);
        check("*_file", "read_files", false);
        check("create_issue", "create_issue", true);
        assert!(NamePattern::new("(a").is_err());
    }

    #[test]
    fn stars_and_question_marks() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let pattern = NamePattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        };
        check("*?file", "a_file", true);
        check("*?file", "file", false);
        check("?_file", "a_file", true);
        check("?_file", "ab_file", false);
        check("*.get", "users.get", true);
        check("*.get", "users_get", false);
        check("*/a-b:c d", "x/a-b:c d", true);
        // The whole name is meant.
        check("*_file", "read_file_now", false);
    }

    #[test]
    fn what_is_neither() {
        for (pattern, reason) in [("*(", "unclosed group"), ("*[a", "unclosed character class"), ("*+", "repetition")] {
            let error = NamePattern::new(pattern).expect_err("no pattern").to_string();
            assert!(error.starts_with(&format!("`{pattern}` is neither")), "{error}");
            assert!(error.contains(reason) || error.contains("repetition"), "{error}");
        }
        assert_eq!(glob("*+"), None);
        assert_eq!(glob("a*?.b").as_deref(), Some(r"^a.*.\.b$"));
    }
}
