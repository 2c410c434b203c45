//! `call_tool`: calls a tool that a search has found, in lists that never change.

use std::sync::Arc;

use pegboard_core::Tool;
use serde_json::{Value, json};

use super::DialectView;
use crate::{
    names::SEARCH_FIRST,
    outcome::{Effect, Outcome, ToolDefinition},
    session::wrapped_arguments,
};

/// The description for models.
pub(super) const DESCRIPTION: &str = "Call a found tool by its name.";

/// The name of the tool.
pub(super) const CALL: &str = "call_tool";

/// Returns the definition of a tool that calls others, under this name.
pub(super) fn definition(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name"]
        }),
    }
}

/// Calls the tool that the argument `name` names. `search` is the tool that finds names; `check`
/// may reject the tool.
pub(super) fn call(
    arguments: &Value,
    search: &str,
    view: &DialectView<'_>,
    check: impl FnOnce(&Arc<Tool>) -> Option<Outcome>,
) -> Outcome {
    let Some(name) = arguments.get("name").and_then(Value::as_str) else {
        return Outcome::error(format!("`name` is required: the name of a tool that {search} returned"));
    };
    let Some(tool) = view.names.find(name) else {
        return Outcome::error(view.names.unknown(name, SEARCH_FIRST));
    };
    if let Some(refused) = check(&tool) {
        return refused;
    }
    let arguments = wrapped_arguments(arguments).into_owned();
    Outcome::text("").with_effect(Effect::Invoke { tool, arguments })
}
