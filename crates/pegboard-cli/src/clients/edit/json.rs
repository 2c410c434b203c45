//! Edits of JSON with comments.
//!
//! The syntax tree of `jsonc-parser` says where keys, commas and comments are. Its own `append` and
//! `remove` are not used, because they change more than was asked for: `append` breaks an object in one
//! line into several and drops blank lines, `remove` drops the comments beside a key.

use std::ops::Range;

use jsonc_parser::{
    CollectOptions, ast,
    cst::{CstNewlineKind, CstNode, CstObject, CstObjectProp, CstRootNode},
    errors::{ParseError, ParseErrorKind},
    parse_to_ast,
};
use pegboard_config::document::STRICT;
use serde_json::Value;

use super::EditError;

const MARK: char = '\u{feff}';

/// Returns `text` with `value` under `keys` and `name`. Missing objects on the way are created.
pub(crate) fn set(text: &str, keys: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
    let file = File::parse(text)?;
    let path: Vec<&str> = keys.iter().copied().chain([name]).collect();
    let Some(root) = file.root.value() else {
        // Nothing but comments, if that: the object goes below them.
        let value = nest(&path, value);
        let newline = file.newline();
        let gap = if file.text.is_empty() || file.text.ends_with('\n') { "" } else { newline };
        return Ok(format!("{text}{gap}{}{newline}", render(&value, "", UNIT, newline)));
    };
    let mut object = root.as_object().ok_or_else(|| EditError::NoObject("the file".to_owned()))?;
    for (depth, key) in path.iter().enumerate() {
        let Some(property) = object.get(key) else {
            return Ok(file.insert_key(&object, key, &nest(&path[depth + 1..], value)));
        };
        if depth + 1 == path.len() {
            return file.replace_value(&property, value);
        }
        object = property.object_value().ok_or_else(|| EditError::NoObject(path[..=depth].join(".")))?;
    }
    Err(EditError::NoObject(path.join(".")))
}

/// Returns `text` without the value under `keys` and `name`. Comments around it stay.
pub(crate) fn remove(text: &str, keys: &[&str], name: &str) -> Result<String, EditError> {
    let file = File::parse(text)?;
    let inner = |root: CstObject| keys.iter().try_fold(root, |object, key| object.object_value(key));
    let property = file.root.object_value().and_then(inner).and_then(|object| object.get(name));
    Ok(property.map_or_else(|| text.to_owned(), |property| file.remove_key(&property)))
}

/// Parses a text and drops its comments.
pub(crate) fn to_json(text: &str) -> Result<Value, EditError> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT).map_err(|error| syntax(&error))?;
    Ok(parsed.value.as_ref().map(value_of).unwrap_or_default())
}

/// Returns `value` inside objects with these keys.
pub(crate) fn nest(keys: &[&str], value: &Value) -> Value {
    keys.iter().rev().fold(value.clone(), |inner, key| Value::from_iter([(*key, inner)]))
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

/// One step of indentation if the file has none to copy.
const UNIT: &str = "  ";

/// A text and its syntax tree.
struct File<'a> {
    whole: &'a str,
    /// The text without a byte order mark; all positions count from here.
    text: &'a str,
    root: CstRootNode,
}

impl<'a> File<'a> {
    fn parse(whole: &'a str) -> Result<Self, EditError> {
        let text = whole.strip_prefix(MARK).unwrap_or(whole);
        let root = CstRootNode::parse(text, &STRICT).map_err(|error| syntax(&error))?;
        Ok(Self { whole, text, root })
    }

