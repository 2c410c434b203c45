//! Anthropic Messages.

use serde_json::{Value, json};

use super::{TurnEncoder, arguments_object, arguments_text};
use crate::provider::{
    events::{StreamEvent, pieces, ping},
    route::{Vendor, Wire},
    script::{Call, Part, Quirk, Search, Stop},
};

pub(super) fn blocks(speech: &mut TurnEncoder) -> Result<Vec<Value>, String> {
    let mut blocks = Vec::new();
    for part in &speech.output.parts {
        match part {
            Part::Text(text) => blocks.push(json!({"type": "text", "text": text})),
            Part::Thinking { text, signature } => {
                let signature = signature.clone().unwrap_or_else(|| speech.ids.signature());
                blocks.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
            }
            Part::Call(call) => blocks.push(tool_use(speech, call)),
            Part::Search(search) => blocks.extend(searched(speech, search)?),
            Part::Raw(block) => blocks.push(block.clone()),
        }
    }
    if speech.has_unknown() {
        blocks.insert(blocks.len().min(1), json!({"type": "future_block", "data": {"nested": [1, null, "x"]}}));
    }
    Ok(blocks)
}

fn tool_use(speech: &mut TurnEncoder, call: &Call) -> Value {
    let minimax = speech.ask.route.vendor == Vendor::MiniMax;
    let prefix = if minimax { "call_function_" } else { "toolu_" };
    let id = call.id.clone().unwrap_or_else(|| speech.ids.next(prefix));
    let mut block = json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments});
    if !minimax {
        block["caller"] = json!({"type": "direct"});
    }
    block
}

/// A provider-side search and its result.
fn searched(speech: &mut TurnEncoder, search: &Search) -> Result<[Value; 2], String> {
    let (name, key, words) = match (&search.pattern, &search.query) {
        (Some(pattern), _) => ("tool_search_tool_regex", "pattern", pattern),
        (None, Some(query)) => ("tool_search_tool_bm25", "query", query),
        (None, None) => return Err("a search needs a query or a pattern".into()),
    };
    if !speech.ask.tools.iter().any(|tool| tool.is_search() && tool.name == name) {
        return Err(format!("the request has no tool `{name}` to search with"));
    }
    if let Some(unknown) = search.matches.iter().find(|found| speech.ask.tool(found).is_none()) {
        return Err(format!("a search cannot find `{unknown}`, which the request does not define"));
    }
    let id = speech.ids.next("srvtoolu_");
    let input = search.arguments.clone().unwrap_or_else(|| json!({key: words}));
    let references = search.matches.iter().map(|name| json!({"type": "tool_reference", "tool_name": name}));
    let content = match &search.error {
        Some(code) => json!({"type": "tool_search_tool_result_error", "error_code": code, "error_message": null}),
        None => json!({"type": "tool_search_tool_search_result", "tool_references": references.collect::<Vec<_>>()}),
    };
    Ok([
        json!({"type": "server_tool_use", "id": id, "name": name, "input": input, "caller": {"type": "direct"}}),
        json!({"type": "tool_search_tool_result", "tool_use_id": id, "content": content}),
    ])
}

pub(super) fn whole(speech: &TurnEncoder, blocks: &[Value]) -> Value {
    json!({
        "id": speech.id,
        "type": "message",
        "role": "assistant",
        "model": speech.ask.model,
        "content": blocks.iter().map(whole_block).collect::<Vec<_>>(),
        "stop_reason": stop_reason(&speech.stop),
        "stop_sequence": null,
        "usage": usage(speech, speech.usage.output),
    })
}

/// A call that was cut off has lost what it was given.
fn whole_block(block: &Value) -> Value {
    let mut block = block.clone();
    if block["type"] == "tool_use" {
        block["input"] = arguments_object(&block["input"]);
    }
    block
}

fn stop_reason(stop: &Stop) -> &str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal => "refusal",
        Stop::Pause => "pause_turn",
        Stop::Other(word) => word,
    }
}

fn usage(speech: &TurnEncoder, output: u64) -> Value {
    let usage = speech.usage;
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cache_read + usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": output,
        "service_tier": "standard",
    })
}

pub(super) fn events(speech: &TurnEncoder, blocks: &[Value]) -> Vec<StreamEvent> {
    let mut start = whole(speech, &[]);
    start["stop_reason"] = Value::Null;
    start["usage"] = usage(speech, 1);
    // What a search loads is read after the message has begun, and is only in the final count.
    if blocks.iter().any(|block| block["type"] == "server_tool_use") {
        start["usage"]["input_tokens"] = (start["usage"]["input_tokens"].as_u64().unwrap_or_default() / 2).into();
    }
    let mut events = vec![StreamEvent::typed(json!({"type": "message_start", "message": start}))];
    for (index, block) in blocks.iter().enumerate() {
        events.push(StreamEvent::typed(
            json!({"type": "content_block_start", "index": index, "content_block": opened(block)}),
        ));
        if index == 0 {
            events.extend(ping(Wire::Messages));
        }
        let delta = |delta| StreamEvent::typed(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas(block, speech.sending.delta).into_iter().map(delta));
        events.push(StreamEvent::typed(json!({"type": "content_block_stop", "index": index})));
    }
    let delta = json!({"stop_reason": stop_reason(&speech.stop), "stop_sequence": null});
    let mut total = usage(speech, speech.usage.output);
    if let Some(total) = total.as_object_mut() {
        total.shift_remove("service_tier");
    }
    if speech.has(Quirk::SplitEnd) {
        let delta = json!({"stop_reason": null, "stop_sequence": null});
        events.push(StreamEvent::typed(json!({"type": "message_delta", "delta": delta, "usage": total})));
        total = json!({"output_tokens": speech.usage.output});
    }
    events.push(StreamEvent::typed(json!({"type": "message_delta", "delta": delta, "usage": total})));
    events.push(StreamEvent::typed(json!({"type": "message_stop"})));
    events
}

/// A block as it begins; one whose content does not come in deltas begins whole.
fn opened(block: &Value) -> Value {
    let mut block = block.clone();
    match block["type"].as_str() {
        Some("text") => block["text"] = "".into(),
        Some("thinking") => {
            block["thinking"] = "".into();
            block["signature"] = "".into();
        }
        Some("tool_use" | "server_tool_use") => block["input"] = json!({}),
        _ => {}
    }
    block
}

fn deltas(block: &Value, length: usize) -> Vec<Value> {
    let text = |key: &str| pieces(block[key].as_str().unwrap_or_default(), length).into_iter();
    match block["type"].as_str() {
        Some("text") => text("text").map(|piece| json!({"type": "text_delta", "text": piece})).collect(),
        Some("thinking") => text("thinking")
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .chain([json!({"type": "signature_delta", "signature": block["signature"]})])
            .collect(),
        Some("tool_use" | "server_tool_use") => std::iter::once(String::new())
            .chain(pieces(&arguments_text(&block["input"]), length))
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect(),
        _ => Vec::new(),
    }
}
