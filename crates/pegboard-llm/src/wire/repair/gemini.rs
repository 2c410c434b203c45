//! Gemini `generateContent`.

use serde_json::{Value, json};

use super::{NO_OUTPUT, NO_TEXT, is_blank, is_blank_text, need_object, tame_name, text};

/// What Google's documents give for calls that no Gemini model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];

pub(super) fn content(content: &Value) -> Option<Value> {
    let mut content = content.clone();
    let is_said = text(&content, "role") == "model";
    let parts = content.get_mut("parts").and_then(Value::as_array_mut)?;
    let had_text = parts.iter().any(is_blank_text);
    let is_signed = |part: &Value| SIGNATURES.iter().any(|key| part.get(key).is_some());
    parts.retain(|part| !is_nothing(part) && (!is_blank_text(part) || (is_said && is_signed(part))));
    parts.iter_mut().for_each(mend);
    if parts.is_empty() && had_text && !is_said {
        parts.push(json!({"text": NO_TEXT}));
    }
    // Thoughts alone say nothing.
    let is_silent = |part: &Value| is_thought(part) || is_blank_text(part);
    let has_content = if is_said { !parts.iter().all(is_silent) } else { !parts.is_empty() };
    has_content.then_some(content)
}

fn is_nothing(part: &Value) -> bool {
    part.as_object().is_none_or(serde_json::Map::is_empty)
}

fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn mend(part: &mut Value) {
    if let Some(call) = part.get_mut("functionCall") {
        if call.get("args").is_some() {
            need_object(call, "args");
        }
        tame_name(call, "name");
    }
    if let Some(response) = part.get_mut("functionResponse") {
        tame_name(response, "name");
        for key in ["output", "error"] {
            let said = response.get_mut("response").and_then(|answer| answer.get_mut(key));
            if let Some(said) = said.filter(|said| said.is_string() && is_blank(Some(said))) {
                *said = NO_OUTPUT.into();
            }
        }
    }
}

/// Takes away thoughts and signatures. Models that want calls signed take a sign that says
/// that they are not theirs.
pub(super) fn strip(content: &mut Value, signs_calls: bool) {
    if text(content, "role") != "model" {
        return;
    }
    let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { return };
    parts.retain(|part| !is_thought(part));
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        SIGNATURES.iter().for_each(|key| drop(part.shift_remove(*key)));
    }
    let first_call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(call) = first_call.filter(|_| signs_calls) {
        call["thoughtSignature"] = NO_SIGNATURE.into();
    }
}
