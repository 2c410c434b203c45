//! Components that would be defined by themselves.
//!
//! A list whose items are lists is fine; a schema that refers directly to itself is meaningless,
//! and parsers follow it until they crash.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::references::PREFIX;

/// Cuts the references by which one of `names` leads back to itself without an object or an array
/// in between; they then allow anything.
pub(super) fn cut(names: &[String], components: &mut Map<String, Value>) {
    let targets = |name: &str| {
        let mut found = Vec::new();
        if let Some(schema) = components.get(name) {
            in_place(schema, &mut |target| found.push(target.to_owned()));
        }
        found
    };
    let edges: HashMap<&str, Vec<String>> = names.iter().map(|name| (name.as_str(), targets(name))).collect();
    for (name, target) in backward(names, &edges) {
        if let Some(schema) = components.get_mut(&name) {
            remove(schema, &target);
        }
    }
}

/// Returns the edges that close a cycle in a walk in order. Not recursive, because chains are long.
fn backward(names: &[String], edges: &HashMap<&str, Vec<String>>) -> Vec<(String, String)> {
    let mut backward = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            continue;
        }
        let mut way: Vec<(&str, std::slice::Iter<'_, String>)> = vec![(name, edges_of(name, edges))];
        while let Some((at, rest)) = way.last_mut() {
            let Some(target) = rest.next() else {
                way.pop();
                continue;
            };
            let at = *at;
            if way.iter().any(|(passed, _)| *passed == target) {
                backward.push((at.to_owned(), target.clone()));
            } else if seen.insert(target) {
                way.push((target, edges_of(target, edges)));
            }
        }
    }
    backward
}

fn edges_of<'a>(name: &str, edges: &'a HashMap<&str, Vec<String>>) -> std::slice::Iter<'a, String> {
    edges.get(name).map(|targets| targets.iter()).unwrap_or_default()
}

/// Calls `found` with the components that a schema consists of, not those that it contains.
fn in_place(schema: &Value, found: &mut dyn FnMut(&str)) {
    if let Some(target) = target_of(schema) {
        found(target);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let parts = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        parts.for_each(|part| in_place(part, found));
    }
    if let Some(not) = schema.get("not") {
        in_place(not, found);
    }
}

fn remove(schema: &mut Value, target: &str) {
    if target_of(schema) == Some(target) {
        *schema = json!({});
        return;
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let parts = schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        parts.for_each(|part| remove(part, target));
    }
    if let Some(not) = schema.get_mut("not") {
        remove(not, target);
    }
}

fn target_of(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)?.strip_prefix(PREFIX)
}
