//! Resolution of calls.

use std::{borrow::Cow, sync::Arc};

use pegboard_core::Tool;
use serde_json::{Map, Value};

use super::Session;
use crate::{dialects::MetaTool, host::results::READ_RESULT};

/// The meaning of a called name in one session.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A meta-tool that answers by itself.
    Meta(MetaTool),
    /// A tool of the catalog that a meta-tool is to call.
    Wrapped(Arc<Tool>),
    /// A tool of the catalog, by a name of its own.
    Direct(Arc<Tool>),
    /// No tool that may be seen, or several: the name that was looked for.
    Unknown(String),
}

/// The key under which a meta-tool takes the arguments.
const ARGUMENTS: &str = "arguments";

/// Other keys under which models pass the arguments.
const OTHER_NAMES: [&str; 5] = ["args", "parameters", "params", "input", "tool_input"];

/// The key under which a call of a meta-tool has the tool's arguments, as an object or as a text that is
/// JSON. Where there is none, the arguments are all keys for which [`is_beside_name`] is true.
///
/// Some models put them beside the name, or under another key. Calling the tool without them would
/// give a wrong answer that looks right.
pub fn arguments_key(arguments: &Value) -> Option<&str> {
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    if arguments.get(ARGUMENTS).map(unquoted).is_some_and(|value| !is_empty(&value)) {
        return Some(ARGUMENTS);
    }
    let mut others = arguments.as_object()?.iter().filter(|(key, _)| is_beside_name(key));
    match (others.next(), others.next()) {
        (Some((key, value)), None) if OTHER_NAMES.contains(&key.as_str()) && unquoted(value).is_object() => Some(key),
        _ => None,
    }
}

/// Returns whether a key of a call of a meta-tool can be an argument of the tool.
pub fn is_beside_name(key: &str) -> bool {
    key != "name" && key != ARGUMENTS
}

/// Returns the arguments of the tool inside those of a meta-tool.
pub fn wrapped_arguments(arguments: &Value) -> Cow<'_, Value> {
    if let Some(value) = arguments_key(arguments).and_then(|key| arguments.get(key)) {
        return unquoted(value);
    }
    let others = arguments.as_object().into_iter().flatten().filter(|(key, _)| is_beside_name(key));
    Cow::Owned(Value::Object(others.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

/// Returns the value of a text that is JSON, because some models write the object as text.
fn unquoted(value: &Value) -> Cow<'_, Value> {
    let read = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    read.map_or(Cow::Borrowed(value), Cow::Owned)
}

impl Session {
    /// Resolves a call of `name` with these arguments.
    pub fn resolve(&self, name: &str, arguments: &Value) -> Callee {
        let found = |name: &str| self.find_visible(name).or_else(|| self.names.find(name));
        if self.read_result_arguments(name, arguments).is_some() {
            return Callee::Meta(MetaTool::ReadResult);
        }
        match self.meta_tool(name) {
            Some(MetaTool::Call) => match arguments.get("name").and_then(Value::as_str) {
                // The meta-tool itself says what is missing.
                None => Callee::Meta(MetaTool::Call),
                Some(inner) => {
                    self.names.find(inner).map_or_else(|| Callee::Unknown(inner.to_owned()), Callee::Wrapped)
                }
            },
            Some(meta) => Callee::Meta(meta),
            None => found(name).map_or_else(|| Callee::Unknown(name.to_owned()), Callee::Direct),
        }
    }

    /// Returns what the meta-tool `name` is for; `None` if there is no such meta-tool now. Where everything is listed, a
    /// tool of the catalog takes precedence: none has to give up its name for meta-tools that are not listed.
    pub fn meta_tool(&self, name: &str) -> Option<MetaTool> {
        if self.settings.has_read_result && name == READ_RESULT {
            return Some(MetaTool::ReadResult);
        }
        if self.lists_everything && !self.names.exact(name).is_empty() {
            return None;
        }
        self.with_view(|view| self.dialect().meta_tool(name, view))
    }

    /// Returns the arguments of `read_result` if a call means it, by its own name or through a meta-tool that calls tools.
    pub(super) fn read_result_arguments<'a>(&self, name: &str, arguments: &'a Value) -> Option<Cow<'a, Value>> {
        if !self.settings.has_read_result {
            return None;
        }
        let is_named = || arguments.get("name").and_then(Value::as_str) == Some(READ_RESULT);
        match self.meta_tool(name)? {
            MetaTool::ReadResult => Some(Cow::Borrowed(arguments)),
            MetaTool::Call if is_named() => Some(wrapped_arguments(arguments)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_found_where_models_put_them() {
        let check = |given: Value, expected: Value| assert_eq!(*wrapped_arguments(&given), expected, "{given}");
        check(json!({"name": "x", "arguments": {"a": 1}}), json!({"a": 1}));
        check(json!({"name": "x", "arguments": "{\"a\": 1}"}), json!({"a": 1}));
        check(json!({"name": "x", "arguments": "no JSON"}), json!("no JSON"));
        check(json!({"name": "x"}), json!({}));
        check(json!({"name": "x", "arguments": null}), json!({}));
        check(json!({"name": "x", "a": 1, "b": 2}), json!({"a": 1, "b": 2}));
        check(json!({"name": "x", "arguments": {}, "a": 1}), json!({"a": 1}));
        check(json!({"name": "x", "arguments": "{}", "a": 1}), json!({"a": 1}));
        for key in OTHER_NAMES {
            check(json!({"name": "x", key: {"a": 1}}), json!({"a": 1}));
            check(json!({"name": "x", key: "{\"a\": 1}"}), json!({"a": 1}));
        }
        // A tool may have an argument of such a name.
        check(json!({"name": "x", "input": "text"}), json!({"input": "text"}));
        check(json!({"name": "x", "input": {"a": 1}, "b": 2}), json!({"input": {"a": 1}, "b": 2}));
        // What is there counts, whatever else is.
        check(json!({"name": "x", "arguments": {"a": 1}, "why": "because"}), json!({"a": 1}));
    }
}
