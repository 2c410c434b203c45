//! OpenAI Chat Completions, and everything compatible with it.

use std::collections::HashMap;

use pegboard_discovery::{
    ToolDefinition,
    transcript::{OpenAiChat, ToolResult, Transcript},
};
use serde_json::{Map, Value, json};

use super::{
    CallResult, Delta, Request, Stop, ToolCall, ToolChoice, Turn, Usage, Wire, WireError, append, arguments,
    body::Body,
    clear_truncated_arguments,
    format::{Collector, WireFormat},
    items, number,
    profile::{Profile, Variables},
    repair::{NO_OUTPUT, NO_TEXT, RepairContext, ensure_object_text, ensure_valid_name, is_blank, repair_each},
    result_text, text,
};
use crate::schemas::SchemaRule;

/// The Chat Completions API of OpenAI.
pub(super) static PROVIDER: Profile = Profile {
    name: "openai",
    vendor: "OpenAI",
    wire: Wire::Chat,
    base_url: "https://api.openai.com/v1",
    variables: Variables { keys: &["OPENAI_API_KEY"], base_urls: &["OPENAI_BASE_URL"] },
    adapt_base_url: Profile::same_base_url,
    is_key_optional: true,
    max_tools: 128,
    schema_rules: SCHEMA_RULES,
    capabilities: Profile::no_capabilities,
};

/// The schema rules of OpenAI, in both of its APIs.
pub(super) const SCHEMA_RULES: &[SchemaRule] = &[
    SchemaRule::IsObject,
    SchemaRule::HasObjectType,
    SchemaRule::NoTopLevelCombination,
    SchemaRule::NoTopLevelRestriction,
    SchemaRule::PartsAreSchemas,
    SchemaRule::OneItemsSchema,
    SchemaRule::KnownTypes,
    SchemaRule::ArraysHaveItems,
    SchemaRule::RequiredIsList,
    SchemaRule::NumericBounds,
    SchemaRule::InnerReferences,
];

/// Words of OpenAI's errors about deferred tools and tool search, in both of its APIs.
pub(super) const DELIVERY_TERMS: &[&str] =
    &["defer_loading", "deferred", "tool_search", "tool search", "namespace", "tool type"];

/// The Chat Completions API.
#[derive(Debug)]
pub(super) struct Chat;

impl WireFormat for Chat {
    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "/chat/completions".to_owned()
    }

    fn body<'a>(&self, request: &'a Request, is_streamed: bool) -> Body<'a> {
        let mut body = Body::new();
        body.insert("model", request.model.clone());
        let system = request.system.as_ref().map(|system| json!({"role": "system", "content": system}));
        body.list_behind("messages", system, &request.messages);
        if !request.tools.is_empty() {
            body.list("tools", &request.tools);
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => body.insert("tool_choice", "none"),
                ToolChoice::Any => body.insert("tool_choice", "required"),
                ToolChoice::Tool(name) => {
                    body.insert("tool_choice", json!({"type": "function", "function": {"name": name}}));
                }
            }
        }
        if let Some(most) = request.max_tokens {
            body.insert("max_completion_tokens", most);
        }
        if is_streamed {
            body.insert("stream", true);
            body.insert("stream_options", json!({"include_usage": true}));
        }
        body
    }

    fn tool(&self, definition: &ToolDefinition) -> Value {
        json!({"type": "function", "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.input_schema,
        }})
    }

    fn user(&self, text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn results(&self, results: &[CallResult]) -> Vec<Value> {
        let message = |result: &CallResult| json!({"role": "tool", "tool_call_id": result.call.id, "content": result_text(result)});
        results.iter().map(message).collect()
    }

    fn read(&self, answer: &Value) -> Result<Turn, WireError> {
        let choice = items(answer, "choices").next().ok_or(WireError::Missing { field: "choices" })?;
        let message = choice.get("message").ok_or(WireError::Missing { field: "message" })?;
        let call = |call: &Value| ToolCall {
            id: text(call, "id").to_owned(),
            name: call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            arguments: arguments(call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default()),
            is_search: false,
        };
        let said = answerable_calls(message, text(choice, "finish_reason") == "length");
        let mut calls: Vec<ToolCall> = said.iter().map(call).collect();
        let stop = match text(choice, "finish_reason") {
            "stop" => Stop::End,
            "tool_calls" | "function_call" => Stop::Tools,
            "length" => Stop::Length,
            "content_filter" => Stop::Refusal,
            other => Stop::Other(other.to_owned()),
        };
        // Some compatible endpoints say `stop` although they want tools.
        let stop = if calls.is_empty() || stop == Stop::Length { stop } else { Stop::Tools };
        if stop == Stop::Length {
            clear_truncated_arguments(&mut calls, true);
        }
        let mut echo = message.clone();
        if let Some(Value::Array(calls)) = echo.get_mut("tool_calls") {
            *calls = said;
        }
        if let Some(fields) = echo.as_object_mut() {
            // Fields of answers that the API refuses in requests.
            fields.retain(|key, value| {
                let is_empty_refusal = key == "refusal" && value.is_null();
                !is_empty_refusal && !matches!(key.as_str(), "annotations" | "audio")
            });
            fields.entry("role").or_insert_with(|| "assistant".into());
        }
        Ok(Turn { text: text(message, "content").to_owned(), calls, stop, usage: usage(answer), echo: vec![echo] })
    }

    fn tool_name<'a>(&self, tool: &'a Value) -> &'a str {
        text(tool.get("function").unwrap_or(tool), "name")
    }

    fn tool_results(&self, messages: &[Value]) -> Vec<ToolResult> {
        OpenAiChat { messages: messages.to_vec() }.results()
    }

    fn collector(&self) -> Box<dyn Collector> {
        Box::new(Streamed::default())
    }

    fn repair(&self, context: &RepairContext<'_>, messages: &[Value]) -> Vec<(usize, Value)> {
        repair_each(self, context, messages, |_, message| repair_message(message))
    }

    fn for_other_model(&self, message: &Value, _signs_calls: bool) -> Option<Value> {
        let mut message = message.clone();
        keep_standard_fields(&mut message);
        Some(message)
    }

    fn delivery_terms(&self) -> &'static [&'static str] {
        DELIVERY_TERMS
    }

    fn thinking_terms(&self) -> &'static [&'static str] {
        &["reasoning_content"]
    }
}

