//! What must be there at all.

use serde_json::Value;

use super::{Check, Checker};
use crate::provider::{
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
            let message = format!("Previous response with id {} not found.", ask.body["previous_response_id"]);
            checker.fail_at(Check::Required, "previous_response_id", message);
        }
        Wire::Chat | Wire::Responses | Wire::Gemini => {}
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
        if content.as_array().is_some_and(Vec::is_empty) && message["role"] == "user" {
            checker.fail(Check::Required, format!("messages.{index}: user messages must have non-empty content"));
        }
        if blocks(content).iter().any(is_empty_text) {
            checker.fail(Check::Required, format!("messages.{index}: text content blocks must be non-empty"));
        }
    }
}

fn is_empty_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"] == ""
}
