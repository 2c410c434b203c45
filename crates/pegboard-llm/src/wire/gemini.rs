//! Gemini `generateContent`.

use pegboard_discovery::{ToolDefinition, transcript::ToolResult};
use serde_json::{Value, json};

use super::{
    CallResult, Delta, Request, Stop, ToolCall, ToolChoice, Turn, Usage, Wire, WireError, append,
    body::Body,
    clear_truncated_arguments,
    format::{Collector, WireFormat},
    items, number,
    profile::{Capabilities, Profile, Variables},
    repair::{
        NO_OUTPUT, NO_TEXT, RepairContext, ensure_object, ensure_valid_name, is_blank, is_blank_text, repair_each,
    },
    result_text, text,
};
use crate::schemas::SchemaRule;

/// The Gemini API of Google.
pub(super) static PROVIDER: Profile = Profile {
    name: "gemini",
    vendor: "Gemini",
    wire: Wire::Gemini,
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    variables: Variables {
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_urls: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
    },
    adapt_base_url,
    is_key_optional: false,
    max_tools: 512,
    schema_rules: &[
        SchemaRule::IsObject,
        SchemaRule::KnownTypes,
        SchemaRule::ArraysHaveItems,
        SchemaRule::StringEnums,
        SchemaRule::RequiredAreDefined,
        SchemaRule::InnerReferences,
    ],
    capabilities,
};

/// Google's own programs put the version of the API behind their variable.
fn adapt_base_url(variable: &str, url: String) -> String {
    if variable == "GOOGLE_GEMINI_BASE_URL" && !ends_in_version(&url) {
        return format!("{}/v1beta", url.trim_end_matches('/'));
    }
    url
}

