//! Reading JSON objects key by key, so that a misspelt key is an error and not ignored.

use serde_json::{Map, Value};

use super::{Read, ScriptError};

/// A value and where in the script it stands.
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

/// An object whose keys are taken out one after the other.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(at: At<'a>) -> Read<Fields<'a>> {
        let Some(map) = at.value.as_object() else { return Err(error(at.path, "is no object")) };
        Ok(Fields { map, path: at.path, known: Vec::new() })
    }

    pub(super) fn read<T>(&mut self, key: &'static str, read: impl FnOnce(At<'a>) -> Read<T>) -> Read<Option<T>> {
        self.known.push(key);
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        read(At { value, path: self.place(key) }).map(Some)
    }

    pub(super) fn required<T>(&mut self, key: &'static str, read: impl FnOnce(At<'a>) -> Read<T>) -> Read<T> {
        self.read(key, read)?.ok_or_else(|| error(self.place(key), "is missing"))
    }

    /// Returns what was made of the object if nothing of it is left.
    pub(super) fn done<T>(self, made: T) -> Read<T> {
        match self.map.keys().find(|key| !self.known.contains(&key.as_str())) {
            Some(key) => Err(error(self.place(key), "is no key that is known here")),
            None => Ok(made),
        }
    }

    fn place(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }
}

pub(super) fn error(at: String, problem: impl Into<String>) -> ScriptError {
    ScriptError { at, problem: problem.into() }
}

pub(super) fn text(at: At) -> Read<String> {
    at.value.as_str().map(String::from).ok_or_else(|| error(at.path, "is no string"))
}

pub(super) fn boolean(at: At) -> Read<bool> {
    at.value.as_bool().ok_or_else(|| error(at.path, "is neither true nor false"))
}

pub(super) fn count(at: At) -> Read<usize> {
    let number = at.value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| error(at.path, "is no count"))
}

pub(super) fn list<'a, T>(at: At<'a>, read: impl Fn(At<'a>) -> Read<T>) -> Read<Vec<T>> {
    let Some(values) = at.value.as_array() else { return Err(error(at.path, "is no list")) };
    let item = |(index, value)| read(At { value, path: format!("{}[{index}]", at.path) });
    values.iter().enumerate().map(item).collect()
}

/// One of a fixed set of words.
pub(super) fn word_of<T: Copy>(at: At, words: &[(T, &str)]) -> Read<T> {
    if let Some((meaning, _)) = words.iter().find(|(_, word)| at.value == word) {
        return Ok(*meaning);
    }
    let words: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
    Err(error(at.path, format!("is none of the words for it: {}", words.join(", "))))
}
