//! Rules of providers for requests, checked before a request is sent. Those of one API are in
//! its file under `wire/`.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    model::Model,
    wire::{Request, ToolChoice, Wire},
};

/// A request breaks a rule of its provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// All tools are deferred.
    #[error("all tools are deferred; at least one must not be")]
    AllDeferred,
    /// A reference to a tool that is not in the list.
    #[error("a tool reference names `{name}`, which is not in the tool list")]
    UnresolvedReference {
        /// The tool.
        name: String,
    },
    /// A deferred tool has a cache breakpoint.
    #[error("the deferred tool `{name}` has a `cache_control`")]
    CachedDeferred {
        /// The tool.
        name: String,
    },
    /// The provider's search without a deferred tool.
    #[error("the provider's tool search needs a deferred tool")]
    SearchWithoutDeferred,
    /// A result for a call that the provider answers itself.
    #[error("the result of call `{id}` was sent, but the provider answers this call itself")]
    ResultForServerCall {
        /// The call.
        id: String,
    },
    /// A call without the group of its tool.
    #[error("the call of `{name}` has no `namespace`")]
    MissingNamespace {
        /// The tool.
        name: String,
    },
    /// A forced tool choice that the model does not support.
    #[error("`{model}` does not support a forced tool choice")]
    ForcedChoice {
        /// The model.
        model: String,
    },
    /// Two tools of one name.
    #[error("duplicate tool name `{name}`")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// More tools than the provider accepts.
    #[error("{tools} tools, over the provider's limit of {most}")]
    TooManyTools {
        /// The number of tools.
        tools: usize,
        /// The limit.
        most: usize,
    },
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn is_deferred(tool: &Value) -> bool {
    tool.get("defer_loading") == Some(&Value::Bool(true))
}

/// Checks a request of `wire` to `model`.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(model: &Model, wire: Wire, request: &Request) -> Result<(), RuleError> {
    let format = wire.format();
    let tools = format.flatten(&request.tools);
    let mut names = HashSet::new();
    for name in tools.iter().map(|(tool, _)| format.tool_name(tool)).filter(|name| !name.is_empty()) {
        if !names.insert(name) {
            return Err(RuleError::DuplicateTool { name: name.to_owned() });
        }
    }
    let most = model.provider.max_tools();
    if tools.len() > most {
        return Err(RuleError::TooManyTools { tools: tools.len(), most });
    }
    if !tools.is_empty() && tools.iter().all(|(tool, _)| is_deferred(tool)) {
        return Err(RuleError::AllDeferred);
    }
    if let Some((tool, _)) = tools.iter().find(|(tool, _)| is_deferred(tool) && tool.get("cache_control").is_some()) {
        return Err(RuleError::CachedDeferred { name: format.tool_name(tool).to_owned() });
    }
    let searches =
        tools.iter().any(|(tool, _)| text(tool, "type") == "tool_search" && text(tool, "execution") != "client");
    if searches && !tools.iter().any(|(tool, _)| is_deferred(tool)) {
        return Err(RuleError::SearchWithoutDeferred);
    }
    if matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_))
        && model.capabilities().refuses_forced_choice
    {
        return Err(RuleError::ForcedChoice { model: model.name.clone() });
    }
    format.check_history(request, &tools)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(model: &str, tools: Value, messages: Value, tool_choice: ToolChoice) -> Option<String> {
        let model = Model::parse(model).expect("a model");
        let list = |value: Value| value.as_array().cloned().unwrap_or_default();
        let request = Request { tools: list(tools), messages: list(messages), tool_choice, ..Request::default() };
        check(&model, model.provider.wire(), &request).err().map(|error| error.to_string())
    }

    #[test]
    fn what_providers_refuse() {
        let anthropic =
            |tools: Value, messages: Value| checked("anthropic/claude-opus-4-8", tools, messages, ToolChoice::Auto);
        let openai =
            |tools: Value, messages: Value| checked("openai-responses/gpt-5.4", tools, messages, ToolChoice::Auto);
        let check = |found: Option<String>, expected: &str| assert_eq!(found.unwrap_or_default(), expected);
        check(anthropic(json!([{"name": "a"}]), json!([])), "");
        check(
            anthropic(json!([{"name": "a", "defer_loading": true}]), json!([])),
            "all tools are deferred; at least one must not be",
        );
        check(
            anthropic(json!([{"name": "a"}, {"name": "b", "defer_loading": true, "cache_control": {}}]), json!([])),
            "the deferred tool `b` has a `cache_control`",
        );
        check(
            anthropic(
                json!([{"name": "a"}]),
                json!([{"content": [{"type": "tool_result", "content": [{"type": "tool_reference", "tool_name": "x"}]}]}]),
            ),
            "a tool reference names `x`, which is not in the tool list",
        );
        check(
            anthropic(
                json!([{"name": "a"}]),
                json!([{"content": [{"type": "tool_result", "tool_use_id": "srvtoolu_1"}]}]),
            ),
            "the result of call `srvtoolu_1` was sent, but the provider answers this call itself",
        );
        check(anthropic(json!([{"name": "a"}, {"name": "a"}]), json!([])), "duplicate tool name `a`");
        check(
            openai(json!([{"type": "tool_search"}, {"name": "a"}]), json!([])),
            "the provider's tool search needs a deferred tool",
        );
        let grouped = json!([{"type": "tool_search"}, {"type": "namespace", "name": "g", "tools": [{"name": "a", "defer_loading": true}]}]);
        check(
            openai(grouped.clone(), json!([{"type": "function_call", "name": "a"}])),
            "the call of `a` has no `namespace`",
        );
        check(openai(grouped, json!([{"type": "function_call", "name": "a", "namespace": "g"}])), "");
        let many: Vec<Value> = (0..513).map(|at| json!({"name": format!("t{at}")})).collect();
        check(
            checked("gemini/gemini-3-pro", many.into(), json!([]), ToolChoice::Auto),
            "513 tools, over the provider's limit of 512",
        );
        check(
            checked("anthropic/claude-fable-5-1", json!([{"name": "a"}]), json!([]), ToolChoice::Any),
            "`claude-fable-5-1` does not support a forced tool choice",
        );
    }
}
