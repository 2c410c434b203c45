//! The list of tools.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
    ask::{ModelRequest, Tool, either, items},
    prompt::{blocks, references},
    route::{Vendor, Wire},
    script::Models,
};

/// As many functions as Gemini takes.
const MAX_DECLARATIONS: usize = 512;

/// The names of Anthropic's search tools.
const SEARCH_TOOLS: [&str; 2] = ["tool_search_tool_regex", "tool_search_tool_bm25"];

pub(super) fn check(checker: &mut Checker) {
    names(checker);
    duplicates(checker);
    unsupported(checker);
    match (checker.ask.route.wire, checker.ask.route.vendor) {
        (Wire::Messages, Vendor::Anthropic) => {
            deferral(checker);
            searching(checker);
            resolved(checker);
        }
        (Wire::Responses, _) => hosted_search(checker),
        (Wire::Gemini, _) => declarations(checker),
        _ => {}
    }
}

fn names(checker: &mut Checker) {
    let ask = checker.ask;
    let named = ask.tools.iter().chain(&ask.loaded).filter(|tool| match ask.route.wire {
        Wire::Messages => matches!(tool.kind(), "" | "custom"),
        Wire::Responses => matches!(tool.kind(), "function" | "custom"),
        Wire::Chat | Wire::Gemini => true,
    });
    for tool in named {
        let at = format!("{}.name", tool.at);
        if let Some(problem) = misnamed(ask.route.wire, tool.name) {
            checker.fail_at(Check::ToolNames, at.as_str(), format!("{at}: {problem}, got '{}'", tool.name));
        }
    }
    for (at, name) in called(ask) {
        if let Some(problem) = misnamed(ask.route.wire, name) {
            checker.fail_at(Check::ToolNames, at.as_str(), format!("{at}: {problem}, got '{name}'"));
        }
    }
}

/// The names in the calls of the conversation, and where they stand.
fn called<'a>(ask: &ModelRequest<'a>) -> Vec<(String, &'a str)> {
    let mut called = Vec::new();
    for (index, message) in ask.messages.iter().enumerate() {
        let mut add = |at: String, name: &'a Value| called.extend(name.as_str().map(|name| (at, name)));
        match ask.route.wire {
            Wire::Messages => {
                for (inner, block) in items(&message["content"]).iter().enumerate() {
                    if block["type"] == "tool_use" {
                        add(format!("messages.{index}.content.{inner}.tool_use.name"), &block["name"]);
                    }
                }
            }
            Wire::Chat => {
                for (inner, call) in items(&message["tool_calls"]).iter().enumerate() {
                    add(format!("messages[{index}].tool_calls[{inner}].function.name"), &call["function"]["name"]);
                }
            }
            Wire::Responses if message["type"] == "function_call" => {
                add(format!("input[{index}].name"), &message["name"]);
            }
            Wire::Responses => {}
            Wire::Gemini => {
                for (inner, part) in items(&message["parts"]).iter().enumerate() {
                    let call = either(part, "functionCall", "function_call");
                    add(format!("contents[{index}].parts[{inner}].function_call.name"), &call["name"]);
                }
            }
        }
    }
    called
}

/// What a provider has against a name.
fn misnamed(wire: Wire, name: &str) -> Option<&'static str> {
    let common = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let (longest, pattern, fits) = match wire {
        Wire::Messages => (128, "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", name.chars().all(common)),
        Wire::Chat | Wire::Responses => {
            (64, "expected at most 64 characters of the pattern '^[a-zA-Z0-9_-]+$'", name.chars().all(common))
        }
        Wire::Gemini => {
            let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
            let goes_on = name.chars().all(|letter| common(letter) || letter == '.' || letter == ':');
            (
                128,
                "must start with a letter or an underscore, then a-z, A-Z, 0-9, _ . : -, at most 128",
                begins && goes_on,
            )
        }
    };
    (!fits || name.is_empty() || name.len() > longest).then_some(pattern)
}

fn duplicates(checker: &mut Checker) {
    let mut seen = BTreeSet::new();
    for tool in checker.ask.tools.iter().filter(|tool| !tool.name.is_empty()) {
        if !seen.insert((tool.namespace, tool.name)) {
            let message = format!("{}: tool names must be unique, '{}' is there twice", tool.at, tool.name);
            checker.fail_at(Check::DuplicateTools, tool.at.as_str(), message);
        }
    }
}

