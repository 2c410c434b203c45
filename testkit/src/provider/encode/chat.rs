//! OpenAI Chat Completions, and MiniMax's way with them.

use serde_json::{Map, Value, json};

use super::{NOW, TurnEncoder, arguments_text};
use crate::provider::{
    ask::items,
    events::{StreamEvent, pieces},
    route::Vendor,
    script::{Call, Part, Quirk, Stop},
};

pub(super) fn message(speech: &mut TurnEncoder) -> Result<Value, String> {
    let minimax = speech.ask.route.vendor == Vendor::MiniMax;
    let inline = minimax && speech.ask.body["reasoning_split"] != true;
    let (mut content, mut thoughts, mut calls, mut rest) = (String::new(), String::new(), Vec::new(), Map::new());
    for part in &speech.output.parts {
        match part {
            Part::Text(text) => content.push_str(text),
            Part::Thinking { text, .. } if inline => content.push_str(&format!("<think>\n{text}\n</think>\n\n")),
            Part::Thinking { text, .. } => thoughts.push_str(text),
            Part::Call(call) => calls.push(tool_call(speech, call)),
            Part::Search(_) => return Err("Chat Completions has no search of its own".into()),
            Part::Raw(value) => rest.extend(value.as_object().cloned().unwrap_or_default()),
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if content.is_empty() { Value::Null } else { content.into() });
    if !thoughts.is_empty() {
        message.insert("reasoning_content".into(), thoughts.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    message.insert("refusal".into(), Value::Null);
    if speech.has_unknown() {
        message.insert("future_field".into(), json!({"nested": [1, null, "x"]}));
    }
    message.append(&mut rest);
    Ok(Value::Object(message))
}

fn tool_call(speech: &mut TurnEncoder, call: &Call) -> Value {
    let prefix = if speech.ask.route.vendor == Vendor::MiniMax { "call_function_" } else { "call_" };
    let id = call.id.clone().unwrap_or_else(|| speech.ids.next(prefix));
    let function = json!({"name": call.name, "arguments": arguments_text(&call.arguments)});
    json!({"id": id, "type": "function", "function": function})
}

fn finish_reason(stop: &Stop) -> &str {
    match stop {
        Stop::EndTurn | Stop::Pause => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
        Stop::Other(word) => word,
    }
}

pub(super) fn whole(speech: &TurnEncoder, message: &Value) -> Value {
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(&speech.stop),
    });
    json!({
        "id": speech.id,
        "object": "chat.completion",
        "created": NOW,
        "model": speech.ask.model,
        "choices": [choice],
        "usage": usage(speech),
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    })
}

fn usage(speech: &TurnEncoder) -> Value {
    let usage = speech.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    })
}

pub(super) fn events(speech: &TurnEncoder, message: &Value) -> Vec<StreamEvent> {
    let counted = speech.ask.body["stream_options"]["include_usage"] == true;
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": speech.id,
            "object": "chat.completion.chunk",
            "created": NOW,
            "model": speech.ask.model,
            "service_tier": "default",
            "system_fingerprint": "fp_scripted",
            "choices": choices,
        });
        if counted {
            chunk["usage"] = usage;
        }
        StreamEvent::Plain(chunk)
    };
    let choice =
        |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    let none: Value = if speech.has(Quirk::EmptyReason) { "".into() } else { Value::Null };
    let deltas = deltas(speech, message).into_iter();
    let mut events: Vec<StreamEvent> = deltas.map(|delta| chunk(choice(delta, none.clone()), Value::Null)).collect();
    events.push(chunk(choice(json!({}), finish_reason(&speech.stop).into()), Value::Null));
    if counted {
        let nothing = || choice(json!({"role": "assistant", "content": ""}), none.clone());
        let choices = if speech.has(Quirk::UsageInChoice) { nothing() } else { json!([]) };
        events.push(chunk(choices, usage(speech)));
    }
    events.push(StreamEvent::Done);
    events
}

/// A message in pieces: its role, what it holds besides, its thoughts, words and calls.
fn deltas(speech: &TurnEncoder, message: &Value) -> Vec<Value> {
    let length = speech.sending.delta;
    let text = |key: &str| pieces(message[key].as_str().unwrap_or_default(), length).into_iter();
    let mut first = message.clone();
    if let Some(first) = first.as_object_mut() {
        first.shift_remove("reasoning_content");
        first.shift_remove("tool_calls");
    }
    if message["content"].is_string() {
        first["content"] = "".into();
    }
    let mut deltas = vec![first];
    deltas.extend(text("reasoning_content").map(|piece| json!({"reasoning_content": piece})));
    deltas.extend(text("content").map(|piece| json!({"content": piece})));
    for (index, call) in items(&message["tool_calls"]).iter().enumerate() {
        let mut opened = call.clone();
        opened["function"]["arguments"] = "".into();
        let arguments = pieces(call["function"]["arguments"].as_str().unwrap_or_default(), length);
        let further = arguments.into_iter().map(|arguments| further_piece(speech, &arguments));
        for mut piece in [opened].into_iter().chain(further) {
            piece["index"] = index.into();
            deltas.push(json!({"tool_calls": [piece]}));
        }
    }
    deltas
}

/// A piece of a call behind its first one.
fn further_piece(speech: &TurnEncoder, arguments: &str) -> Value {
    match speech.has(Quirk::EmptyNames) {
        true => json!({"id": "", "type": "function", "function": {"name": "", "arguments": arguments}}),
        false => json!({"function": {"arguments": arguments}}),
    }
}
