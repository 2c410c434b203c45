//! Parsed JSON with comments, in which every value knows its position.
//!
//! A [`Document`] is the parsed text; a [`Node`] is a value in it that knows its line and its
//! path. A reader of a node reports to [`Problems`] and continues, so that one run finds all
//! problems of a file. Messages name positions and never values, which may be secrets.

use std::{collections::BTreeMap, ops::Range};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, ObjectPropName},
    common::Ranged,
    errors::{ParseError, ParseErrorKind},
    parse_to_ast,
};
use serde_json::Value;

pub use crate::problems::{Missing, Problem, Problems};

/// Maximum number of bytes of a file, far above that of a file written by hand.
pub const MAX_BYTES: usize = 4 << 20;

/// Number of characters of a key that a path shows.
const SHOWN_KEY: usize = 60;

/// The accepted syntax: JSON with comments and trailing commas. Other extensions of the parser are
/// rejected, because other programs that read the file would reject them.
pub const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A parsed file.
#[derive(Debug)]
pub struct Document<'a> {
    value: ast::Value<'a>,
    lines: LineStarts,
}

impl<'a> Document<'a> {
    /// Parses `text`. After a recoverable syntax error, such as a missing comma, the document is
    /// still returned, so that its other problems are found.
    pub fn parse(text: &'a str, problems: &mut Problems) -> Option<Self> {
        if text.len() > MAX_BYTES {
            let message = format!("is larger than {} MiB", MAX_BYTES >> 20);
            problems.push(problem_at(1, String::new(), message));
            return None;
        }
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parse = |options: &ParseOptions| parse_to_ast(text, &CollectOptions::default(), options);
        let parsed = match parse(&STRICT) {
            Ok(parsed) => parsed,
            Err(first) => {
                problems.push(syntax_problem(&first));
                let second = parse(&ParseOptions::default());
                if let Err(second) = &second
                    && second.range() != first.range()
                {
                    problems.push(syntax_problem(second));
                }
                second.ok()?
            }
        };
        if parsed.value.is_none() {
            problems.push(problem_at(1, String::new(), "is empty").hint("write at least `{}`"));
        }
        Some(Self { value: parsed.value?, lines: LineStarts::new(text) })
    }

    /// Returns the root value.
    pub fn root(&self) -> Node<'_> {
        Node { value: &self.value, lines: &self.lines, key: "", path: String::new() }
    }
}

fn problem_at(line: usize, path: String, message: impl Into<String>) -> Problem {
    Problem { line, path, message: message.into(), hint: None, missing: None, server: None }
}

fn syntax_problem(error: &ParseError) -> Problem {
    let reason = match error.kind() {
        // The parser's own messages quote the text.
        ParseErrorKind::String(_) => "unterminated string or invalid escape".to_owned(),
        kind => {
            let reason = kind.to_string();
            let mut letters = reason.chars();
            letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
        }
    };
    let message = format!("is not valid JSON: {reason}, column {}", error.column_display());
    problem_at(error.line_display(), String::new(), message)
}

/// The offsets of the lines of a text.
#[derive(Debug)]
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends_line = |at: &usize| {
            bytes.get(*at) == Some(&b'\n') || bytes.get(*at) == Some(&b'\r') && bytes.get(at + 1) != Some(&b'\n')
        };
        Self((0..bytes.len()).filter(ends_line).collect())
    }

    /// Returns the line of a byte position, counted from 1.
    fn line(&self, position: usize) -> usize {
        self.0.partition_point(|end| *end < position) + 1
    }
}

/// A value of a document, with its position.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub(crate) value: &'a ast::Value<'a>,
    lines: &'a LineStarts,
    key: &'a str,
    path: String,
}