    fn newline(&self) -> &'static str {
        match self.root.newline_kind() {
            CstNewlineKind::CarriageReturnLineFeed => "\r\n",
            _ => "\n",
        }
    }

    /// Returns one step of indentation: that of the first key on a line of its own.
    fn unit(&self) -> String {
        self.root.single_indent_text().filter(|indent| !indent.is_empty()).unwrap_or_else(|| UNIT.to_owned())
    }

    /// Returns the position of a node in the text.
    fn range(&self, node: &CstNode) -> Range<usize> {
        let before = |node: &CstNode| node.previous_siblings().map(|node| node.to_string().len()).sum::<usize>();
        let start = before(node) + node.ancestors().map(|node| before(&node.into())).sum::<usize>();
        start..start + node.to_string().len()
    }

    /// Returns the white space at the start of the line of a position.
    fn indent_at(&self, position: usize) -> &'a str {
        let line = &self.text[self.line_start(position)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    fn line_start(&self, position: usize) -> usize {
        self.text[..position].rfind(['\n', '\r']).map_or(0, |at| at + 1)
    }

    /// Returns the text with these ranges replaced; the ranges are in order.
    fn splice(&self, changes: &[(Range<usize>, &str)]) -> String {
        let mut text = self.whole[..self.whole.len() - self.text.len()].to_owned();
        let mut from = 0;
        for (range, inserted) in changes {
            text.push_str(&self.text[from..range.start]);
            text.push_str(inserted);
            from = range.end;
        }
        text + &self.text[from..]
    }

    /// Returns the text with another value under a key.
    fn replace_value(&self, property: &CstObjectProp, value: &Value) -> Result<String, EditError> {
        let old = property.value().map(|value| self.range(&value));
        let old = old.ok_or_else(|| EditError::Unsafe("the file".to_owned()))?;
        if to_json(&self.text[old.clone()])? == *value {
            return Ok(self.whole.to_owned());
        }
        let start = self.range(&property.clone().into()).start;
        let rendered = render(value, self.indent_at(start), &self.unit(), self.newline());
        Ok(self.splice(&[(old, &rendered)]))
    }

    /// Returns the text with a new key at the end of `object`.
    fn insert_key(&self, object: &CstObject, key: &str, value: &Value) -> String {
        let Some(last) = object.properties().pop().map(CstNode::from) else {
            return self.insert_first_key(object, key, value);
        };
        let (start, newline) = (self.range(&object.clone().into()).start, self.newline());
        let Range { start: last_start, end } = self.range(&last);
        let comma = last.trailing_comma().map(CstNode::from);
        let trailing = if comma.is_some() { "," } else { "" };
        let missing = if comma.is_some() { "" } else { "," };
        let before = comma.unwrap_or(last);
        if !self.text[start..last_start].contains(['\n', '\r']) {
            let at = self.range(&before).end;
            let pair = format!("{missing} {}: {}{trailing}", quote(key), render_inline(value));
            return self.splice(&[(at..at, &pair)]);
        }
        // A comment behind the last value is about that value.
        let beside = before.next_siblings().take_while(|node| node.is_whitespace() || node.is_comment());
        let at = self.range(&beside.filter(CstNode::is_comment).last().unwrap_or(before)).end;
        let indent = self.indent_at(last_start);
        let rendered = render(value, indent, &self.unit(), newline);
        let line = format!("{newline}{indent}{}: {rendered}{trailing}", quote(key));
        self.splice(&[(end..end, missing), (at..at, &line)])
    }

    fn insert_first_key(&self, object: &CstObject, key: &str, value: &Value) -> String {
        let (newline, unit) = (self.newline(), self.unit());
        let Range { start, end } = self.range(&object.clone().into());
        let outer = self.indent_at(start);
        let indent = format!("{outer}{unit}");
        let rendered = render(value, &indent, &unit, newline);
        let is_on_lines = self.text[start..end].contains(['\n', '\r']);
        let last = if is_on_lines { String::new() } else { format!("{newline}{outer}") };
        self.splice(&[(start + 1..start + 1, &format!("{newline}{indent}{}: {rendered}{last}", quote(key)))])
    }

    /// Returns the text without a key.
    fn remove_key(&self, property: &CstObjectProp) -> String {
        let Range { mut start, mut end } = self.range(&property.clone().into());
        let place = |comma: CstNode| self.range(&comma);
        let comma = property.trailing_comma().map(CstNode::from).map(place);
        // A comment between the value and its comma stays where it is.
        let is_joined = comma.as_ref().is_some_and(|comma| self.text[end..comma.start].trim().is_empty());
        // The last one goes: what was before it needs its comma no more.
        let before = || property.previous_property().and_then(|before| before.trailing_comma()).map(CstNode::from);
        let other_comma = match comma {
            Some(comma) if is_joined => {
                end = comma.end;
                None
            }
            Some(comma) => Some(comma),
            None => before().map(place),
        };
        let line_start = self.line_start(start);
        let line_end = self.text[end..].find(['\n', '\r']).map_or(self.text.len(), |found| end + found);
        let is_alone = self.text[line_start..start].trim().is_empty() && self.text[end..line_end].trim().is_empty();
        if is_alone && line_end < self.text.len() {
            start = line_start;
            end = line_end + if self.text[line_end..].starts_with("\r\n") { 2 } else { 1 };
        } else if is_joined {
            end += self.text[end..].len() - self.text[end..].trim_start_matches(' ').len();
        }
        let mut cuts: Vec<(Range<usize>, &str)> = other_comma.into_iter().map(|comma| (comma, "")).collect();
        cuts.push((start..end, ""));
        cuts.sort_by_key(|(cut, _)| cut.start);
        self.splice(&cuts)
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Renders a value over several lines, as people write configurations: lists of plain values on one
/// line.
pub(crate) fn render(value: &Value, indent: &str, unit: &str, newline: &str) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let inner = format!("{indent}{unit}");
            let line = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", quote(key), render(value, &inner, unit, newline))
            };
            let lines: Vec<String> = map.iter().map(line).collect();
            format!("{{{newline}{}{newline}{indent}}}", lines.join(&format!(",{newline}")))
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let inner = format!("{indent}{unit}");
            let line = |item: &Value| format!("{inner}{}", render(item, &inner, unit, newline));
            let lines: Vec<String> = items.iter().map(line).collect();
            format!("[{newline}{}{newline}{indent}]", lines.join(&format!(",{newline}")))
        }
        value => render_inline(value),
    }
}

fn render_inline(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", quote(key), render_inline(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(render_inline).collect::<Vec<_>>().join(", ")),
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
