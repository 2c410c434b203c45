//! What a call means.

use std::{borrow::Cow, sync::Arc};

use pegboard_core::Tool;
use serde_json::{Map, Value};

use super::Session;
use crate::dialects::MetaTool;

/// What a call of a name means in one session.
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

/// The arguments of the tool that a meta-tool is to call with these.
pub fn wrapped_arguments(arguments: &Value) -> Cow<'_, Value> {
    match arguments.get("arguments") {
        None | Some(Value::Null) => Cow::Owned(Value::Object(Map::new())),
        // Some models write the object as text.
        Some(Value::String(text)) => {
            Cow::Owned(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())))
        }
        Some(value) => Cow::Borrowed(value),
    }
}

impl Session {
    /// What a call of `name` with these arguments means.
    pub fn resolve(&self, name: &str, arguments: &Value) -> Callee {
        let found = |name: &str| self.shown_as(name).or_else(|| self.names.find(name));
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

    /// The meta-tool that answers calls of this name. Where everything is listed, a tool of the
    /// catalog comes first: none has to give its name away for meta-tools that nobody sees.
    pub(super) fn meta_tool(&self, name: &str) -> Option<MetaTool> {
        if self.lists_everything && !self.names.exact(name).is_empty() {
            return None;
        }
        self.with_view(|view| self.dialect().meta_tool(name, view))
    }
}
