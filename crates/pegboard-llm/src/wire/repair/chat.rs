//! OpenAI Chat Completions.

use serde_json::{Map, Value};

use super::{NO_OUTPUT, NO_TEXT, is_blank, need_object_text, tame_name, text};

pub(super) fn message(message: &Value) -> Option<Value> {
    let mut message = message.clone();
    let is_empty = is_blank(message.get("content"));
    match text(&message, "role") {
        "assistant" => assistant(&mut message, is_empty).then_some(message),
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

/// Mends what a model said; whether there is anything to say.
fn assistant(message: &mut Value, is_empty: bool) -> bool {
    let Some(fields) = message.as_object_mut() else { return false };
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        calls.iter_mut().filter_map(|call| call.get_mut("function")).for_each(|function| {
            need_object_text(function, "arguments");
            tame_name(function, "name");
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
    // A refusal alone is no content.
    let refusal = fields.shift_remove("refusal").filter(|refusal| !is_blank(Some(refusal)));
    refusal.map(|refusal| fields.insert("content".into(), refusal)).is_some()
}

/// Leaves what every endpoint knows.
pub(super) fn strip(message: &mut Value) {
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
