//! A schema as it is followed.

use std::{collections::HashMap, sync::OnceLock};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Bytes of a schema; a larger one forbids nothing.
const MAX_BYTES: usize = 512 << 10;

/// Patterns of a schema; more are not looked at.
const MAX_PATTERNS: usize = 256;

/// Bytes of a pattern, and of what it is compiled into. Matching takes at most so many steps for
/// every byte of the text.
const MAX_PATTERN: usize = 1024;
const MAX_PROGRAM: usize = 64 << 10;

/// The JSON Schema of a tool's arguments.
#[derive(Debug)]
pub struct Schema {
    pub(super) root: Value,
    /// Before 2019-09 whatever stands beside a `$ref` means nothing.
    pub(super) is_old: bool,
    /// Whether parts of it have a name of their own, from which their references start.
    has_inner_names: bool,
    patterns: HashMap<String, OnceLock<Option<Regex>>>,
}

impl Schema {
    /// Reads a schema; `None` when it is none, or one that forbids nothing for all we know.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        // Deep nesting is refused here.
        let root: Value = serde_json::from_str(text).ok()?;
        let object = root.as_object().filter(|object| !object.is_empty())?;
        let draft = object.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let is_old = ["draft-07", "draft-06", "draft-04", "draft-03"].iter().any(|old| draft.contains(old));
        let mut schema = Self { is_old, has_inner_names: false, patterns: HashMap::new(), root: Value::Null };
        object.values().for_each(|value| schema.gather(value));
        schema.gather_patterns(&root);
        schema.root = root;
        Some(schema)
    }

    /// Collects the patterns of what lies below, and notes names.
    fn gather(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                self.has_inner_names |= ["$id", "id"].iter().any(|key| object.get(*key).is_some_and(Value::is_string));
                self.gather_patterns(value);
                object.values().for_each(|value| self.gather(value));
            }
            Value::Array(list) => list.iter().for_each(|value| self.gather(value)),
            _ => {}
        }
    }

    fn gather_patterns(&mut self, value: &Value) {
        let one = value.get("pattern").and_then(Value::as_str);
        let many = value.get("patternProperties").and_then(Value::as_object);
        for pattern in one.into_iter().chain(many.into_iter().flat_map(|many| many.keys().map(String::as_str))) {
            if self.patterns.len() < MAX_PATTERNS && pattern.len() <= MAX_PATTERN {
                self.patterns.entry(pattern.to_owned()).or_default();
            }
        }
    }

    /// The pattern, compiled the first time; `None` when it is beyond us.
    pub(super) fn pattern(&self, pattern: &str) -> Option<&Regex> {
        let compile = || RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).dfa_size_limit(1 << 20).build().ok();
        self.patterns.get(pattern)?.get_or_init(compile).as_ref()
    }

    /// What a reference leads to, inside the document.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        let fragment = reference.strip_prefix('#')?;
        if self.has_inner_names {
            return None;
        }
        if fragment.contains('%') {
            return self.root.pointer(&unescape(fragment)?);
        }
        // An anchor is no pointer; it is not looked for.
        self.root.pointer(fragment)
    }
}

/// `%24defs` as `$defs`.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(others.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &others[2..];
    }
    String::from_utf8(bytes).ok()
}