/// Deferral where the provider, the wire or the model does not know it.
fn unsupported(checker: &mut Checker) {
    let ask = checker.ask;
    let old = Models::named(&checker.script.models.no_tool_search, ask.model);
    let knows = matches!(ask.route.wire, Wire::Messages | Wire::Responses) && ask.route.vendor != Vendor::MiniMax;
    if knows && !old {
        return;
    }
    for (index, tool) in ask.tools.iter().enumerate() {
        let outside = ask.body["tools"][index].get("defer_loading").is_some();
        if tool.definition.get("defer_loading").is_some() || (ask.route.wire == Wire::Chat && outside) {
            let message = format!("Unknown name \"defer_loading\" at '{}': cannot find field", tool.at);
            checker.fail_at(Check::Unsupported, tool.at.as_str(), message);
        }
        if tool.is_search() {
            let message = format!("{}: tools of the type '{}' are not supported here", tool.at, tool.kind());
            checker.fail_at(Check::Unsupported, tool.at.as_str(), message);
        }
    }
    for (index, message) in ask.messages.iter().enumerate() {
        if blocks(&message["content"]).iter().any(|block| references(block).next().is_some()) {
            checker.fail(Check::Unsupported, format!("messages.{index}: unknown content type 'tool_reference'"));
        }
        if let Some(kind) = message["type"].as_str().filter(|kind| kind.starts_with("tool_search_")) {
            checker.fail(Check::Unsupported, format!("Invalid value: '{kind}' at 'input[{index}].type'."));
        }
    }
}

fn deferral(checker: &mut Checker) {
    let tools = &checker.ask.tools;
    if !tools.is_empty() && tools.iter().all(|tool| tool.deferred) {
        let message = "At least one tool must have defer_loading=false. All tools cannot be deferred.";
        checker.fail_at(Check::AllDeferred, "tools", message);
    }
    for tool in tools {
        if tool.deferred && tool.definition.get("cache_control").is_some_and(|marker| !marker.is_null()) {
            let message = format!("{}: cache_control cannot be set on a tool with defer_loading=true", tool.at);
            checker.fail_at(Check::DeferredCacheControl, tool.at.as_str(), message);
        }
        if tool.definition.get("defer_loading").is_some_and(Value::is_null) {
            let message = format!("{}.defer_loading: Input should be a valid boolean", tool.at);
            checker.fail_at(Check::NullDeferral, tool.at.as_str(), message);
        }
    }
}

fn searching(checker: &mut Checker) {
    for tool in checker.ask.tools.iter().filter(|tool| tool.is_search()) {
        // The name is the type without its date.
        let Some(name) = SEARCH_TOOLS.into_iter().find(|name| tool.kind().starts_with(name)) else { continue };
        if tool.name != name {
            let message = format!("{}.name: Input should be '{name}'", tool.at);
            checker.fail_at(Check::SearchToolName, tool.at.as_str(), message);
        }
    }
}

fn resolved(checker: &mut Checker) {
    let ask = checker.ask;
    // Definitions that come by value in the middle of the conversation are available as well.
    let added = |block: &Value| block["tool"]["definition"]["name"].as_str().map(String::from);
    let contents: Vec<Value> = ask.messages.iter().flat_map(|message| blocks(&message["content"])).collect();
    let late: BTreeSet<String> = contents.iter().filter_map(added).collect();
    for name in contents.iter().flat_map(references) {
        if !late.contains(name) && !ask.tools.iter().any(|tool| tool.name == name) {
            checker.fail(Check::ToolReference, format!("Tool reference '{name}' not found in available tools"));
        }
    }
}

fn hosted_search(checker: &mut Checker) {
    let tools = &checker.ask.tools;
    let hosted = tools.iter().any(|tool| tool.is_search() && tool.definition["execution"] != "client");
    if hosted && !tools.iter().any(|tool| tool.deferred) {
        let message = "tool_search requires at least one tool with defer_loading=true.";
        checker.fail_at(Check::SearchWithoutDeferred, "tools", message);
    }
}

fn declarations(checker: &mut Checker) {
    let ask = checker.ask;
    if ask.tools.len() > MAX_DECLARATIONS {
        let message = format!("at most {MAX_DECLARATIONS} function declarations are allowed, got {}", ask.tools.len());
        checker.fail_at(Check::DeclarationLimit, "tools", message);
    }
    let has = |tool: &Tool, camel: &str, snake: &str| {
        tool.definition.get(camel).or(tool.definition.get(snake)).is_some_and(|schema| !schema.is_null())
    };
    for tool in &ask.tools {
        if has(tool, "parameters", "parameters") && has(tool, "parametersJsonSchema", "parameters_json_schema") {
            let message = format!("{}: only one of parameters and parameters_json_schema may be set", tool.at);
            checker.fail_at(Check::ParametersTwice, tool.at.as_str(), message);
        }
    }
}
