//! Changing one server in a client's file and nothing else.
//!
//! What is written by hand has comments, an order and a layout, and all of that is kept: an edit
//! puts text in or takes text out at one place, and every other byte stays.

pub(crate) mod json;
pub(crate) mod toml;

use serde_json::Value;

use super::Syntax;

/// Why a file cannot be changed. Nothing of its content is told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("line {line}: the file is not {syntax}: {reason}")]
    Syntax { line: usize, syntax: &'static str, reason: String },
    #[error("`{0}` is not an object")]
    NoObject(String),
    #[error("`{0}` is in a form that cannot be edited safely")]
    Unsafe(String),
}

/// `text` with `value` under `keys` and `name`, in place of what is there.
pub(crate) fn set(text: &str, syntax: Syntax, keys: &[&str], name: &str, value: &Value) -> Result<String, EditError> {
    match syntax {
        Syntax::Json => json::set(text, keys, name, value),
        Syntax::Toml => toml::set(text, keys, name, value),
    }
}

/// `text` without what is under `keys` and `name`.
pub(crate) fn remove(text: &str, syntax: Syntax, keys: &[&str], name: &str) -> Result<String, EditError> {
    match syntax {
        Syntax::Json => json::remove(text, keys, name),
        Syntax::Toml => toml::remove(text, keys, name),
    }
}

/// What is under `keys` and `name`; none if that is not there.
pub(crate) fn get(text: &str, syntax: Syntax, keys: &[&str], name: &str) -> Result<Option<Value>, EditError> {
    let root = match syntax {
        Syntax::Json => json::to_json(text)?,
        Syntax::Toml => toml::to_json(text)?,
    };
    Ok(keys.iter().copied().chain([name]).try_fold(&root, |value, key| value.get(key)).cloned())
}
