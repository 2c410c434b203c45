//! Validation of the arguments of a call against the schema of its tool, before the call is made.
//!
//! A server that gets invalid arguments answers with an error of its framework. A model corrects
//! its call sooner when it reads which argument is wrong, and sees the schema again.
//!
//! Schemas come from servers, and nobody has looked at them. So a schema is not compiled into
//! something that runs until it is done, as the usual crate does: it is followed with a budget
//! of steps, and where the budget, a reference or a pattern is beyond us the answer is
//! [`Maybe`](Verdict::Maybe). Only a definite no refuses a call.

mod cache;
mod compare;
mod explain;
mod kinds;
mod rejection;
mod schema;
#[cfg(test)]
mod tests;
mod verdict;

use std::{collections::BTreeMap, sync::Arc};

use pegboard_core::Tool;
use serde_json::Value;

use self::cache::Schemas;
pub use self::{explain::Mistake, schema::Schema, verdict::Verdict};

/// Which calls are checked before they are made.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// Whether arguments are checked; `None` leaves it to the dialect.
    pub is_on: Option<bool>,
    /// Servers for whose tools something else holds.
    pub servers: BTreeMap<String, bool>,
    /// Shared by everybody who was given these settings.
    schemas: Arc<Schemas>,
}

impl PartialEq for Validation {
    /// Compares the settings, not the cached schemas.
    fn eq(&self, other: &Self) -> bool {
        self.is_on == other.is_on && self.servers == other.servers
    }
}

impl Validation {
    /// All calls are checked, whatever the dialect.
    pub fn on() -> Self {
        Self { is_on: Some(true), ..Self::default() }
    }

    /// Whether calls of this tool are checked.
    fn applies_to(&self, tool: &Tool, is_usual: bool) -> bool {
        let own = tool.server_name().and_then(|server| self.servers.get(server)).copied();
        own.or(self.is_on).unwrap_or(is_usual)
    }

    /// What a model is told of a call that does not fit its tool, if it does not. `is_usual`
    /// says whether the dialect checks by itself, `call` how the tool is called.
    pub(crate) fn reject(
        &self,
        tool: &Arc<Tool>,
        arguments: &Value,
        is_usual: bool,
        call: &CalledAs<'_>,
    ) -> Option<String> {
        let applies = self.applies_to(tool, is_usual);
        // A dialect that takes arguments from whatever a model wrote passes on objects only.
        if !arguments.is_object() && (applies || is_usual) {
            let schema = self.schemas.of(tool);
            return Some(rejection::write_rejection(schema.as_deref(), arguments, &[Mistake::not_an_object()], call));
        }
        let schema = if applies { self.schemas.of(tool)? } else { return None };
        let mistakes = schema.mistakes(arguments);
        (!mistakes.is_empty()).then(|| rejection::write_rejection(Some(&schema), arguments, &mistakes, call))
    }
}

/// How a tool was called, for an example of a better call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CalledAs<'a> {
    /// The name that it has here.
    pub(crate) name: &'a str,
    /// Whether a meta-tool was called with that name and the arguments.
    pub(crate) is_wrapped: bool,
}
