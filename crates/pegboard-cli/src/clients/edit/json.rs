//! Changes in JSON with comments.

use std::ops::Range;

use jsonc_parser::{
    CollectOptions, ast,
    common::Ranged,
    errors::{ParseError, ParseErrorKind},
    parse_to_ast,
};
use pegboard_config::document::STRICT;
use serde_json::Value;

use super::EditError;

const MARK: char = '\u{feff}';

/// `text` with `value` under `keys` and `name`. Objects on the way are made where they lack.
pub(crate) fn set(text: &str, keys: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
    let file = File::parse(text)?;
    let path: Vec<&str> = keys.iter().copied().chain([name]).collect();
    let Some(root) = &file.root else {
        // Nothing but comments, if that: the object goes below them.
        let value = nested(&path, value);
        let newline = file.newline();
        let gap = if file.text.is_empty() || file.text.ends_with('\n') { "" } else { newline };
        return Ok(format!("{text}{gap}{}{newline}", rendered(&value, "", UNIT, newline)));
    };
    let mut object = root.as_object().ok_or_else(|| EditError::NoObject("the file".to_owned()))?;
    for (depth, key) in path.iter().enumerate() {
        let Some(property) = property(object, key) else {
            return Ok(file.inserted(object, key, &nested(&path[depth + 1..], value)));
        };
        if depth + 1 == path.len() {
            return Ok(file.replaced(property, value));
        }
        object = property.value.as_object().ok_or_else(|| EditError::NoObject(path[..=depth].join(".")))?;
    }
    Err(EditError::NoObject(path.join(".")))
}

/// `text` without what is under `keys` and `name`. Comments around it stay.
pub(crate) fn remove(text: &str, keys: &[&str], name: &str) -> Result<String, EditError> {
    let file = File::parse(text)?;
    let Some(mut object) = file.root.as_ref().and_then(ast::Value::as_object) else { return Ok(text.to_owned()) };
    for key in keys {
        match property(object, key).and_then(|property| property.value.as_object()) {
            Some(inner) => object = inner,
            None => return Ok(text.to_owned()),
        }
    }
    let Some(at) = object.properties.iter().position(|property| property.name.as_str() == name) else {
        return Ok(text.to_owned());
    };
    Ok(file.without(object, at))
}

/// The value of a text, comments left out.
pub(crate) fn to_json(text: &str) -> Result<Value, EditError> {
    let file = File::parse(text)?;
    Ok(file.root.as_ref().map(value_of).unwrap_or_default())
}

/// `value` inside objects with these keys.
pub(crate) fn nested(keys: &[&str], value: &Value) -> Value {
    keys.iter().rev().fold(value.clone(), |inner, key| Value::from_iter([(*key, inner)]))
}

fn property<'a, 'b>(object: &'b ast::Object<'a>, key: &str) -> Option<&'b ast::ObjectProp<'a>> {
    object.properties.iter().find(|property| property.name.as_str() == key)
}

fn value_of(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::StringLit(text) => Value::from(text.value.as_ref()),
        ast::Value::NumberLit(number) => serde_json::from_str(number.value).unwrap_or_default(),
        ast::Value::BooleanLit(flag) => Value::from(flag.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => list.elements.iter().map(value_of).collect(),
        ast::Value::Object(object) => {
            let mut map = serde_json::Map::new();
            for property in &object.properties {
                // The first of two keys counts, since that is the one that is found and changed.
                map.entry(property.name.as_str()).or_insert_with(|| value_of(&property.value));
            }
            map.into()
        }
    }
}

/// What one step of indentation is when the file does not tell.
const UNIT: &str = "  ";

/// A text and what it says.
struct File<'a> {
    whole: &'a str,
    /// Without a byte order mark; all positions count from here.
    text: &'a str,
    root: Option<ast::Value<'a>>,
}

