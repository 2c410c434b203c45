//! Edits of one server in a client's file that keep everything else.
//!
//! Files that people write have comments, an order and a layout. An edit inserts or removes text at
//! one place, and every other byte stays.

pub(crate) mod json;
pub(crate) mod toml;

use serde_json::Value;

use super::Syntax;

/// An error of an edit. It never contains content of the file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("line {line}: the file is not {syntax}: {reason}")]
    Syntax { line: usize, syntax: &'static str, reason: String },
    #[error("`{0}` is not an object")]
    NoObject(String),
    #[error("`{0}` is in a form that cannot be edited safely")]
    Unsafe(String),
}

/// Returns `text` with `value` under `keys` and `name`, in place of an existing value.
pub(crate) fn set(text: &str, syntax: Syntax, keys: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
    match syntax {
        Syntax::Json => json::set(text, keys, name, value),
        Syntax::Toml => toml::set(text, keys, name, value),
    }
}

/// Returns `text` without the value under `keys` and `name`.
pub(crate) fn remove(text: &str, syntax: Syntax, keys: &[&str], name: &str) -> Result<String, EditError> {
    match syntax {
        Syntax::Json => json::remove(text, keys, name),
        Syntax::Toml => toml::remove(text, keys, name),
    }
}

/// Returns the value under `keys` and `name`, if there is one.
pub(crate) fn get(text: &str, syntax: Syntax, keys: &[&str], name: &str) -> Result<Option<Value>, EditError> {
    let root = match syntax {
        Syntax::Json => json::to_json(text)?,
        Syntax::Toml => toml::to_json(text)?,
    };
    Ok(keys.iter().copied().chain([name]).try_fold(&root, |value, key| value.get(key)).cloned())
}
