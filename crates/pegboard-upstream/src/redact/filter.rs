//! A filter that finds many secrets in a text at once.

use std::{borrow::Cow, fmt, ops::Range, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::encodings::{EncodedForm, encodings, is_base64};

/// Minimum length of a value; shorter ones are words and numbers that occur everywhere.
const MIN_BYTES: usize = 6;

/// Minimum number of characters of a value that is also found in other case and in encoded forms.
const MIN_ENCODED_CHARS: usize = 8;

/// Maximum number of bytes of a value of which all encoded forms are found. A longer one is found
/// as it is written and by its prefix, because the tables for all its forms would be too large.
const MAX_ENCODED_BYTES: usize = 4 << 10;

/// A filter that finds secrets in texts as they are written and, from eight characters, also in
/// other case, as hexadecimal digits, in base64, percent-encoded and JSON-escaped.
#[derive(Default)]
pub struct SecretFilter {
    /// The longest first, because one may be part of another.
    values: Vec<String>,
    /// Created at the first search: most filters are replaced before that.
    tables: OnceLock<SearchTables>,
}

impl fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFilter({} values)", self.values.len())
    }
}

impl SecretFilter {
    /// Creates a filter of those values that are long enough to be hidden.
    pub fn new(mut values: Vec<String>) -> Self {
        values.retain(|value| value.trim().len() >= MIN_BYTES);
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Self { values, tables: OnceLock::new() }
    }

    /// Returns the hidden values.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// Replaces every secret in `text` by `mark`.
    pub fn replace<'a>(&self, text: &'a str, mark: &str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.find(text, &mut found);
        replace_ranges(text, found, mark)
    }

    /// Adds the ranges of all secrets in `text`; some may overlap.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if !self.values.is_empty() && text.len() >= MIN_BYTES {
            self.tables.get_or_init(|| SearchTables::of(&self.values)).find(text, found);
        }
    }
}

/// Replaces every range of `text` by `mark`; adjacent ranges count as one.
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

/// The search tables of a filter.
#[derive(Default)]
struct SearchTables {
    /// Encoded forms, found in any case, with the form of each pattern.
    encoded: Option<(AhoCorasick, Vec<bool>)>,
    /// Short values, found as they are written.
    short: Option<AhoCorasick>,
    /// Values that are too long for a table.
    long: Vec<String>,
}

impl SearchTables {
    fn of(values: &[String]) -> Self {
        let mut tables = Self::default();
        let (mut forms, mut short) = (Vec::new(), Vec::new());
        for value in values {
            if value.chars().count() < MIN_ENCODED_CHARS {
                short.push(value.as_str());
                continue;
            }
            if value.len() > MAX_ENCODED_BYTES {
                tables.long.push(value.clone());
            }
            let prefix = encoded_prefix(value);
            forms.push(EncodedForm { text: prefix.to_owned(), is_base64: false });
            forms.extend(encodings(prefix));
        }
        forms.retain(|form| form.text.len() >= MIN_ENCODED_CHARS);
        forms.sort_unstable();
        forms.dedup_by(|one, other| one.text == other.text);
        tables.short = build_search(short, false);
        tables.encoded = build_search(forms.iter().map(|form| form.text.as_str()).collect(), true)
            .map(|automaton| (automaton, forms.iter().map(|form| form.is_base64).collect()));
        tables
    }

    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if let Some((automaton, kinds)) = &self.encoded {
            for place in automaton.find_overlapping_iter(text) {
                let is_base64 = kinds.get(place.pattern().as_usize()) == Some(&true);
                found.push(if is_base64 { widen_base64_range(place.range(), text) } else { place.range() });
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

/// Returns the prefix of a value that is searched in encoded forms.
fn encoded_prefix(value: &str) -> &str {
    let end = (0..=MAX_ENCODED_BYTES.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
    &value[..end.unwrap_or(0)]
}

/// Builds a search for patterns. That does not fail in practice, because the patterns and their
/// number are bounded.
fn build_search(patterns: Vec<&str>, ignores_case: bool) -> Option<AhoCorasick> {
    if patterns.is_empty() {
        return None;
    }
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(AhoCorasickKind::ContiguousNFA)).match_kind(MatchKind::Standard);
    builder.ascii_case_insensitive(ignores_case).build(patterns).ok()
}

/// Extends the range of a base64 form by the adjacent characters that hold bits of the secret.
fn widen_base64_range(place: Range<usize>, text: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = place.start.checked_sub(1).filter(|at| is_base64(bytes[*at]));
    let after = bytes.get(place.end).filter(|byte| is_base64(**byte));
    before.unwrap_or(place.start)..place.end + usize::from(after.is_some())
}