impl<'a> Node<'a> {
    /// Returns the key of the value; empty for an item of a list.
    pub fn key(&self) -> &'a str {
        self.key
    }

    /// Returns the path of the value, such as `mcpServers.github.args[1]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line of the value, counted from 1.
    pub fn line(&self) -> usize {
        self.lines.line(self.value.start())
    }

    /// Returns the bytes of the value in the text, not counting a byte order mark.
    pub fn range(&self) -> Range<usize> {
        self.value.start()..self.value.end()
    }

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, ast::Value::NullKeyword(_))
    }

    /// Returns whether the value is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.value, ast::Value::Object(_))
    }

    /// Returns whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value, ast::Value::Array(_))
    }

    /// Creates a problem at this position. `message` continues the path: `must be a string`.
    #[must_use]
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        problem_at(self.line(), self.path.clone(), message)
    }

    /// Returns the value of `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        let object = self.value.as_object()?;
        let property = object.properties.iter().find(|property| property.name.as_str() == key)?;
        Some(self.child(property))
    }

    /// Returns the entries of an object in their order, without duplicate keys, which are reported.
    /// A value that is not an object has none.
    pub fn entries(&self, problems: &mut Problems) -> Vec<Node<'a>> {
        let Some(object) = self.value.as_object() else { return Vec::new() };
        let mut first_lines: BTreeMap<&str, usize> = BTreeMap::new();
        let mut entries = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let line = self.lines.line(property.start());
            match first_lines.get(property.name.as_str()) {
                Some(first) => {
                    let message = format!("is a duplicate of the key in line {first}");
                    problems.push(problem_at(line, self.child(property).path, message).hint("keep one of them"));
                }
                None => {
                    first_lines.insert(property.name.as_str(), line);
                    entries.push(self.child(property));
                }
            }
        }
        entries
    }

    /// Returns the items of a list; none if this is not a list.
    pub fn items(&self) -> Vec<Node<'a>> {
        let Some(list) = self.value.as_array() else { return Vec::new() };
        let item = |(at, value)| Node { value, lines: self.lines, key: "", path: format!("{}[{at}]", self.path) };
        list.elements.iter().enumerate().map(item).collect()
    }

    /// Returns all values directly in an object or a list, also those of duplicate keys.
    pub fn children(&self) -> Vec<Node<'a>> {
        match self.value.as_object() {
            Some(object) => object.properties.iter().map(|property| self.child(property)).collect(),
            None => self.items(),
        }
    }

    fn child(&self, property: &'a ast::ObjectProp<'a>) -> Node<'a> {
        let key = match &property.name {
            ObjectPropName::String(name) => name.value.as_ref(),
            ObjectPropName::Word(name) => name.value,
        };
        Node { value: &property.value, lines: self.lines, key, path: append_key(&self.path, key) }
    }

    /// Returns the value without its position.
    pub fn to_json(&self) -> Value {
        to_json(self.value)
    }
}

/// Appends `key` to `path`: as `.key`, or as `["a key"]` where that is ambiguous.
fn append_key(path: &str, key: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-$/".contains(c);
    if key.chars().all(is_plain) && !key.is_empty() && key.len() <= SHOWN_KEY {
        let dot = if path.is_empty() { "" } else { "." };
        return format!("{path}{dot}{key}");
    }
    // Control characters must not reach a terminal, and a message must stay short.
    let shown: String = key.chars().take(SHOWN_KEY).flat_map(char::escape_debug).collect();
    let more = if key.chars().nth(SHOWN_KEY).is_some() { "…" } else { "" };
    format!("{path}[\"{shown}{more}\"]")
}

fn to_json(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        ast::Value::NumberLit(number) => number_to_json(number.value),
        ast::Value::BooleanLit(flag) => Value::Bool(flag.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => list.elements.iter().map(to_json).collect(),
        ast::Value::Object(object) => object
            .properties
            .iter()
            .map(|property| (property.name.as_str().to_owned(), to_json(&property.value)))
            .collect(),
    }
}