/// Returns the calls of a message that can be answered. A call without a name is, with an error,
/// unless it has no id either or was cut before its name.
fn answerable_calls(message: &Value, is_cut: bool) -> Vec<Value> {
    let is_named =
        |call: &Value| call.pointer("/function/name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let can_be_answered = |call: &&Value| is_named(call) || !text(call, "id").is_empty();
    let mut calls: Vec<Value> = items(message, "tool_calls").filter(can_be_answered).cloned().collect();
    if is_cut && calls.last().is_some_and(|last| !is_named(last)) {
        calls.pop();
    }
    calls
}

fn usage(answer: &Value) -> Usage {
    Usage {
        input: number(answer, "/usage/prompt_tokens"),
        cached: number(answer, "/usage/prompt_tokens_details/cached_tokens"),
        cache_written: number(answer, "/usage/prompt_tokens_details/cache_write_tokens"),
        output: number(answer, "/usage/completion_tokens"),
    }
}

/// The message that pieces have made so far.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    answer: Value,
    message: Map<String, Value>,
    calls: Vec<Value>,
    /// The place of the newest call of each index.
    places: HashMap<u64, usize>,
    finish_reason: Value,
}

impl Streamed {
    fn piece(&mut self, delta: &Value) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for (key, value) in delta.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("tool_calls", Value::Array(pieces)) => {
                    pieces.iter().filter_map(|piece| self.call(piece)).for_each(|name| deltas.push(Delta::Call(name)));
                }
                ("role", _) => drop(self.message.insert(key.clone(), value.clone())),
                (_, Value::String(more)) => {
                    match self.message.get_mut(key) {
                        Some(Value::String(whole)) => whole.push_str(more),
                        _ => drop(self.message.insert(key.clone(), value.clone())),
                    }
                    match key.as_str() {
                        "content" => deltas.push(Delta::Text(more.clone())),
                        "reasoning_content" | "reasoning" => deltas.push(Delta::Thinking(more.clone())),
                        _ => {}
                    }
                }
                (_, Value::Null) => drop(self.message.entry(key.clone()).or_insert(Value::Null)),
                // Pieces of lists that this build does not know are put one behind the other.
                (_, Value::Array(more)) => match self.message.get_mut(key).and_then(Value::as_array_mut) {
                    Some(list) => list.extend(more.iter().cloned()),
                    None => drop(self.message.insert(key.clone(), value.clone())),
                },
                _ => drop(self.message.insert(key.clone(), value.clone())),
            }
        }
        deltas
    }

    /// Takes in a piece of a call; returns the name when the piece holds it.
    fn call(&mut self, piece: &Value) -> Option<String> {
        /// More calls in one turn than any model makes.
        const MOST: usize = 1024;
        let (index, id) = (number(piece, "/index"), text(piece, "id"));
        // Some endpoints give all calls of a turn the same index, or none.
        let is_other = |at: &usize| {
            let known = text(&self.calls[*at], "id");
            !id.is_empty() && !known.is_empty() && known != id
        };
        let at = match self.places.get(&index).copied().filter(|at| !is_other(at)) {
            Some(at) => at,
            None if self.calls.len() >= MOST => return None,
            None => {
                self.calls.push(json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}}));
                self.places.insert(index, self.calls.len() - 1);
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if !id.is_empty() {
            call["id"] = id.into();
        }
        let mut name = None;
        for key in ["name", "arguments"] {
            if let Some(more) = piece.pointer(&format!("/function/{key}")).and_then(Value::as_str) {
                append(&mut call["function"], key, more);
                if key == "name" && !more.is_empty() {
                    name = Some(text(&call["function"], key).to_owned());
                }
            }
        }
        // Other fields of a compatible endpoint must be sent back.
        for (key, value) in piece.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "index" | "id" | "type" | "function") {
                call[key.as_str()] = value.clone();
            }
        }
        name
    }
}

