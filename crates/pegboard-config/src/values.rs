//! Conversion of nodes to values; a node of the wrong kind is reported at its position.

use std::time::Duration;

use jsonc_parser::ast;
use pegboard_core::naming;

use crate::{
    document::{Node, Problems},
    keys::Kind,
};

/// Maximum duration, so that sums with the clock do not overflow.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Minimum `timeout` that is read as milliseconds: some clients write seconds, some milliseconds,
/// and a timeout of a quarter of an hour or of less than a second is unlikely.
const MIN_MILLISECONDS: f64 = 1000.0;

const TEXTS: Kind = Kind::List(&Kind::Text);

impl<'a> Node<'a> {
    /// Reports that the value must be of another kind.
    pub fn must_be(&self, kind: Kind, problems: &mut Problems) {
        problems.push(self.problem(format!("must be {}", kind.describe())));
    }

    fn expect<T>(&self, found: Option<T>, kind: Kind, problems: &mut Problems) -> Option<T> {
        if found.is_none() {
            self.must_be(kind, problems);
        }
        found
    }

    /// Returns the entries of an object in their order; duplicate keys are reported.
    pub fn as_object(&self, problems: &mut Problems) -> Option<Vec<Node<'a>>> {
        self.expect(self.is_object().then_some(()), Kind::Map(&Kind::Any), problems)?;
        Some(self.entries(problems))
    }

    /// Returns the items of a list.
    pub fn as_list(&self, problems: &mut Problems) -> Option<Vec<Node<'a>>> {
        self.expect(self.is_list().then_some(()), Kind::List(&Kind::Any), problems)?;
        Some(self.items())
    }

    /// Returns a string.
    pub fn as_text(&self, problems: &mut Problems) -> Option<&'a str> {
        self.expect(self.text(), Kind::Text, problems)
    }

    /// Returns a string that is not blank.
    pub fn as_non_blank(&self, problems: &mut Problems) -> Option<&'a str> {
        self.expect(self.text().filter(|text| !text.trim().is_empty()), Kind::Word, problems)
    }

    /// Returns a list of strings. Other items are reported one by one.
    pub fn as_texts(&self, problems: &mut Problems) -> Option<Vec<&'a str>> {
        self.expect(self.is_list().then_some(()), TEXTS, problems)?;
        Some(self.items().iter().filter_map(|item| item.as_text(problems)).collect())
    }

    /// Returns a non-empty list of strings.
    pub fn as_non_empty_texts(&self, problems: &mut Problems) -> Option<Vec<&'a str>> {
        let is_any = self.is_list() && !self.items().is_empty();
        self.expect(is_any.then_some(()), Kind::Names, problems)?;
        self.as_texts(problems)
    }

    /// Returns a list of strings, or a single string as a list of one; each with its node.
    pub fn as_text_or_texts(&self, problems: &mut Problems) -> Option<Vec<(Node<'a>, &'a str)>> {
        if let Some(text) = self.text() {
            return Some(vec![(self.clone(), text)]);
        }
        self.expect(self.is_list().then_some(()), Kind::Either(&[Kind::Text, TEXTS]), problems)?;
        let pair = |item: Node<'a>| item.as_text(problems).map(|text| (item, text));
        Some(self.items().into_iter().filter_map(pair).collect())
    }

    /// Returns a boolean.
    pub fn as_bool(&self, problems: &mut Problems) -> Option<bool> {
        self.expect(self.value.as_boolean_lit().map(|flag| flag.value), Kind::Flag, problems)
    }

    /// Returns a whole number that is not negative.
    pub fn as_count(&self, problems: &mut Problems) -> Option<usize> {
        self.as_count_from(0, problems)
    }

    /// Returns a whole number that is at least `least`.
    pub fn as_count_from(&self, least: usize, problems: &mut Problems) -> Option<usize> {
        self.expect(self.count().filter(|count| *count >= least), Kind::Count { least }, problems)
    }

    /// Returns one of `names`. The spelling must be exact; otherwise the nearest name is suggested.
    pub fn as_one_of(&self, names: &'static [&'static str], problems: &mut Problems) -> Option<&'static str> {
        let text = self.text();
        let found = names.iter().copied().find(|name| Some(*name) == text);
        if found.is_none() {
            let problem = self.problem(format!("must be {}", Kind::OneOf(names).describe()));
            let near = text.and_then(|text| naming::nearest(text, names.iter().copied(), 1).pop());
            problems.push(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
        found
    }

    /// Returns a number from 0 to 1.
    pub fn as_fraction(&self, problems: &mut Problems) -> Option<f64> {
        self.expect(self.number().filter(|share| (0.0..=1.0).contains(share)), Kind::Share, problems)
    }

    /// Returns a duration: a number of seconds, or a string with a unit (`30s`, `5m`, `250ms`).
    pub fn as_duration(&self, may_be_zero: bool, problems: &mut Problems) -> Option<Duration> {
        let found = self.number().and_then(from_seconds).or_else(|| self.text().and_then(parse_duration));
        let found = found.filter(|time| may_be_zero || !time.is_zero());
        self.expect(found, Kind::Duration { may_be_zero }, problems).and_then(|time| self.check_maximum(time, problems))
    }

    /// Returns a timeout as other clients write it: a number of at least 1000 is in milliseconds.
    pub fn as_timeout(&self, problems: &mut Problems) -> Option<Duration> {
        let from_number = |number: f64| from_seconds(if number >= MIN_MILLISECONDS { number / 1000.0 } else { number });
        let found = self.number().and_then(from_number).or_else(|| self.text().and_then(parse_duration));
        let found = found.filter(|time| !time.is_zero());
        self.expect(found, Kind::Timeout, problems).and_then(|time| self.check_maximum(time, problems))
    }

    fn check_maximum(&self, time: Duration, problems: &mut Problems) -> Option<Duration> {
        if time > MAX_DURATION {
            problems.push(self.problem("must not be longer than 365 days"));
        }
        (time <= MAX_DURATION).then_some(time)
    }

    /// Returns a string, or the text of a number or a flag.
    pub fn as_scalar(&self, problems: &mut Problems) -> Option<&'a str> {
        let found = match self.value {
            ast::Value::StringLit(text) => Some(text.value.as_ref()),
            ast::Value::NumberLit(number) => Some(number.value),
            ast::Value::BooleanLit(flag) => Some(if flag.value { "true" } else { "false" }),
            _ => None,
        };
        self.expect(found, Kind::Scalar, problems)
    }

    /// Returns the string, if this is one.
    pub fn text(&self) -> Option<&'a str> {
        self.value.as_string_lit().map(|text| text.value.as_ref())
    }

    fn number(&self) -> Option<f64> {
        self.value.as_number_lit()?.value.parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn count(&self) -> Option<usize> {
        let digits = self.value.as_number_lit()?.value;
        // `3.0` is a whole number too, if no digits are lost.
        let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..9e15).contains(number);
        digits.parse().ok().or_else(|| self.number().filter(is_whole).map(|number| number as usize))
    }
}

