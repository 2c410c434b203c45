//! A parsed request to a model.

use serde_json::{Value, json};

use super::{
    http::Request,
    route::{Action, Route, Wire},
};

/// A request to a model, parsed as far as checks and answers need it.
pub(crate) struct ModelRequest<'a> {
    pub(crate) route: &'a Route,
    pub(crate) request: &'a Request,
    pub(crate) body: &'a Value,
    pub(crate) model: &'a str,
    /// Messages, contents or items, those of a stored response first.
    pub(crate) messages: &'a [Value],
    /// The definitions in the request's list of tools.
    pub(crate) tools: Vec<Tool<'a>>,
    /// On Responses: the definitions that were loaded in the middle of the conversation.
    pub(crate) loaded: Vec<Tool<'a>>,
}

/// A definition of a tool.
pub(crate) struct Tool<'a> {
    /// Empty for tools without one.
    pub(crate) name: &'a str,
    /// On Responses.
    pub(crate) namespace: Option<&'a str>,
    /// The object that holds the name.
    pub(crate) definition: &'a Value,
    /// The position in the request, in the notation of the provider.
    pub(crate) at: String,
    pub(crate) deferred: bool,
}

impl<'a> Tool<'a> {
    fn new(definition: &'a Value, namespace: Option<&'a str>, at: String) -> Tool<'a> {
        let name = definition["name"].as_str().unwrap_or_default();
        // A toolset sets it for all its members.
        let deferred = definition["defer_loading"] == true || definition["default_config"]["defer_loading"] == true;
        Tool { name, namespace, definition, at, deferred }
    }

    /// Returns whether this is the provider's own search for deferred tools.
    pub(crate) fn is_search(&self) -> bool {
        self.kind().starts_with("tool_search")
    }

    pub(crate) fn kind(&self) -> &'a str {
        self.definition["type"].as_str().unwrap_or_default()
    }
}

impl<'a> ModelRequest<'a> {
    pub(crate) fn new(
        route: &'a Route,
        request: &'a Request,
        body: &'a Value,
        messages: &'a [Value],
    ) -> ModelRequest<'a> {
        let model = route.model.as_deref().or(body["model"].as_str()).unwrap_or_default();
        let tools = match route.wire {
            Wire::Messages => messages_tools(body),
            Wire::Chat => chat_tools(body),
            Wire::Responses => responses_tools(&body["tools"], "tools"),
            Wire::Gemini => gemini_tools(body),
        };
        let loaded = if route.wire == Wire::Responses { loaded_tools(messages) } else { Vec::new() };
        ModelRequest { route, request, body, model, messages, tools, loaded }
    }

    /// Returns whether the answer is a stream of events.
    pub(crate) fn streams(&self) -> bool {
        match self.route.action {
            Action::Answer => self.body["stream"] == true,
            Action::Events | Action::Array => true,
            Action::Count => false,
        }
    }

    /// Returns the tool with this name; the request's list takes precedence over loaded tools.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool<'a>> {
        self.tools.iter().chain(&self.loaded).find(|tool| tool.name == name)
    }

    /// Returns the provider's own search tool, if the request has it.
    pub(crate) fn search_tool(&self) -> Option<&Tool<'a>> {
        self.tools.iter().find(|tool| tool.is_search())
    }
}

/// Returns the messages of a request as objects; `stored` are those that it only refers to.
pub(crate) fn messages(wire: Wire, body: &Value, stored: Vec<Value>) -> Vec<Value> {
    let mut messages = stored;
    let own = match wire {
        Wire::Messages | Wire::Chat => &body["messages"],
        Wire::Responses => &body["input"],
        Wire::Gemini => &body["contents"],
    };
    match own {
        Value::Array(own) => messages.extend(own.iter().cloned()),
        Value::String(text) => messages.push(json!({"type": "message", "role": "user", "content": text})),
        _ => {}
    }
    messages
}

/// Returns the elements of an array; none for any other value.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a field of Gemini, which may be in camel case or in snake case.
pub(crate) fn either<'a>(value: &'a Value, camel: &str, snake: &str) -> &'a Value {
    value.get(camel).unwrap_or(&value[snake])
}

fn messages_tools(body: &Value) -> Vec<Tool<'_>> {
    let tools = items(&body["tools"]).iter().enumerate();
    tools
        .map(|(index, definition)| {
            let kind = definition["type"].as_str().unwrap_or("custom");
            Tool::new(definition, None, format!("tools.{index}.{kind}"))
        })
        .collect()
}

fn chat_tools(body: &Value) -> Vec<Tool<'_>> {
    let tools = items(&body["tools"]).iter().enumerate();
    tools
        .map(|(index, tool)| {
            let mut tool = Tool::new(tool.get("function").unwrap_or(tool), None, format!("tools[{index}].function"));
            tool.deferred |= body["tools"][index]["defer_loading"] == true;
            tool
        })
        .collect()
}

/// Returns the tools of a list on Responses, including those in namespaces.
fn responses_tools<'a>(list: &'a Value, at: &str) -> Vec<Tool<'a>> {
    let mut tools = Vec::new();
    for (index, definition) in items(list).iter().enumerate() {
        let at = format!("{at}[{index}]");
        if definition["type"] != "namespace" {
            tools.push(Tool::new(definition, None, at));
            continue;
        }
        for (index, inner) in items(&definition["tools"]).iter().enumerate() {
            tools.push(Tool::new(inner, definition["name"].as_str(), format!("{at}.tools[{index}]")));
        }
    }
    tools
}

fn loaded_tools(messages: &[Value]) -> Vec<Tool<'_>> {
    let mut tools = Vec::new();
    for (index, item) in messages.iter().enumerate() {
        if item["type"] == "tool_search_output" || item["type"] == "additional_tools" {
            tools.append(&mut responses_tools(&item["tools"], &format!("input[{index}].tools")));
        }
    }
    tools
}

fn gemini_tools(body: &Value) -> Vec<Tool<'_>> {
    let mut tools = Vec::new();
    for (index, group) in items(&body["tools"]).iter().enumerate() {
        let declarations = items(either(group, "functionDeclarations", "function_declarations"));
        for (inner, definition) in declarations.iter().enumerate() {
            tools.push(Tool::new(definition, None, format!("tools[{index}].function_declarations[{inner}]")));
        }
    }
    tools
}