/// Whether the path of an address ends in a version of the API, such as `v1beta`.
fn ends_in_version(url: &str) -> bool {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns what a model can do.
fn capabilities(name: &str) -> Capabilities {
    let is_older = ["gemini-1", "gemini-2"].iter().any(|older| name.contains(older));
    Capabilities { signs_calls: !is_older, ..Capabilities::default() }
}

/// The `generateContent` API.
#[derive(Debug)]
pub(super) struct Gemini;

impl WireFormat for Gemini {
    fn path(&self, model: &str, is_streamed: bool) -> String {
        if is_streamed {
            format!("/models/{model}:streamGenerateContent?alt=sse")
        } else {
            format!("/models/{model}:generateContent")
        }
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn body<'a>(&self, request: &'a Request, _is_streamed: bool) -> Body<'a> {
        let mut body = Body::new();
        if !request.tools.is_empty() {
            body.nested("tools", "functionDeclarations", &request.tools);
            let config = match &request.tool_choice {
                ToolChoice::Auto => None,
                ToolChoice::None => Some(json!({"mode": "NONE"})),
                ToolChoice::Any => Some(json!({"mode": "ANY"})),
                ToolChoice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
            };
            if let Some(config) = config {
                body.insert("toolConfig", json!({"functionCallingConfig": config}));
            }
        }
        if let Some(system) = &request.system {
            body.insert("systemInstruction", json!({"parts": [{"text": system}]}));
        }
        body.list("contents", &request.messages);
        if let Some(most) = request.max_tokens {
            body.insert("generationConfig", json!({"maxOutputTokens": most}));
        }
        body
    }

    fn tool(&self, definition: &ToolDefinition) -> Value {
        json!({
            "name": definition.name,
            "description": definition.description,
            "parametersJsonSchema": definition.input_schema,
        })
    }

    fn user(&self, text: &str) -> Value {
        json!({"role": "user", "parts": [{"text": text}]})
    }

    fn results(&self, results: &[CallResult]) -> Vec<Value> {
        let part = |result: &CallResult| {
            let key = if result.is_error { "error" } else { "output" };
            let mut response = json!({"name": result.call.name, "response": {key: result_text(result)}});
            if is_provider_id(&result.call.id) {
                response["id"] = result.call.id.clone().into();
            }
            json!({"functionResponse": response})
        };
        let parts: Vec<Value> = results.iter().map(part).collect();
        if parts.is_empty() { Vec::new() } else { vec![json!({"role": "user", "parts": parts})] }
    }

    fn read(&self, answer: &Value) -> Result<Turn, WireError> {
        let candidate = items(answer, "candidates").next();
        let Some(candidate) = candidate else {
            // A blocked prompt has no candidates.
            let reason = answer.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
            let reason = reason.ok_or(WireError::Missing { field: "candidates" })?;
            return Err(WireError::Reported { kind: "blocked".to_owned(), message: reason.to_owned() });
        };
        let content = candidate.get("content").cloned().unwrap_or_else(|| json!({"role": "model", "parts": []}));
        let call = |(at, part): (usize, &Value)| {
            let call = part.get("functionCall")?;
            let id =
                call.get("id").and_then(Value::as_str).map_or_else(|| format!("{OWN_ID_PREFIX}{at}"), str::to_owned);
            let arguments = call.get("args").cloned().unwrap_or_else(|| json!({}));
            Some(ToolCall { id, name: text(call, "name").to_owned(), arguments, is_search: false })
        };
        let mut calls: Vec<ToolCall> = items(&content, "parts").enumerate().filter_map(call).collect();
        let said = items(&content, "parts").filter(|part| !is_thinking(part)).map(|part| text(part, "text")).collect();
        let stop = match text(candidate, "finishReason") {
            "MAX_TOKENS" => Stop::Length,
            _ if !calls.is_empty() => Stop::Tools,
            "STOP" => Stop::End,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => Stop::Refusal,
            other => Stop::Other(other.to_owned()),
        };
        if stop == Stop::Length
            && items(&content, "parts").last().is_some_and(|part| part.get("functionCall").is_some())
        {
            clear_truncated_arguments(&mut calls, false);
        }
        Ok(Turn {
            text: said,
            calls,
            stop,
            usage: Usage {
                input: number(answer, "/usageMetadata/promptTokenCount"),
                cached: number(answer, "/usageMetadata/cachedContentTokenCount"),
                cache_written: 0,
                output: number(answer, "/usageMetadata/candidatesTokenCount")
                    .saturating_add(number(answer, "/usageMetadata/thoughtsTokenCount")),
            },
            echo: vec![content],
        })
    }

    fn tool_results(&self, messages: &[Value]) -> Vec<ToolResult> {
        let mut calls: Vec<(&str, &str, Value)> = Vec::new();
        let mut results = Vec::new();
        for part in messages.iter().flat_map(|message| items(message, "parts")) {
            if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").cloned().unwrap_or_default();
                calls.push((text(call, "id"), text(call, "name"), arguments));
            }
            let Some(response) = part.get("functionResponse") else { continue };
            // Calls without an id are answered in their order.
            let (id, name) = (text(response, "id"), text(response, "name"));
            let at = calls.iter().position(|(call_id, call_name, _)| *call_id == id && *call_name == name);
            let arguments = at.map(|at| calls.remove(at).2).unwrap_or_default();
            let output = response.get("response").and_then(|value| value.get("output").or(value.get("error")));
            let text = output.map(|output| output.as_str().map_or_else(|| output.to_string(), str::to_owned));
            let text = text.unwrap_or_default();
            results.push(ToolResult { name: name.to_owned(), arguments, text, references: Vec::new() });
        }
        results
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Streamed::default())
    }

    fn repair(&self, context: &RepairContext<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
        repair_each(self, context, messages, |_, message| repair_content(message))
    }

    fn for_other_model(&self, message: &Value, signs_calls: bool) -> Option<Value> {
        let mut message = message.clone();
        remove_thinking(&mut message, signs_calls);
        Some(message)
    }

    fn delivery_terms(&self) -> &'static [&'static str] {
        &["defer_loading", "deferred"]
    }

    fn thinking_terms(&self) -> &'static [&'static str] {
        &["thought_signature", "thought signature"]
    }
}

/// The beginning of ids for calls that came without one; they are not sent.
const OWN_ID_PREFIX: &str = "pegboard-call-";

fn is_provider_id(id: &str) -> bool {
    !id.starts_with(OWN_ID_PREFIX)
}

/// The answer that parts have made so far.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    answer: Value,
    parts: Vec<Value>,
    finish_reason: Option<Value>,
}