fn from_seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Parses a number and a unit: `30s`, `1.5 h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(end)?;
    let unit = match unit.trim_start() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    // Rust accepts `.5` and `5.`, which are probably typing errors.
    let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.ends_with(|c: char| c.is_ascii_digit());
    number.parse::<f64>().ok().filter(|_| is_number).and_then(|number| from_seconds(number * unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    /// Returns the result of `read` for the value in `text`, or the reported problem.
    fn check<T: std::fmt::Debug>(text: &str, read: fn(&Node<'_>, &mut Problems) -> Option<T>, expected: &str) {
        let mut problems = Problems::new();
        let document = Document::parse(text, &mut problems).expect("a document");
        let found = match read(&document.root(), &mut problems) {
            Some(value) if problems.is_empty() => format!("{value:?}"),
            _ => problems.lines().join("; ").replace("line 1: the file must be ", ""),
        };
        assert_eq!(found, expected, "{text}");
    }

    /// For values that borrow from the document.
    fn show<T: std::fmt::Debug>(value: Option<T>) -> Option<Shown> {
        value.map(|value| Shown(format!("{value:?}")))
    }

    struct Shown(String);

    impl std::fmt::Debug for Shown {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    #[test]
    fn numbers() {
        let count = |text, expected| check(text, |node, problems| node.as_count(problems), expected);
        count("3", "3");
        count("3.0", "3");
        count("18446744073709551615", "18446744073709551615");
        for wrong in ["-1", "3.5", "1e99", "\"3\"", "null", "[]"] {
            count(wrong, "a non-negative integer");
        }
        check("0", |node, problems| node.as_count_from(1, problems), "an integer of at least 1");
    }

    #[test]
    fn times() {
        let fits = "a number of seconds, or a string such as `30s` or `5m`";
        let time = |text, expected| check(text, |node, problems| node.as_duration(true, problems), expected);
        time("30", "30s");
        time("0", "0ns");
        time("1.5", "1.5s");
        time("\"250ms\"", "250ms");
        time("\" 2 h\"", "7200s");
        for wrong in ["-1", "\"5\"", "\"5 weeks\"", "\".5s\"", "\"5.s\"", "\"s\"", "\"\"", "true", "\"1.2.3s\""] {
            time(wrong, fits);
        }
        time("\"400d\"", "line 1: the file must not be longer than 365 days");
        time("1e300", fits);
        check(
            "0",
            |node, problems| node.as_duration(false, problems),
            "a number of seconds above 0, or a string such as `30s` or `5m`",
        );
    }

    #[test]
    fn timeouts_are_seconds_or_milliseconds() {
        let timeout = |text, expected| check(text, |node, problems| node.as_timeout(problems), expected);
        timeout("60", "60s");
        timeout("999", "999s");
        timeout("1000", "1s");
        timeout("30000", "30s");
        timeout("\"20m\"", "1200s");
        timeout("0", "a number of seconds (milliseconds if 1000 or more), or a string such as `30s` or `5m`");
    }

    #[test]
    fn lists_and_names() {
        let texts = |text, expected| check(text, |node, problems| show(node.as_texts(problems)), expected);
        texts("[\"a\", \"b\"]", "[\"a\", \"b\"]");
        texts("\"a\"", "a list of strings");
        texts("[\"a\", 1, {}]", "line 1: `[1]` must be a string; line 1: `[2]` must be a string");
        let name =
            |text, expected| check(text, |node, problems| node.as_one_of(&["legacy", "modern"], problems), expected);
        name("\"modern\"", "\"modern\"");
        name("\"Modren\"", "`legacy` or `modern` (did you mean `modern`?)");
        name("7", "`legacy` or `modern`");
        check("\" \"", |node, problems| show(node.as_non_blank(problems)), "a non-empty string");
        check("1e3", |node, problems| show(node.as_scalar(problems)), "\"1e3\"");
    }
}
