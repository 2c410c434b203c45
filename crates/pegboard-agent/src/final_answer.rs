//! The tool that receives the structured answer of an agent.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::custom::{CustomTool, ToolDef, ToolError, ToolMeta, ToolOutput};

/// The name of the tool that receives the answer of an agent built with
/// [`AgentBuilder::output`](crate::AgentBuilder::output).
pub const FINAL_ANSWER: &str = "final_answer";

/// The tool that receives the structured answer.
pub(crate) struct FinalAnswer {
    pub(crate) tool: CustomTool,
    /// Whether the answer is not an object and is wrapped in one, since arguments are an object.
    is_wrapped: bool,
}

impl FinalAnswer {
    /// Creates a tool that accepts a `T` and ends the run.
    pub(crate) fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        let mut def = ToolDef::of::<T>(FINAL_ANSWER, "Submit your final answer. Call this once, when you are done.");
        let is_wrapped = def.input_schema.get("type").and_then(Value::as_str) != Some("object");
        if is_wrapped {
            def.input_schema =
                json!({"type": "object", "properties": {"value": def.input_schema}, "required": ["value"]});
        }
        let take = move |answer: Value| {
            let taken = match serde_json::from_value::<T>(unwrap_value(answer, is_wrapped)) {
                Ok(_) => Ok(ToolOutput::from("accepted")),
                Err(error) => Err(ToolError::from(format!("the answer does not match the schema: {error}"))),
            };
            std::future::ready(taken)
        };
        let meta = ToolMeta { ends_run: true, ..ToolMeta::in_category("structured_output") };
        Self { tool: CustomTool::new(def, take).with_meta(meta), is_wrapped }
    }

    /// Returns the name of the tool.
    pub(crate) fn name(&self) -> &str {
        &self.tool.def.name
    }

    /// Returns the answer in the arguments of the tool.
    pub(crate) fn read(&self, arguments: Value) -> Value {
        unwrap_value(arguments, self.is_wrapped)
    }
}

fn unwrap_value(mut answer: Value, is_wrapped: bool) -> Value {
    if is_wrapped { answer.get_mut("value").map(Value::take).unwrap_or_default() } else { answer }
}