impl Streamed {
    fn part(&mut self, part: &Value) -> Option<Delta> {
        let delta = match part.get("functionCall") {
            Some(call) => Some(Delta::Call(text(call, "name").to_owned())),
            None if is_thinking(part) => Some(Delta::Thinking(text(part, "text").to_owned())),
            None if part.get("text").is_some() => Some(Delta::Text(text(part, "text").to_owned())),
            None => None,
        };
        // Consecutive text is one part; a part with a signature stays by itself.
        let is_plain = |part: &Value| part.get("text").is_some() && part.get("thoughtSignature").is_none();
        let goes_on = self
            .parts
            .last()
            .is_some_and(|last| is_plain(last) && is_plain(part) && last.get("thought") == part.get("thought"));
        match self.parts.last_mut() {
            Some(last) if goes_on => append(last, "text", text(part, "text")),
            _ => self.parts.push(part.clone()),
        }
        delta
    }
}

impl Collector for Streamed {
    fn event(&mut self, _kind: &str, data: &Value) -> Result<Vec<Delta>, WireError> {
        if let Some(error) = data.get("error") {
            let (kind, message) = (text(error, "status").to_owned(), text(error, "message").to_owned());
            return Err(WireError::Reported { kind, message });
        }
        if self.answer.is_null() && data.is_object() {
            self.answer = json!({});
        }
        for (key, value) in data.as_object().into_iter().flatten().filter(|(key, _)| *key != "candidates") {
            self.answer[key.as_str()] = value.clone();
        }
        let Some(candidate) = items(data, "candidates").next() else { return Ok(Vec::new()) };
        if let Some(reason) = candidate.get("finishReason") {
            self.finish_reason = Some(reason.clone());
        }
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(parts.iter().filter_map(|part| self.part(part)).collect())
    }

    fn finish(mut self: Box<Self>) -> Result<Value, WireError> {
        if !self.answer.is_object() {
            return Err(WireError::Incomplete);
        }
        if self.answer.get("promptFeedback").is_some_and(|feedback| feedback.get("blockReason").is_some()) {
            return Ok(self.answer);
        }
        let reason = self.finish_reason.ok_or(WireError::Incomplete)?;
        let content = json!({"role": "model", "parts": self.parts});
        self.answer["candidates"] = json!([{"content": content, "finishReason": reason}]);
        Ok(self.answer)
    }
}

/// The signature that Google's documentation gives for calls that no Gemini model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];

/// Repairs a content; `None` if nothing is left of it.
fn repair_content(content: &Value) -> Option<Value> {
    let mut content = content.clone();
    let is_said = text(&content, "role") == "model";
    let parts = content.get_mut("parts").and_then(Value::as_array_mut)?;
    let had_text = parts.iter().any(is_blank_text);
    let is_signed = |part: &Value| SIGNATURES.iter().any(|key| part.get(key).is_some());
    parts.retain(|part| !is_nothing(part) && (!is_blank_text(part) || (is_said && is_signed(part))));
    parts.iter_mut().for_each(repair_part);
    if parts.is_empty() && had_text && !is_said {
        parts.push(json!({"text": NO_TEXT}));
    }
    // Thinking alone is not output.
    let is_silent = |part: &Value| is_thinking(part) || is_blank_text(part);
    let has_content = if is_said { !parts.iter().all(is_silent) } else { !parts.is_empty() };
    has_content.then_some(content)
}

fn is_nothing(part: &Value) -> bool {
    part.as_object().is_none_or(serde_json::Map::is_empty)
}

fn is_thinking(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn repair_part(part: &mut Value) {
    if let Some(call) = part.get_mut("functionCall") {
        if call.get("args").is_some() {
            ensure_object(call, "args");
        }
        ensure_valid_name(call, "name");
    }
    if let Some(response) = part.get_mut("functionResponse") {
        ensure_valid_name(response, "name");
        for key in ["output", "error"] {
            let said = response.get_mut("response").and_then(|answer| answer.get_mut(key));
            if let Some(said) = said.filter(|said| said.is_string() && is_blank(Some(said))) {
                *said = NO_OUTPUT.into();
            }
        }
    }
}

/// Removes thinking and signatures. Models that `signs_calls` accept a fixed value on calls that
/// they did not make.
fn remove_thinking(content: &mut Value, signs_calls: bool) {
    if text(content, "role") != "model" {
        return;
    }
    let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { return };
    parts.retain(|part| !is_thinking(part));
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        SIGNATURES.iter().for_each(|key| drop(part.shift_remove(*key)));
    }
    let first_call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(call) = first_call.filter(|_| signs_calls) {
        call["thoughtSignature"] = NO_SIGNATURE.into();
    }
}
