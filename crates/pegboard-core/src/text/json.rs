//! Cleaning of texts inside JSON that passes through.

use std::{borrow::Cow, fmt::Write as _};

use super::{bounded, clean, is_hidden, line, needs_a_look};

/// Fields with texts for readers, anywhere in a definition. All other fields keep their values,
/// such as names and patterns.
const TEXTS: [&str; 3] = ["description", "$comment", "instructions"];

/// Fields with one line of text for readers.
const LINES: [&str; 2] = ["title", "displayName"];

/// Returns the definition of a tool, prompt or resource with its texts [cleaned](clean) and
/// [bounded]; `None` if nothing changes, so that the JSON can be passed on as it came. `name` is
/// the top-level field with the display name. Values that are not text keep their bytes; hidden
/// characters in them are written as escapes.
///
/// `json` must be valid.
pub fn clean_definition(json: &str, name: &str, most: usize) -> Option<String> {
    if !may_need_cleaning(json, most) {
        return None;
    }
    let fit = |depth: usize, key: &str, text: &str| match key {
        key if TEXTS.contains(&key) => Some(bounded(&clean(text), most).into_owned()),
        key if LINES.contains(&key) || depth == 1 && key == name => Some(bounded(&line(text), most).into_owned()),
        _ => None,
    };
    let rewritten = rewrite(json, fit);
    match escape_json(rewritten.as_deref().unwrap_or(json)) {
        Cow::Owned(escaped) => Some(escaped),
        Cow::Borrowed(_) => rewritten,
    }
}

/// Returns whether the JSON may contain such characters, directly or as escapes, or a text that is
/// too long.
fn may_need_cleaning(json: &str, most: usize) -> bool {
    let is_escape = |pair: &[u8]| pair[0] == b'\\' && matches!(pair[1], b'u' | b'b' | b'f' | b'r');
    json.len() > most || json.as_bytes().windows(2).any(is_escape) || json.chars().any(needs_a_look)
}

/// Returns `json` with every text replaced for which `fit` returns another; `None` if there is
/// none. `fit` gets the nesting depth of the text, its key and the text.
fn rewrite(json: &str, fit: impl Fn(usize, &str, &str) -> Option<String>) -> Option<String> {
    let bytes = json.as_bytes();
    let mut rewritten: Option<String> = None;
    let (mut at, mut copied, mut depth) = (0, 0, 0_usize);
    let mut key: Option<Cow<'_, str>> = None;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => (depth, key) = (depth + 1, None),
            b'}' | b']' => (depth, key) = (depth.saturating_sub(1), None),
            b'"' => {
                let end = end_of_string(bytes, at);
                let literal = &json[at..end];
                if bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':') {
                    key = decode(literal);
                } else if let (Some(key), Some(text)) = (key.take(), decode(literal))
                    && let Some(new) = fit(depth, &key, &text).filter(|new| *new != *text)
                {
                    let rewritten = rewritten.get_or_insert_with(String::new);
                    rewritten.push_str(&json[copied..at]);
                    rewritten.push_str(&serde_json::Value::from(new).to_string());
                    copied = end;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    rewritten.map(|text| text + &json[copied..])
}

/// Returns the position behind the quote that ends the string which begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the text of a JSON string.
fn decode(literal: &str) -> Option<Cow<'_, str>> {
    if literal.contains('\\') {
        return serde_json::from_str(literal).ok().map(Cow::Owned);
    }
    literal.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}

/// Returns JSON in which hidden characters are written as escapes: the same values, but nothing
/// that controls a terminal or is invisible.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    // Outside of strings JSON has line breaks and tabs, and no other such character.
    let is_odd = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') || matches!(c, '\u{2028}' | '\u{2029}');
    if !json.contains(is_odd) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_odd(c) {
            let mut units = [0; 2];
            // Writing to a string does not fail.
            c.encode_utf16(&mut units).iter().for_each(|unit| _ = write!(escaped, "\\u{unit:04x}"));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}
