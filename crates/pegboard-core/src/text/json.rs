//! Cleaning inside JSON that passes through.

use std::{borrow::Cow, fmt::Write as _};

use super::{bounded, clean, is_hidden, line, needs_a_look};

/// Fields whose texts are for reading, wherever they stand in a definition. What else there is
/// counts as it is: a name, a value, a pattern.
const TEXTS: [&str; 3] = ["description", "$comment", "instructions"];

/// Fields that are one line for reading.
const LINES: [&str; 2] = ["title", "displayName"];

/// The definition of a tool, prompt or resource with its texts [cleaned](clean) and
/// [bounded]; `None` where nothing needs it, so that the JSON can go on as it came. `name` is
/// the field at the top that names it for people. What is no text keeps its bytes; hidden
/// characters that are left there are written as escapes.
///
/// `json` must be valid.
pub fn clean_definition(json: &str, name: &str, most: usize) -> Option<String> {
    if !may_need_it(json, most) {
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

/// Whether the JSON could hold such characters, as they are or written as escapes, or a text
/// that is too long.
fn may_need_it(json: &str, most: usize) -> bool {
    let is_escape = |pair: &[u8]| pair[0] == b'\\' && matches!(pair[1], b'u' | b'b' | b'f' | b'r');
    json.len() > most || json.as_bytes().windows(2).any(is_escape) || json.chars().any(needs_a_look)
}

/// `json` with another text in the place of every one for which `fit` has another; `None` if
/// it has none. It is told how many objects and lists the text is in, and under which key.
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

/// Behind the quote that ends the string which begins at `start`.
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

/// The text that a string of JSON stands for.
fn decode(literal: &str) -> Option<Cow<'_, str>> {
    if literal.contains('\\') {
        return serde_json::from_str(literal).ok().map(Cow::Owned);
    }
    literal.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}

/// JSON in which hidden characters are written as escapes: the same values, and nothing that
/// a terminal would obey or a reader would not see.
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
