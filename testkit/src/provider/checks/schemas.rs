//! Schemas that the model has not asked for yet.

use std::{collections::BTreeSet, str};

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::script::Forbidden;

/// Under these keys definitions hold their schemas, on whatever wire.
const SCHEMAS: [&str; 5] =
    ["input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema"];

pub(super) fn check(checker: &mut Checker, turn: usize) {
    let all = &checker.script.forbidden_schemas;
    let early: Vec<&Forbidden> = all.iter().filter(|forbidden| turn < forbidden.before_turn).collect();
    if early.is_empty() {
        return;
    }
    let mut shown = BTreeSet::new();
    collect(checker.ask.body, &mut shown);
    let raw = str::from_utf8(&checker.ask.request.body).unwrap_or_default();
    for Forbidden { tool, before_turn, text } in early {
        if shown.contains(tool) || text.as_ref().is_some_and(|text| raw.contains(text)) {
            let message = format!("the schema of '{tool}' is in the request of turn {turn}, before turn {before_turn}");
            checker.fail(Check::ForbiddenSchema, message);
        }
    }
}

/// The names of the tools that `value` defines, however deep, also as JSON in a string.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if SCHEMAS.iter().any(|key| map.get(*key).is_some_and(Value::is_object)) {
                names.extend(map.get("name").and_then(Value::as_str).map(String::from));
            }
            map.values().for_each(|inner| collect(inner, names));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, names)),
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            let inner = serde_json::from_str::<Value>(text);
            inner.iter().for_each(|inner| collect(inner, names));
        }
        _ => {}
    }
}
