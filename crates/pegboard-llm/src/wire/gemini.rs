//! Gemini `generateContent`.

use pegboard_discovery::ToolDefinition;
use serde_json::{Value, json};

use super::{
    CallResult, Collector, Delta, Request, Stop, ToolCall, ToolChoice, Turn, Usage, WireError, append, body::Body,
    forget_cut, items, number, text, told,
};

pub(super) fn body(request: &Request) -> Body<'_> {
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

pub(super) fn tool(definition: &ToolDefinition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "parametersJsonSchema": definition.input_schema,
    })
}

pub(super) fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

pub(super) fn results(results: &[CallResult]) -> Vec<Value> {
    let part = |result: &CallResult| {
        let key = if result.is_error { "error" } else { "output" };
        let mut response = json!({"name": result.call.name, "response": {key: told(result)}});
        if is_given(&result.call.id) {
            response["id"] = result.call.id.clone().into();
        }
        json!({"functionResponse": response})
    };
    let parts: Vec<Value> = results.iter().map(part).collect();
    if parts.is_empty() { Vec::new() } else { vec![json!({"role": "user", "parts": parts})] }
}

/// Marks numbers that the wire did not give.
const OURS: &str = "pegboard-call-";

fn is_given(id: &str) -> bool {
    !id.starts_with(OURS)
}

pub(super) fn turn(answer: &Value) -> Result<Turn, WireError> {
    let candidate = items(answer, "candidates").next();
    let Some(candidate) = candidate else {
        // A prompt that is refused has no candidates.
        let reason = answer.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
        let reason = reason.ok_or(WireError::Missing { field: "candidates" })?;
        return Err(WireError::Reported { kind: "blocked".to_owned(), message: reason.to_owned() });
    };
    let content = candidate.get("content").cloned().unwrap_or_else(|| json!({"role": "model", "parts": []}));
    let call = |(at, part): (usize, &Value)| {
        let call = part.get("functionCall")?;
        let id = call.get("id").and_then(Value::as_str).map_or_else(|| format!("{OURS}{at}"), str::to_owned);
        let arguments = call.get("args").cloned().unwrap_or_else(|| json!({}));
        Some(ToolCall { id, name: text(call, "name").to_owned(), arguments, is_search: false })
    };
    let mut calls: Vec<ToolCall> = items(&content, "parts").enumerate().filter_map(call).collect();
    let is_thought = |part: &&Value| part.get("thought") == Some(&Value::Bool(true));
    let said = items(&content, "parts").filter(|part| !is_thought(part)).map(|part| text(part, "text")).collect();
    let stop = match text(candidate, "finishReason") {
        "MAX_TOKENS" => Stop::Length,
        _ if !calls.is_empty() => Stop::Tools,
        "STOP" => Stop::End,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => Stop::Refusal,
        other => Stop::Other(other.to_owned()),
    };
    if stop == Stop::Length && items(&content, "parts").last().is_some_and(|part| part.get("functionCall").is_some()) {
        forget_cut(&mut calls, false);
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

/// An answer whose parts arrive one after the other.
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
            None if part.get("thought") == Some(&Value::Bool(true)) => {
                Some(Delta::Thinking(text(part, "text").to_owned()))
            }
            None if part.get("text").is_some() => Some(Delta::Text(text(part, "text").to_owned())),
            None => None,
        };
        // Text that goes on is one part; what carries a signature stays by itself.
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
            return Err(WireError::Cut);
        }
        if self.answer.get("promptFeedback").is_some_and(|feedback| feedback.get("blockReason").is_some()) {
            return Ok(self.answer);
        }
        let reason = self.finish_reason.ok_or(WireError::Cut)?;
        let content = json!({"role": "model", "parts": self.parts});
        self.answer["candidates"] = json!([{"content": content, "finishReason": reason}]);
        Ok(self.answer)
    }
}
