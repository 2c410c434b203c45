//! `tool_choice`.

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
    ask::{either, items},
    route::{Vendor, Wire},
    script::Models,
};

pub(super) fn check(checker: &mut Checker) {
    let ask = checker.ask;
    let Some(names) = forced(ask.route.wire, ask.body) else { return };
    if Models::named(&checker.script.models.refuse_forced_choice, ask.model) {
        let message = format!("tool_choice: forced tool use is not supported by {}", ask.model);
        checker.fail_at(Check::ToolChoice, "tool_choice", message);
    }
    if ask.route.vendor == Vendor::Anthropic && ask.body["thinking"]["type"] == "enabled" {
        let message = "Thinking may not be enabled when tool_choice forces tool use.";
        checker.fail_at(Check::ToolChoice, "tool_choice", message);
    }
    for name in names {
        let problem = match ask.tool(name) {
            None => "not found in 'tools'",
            Some(tool) if tool.deferred => "deferred and cannot be forced",
            Some(_) => continue,
        };
        checker.fail_at(Check::ToolChoice, "tool_choice", format!("tool_choice: tool '{name}' is {problem}"));
    }
}

/// The tools of which a call is demanded, none in particular if the list is empty.
fn forced(wire: Wire, body: &Value) -> Option<Vec<&str>> {
    let choice = &body["tool_choice"];
    match wire {
        Wire::Messages => match choice["type"].as_str()? {
            "any" => Some(Vec::new()),
            "tool" => Some(choice["name"].as_str().into_iter().collect()),
            _ => None,
        },
        Wire::Chat => forced_function(choice, &choice["function"]["name"], &choice["allowed_tools"]),
        Wire::Responses => forced_function(choice, &choice["name"], choice),
        Wire::Gemini => {
            let config =
                either(either(body, "toolConfig", "tool_config"), "functionCallingConfig", "function_calling_config");
            let names = items(either(config, "allowedFunctionNames", "allowed_function_names"));
            (config["mode"] == "ANY").then(|| names.iter().filter_map(Value::as_str).collect())
        }
    }
}

fn forced_function<'a>(choice: &Value, name: &'a Value, allowed: &'a Value) -> Option<Vec<&'a str>> {
    if choice == "required" {
        return Some(Vec::new());
    }
    match choice["type"].as_str()? {
        "function" => Some(name.as_str().into_iter().collect()),
        "allowed_tools" if allowed["mode"] == "required" => {
            let name = |tool: &'a Value| tool.get("name").or_else(|| tool.get("function")?.get("name"))?.as_str();
            Some(items(&allowed["tools"]).iter().filter_map(name).collect())
        }
        _ => None,
    }
}
