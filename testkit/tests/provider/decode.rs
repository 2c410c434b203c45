//! Streams put together again, by the rules of each wire, into what the same answer is when it
//! is not streamed.

use serde_json::{Value, json};

use crate::client::Response;

/// The answer that a stream on `path` amounts to.
pub(crate) fn assemble(path: &str, response: &Response) -> Value {
    match path {
        path if path.ends_with("/messages") => messages(response),
        path if path.ends_with("/completions") => chat(response),
        path if path.ends_with("/responses") => responses(response),
        path if path.ends_with("alt=sse") => gemini(response.events().into_iter().map(|(_, data)| data)),
        _ => gemini(response.json().as_array().expect("an array").iter().cloned()),
    }
}

fn messages(response: &Response) -> Value {
    let mut message = Value::Null;
    let mut partial = String::new();
    for (name, data) in response.events() {
        assert_eq!(name.as_deref(), data["type"].as_str(), "events are named by their type");
        let index = data["index"].as_u64().unwrap_or_default() as usize;
        match data["type"].as_str().unwrap_or_default() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("content");
                assert_eq!(content.len(), index);
                content.push(data["content_block"].clone());
                partial.clear();
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                let delta = &data["delta"];
                match delta["type"].as_str().unwrap_or_default() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    _ => {
                        partial.push_str(delta["partial_json"].as_str().unwrap_or_default());
                        block["input"] = serde_json::from_str(&partial).unwrap_or_default();
                    }
                }
            }
            "message_delta" => {
                merge(&mut message, &data["delta"]);
                merge(&mut message["usage"], &data["usage"]);
            }
            _ => {}
        }
    }
    message
}

fn chat(response: &Response) -> Value {
    assert!(response.body().ends_with(b"data: [DONE]\n\n"));
    let mut whole = json!({});
    let mut message = json!({});
    for (_, data) in response.events() {
        if data["object"] != "chat.completion.chunk" {
            continue;
        }
        merge(&mut whole, &data);
        let choice = &data["choices"][0];
        for (key, value) in choice["delta"].as_object().into_iter().flatten() {
            match key.as_str() {
                "content" | "reasoning_content" => append(&mut message[key], value),
                "tool_calls" => add_calls(&mut message, value),
                _ => message[key] = value.clone(),
            }
        }
        if choice["finish_reason"].is_string() {
            message["finish_reason"] = choice["finish_reason"].clone();
        }
    }
    let finish = message.as_object_mut().expect("a message").shift_remove("finish_reason");
    whole["object"] = "chat.completion".into();
    whole["choices"] = json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]);
    whole
}

fn add_calls(message: &mut Value, deltas: &Value) {
    for delta in deltas.as_array().into_iter().flatten() {
        let index = delta["index"].as_u64().expect("an index") as usize;
        if message["tool_calls"][index].is_null() {
            let mut call = delta.clone();
            call.as_object_mut().expect("a call").shift_remove("index");
            let mut calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            calls.push(call);
            message["tool_calls"] = calls.into();
        } else {
            let arguments = &mut message["tool_calls"][index]["function"]["arguments"];
            append(arguments, &delta["function"]["arguments"]);
        }
    }
}

/// The final response; what deltas and items said before it has to be the same.
fn responses(response: &Response) -> Value {
    let mut items: Vec<Value> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let mut whole = Value::Null;
    for (number, (name, data)) in response.events().into_iter().enumerate() {
        assert_eq!(name.as_deref(), data["type"].as_str(), "events are named by their type");
        assert_eq!(data["sequence_number"], number);
        let index = data["output_index"].as_u64().unwrap_or_default() as usize;
        match data["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => {
                assert_eq!(items.len(), index);
                items.push(Value::Null);
                texts.push(String::new());
            }
            "response.output_item.done" => items[index] = data["item"].clone(),
            "response.completed" | "response.incomplete" => whole = data["response"].clone(),
            "response.future.delta" => {}
            kind if kind.ends_with(".delta") => texts[index].push_str(data["delta"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
    assert_eq!(whole["output"], json!(items));
    for (item, text) in items.iter().zip(texts) {
        let said = [&item["content"][0]["text"], &item["summary"][0]["text"], &item["arguments"]];
        assert_eq!(said.iter().find_map(|said| said.as_str()).unwrap_or_default(), text);
    }
    whole
}

fn gemini(chunks: impl Iterator<Item = Value>) -> Value {
    let mut whole = json!({});
    let mut parts: Vec<Value> = Vec::new();
    for chunk in chunks.filter(|chunk| chunk.get("candidates").is_some()) {
        merge(&mut whole, &chunk);
        for part in chunk["candidates"][0]["content"]["parts"].as_array().expect("parts") {
            match parts.last_mut().filter(|last| last["text"].is_string() && last.get("thought") == part.get("thought"))
            {
                Some(last) if part["text"].is_string() => {
                    append(&mut last["text"], &part["text"]);
                    if let Some(signature) = part.get("thoughtSignature") {
                        last["thoughtSignature"] = signature.clone();
                    }
                }
                _ => parts.push(part.clone()),
            }
        }
    }
    whole["candidates"][0]["content"]["parts"] = parts.into();
    whole
}

fn append(text: &mut Value, more: &Value) {
    if let Some(more) = more.as_str() {
        *text = format!("{}{more}", text.as_str().unwrap_or_default()).into();
    } else if text.is_null() {
        *text = more.clone();
    }
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}
