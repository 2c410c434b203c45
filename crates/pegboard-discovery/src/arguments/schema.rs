//! Parsed schemas.

use std::{collections::HashMap, sync::OnceLock};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Maximum number of bytes of a schema; a larger one allows everything.
const MAX_BYTES: usize = 512 << 10;

/// Maximum number of patterns of a schema; further ones are ignored.
const MAX_PATTERNS: usize = 256;

/// Maximum number of bytes of a pattern. Matching takes at most so many steps for every byte of the
/// text.
const MAX_PATTERN: usize = 1024;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PROGRAM: usize = 64 << 10;

/// The JSON Schema of a tool's arguments.
#[derive(Debug)]
pub struct Schema {
    pub(super) root: Value,
    /// Before 2019-09 the keywords beside a `$ref` are ignored.
    pub(super) is_old: bool,
    /// Whether parts of it have a name of their own, from which their references start.
    has_inner_names: bool,
    patterns: HashMap<String, OnceLock<Option<Regex>>>,
}

impl Schema {
    /// Parses a schema; `None` if it is not a schema, or one that allows everything.
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

    /// Collects the patterns and anchors of a schema and its parts.
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

    /// Returns the pattern, compiled on first use; `None` if it is not supported.
    pub(super) fn pattern(&self, pattern: &str) -> Option<&Regex> {
        let compile = || RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).dfa_size_limit(1 << 20).build().ok();
        self.patterns.get(pattern)?.get_or_init(compile).as_ref()
    }

    /// Returns the target of a reference inside the document.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        let fragment = reference.strip_prefix('#')?;
        if self.has_inner_names {
            return None;
        }
        if fragment.contains('%') {
            return self.root.pointer(&unescape(fragment)?);
        }
        // An anchor is not a pointer; anchors are not resolved.
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
