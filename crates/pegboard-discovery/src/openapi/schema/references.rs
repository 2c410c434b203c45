//! References within a schema, as references to components.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::openapi::{identifier, path::decoded};

/// Maximum number of components of one schema.
const MAX_COMPONENTS: usize = 200;

/// Maximum length of a chain of references.
const MAX_HOPS: usize = 16;

/// Maximum number of characters of a component's name, before its unique suffix.
const MAX_NAME: usize = 64;

/// The prefix of a reference to a component.
pub(super) const PREFIX: &str = "#/components/schemas/";

pub(super) struct References<'a> {
    root: &'a Value,
    owner: &'a str,
    /// The names of components by where they were in the schema.
    names: HashMap<String, String>,
    pending: VecDeque<(&'a Value, String)>,
    components: &'a mut Map<String, Value>,
}

impl<'a> References<'a> {
    pub(super) fn new(root: &'a Value, owner: &'a str, components: &'a mut Map<String, Value>) -> Self {
        Self { root, owner, names: HashMap::new(), pending: VecDeque::new(), components }
    }

    /// Returns the component for a `$ref`; `None` for one that leads nowhere or out of the
    /// document.
    pub(super) fn component(&mut self, target: &str) -> Option<Value> {
        let (pointer, schema) = self.follow(target)?;
        if !self.names.contains_key(&pointer) {
            if self.names.len() >= MAX_COMPONENTS {
                return None;
            }
            let name = self.name(&pointer);
            // Taken from now on, and in the order of being met.
            self.components.insert(name.clone(), json!({}));
            self.pending.push_back((schema, name.clone()));
            self.names.insert(pointer.clone(), name);
        }
        let name = self.names.get(&pointer)?;
        Some(json!({"$ref": format!("{PREFIX}{name}")}))
    }

    /// Returns the next component to convert, and its name.
    pub(super) fn next(&mut self) -> Option<(&'a Value, String)> {
        self.pending.pop_front()
    }

    pub(super) fn define(&mut self, name: String, schema: Value) {
        self.components.insert(name, schema);
    }

    /// Returns the names of all added components.
    pub(super) fn into_names(self) -> Vec<String> {
        let mut names: Vec<String> = self.names.into_values().collect();
        names.sort_unstable();
        names
    }

    /// Returns the first schema in a chain of references that is not itself a reference.
    fn follow(&self, target: &str) -> Option<(String, &'a Value)> {
        let mut target = target;
        for _ in 0..MAX_HOPS {
            let pointer = decoded(target.strip_prefix('#')?)?;
            let schema = self.root.pointer(&pointer).filter(|schema| schema.is_object() || schema.is_boolean())?;
            match schema.get("$ref").and_then(Value::as_str) {
                Some(next) if schema.as_object().is_some_and(|map| map.len() == 1) => target = next,
                _ => return Some((pointer, schema)),
            }
        }
        None
    }

    fn name(&self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let base = match identifier(last, MAX_NAME) {
            last if last.is_empty() => self.owner.to_owned(),
            last => format!("{}_{last}", self.owner),
        };
        let mut name = base.clone();
        let mut number = 2;
        while self.components.contains_key(&name) {
            name = format!("{base}_{number}");
            number += 1;
        }
        name
    }
}
