//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::{TurnEncoder, arguments_object};
use crate::provider::{
    events::{StreamEvent, pieces},
    script::{Call, Part, Quirk, Stop},
};

pub(super) fn parts(speech: &mut TurnEncoder) -> Result<Vec<Value>, String> {
    let mut parts = Vec::new();
    let mut signature = None;
    for part in &speech.output.parts {
        match part {
            Part::Text(text) => parts.push(json!({"text": text})),
            Part::Thinking { text, signature: given } => {
                signature = Some(given.clone().unwrap_or_else(|| speech.ids.signature()));
                parts.push(json!({"text": text, "thought": true}));
            }
            Part::Call(call) => parts.push(function_call(speech, call)),
            Part::Search(_) => return Err("Gemini has no search of its own".into()),
            Part::Raw(part) => parts.push(part.clone()),
        }
    }
    sign(speech, &mut parts, signature);
    if speech.has_unknown() {
        parts.insert(0, json!({"futurePart": {"nested": [1, null, "x"]}}));
    }
    Ok(parts)
}

/// Only Gemini 3 names its calls, unless the script does.
fn function_call(speech: &mut TurnEncoder, call: &Call) -> Value {
    let mut inner = json!({"name": call.name, "args": arguments_object(&call.arguments)});
    let names = speech.ask.model.starts_with("gemini-3");
    if let Some(id) = call.id.clone().or_else(|| names.then(|| speech.ids.next("call-"))) {
        inner["id"] = id.into();
    }
    json!({"functionCall": inner})
}

/// Puts the signature of the thoughts on the first call, or without one on the last words.
fn sign(speech: &mut TurnEncoder, parts: &mut [Value], signature: Option<String>) {
    let is_call = |part: &Value| part.get("functionCall").is_some();
    let first_call = parts.iter().position(is_call);
    let always = speech.ask.model.starts_with("gemini-3") && first_call.is_some();
    let Some(signature) = signature.or_else(|| always.then(|| speech.ids.signature())) else { return };
    let words = || parts.iter().rposition(|part| part["text"].is_string() && part["thought"] != true);
    if let Some(place) = first_call.or_else(words) {
        parts[place]["thoughtSignature"] = signature.into();
    }
}

pub(super) fn whole(speech: &TurnEncoder, parts: &[Value]) -> Value {
    chunk(speech, parts, true)
}

fn finish_reason(stop: &Stop) -> &str {
    match stop {
        Stop::EndTurn | Stop::ToolUse | Stop::Pause => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
        Stop::Other(word) => word,
    }
}

fn chunk(speech: &TurnEncoder, parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if is_last {
        candidate["finishReason"] = finish_reason(&speech.stop).into();
    }
    let usage = speech.usage;
    let mut counts = json!({
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "totalTokenCount": usage.input + usage.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    });
    if usage.reasoning > 0 {
        counts["thoughtsTokenCount"] = usage.reasoning.into();
    }
    if usage.cache_read > 0 {
        counts["cachedContentTokenCount"] = usage.cache_read.into();
    }
    let (model, id) = (speech.ask.model, &speech.id);
    json!({"candidates": [candidate], "usageMetadata": counts, "modelVersion": model, "responseId": id})
}

/// Words come in pieces, their signature on an empty one behind them; everything else comes whole.
pub(super) fn events(speech: &TurnEncoder, parts: &[Value]) -> Vec<StreamEvent> {
    let mut streamed = Vec::new();
    for part in parts {
        let Some(text) = part["text"].as_str() else {
            streamed.push(part.clone());
            continue;
        };
        let mut rest = part.clone();
        rest["text"] = "".into();
        for piece in pieces(text, speech.sending.delta) {
            let thought = part.get("thought").is_some();
            streamed.push(if thought { json!({"text": piece, "thought": true}) } else { json!({"text": piece}) });
        }
        if rest.get("thoughtSignature").is_some() {
            streamed.push(rest);
        }
    }
    if streamed.is_empty() {
        streamed.push(json!({"text": ""}));
    }
    if speech.has(Quirk::OneEvent) {
        return vec![StreamEvent::Plain(chunk(speech, &streamed, true))];
    }
    let last = streamed.len() - 1;
    let part =
        |(index, part): (usize, &Value)| StreamEvent::Plain(chunk(speech, std::slice::from_ref(part), index == last));
    streamed.iter().enumerate().map(part).collect()
}