impl Collector for Streamed {
    fn event(&mut self, _kind: &str, data: &Value) -> Result<Vec<Delta>, WireError> {
        if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
            let (kind, message) = (text(error, "type").to_owned(), text(error, "message").to_owned());
            return Err(WireError::Reported { kind, message });
        }
        if self.answer.is_null() && data.is_object() {
            self.answer = data.clone();
        }
        if let Some(usage) = data.get("usage").filter(|usage| usage.is_object()) {
            self.answer["usage"] = usage.clone();
        }
        let Some(choice) = items(data, "choices").next() else { return Ok(Vec::new()) };
        if let Some(reason) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
            self.finish_reason = reason.clone();
        }
        Ok(self.piece(choice.get("delta").unwrap_or(&Value::Null)))
    }

    fn finish(mut self: Box<Self>) -> Result<Value, WireError> {
        if self.finish_reason.is_null() || !self.answer.is_object() {
            return Err(WireError::Incomplete);
        }
        if !self.calls.is_empty() {
            self.message.insert("tool_calls".into(), self.calls.into());
        }
        let choice = json!({"index": 0, "message": self.message, "finish_reason": self.finish_reason});
        self.answer["object"] = "chat.completion".into();
        self.answer["choices"] = json!([choice]);
        Ok(self.answer)
    }
}

/// Repairs a message; `None` if nothing is left of it.
fn repair_message(message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let is_empty = is_blank(message.get("content"));
    match text(&message, "role") {
        "assistant" => repair_assistant(&mut message, is_empty).then_some(message),
        "tool" => {
            if is_empty {
                message["content"] = NO_OUTPUT.into();
            }
            Some(message)
        }
        _ => {
            if is_empty {
                message["content"] = NO_TEXT.into();
            }
            Some(message)
        }
    }
}

/// Repairs a message of the model; `false` if nothing is left of it.
fn repair_assistant(message: &mut Value, is_empty: bool) -> bool {
    let Some(fields) = message.as_object_mut() else { return false };
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        calls.iter_mut().filter_map(|call| call.get_mut("function")).for_each(|function| {
            ensure_object_text(function, "arguments");
            ensure_valid_name(function, "name");
        });
    }
    let calls = fields.get("tool_calls").and_then(Value::as_array);
    if calls.is_some_and(|calls| !calls.is_empty()) || fields.get("function_call").is_some_and(Value::is_object) {
        return true;
    }
    // An empty list is refused.
    fields.shift_remove("tool_calls");
    if !is_empty {
        return true;
    }
    // A refusal alone is not content.
    let refusal = fields.shift_remove("refusal").filter(|refusal| !is_blank(Some(refusal)));
    refusal.map(|refusal| fields.insert("content".into(), refusal)).is_some()
}

/// Removes the fields of an assistant message that not every endpoint knows.
fn keep_standard_fields(message: &mut Value) {
    if text(message, "role") != "assistant" {
        return;
    }
    let keep = |fields: &mut Map<String, Value>, known: &[&str]| fields.retain(|key, _| known.contains(&key.as_str()));
    let Some(fields) = message.as_object_mut() else { return };
    keep(fields, &["role", "content", "tool_calls", "refusal", "name"]);
    let calls = fields.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
        keep(call, &["id", "type", "function"]);
    }
}