impl<'a> File<'a> {
    fn parse(whole: &'a str) -> Result<Self, EditError> {
        let text = whole.strip_prefix(MARK).unwrap_or(whole);
        let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT).map_err(|error| syntax(&error))?;
        Ok(Self { whole, text, root: parsed.value })
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// The white space at the start of the line of a position.
    fn indent_at(&self, position: usize) -> &'a str {
        let line = &self.text[self.line_start(position)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    fn line_start(&self, position: usize) -> usize {
        self.text[..position].rfind(['\n', '\r']).map_or(0, |at| at + 1)
    }

    /// One step of indentation: that of the first key that has a line of its own.
    fn unit(&self) -> String {
        let object = self.root.as_ref().and_then(ast::Value::as_object);
        let first = object.and_then(|object| object.properties.first());
        let indent = first.map(|first| self.indent_at(first.start())).filter(|indent| !indent.is_empty());
        indent.unwrap_or(UNIT).to_owned()
    }

    /// The file with `inserted` in place of a range.
    fn spliced(&self, range: Range<usize>, inserted: &str) -> String {
        let mark = &self.whole[..self.whole.len() - self.text.len()];
        format!("{mark}{}{inserted}{}", &self.text[..range.start], &self.text[range.end..])
    }

    /// The file with another value under a key.
    fn replaced(&self, property: &ast::ObjectProp<'_>, value: &Value) -> String {
        if value_of(&property.value) == *value {
            return self.whole.to_owned();
        }
        let rendered = rendered(value, self.indent_at(property.start()), &self.unit(), self.newline());
        self.spliced(property.value.start()..property.value.end(), &rendered)
    }

    /// The file with a new key at the end of `object`.
    fn inserted(&self, object: &ast::Object<'_>, key: &str, value: &Value) -> String {
        let newline = self.newline();
        let Some(last) = object.properties.last() else { return self.inserted_first(object, key, value) };
        let is_on_lines = self.text[object.start()..last.start()].contains(['\n', '\r']);
        let end = last.end();
        let comma = self.comma_after(end, object.end());
        let after_comma = comma.map_or(end, |at| at + 1);
        if !is_on_lines {
            let gap = if comma.is_some() { " " } else { ", " };
            let trailing = if comma.is_some() { "," } else { "" };
            let text = format!("{gap}{}: {}{trailing}", quoted(key), one_line(value));
            return self.spliced(after_comma..after_comma, &text);
        }
        let indent = self.indent_at(last.start()).to_owned();
        let rendered = rendered(value, &indent, &self.unit(), newline);
        let trailing = if comma.is_some() { "," } else { "" };
        let line = format!("{newline}{indent}{}: {rendered}{trailing}", quoted(key));
        // A comment behind the last value is about that value.
        let line_end = self.rest_of_line(after_comma, object.end() - 1);
        let (front, back) = self.text[..line_end].split_at(end);
        let mark = &self.whole[..self.whole.len() - self.text.len()];
        let missing = if comma.is_some() { "" } else { "," };
        format!("{mark}{front}{missing}{back}{line}{}", &self.text[line_end..])
    }

    fn inserted_first(&self, object: &ast::Object<'_>, key: &str, value: &Value) -> String {
        let newline = self.newline();
        let outer = self.indent_at(object.start()).to_owned();
        let unit = self.unit();
        let indent = format!("{outer}{unit}");
        let rendered = rendered(value, &indent, &unit, newline);
        let inner = &self.text[object.start() + 1..object.end() - 1];
        let end = if inner.contains(['\n', '\r']) { String::new() } else { format!("{newline}{outer}") };
        let at = object.start() + 1;
        self.spliced(at..at, &format!("{newline}{indent}{}: {rendered}{end}", quoted(key)))
    }

    /// The file without one key of `object`.
    fn without(&self, object: &ast::Object<'_>, at: usize) -> String {
        let property = &object.properties[at];
        let (mut start, mut end) = (property.start(), property.end());
        let comma = self.comma_after(end, object.end());
        // A comment between the value and its comma stays where it is.
        let is_joined = comma.is_some_and(|comma| self.text[end..comma].trim().is_empty());
        let mut cuts = Vec::new();
        match comma {
            Some(comma) if is_joined => end = comma + 1,
            Some(comma) => cuts.push(comma..comma + 1),
            // The last one goes: what was before it needs its comma no more.
            None => {
                let before = at.checked_sub(1).and_then(|before| object.properties.get(before));
                let comma = before.and_then(|before| self.comma_after(before.end(), start));
                cuts.extend(comma.map(|comma| comma..comma + 1));
            }
        }
        let line_start = self.line_start(start);
        let line_end = self.text[end..].find(['\n', '\r']).map_or(self.text.len(), |found| end + found);
        let is_alone = self.text[line_start..start].trim().is_empty() && self.text[end..line_end].trim().is_empty();
        if is_alone && line_end < self.text.len() && line_start > object.start() {
            start = line_start;
            end = line_end + if self.text[line_end..].starts_with("\r\n") { 2 } else { 1 };
        } else if is_joined {
            end += self.text[end..].len() - self.text[end..].trim_start_matches(' ').len();
        }
        cuts.push(start..end);
        cuts.sort_by_key(|cut| cut.start);
        let mut text = self.whole[..self.whole.len() - self.text.len()].to_owned();
        let mut from = 0;
        for cut in cuts {
            text.push_str(&self.text[from..cut.start]);
            from = cut.end;
        }
        text.push_str(&self.text[from..]);
        text
    }

    /// The comma behind a value, if one comes before `end`; comments in between are passed over.
    fn comma_after(&self, position: usize, end: usize) -> Option<usize> {
        let mut at = position;
        while at < end {
            let rest = &self.text[at..end];
            match rest.as_bytes().first()? {
                b',' => return Some(at),
                b'/' => at += comment_length(rest),
                byte if byte.is_ascii_whitespace() => at += 1,
                _ => return None,
            }
        }
        None
    }

    /// Where the comments end that stand behind a position in its line.
    fn rest_of_line(&self, position: usize, end: usize) -> usize {
        let (mut at, mut last) = (position, position);
        while at < end {
            let rest = &self.text[at..end];
            match rest.as_bytes().first() {
                Some(b'/') => {
                    at += comment_length(rest);
                    last = at;
                    if rest.starts_with("//") {
                        break;
                    }
                }
                Some(b' ' | b'\t') => at += 1,
                _ => break,
            }
        }
        last
    }
}

/// The length of the comment that `text` begins with, without the end of its line.
fn comment_length(text: &str) -> usize {
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |end| end + 2);
    }
    text.find(['\n', '\r']).unwrap_or(text.len()).max(1)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value over several lines, as people write configurations: lists of plain values in one.
pub(crate) fn rendered(value: &Value, indent: &str, unit: &str, newline: &str) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let inner = format!("{indent}{unit}");
            let line = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", quoted(key), rendered(value, &inner, unit, newline))
            };
            let lines: Vec<String> = map.iter().map(line).collect();
            format!("{{{newline}{}{newline}{indent}}}", lines.join(&format!(",{newline}")))
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let inner = format!("{indent}{unit}");
            let line = |item: &Value| format!("{inner}{}", rendered(item, &inner, unit, newline));
            let lines: Vec<String> = items.iter().map(line).collect();
            format!("[{newline}{}{newline}{indent}]", lines.join(&format!(",{newline}")))
        }
        value => one_line(value),
    }
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", quoted(key), one_line(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}

fn syntax(error: &ParseError) -> EditError {
    let reason = match error.kind() {
        // The parser's own words would quote the text.
        ParseErrorKind::String(_) => "unterminated string or invalid escape".to_owned(),
        kind => kind.to_string().to_lowercase(),
    };
    EditError::Syntax { line: error.line_display(), syntax: "valid JSON", reason }
}

#[cfg(test)]
mod tests;
