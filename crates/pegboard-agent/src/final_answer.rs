//! The tool that takes an agent's answer.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::custom::{CustomTool, Output, ToolDef, ToolError, ToolMeta};

/// The tool that takes the answer of an agent built with
/// [`AgentBuilder::output`](crate::AgentBuilder::output).
pub const FINAL_ANSWER: &str = "final_answer";

/// The tool that takes the answer, as far as an agent has to know it.
pub(crate) struct FinalAnswer {
    pub(crate) tool: CustomTool,
    /// Arguments are an object; an answer that is none is put into one.
    is_wrapped: bool,
}

impl FinalAnswer {
    /// A tool that takes a `T` and nothing else, and ends the run.
    pub(crate) fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        let mut def = ToolDef::of::<T>(FINAL_ANSWER, "Submit your final answer. Call this once, when you are done.");
        let is_wrapped = def.input_schema.get("type").and_then(Value::as_str) != Some("object");
        if is_wrapped {
            def.input_schema =
                json!({"type": "object", "properties": {"value": def.input_schema}, "required": ["value"]});
        }
        let take = move |answer: Value| {
            let taken = match serde_json::from_value::<T>(unwrapped(answer, is_wrapped)) {
                Ok(_) => Ok(Output::from("accepted")),
                Err(error) => Err(ToolError::from(format!("the answer does not match the schema: {error}"))),
            };
            std::future::ready(taken)
        };
        let meta = ToolMeta { ends_run: true, ..ToolMeta::in_category("structured_output") };
        Self { tool: CustomTool::new(def, take).with_meta(meta), is_wrapped }
    }

    /// The name that the model calls it by.
    pub(crate) fn name(&self) -> &str {
        &self.tool.def.name
    }

    /// What was meant by its arguments.
    pub(crate) fn read(&self, arguments: Value) -> Value {
        unwrapped(arguments, self.is_wrapped)
    }
}

fn unwrapped(mut answer: Value, is_wrapped: bool) -> Value {
    if is_wrapped { answer.get_mut("value").map(Value::take).unwrap_or_default() } else { answer }
}
