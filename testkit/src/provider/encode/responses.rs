//! OpenAI Responses.

mod stream;

use serde_json::{Value, json};

use super::{NOW, TurnEncoder, arguments_text, is_for_client};
use crate::provider::{
    ask,
    script::{Call, Part, Search, Stop},
};

pub(super) use stream::events;

pub(super) fn items(speech: &mut TurnEncoder) -> Result<Vec<Value>, String> {
    let mut output = Vec::new();
    for part in &speech.output.parts {
        match part {
            Part::Text(text) => output.push(message(speech, text)),
            Part::Thinking { text, signature } => output.push(reasoning(speech, text, signature.clone())),
            Part::Call(call) => output.push(function_call(speech, call)),
            Part::Search(search) => output.append(&mut searched(speech, search)?),
            Part::Raw(item) => output.push(item.clone()),
        }
    }
    if speech.has_unknown() {
        let id = speech.ids.next("fi_");
        let unknown =
            json!({"id": id, "type": "future_item", "status": "completed", "data": {"nested": [1, null, "x"]}});
        // In front, so that it does not come between a reasoning item and what it led to.
        output.insert(0, unknown);
    }
    Ok(output)
}

fn message(speech: &mut TurnEncoder, text: &str) -> Value {
    let content = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let id = speech.ids.next("msg_");
    json!({"id": id, "type": "message", "status": "completed", "content": [content], "role": "assistant"})
}

fn reasoning(speech: &mut TurnEncoder, text: &str, signature: Option<String>) -> Value {
    let id = speech.ids.next("rs_");
    let mut item = json!({"id": id, "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]});
    if ask::items(&speech.ask.body["include"]).iter().any(|include| include == "reasoning.encrypted_content") {
        item["encrypted_content"] = signature.unwrap_or_else(|| speech.ids.signature()).into();
    }
    item
}

fn function_call(speech: &mut TurnEncoder, call: &Call) -> Value {
    let mut item = json!({
        "id": speech.ids.next("fc_"),
        "type": "function_call",
        "status": "completed",
        "arguments": arguments_text(&call.arguments),
        "call_id": call.id.clone().unwrap_or_else(|| speech.ids.next("call_")),
        "name": call.name,
    });
    if let Some(namespace) = call.namespace.clone().or_else(|| namespace(speech, &call.name)) {
        item["namespace"] = namespace.into();
    }
    item
}

/// The namespace that a call of `name` comes with; that of a deferred function is its own name.
fn namespace(speech: &TurnEncoder, name: &str) -> Option<String> {
    let tool = speech.ask.tool(name)?;
    tool.namespace.map(String::from).or_else(|| tool.deferred.then(|| name.into()))
}

/// A search: the call alone if the client is to execute it, the call and what it found otherwise.
fn searched(speech: &mut TurnEncoder, search: &Search) -> Result<Vec<Value>, String> {
    let words = search.query.as_ref().or(search.pattern.as_ref());
    if is_for_client(speech.ask, search) {
        let arguments = search.arguments.clone().unwrap_or_else(|| json!({"query": words}));
        return Ok(vec![json!({
            "id": speech.ids.next("tsc_"),
            "type": "tool_search_call",
            "status": "completed",
            "arguments": arguments,
            "call_id": speech.ids.next("call_"),
            "execution": "client",
        })]);
    }
    if speech.ask.search_tool().is_none() {
        return Err("the request has no tool of the type `tool_search`".into());
    }
    let found: Vec<Value> = search.matches.iter().map(|name| definition(speech, name)).collect::<Result<_, _>>()?;
    let arguments = search.arguments.clone().unwrap_or_else(|| json!({"paths": search.matches}));
    let item = |id: String, kind: &str| {
        let (status, execution) = ("completed", "server");
        json!({"id": id, "type": kind, "status": status, "call_id": null, "execution": execution})
    };
    let (mut call, mut output) =
        (item(speech.ids.next("tsc_"), "tool_search_call"), item(speech.ids.next("tso_"), "tool_search_output"));
    call["arguments"] = arguments;
    output["tools"] = found.into();
    Ok(vec![call, output])
}

/// What a hosted search returns for a name: a namespace, a function in its namespace, or a function.
fn definition(speech: &TurnEncoder, name: &str) -> Result<Value, String> {
    let list = ask::items(&speech.ask.body["tools"]);
    for tool in list {
        if tool["name"] == name {
            return Ok(tool.clone());
        }
        if let Some(inner) = ask::items(&tool["tools"]).iter().find(|inner| inner["name"] == name) {
            let mut namespace = tool.clone();
            namespace["tools"] = json!([inner]);
            return Ok(namespace);
        }
    }
    Err(format!("a search cannot find `{name}`, which the request does not define"))
}

/// The response object, with what the request asked for in it.
pub(super) fn whole(speech: &TurnEncoder, output: &[Value]) -> Value {
    let body = speech.ask.body;
    let told = |key: &str, usual: Value| body.get(key).cloned().unwrap_or(usual);
    let (status, reason) = match &speech.stop {
        Stop::MaxTokens => ("incomplete", Some("max_output_tokens")),
        Stop::Refusal => ("incomplete", Some("content_filter")),
        Stop::Other(word) => ("incomplete", Some(word.as_str())),
        Stop::EndTurn | Stop::ToolUse | Stop::Pause => ("completed", None),
    };
    json!({
        "id": speech.id,
        "object": "response",
        "created_at": NOW,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": told("instructions", Value::Null),
        "max_output_tokens": told("max_output_tokens", Value::Null),
        "model": speech.ask.model,
        "output": output,
        "parallel_tool_calls": told("parallel_tool_calls", true.into()),
        "previous_response_id": told("previous_response_id", Value::Null),
        "reasoning": told("reasoning", json!({"effort": null, "summary": null})),
        "store": told("store", true.into()),
        "temperature": told("temperature", json!(1.0)),
        "text": told("text", json!({"format": {"type": "text"}})),
        "tool_choice": told("tool_choice", "auto".into()),
        "tools": told("tools", json!([])),
        "top_p": told("top_p", json!(1.0)),
        "truncation": "disabled",
        "usage": usage(speech),
        "user": null,
        "metadata": told("metadata", json!({})),
    })
}

fn usage(speech: &TurnEncoder) -> Value {
    let usage = speech.usage;
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    })
}