/// Parses a number; `3.0` becomes `3`, because both are accepted as a whole number.
fn number_to_json(digits: &str) -> Value {
    let value: Value = serde_json::from_str(digits).unwrap_or_default();
    let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() < 9e15;
    match value.as_f64().filter(is_whole) {
        Some(number) if value.is_f64() => Value::from(number as i64),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the problems of parsing `text`.
    fn check(text: &str, expected: &[&str]) {
        let mut problems = Problems::new();
        if let Some(document) = Document::parse(text, &mut problems) {
            document.root().as_object(&mut problems);
        }
        assert_eq!(problems.lines(), expected, "{text}");
    }

    #[test]
    fn comments_trailing_commas_and_byte_order_marks_are_fine() {
        check("\u{feff}{/* a */ \"b\": [1,], // c\n}", &[]);
    }

    #[test]
    fn slips_do_not_hide_what_follows() {
        check(
            "{\"a\": 1\n \"a\": 2,\n 'b': 3}",
            &[
                "line 1: the file is not valid JSON: expected comma, column 8",
                "line 2: `a` is a duplicate of the key in line 1 (keep one of them)",
            ],
        );
        check(
            "{\"a\": 1\n \"b\": 2,\n",
            &[
                "line 1: the file is not valid JSON: expected comma, column 8",
                "line 1: the file is not valid JSON: unterminated object, column 1",
            ],
        );
    }

    #[test]
    fn what_is_no_document() {
        check("", &["line 1: the file is empty (write at least `{}`)"]);
        check("\n[]", &["line 2: the file must be an object"]);
        check(
            "{\"a\": \"sk-secret\\q\"}",
            &["line 1: the file is not valid JSON: unterminated string or invalid escape, column 17"],
        );
        let deep = "[".repeat(100_000);
        check(&deep, &["line 1: the file is not valid JSON: maximum nesting depth exceeded, column 513"]);
        let mut problems = Problems::new();
        assert!(Document::parse(&" ".repeat(MAX_BYTES + 1), &mut problems).is_none());
        assert_eq!(problems.lines(), ["line 1: the file is larger than 4 MiB"]);
    }

    #[test]
    fn paths_can_be_read() {
        let text = "{\r\n\"a\": {\r\"b.c\": [0, {\"\\u001b[31m\": 1}]}}";
        let mut problems = Problems::new();
        let document = Document::parse(text, &mut problems).expect("a document");
        let list = document.root().get("a").and_then(|a| a.get("b.c")).expect("a list");
        assert_eq!((list.path(), list.line(), list.key()), (r#"a["b.c"]"#, 3, "b.c"));
        let item = list.items().pop().expect("an item");
        let odd = item.entries(&mut problems).pop().expect("an entry");
        assert_eq!(odd.path(), r#"a["b.c"][1]["\u{1b}[31m"]"#);
        assert!(append_key("", &"x".repeat(1000)).len() < 80);
    }

    #[test]
    fn values_keep_their_json() {
        let text = r#"{"b": [1, 3.0, -2.5, 1e99, true, null, "😀"], "a": {}}"#;
        let document = Document::parse(text, &mut Problems::new()).expect("a document");
        assert_eq!(document.root().to_json().to_string(), r#"{"b":[1,3,-2.5,1e+99,true,null,"😀"],"a":{}}"#);
    }

    proptest! {
        #[test]
        fn any_text_is_a_document_or_a_problem(text in "(?s).{0,80}") {
            let mut problems = Problems::new();
            let document = Document::parse(&text, &mut problems);
            prop_assert!(document.is_some() || !problems.is_empty());
        }

        #[test]
        fn any_json_like_text_is_a_document_or_a_problem(
            text in r#"([\[\]{}:,'"\\/*\r\n+.é😀-]|"[a-z\\u0-9é]{0,5}"|\\u[dD][89c-f][0-9]{2}|[0-9xeE.]{1,3}|true|null|NaN|-?Infinity|//|/\*|\*/){0,30}"#
        ) {
            let mut problems = Problems::new();
            let document = Document::parse(&text, &mut problems);
            prop_assert!(document.is_some() || !problems.is_empty());
            if let Some(document) = document {
                document.root().to_json();
            }
        }

        #[test]
        fn whatever_json_there_is_comes_back(value in json()) {
            let text = serde_json::to_string_pretty(&value).expect("JSON");
            let mut problems = Problems::new();
            let document = Document::parse(&text, &mut problems).expect("a document");
            prop_assert!(problems.is_empty());
            prop_assert_eq!(document.root().to_json(), value);
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }
}
