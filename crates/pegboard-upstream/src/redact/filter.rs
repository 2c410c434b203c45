//! Finding many secrets in a text at once.

use std::{borrow::Cow, fmt, ops::Range, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::encodings::{Form, encodings, is_base64};

/// Shorter values are words and numbers that stand everywhere.
const SHORTEST: usize = 6;

/// From this many characters on, a value is also found in other case and in encoded forms.
const SHORTEST_ENCODED: usize = 8;

/// A longer value, in bytes, is found as it is written and by its beginning alone: the tables
/// for all forms of it would be too large.
const LONGEST_ENCODED: usize = 4 << 10;

/// Values that must not be shown, and the forms by which they are found: as they are, and from
/// eight characters on in other case, as hexadecimal digits and in base64, percent-encoded and
/// JSON-escaped.
#[derive(Default)]
pub struct SecretFilter {
    /// The longest first: one may be part of another.
    values: Vec<String>,
    /// Made when it is first needed: most filters are replaced before that.
    tables: OnceLock<Tables>,
}

impl fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFilter({} values)", self.values.len())
    }
}

impl SecretFilter {
    /// A filter for those of the values that are long enough to be hidden.
    pub fn new(mut values: Vec<String>) -> Self {
        values.retain(|value| value.trim().len() >= SHORTEST);
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Self { values, tables: OnceLock::new() }
    }

    /// The values that are hidden.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// `text` with `mark` in the place of every secret.
    pub fn replace<'a>(&self, text: &'a str, mark: &str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.find(text, &mut found);
        replace_ranges(text, found, mark)
    }

    /// Adds the places of all secrets in `text`; some may overlap.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if !self.values.is_empty() && text.len() >= SHORTEST {
            self.tables.get_or_init(|| Tables::of(&self.values)).find(text, found);
        }
    }
}

/// `text` with `mark` in the place of every range; those that touch each other are one.
pub(super) fn replace_ranges<'a>(text: &'a str, mut ranges: Vec<Range<usize>>, mark: &str) -> Cow<'a, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut replaced = String::with_capacity(text.len());
    let mut read = 0;
    for (at, range) in ranges.iter().enumerate() {
        if at == 0 || range.start > read {
            replaced.push_str(text.get(read..range.start).unwrap_or_default());
            replaced.push_str(mark);
        }
        read = read.max(range.end);
    }
    replaced.push_str(text.get(read..).unwrap_or_default());
    Cow::Owned(replaced)
}

/// What the values are found with.
#[derive(Default)]
struct Tables {
    /// Forms that are found in any case, with the one of each pattern.
    encoded: Option<(AhoCorasick, Vec<bool>)>,
    /// Short values, which are found as they are written.
    short: Option<AhoCorasick>,
    /// Values that are too long for a table.
    long: Vec<String>,
}

impl Tables {
    fn of(values: &[String]) -> Self {
        let mut tables = Self::default();
        let (mut forms, mut short) = (Vec::new(), Vec::new());
        for value in values {
            if value.chars().count() < SHORTEST_ENCODED {
                short.push(value.as_str());
                continue;
            }
            if value.len() > LONGEST_ENCODED {
                tables.long.push(value.clone());
            }
            let beginning = beginning(value);
            forms.push(Form { text: beginning.to_owned(), is_base64: false });
            forms.extend(encodings(beginning));
        }
        forms.retain(|form| form.text.len() >= SHORTEST_ENCODED);
        forms.sort_unstable();
        forms.dedup_by(|one, other| one.text == other.text);
        tables.short = automaton(short, false);
        tables.encoded = automaton(forms.iter().map(|form| form.text.as_str()).collect(), true)
            .map(|automaton| (automaton, forms.iter().map(|form| form.is_base64).collect()));
        tables
    }

    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if let Some((automaton, kinds)) = &self.encoded {
            for place in automaton.find_overlapping_iter(text) {
                let is_base64 = kinds.get(place.pattern().as_usize()) == Some(&true);
                found.push(if is_base64 { widened(place.range(), text) } else { place.range() });
            }
        }
        if let Some(automaton) = &self.short {
            found.extend(automaton.find_overlapping_iter(text).map(|place| place.range()));
        }
        for value in &self.long {
            found.extend(text.match_indices(value.as_str()).map(|(at, value)| at..at + value.len()));
        }
    }
}

/// As much of a value as is looked for in encoded forms.
fn beginning(value: &str) -> &str {
    let end = (0..=LONGEST_ENCODED.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
    &value[..end.unwrap_or(0)]
}

/// Searches that cannot be built do not happen: patterns are bounded, and their number is.
fn automaton(patterns: Vec<&str>, ignores_case: bool) -> Option<AhoCorasick> {
    if patterns.is_empty() {
        return None;
    }
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(AhoCorasickKind::ContiguousNFA)).match_kind(MatchKind::Standard);
    builder.ascii_case_insensitive(ignores_case).build(patterns).ok()
}

/// A place of base64 with the characters beside it that hold bits of the secret and of what
/// stands beside it.
fn widened(place: Range<usize>, text: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = place.start.checked_sub(1).filter(|at| is_base64(bytes[*at]));
    let after = bytes.get(place.end).filter(|byte| is_base64(**byte));
    before.unwrap_or(place.start)..place.end + usize::from(after.is_some())
}
