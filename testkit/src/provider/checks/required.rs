//! What must be there at all.

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
    ask::{either, items},
    http::Request,
    prompt::blocks,
    route::{Action, Vendor, Wire},
    script::Script,
};

pub(super) fn check(checker: &mut Checker) {
    auth(checker);
    let ask = checker.ask;
    if ask.route.vendor == Vendor::Anthropic && ask.request.header("anthropic-version").is_none() {
        checker.fail(Check::Required, "anthropic-version: header is required");
    }
    if ask.model.is_empty() {
        checker.fail_at(Check::Required, "model", missing(checker, "model"));
    }
    if ask.messages.is_empty() {
        let key = match ask.route.wire {
            Wire::Messages | Wire::Chat => "messages",
            Wire::Responses => "input",
            Wire::Gemini => "contents",
        };
        checker.fail_at(Check::Required, key, missing(checker, key));
    }
    match ask.route.wire {
        Wire::Messages => messages(checker),
        Wire::Responses if checker.memory.stored(ask.body).is_none() => {
            let id = ask.body["previous_response_id"].as_str().unwrap_or_default();
            let message = format!("Previous response with id '{id}' not found.");
            checker.fail_at(Check::Required, "previous_response_id", message);
        }
        Wire::Chat => chat(checker),
        Wire::Gemini => gemini(checker),
        Wire::Responses => {}
    }
}

fn missing(checker: &Checker, key: &str) -> String {
    match checker.ask.route.vendor {
        Vendor::Anthropic | Vendor::MiniMax => format!("{key}: Field required"),
        Vendor::OpenAi => format!("Missing required parameter: '{key}'."),
        Vendor::Google => format!("* GenerateContentRequest.{key}: {key} is not specified"),
    }
}

fn auth(checker: &mut Checker) {
    if let Some(problem) = locked_out(checker.ask.route.vendor, checker.ask.request, checker.script) {
        checker.fail(Check::Auth, problem);
    }
}

/// What is wrong with the API key of a request.
pub(in crate::provider) fn locked_out(vendor: Vendor, request: &Request, script: &Script) -> Option<&'static str> {
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let key = match vendor {
        Vendor::Anthropic | Vendor::MiniMax => request.header("x-api-key").or(bearer),
        Vendor::OpenAi => bearer,
        Vendor::Google => request.header("x-goog-api-key").or(request.query("key")).or(bearer),
    };
    match key {
        None | Some("") => Some("the request carries no API key"),
        Some(key) if script.api_key.as_ref().is_some_and(|expected| expected != key) => {
            Some("the API key is not valid")
        }
        Some(_) => None,
    }
}

fn messages(checker: &mut Checker) {
    let ask = checker.ask;
    if ask.route.action == Action::Answer && ask.body["max_tokens"].as_u64().is_none_or(|limit| limit == 0) {
        checker.fail_at(Check::Required, "max_tokens", "max_tokens: Field required");
    }
    for tool in ask.tools.iter().filter(|tool| matches!(tool.kind(), "" | "custom")) {
        if tool.definition["input_schema"]["type"] != "object" {
            let at = format!("{}.input_schema.type", tool.at);
            checker.fail_at(Check::Required, at.as_str(), format!("{at}: Input should be 'object'"));
        }
    }
    for (index, message) in ask.messages.iter().enumerate() {
        let content = &message["content"];
        if !content.is_string() && !content.is_array() {
            checker.fail(Check::Required, format!("messages.{index}.content: Field required"));
        }
        let is_empty = content.as_array().is_some_and(Vec::is_empty) || content == "";
        let is_last_said = message["role"] == "assistant" && index + 1 == ask.messages.len();
        if content.is_array() && is_empty && message["role"] == "user" {
            checker.fail(Check::Required, format!("messages.{index}: user messages must have non-empty content"));
        } else if is_empty && message["role"] == "assistant" && !is_last_said {
            let message = "all messages must have non-empty content except for the optional final assistant message";
            checker.fail(Check::Required, format!("messages.{index}: {message}"));
        }
        said(checker, index, &blocks(content));
    }
}

/// The blocks of one message on Anthropic.
fn said(checker: &mut Checker, index: usize, blocks: &[Value]) {
    let inner = blocks.iter().filter(|block| block["type"] == "tool_result").flat_map(|block| items(&block["content"]));
    let texts: Vec<&Value> = blocks.iter().chain(inner).filter(|block| block["type"] == "text").collect();
    // One that stands for a message which is empty was told already.
    let is_whole = blocks.len() == 1 && checker.ask.messages[index]["content"].is_string();
    let is_assistant = checker.ask.messages[index]["role"] == "assistant";
    if texts.iter().any(|block| block["text"] == "") && !(is_whole && is_assistant) {
        checker.fail(Check::Required, format!("messages.{index}: text content blocks must be non-empty"));
    } else if texts.iter().any(|block| is_blank(&block["text"]) && block["text"] != "") {
        let message = "text content blocks must contain non-whitespace text";
        checker.fail(Check::Required, format!("messages.{index}: {message}"));
    }
    for (inner, block) in blocks.iter().enumerate() {
        if matches!(block["type"].as_str(), Some("tool_use" | "server_tool_use")) && !block["input"].is_object() {
            let at = format!("messages.{index}.content.{inner}.{}.input", block["type"].as_str().unwrap_or_default());
            checker.fail_at(Check::Required, at.as_str(), format!("{at}: Input should be a valid dictionary"));
        }
    }
}

/// A model's message on Chat Completions says something or calls something.
fn chat(checker: &mut Checker) {
    let ask = checker.ask;
    for (index, message) in ask.messages.iter().enumerate() {
        let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
        if calls.is_some_and(|calls| items(calls).is_empty()) {
            let at = format!("messages[{index}].tool_calls");
            let message = format!("Invalid '{at}': empty array. Expected an array with minimum length 1.");
            checker.fail_at(Check::Required, at, message);
        } else if message["role"] == "assistant" && message["content"].is_null() && calls.is_none() {
            let at = format!("messages[{index}].content");
            let message = "Invalid value for 'content': expected a string, got null.";
            checker.fail_at(Check::Required, at, message);
        }
        // Others do not look into the text.
        let arguments = calls.map_or(&[][..], items).iter().map(|call| &call["function"]["arguments"]);
        if ask.route.vendor == Vendor::MiniMax && arguments.into_iter().any(|arguments| !is_object_text(arguments)) {
            checker.fail(Check::Required, "invalid function arguments json string");
        }
    }
}

fn is_object_text(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok())
}

/// A content of Gemini has parts, and a part holds something.
fn gemini(checker: &mut Checker) {
    for (index, content) in checker.ask.messages.iter().enumerate() {
        let parts = items(&content["parts"]);
        let at = format!("contents[{index}].parts");
        if parts.is_empty() {
            let message = format!("* GenerateContentRequest.{at}: contents.parts must not be empty.");
            checker.fail_at(Check::Required, at.as_str(), message);
        }
        for (inner, part) in parts.iter().enumerate() {
            let at = format!("{at}[{inner}]");
            if part.as_object().is_none_or(serde_json::Map::is_empty) {
                let message = format!(
                    "* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field"
                );
                checker.fail_at(Check::Required, at.as_str(), message);
            }
            let arguments = &either(part, "functionCall", "function_call")["args"];
            if !arguments.is_null() && !arguments.is_object() {
                let message = format!("Invalid value at '{at}.function_call.args' (Struct), {arguments}");
                checker.fail_at(Check::Required, at, message);
            }
        }
    }
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.trim().is_empty())
}
