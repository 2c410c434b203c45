//! JSON as YAML in block style.
//!
//! Written by hand: only a writer is needed, the usual crate is no longer maintained, and the text
//! must not change with a release of a dependency.

use serde_json::{Map, Number, Value};

/// Maximum length of a key that parsers must accept without an explicit marker.
const MAX_SIMPLE_KEY: usize = 120;

/// Words that parsers of YAML 1.1 or 1.2 do not read as text.
const NO_TEXTS: [&str; 11] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];

/// Returns the document, ending with a line break.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(map, 0, &mut text),
        Value::Array(list) if !list.is_empty() => sequence(list, 0, &mut text),
        _ => {
            scalar(value, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

/// Writes entries, the first at the current position and the others on lines of their own.
fn mapping(map: &Map<String, Value>, indent: usize, text: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            pad(indent, text);
        }
        let start = text.len();
        quoted_or_plain(key, text);
        if text.len() - start > MAX_SIMPLE_KEY {
            text.insert_str(start, "? ");
            text.push('\n');
            pad(indent, text);
        }
        text.push(':');
        behind_key(value, indent, text);
    }
}

fn behind_key(value: &Value, indent: usize, text: &mut String) {
    let inner = indent + 2;
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            pad(inner, text);
            mapping(map, inner, text);
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            pad(inner, text);
            sequence(list, inner, text);
        }
        _ => {
            text.push(' ');
            scalar(value, inner, text);
            text.push('\n');
        }
    }
}

fn sequence(list: &[Value], indent: usize, text: &mut String) {
    let inner = indent + 2;
    for (at, value) in list.iter().enumerate() {
        if at > 0 {
            pad(indent, text);
        }
        text.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => mapping(map, inner, text),
            Value::Array(list) if !list.is_empty() => sequence(list, inner, text),
            _ => {
                scalar(value, inner, text);
                text.push('\n');
            }
        }
    }
}

fn pad(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a text, number, flag or null, or an empty container.
fn scalar(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(value) => text.push_str(&number(value)),
        Value::String(value) if can_be_literal(value) => literal(value, indent, text),
        Value::String(value) => quoted_or_plain(value, text),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

/// Returns a number that parsers of YAML 1.1 accept too: with a sign in the exponent, and a point
/// before it.
fn number(value: &Number) -> String {
    let text = value.to_string();
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return text };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{mantissa}{point}e{sign}{exponent}")
}

/// Returns whether a text of several lines can be written as a literal block.
fn can_be_literal(value: &str) -> bool {
    let is_plain_start = value.starts_with(|c: char| !c.is_whitespace());
    let is_fine = |c: char| c == '\n' || is_printable(c);
    value.contains('\n') && is_plain_start && !value.ends_with('\n') && value.chars().all(is_fine)
}

fn literal(value: &str, indent: usize, text: &mut String) {
    text.push_str("|-");
    for line in value.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            pad(indent, text);
            text.push_str(line);
        }
    }
}

fn quoted_or_plain(value: &str, text: &mut String) {
    if is_plain(value) {
        text.push_str(value);
    } else {
        quoted(value, text);
    }
}

/// Returns whether a text has the same meaning without quotes, for every parser.
fn is_plain(value: &str) -> bool {
    let starts_well = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_fine = |c: char| c.is_alphanumeric() && is_printable(c) || " _-./()+,;%".contains(c);
    is_version(value)
        || starts_well
            && !value.ends_with(' ')
            && value.chars().all(is_fine)
            && !NO_TEXTS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Returns whether a text consists of three numbers with points in between, which no parser reads
/// as a number.
fn is_version(value: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    value.split('.').count() == 3 && value.split('.').all(is_number)
}

fn quoted(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if is_printable(c) => text.push(c),
            c if u32::from(c) <= 0xFFFF => text.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => text.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    text.push('"');
}

/// Returns whether a character may be written unescaped on one line.
fn is_printable(c: char) -> bool {
    let is_break = matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    let is_odd = matches!(c, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}');
    !c.is_control() && !is_break && !is_odd
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents() {
        let check = |value: Value, expected: &str| assert_eq!(write(&value), expected);
        check(json!({}), "{}\n");
        check(json!([]), "[]\n");
        check(json!("x"), "x\n");
        check(
            json!({"a": {"b": [1, {"c": null, "d": [[true], []]}]}}),
            "a:\n  b:\n    - 1\n    - c: null\n      d:\n        - - true\n        - []\n",
        );
        check(
            json!({"v": "3.0.3", "w": "3.0", "200": "1", "on": "No", "k:": "a: b"}),
            "v: 3.0.3\nw: \"3.0\"\n\"200\": \"1\"\n\"on\": \"No\"\n\"k:\": \"a: b\"\n",
        );
        check(
            json!({"a": "two\n\n  lines", "b": "end\n", "c": " \n x"}),
            "a: |-\n  two\n\n    lines\nb: \"end\\n\"\nc: \" \\n x\"\n",
        );
        check(
            json!(["", "-", "~", "#x", "it's", "ünï", "\u{0}\u{85}\u{2028}\u{FEFF}"]),
            "- \"\"\n- \"-\"\n- \"~\"\n- \"#x\"\n- \"it's\"\n- \"ünï\"\n- \"\\u0000\\u0085\\u2028\\uFEFF\"\n",
        );
        check(json!([1e300, -1.5e-9, 0.5, 12]), "- 1.0e+300\n- -1.5e-9\n- 0.5\n- 12\n");
        check(json!(["[{", {"x y": "/a-b.c"}]), "- \"[{\"\n- x y: /a-b.c\n");
    }

    #[test]
    fn a_long_key_is_marked_as_one() {
        let key = "k".repeat(200);
        assert_eq!(write(&json!({"a": {&key: {"b": 1}}})), format!("a:\n  ? {key}\n  :\n    b: 1\n"));
    }
}
