//! Translates patterns from the syntax of RE2 to that of the `regex` crate.
//!
//! The reference matches with RE2. In RE2 `\w`, `\d`, `\s` and `\b` are ASCII (which also keeps
//! compiled patterns small), a brace that is not a repetition is literal, a bracket inside a class
//! is literal, and a repetition of a repetition is an error.

use std::{iter::Peekable, str::Chars};

/// Maximum repetition count of RE2.
const MAX_REPEAT: u32 = 1000;

/// Maximum number of Unicode property classes, which compile to large tables.
const MAX_PROPERTIES: usize = 32;

/// Translates `pattern`; on failure returns the message.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let out = String::with_capacity(pattern.len() + 16);
    let mut translator = Translator { rest: pattern.chars().peekable(), out, properties: 0 };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    properties: usize,
}

impl Translator<'_> {
    fn run(&mut self) -> Result<(), String> {
        // The repetition directly before the current character, if there is one.
        let mut repetition = String::new();
        while let Some(c) = self.rest.next() {
            let operator = match c {
                '*' | '+' | '?' => Some(c.to_string()),
                '{' => self.braces()?,
                _ => None,
            };
            if let Some(operator) = operator {
                if !repetition.is_empty() {
                    return Err(format!("invalid nested repetition operator: {repetition}{operator}"));
                }
                repetition = operator;
                if self.rest.next_if_eq(&'?').is_some() {
                    repetition.push('?');
                }
                self.out.push_str(&repetition);
                continue;
            }
            repetition.clear();
            match c {
                '{' => self.out.push_str("\\{"),
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => {
                    self.out.push('(');
                    // The question mark of a flag or a name is not a repetition.
                    self.out.extend(self.rest.next_if_eq(&'?'));
                }
                c => self.out.push(c),
            }
        }
        Ok(())
    }

    /// Parses the repetition that begins with the brace just read; consumes nothing if there is
    /// none.
    fn braces(&mut self) -> Result<Option<String>, String> {
        let mut ahead = self.rest.clone();
        let mut text = String::from("{");
        let Some(least) = number(&mut ahead, &mut text) else { return Ok(None) };
        let mut most = least;
        if ahead.next_if_eq(&',').is_some() {
            text.push(',');
            most = number(&mut ahead, &mut text).unwrap_or(least);
        }
        if ahead.next_if_eq(&'}').is_none() {
            return Ok(None);
        }
        text.push('}');
        if least > MAX_REPEAT || most > MAX_REPEAT || most < least {
            return Err(format!("invalid repeat count: {text}"));
        }
        self.rest = ahead;
        Ok(Some(text))
    }

    /// Translates what follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.rest.next() else { return Err("trailing backslash at end of expression".to_owned()) };
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[\\t\\n\\f\\r ]"),
            'S' => self.out.push_str("[^\\t\\n\\f\\r ]"),
            'b' if !in_class => self.out.push_str("(?-u:\\b)"),
            'Q' if !in_class => self.literal(),
            'p' | 'P' => {
                self.properties += 1;
                if self.properties > MAX_PROPERTIES {
                    return Err(format!("more than {MAX_PROPERTIES} Unicode classes"));
                }
                self.copy_escape(c);
            }
            c => self.copy_escape(c),
        }
        Ok(())
    }

    /// Copies an escape verbatim, with the name or number in braces that may belong to it.
    fn copy_escape(&mut self, c: char) {
        self.out.push('\\');
        self.out.push(c);
        if matches!(c, 'p' | 'P' | 'x') && self.rest.peek() == Some(&'{') {
            while let Some(c) = self.rest.next_if(|c| *c != '}') {
                self.out.push(c);
            }
            self.out.extend(self.rest.next());
        }
    }

    /// Copies everything up to `\E`, or to the end, as a literal.
    fn literal(&mut self) {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            text.push(c);
        }
        self.out.push_str(&regex::escape(&text));
    }

    /// Translates a class, whose opening bracket has just been read.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        self.out.extend(self.rest.next_if_eq(&'^'));
        // Directly after the opening, a closing bracket is a member.
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str("\\]");
        }
        while let Some(c) = self.rest.next() {
            match c {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if self.rest.peek() == Some(&':') => {
                    self.out.push('[');
                    while let Some(c) = self.rest.next_if(|c| *c != ']') {
                        self.out.push(c);
                    }
                    self.out.extend(self.rest.next());
                }
                // RE2 has no operators on classes.
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' if self.rest.peek() == Some(&'-') => self.out.push_str("\\-"),
                c => self.out.push(c),
            }
        }
        Err("missing closing ]".to_owned())
    }
}

/// Parses a number, which is also copied to `text`.
fn number(ahead: &mut Peekable<Chars<'_>>, text: &mut String) -> Option<u32> {
    let start = text.len();
    while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
        text.push(digit);
    }
    let digits = &text[start..];
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> Result<bool, String> {
        let pattern = translate(pattern)?;
        regex::Regex::new(&pattern).map(|regex| regex.is_match(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_like_re2() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text}");
        };
        check(r"^\w+$", "create_issue2", true);
        check(r"^\w+$", "über", false);
        check(r"^[\w-]{3,30}$", "my-tool", true);
        check(r"^[^\d\s]+$", "abc", true);
        check(r"^[^\d\s]+$", "a1", false);
        check(r"\bget\b", "get it", true);
        check(r"/repos/{owner}", "GET /repos/{owner}", true);
        check(r"a{2}", "aa", true);
        check(r"a{2", "a{2", true);
        check(r"[[]", "[", true);
        check(r"[]a]", "]", true);
        check(r"[[:digit:]]", "7", true);
        check(r"[a&&b]", "&", true);
        check(r"\Qa+b\E", "a+b", true);
        check(r"a+?", "a", true);
        check(r"(?i)A(?:b)", "ab", true);
        check(r"\p{Greek}", "λ", true);
        check(r"\x{41}", "A", true);
    }

    #[test]
    fn refuses_what_re2_refuses() {
        for pattern in ["a++", "a**", "a{2}{3}", "a{1001}", "a{3,2}", "\\", "[a", "("] {
            assert!(matches(pattern, "").is_err(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_plain_text_means_itself(text in "[a-zA-Z0-9 _/]{1,30}") {
            prop_assert_eq!(matches(&text, &text), Ok(true));
        }

        #[test]
        fn any_text_is_translated_or_refused(text in ".{0,60}") {
            let _ = translate(&text);
        }
    }
}
