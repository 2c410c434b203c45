//! Answers of several rounds on every wire: what the client gets, and what the next request restores.

use std::{sync::Arc, time::Duration};

use pegboard_core::RawTool;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    calls::Delivery,
    catalog::{CALL, SEARCH, ToolSets},
    conversation::{self, Conversations, Turn},
    json::text,
    sse::{self, FrameReader},
};

mod shapes;

const WIRES: [WireName; 4] = [WireName::Chat, WireName::Messages, WireName::Responses, WireName::Gemini];

/// One call or text of a model.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// Id, name and arguments.
    Call(String, String, Value),
}

fn text_part(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn call_part(id: &str, name: &str, arguments: Value) -> Part {
    Part::Call(id.to_owned(), name.to_owned(), arguments)
}

fn search() -> Part {
    call_part("s1", SEARCH, json!({"query": "send mail"}))
}

fn wrapped(id: &str, name: &str, arguments: Value) -> Part {
    let mut whole = json!({"name": name});
    whole["arguments"] = arguments;
    call_part(id, CALL, whole)
}

/// Returns the calls of an answer over a few tools.
fn calls_of(wire: &dyn Wire) -> Calls {
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]});
    let tool = |name: &str, description: &str| match wire.name() {
        WireName::Gemini => json!({"name": name, "description": description, "parametersJsonSchema": schema}),
        WireName::Responses => {
            json!({"type": "function", "name": name, "description": description, "parameters": schema})
        }
        WireName::Chat => {
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
        }
        WireName::Messages => json!({"name": name, "description": description, "input_schema": schema}),
    };
    let tools = [tool("send_mail", "Send an e-mail"), tool("get_weather", "Current weather")];
    let list = match wire.name() {
        WireName::Gemini => json!([{"functionDeclarations": tools}]),
        _ => json!(tools),
    };
    let (set, _) = ToolSets::default().get(&list.to_string(), wire);
    assert_eq!(set.bypass, None);
    Calls::new(set.session().expect("tools"), Arc::clone(&set), Delivery::Constant)
}

fn has_calls(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Call(..)))
}

/// Returns an answer as a wire writes it in one piece.
fn whole(wire: WireName, round: usize, parts: &[Part]) -> Value {
    let id = format!("r{round}");
    let text: String =
        parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect();
    let calls = parts
        .iter()
        .filter_map(|part| if let Part::Call(id, name, arguments) = part { Some((id, name, arguments)) } else { None });
    match wire {
        WireName::Chat => {
            let calls: Vec<Value> = calls
                .map(|(id, name, arguments)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}))
                .collect();
            let mut message = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            let finish = if has_calls(parts) { "tool_calls" } else { "stop" };
            json!({
                "id": id, "object": "chat.completion", "created": round, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
            })
        }
        WireName::Messages => {
            let content: Vec<Value> = parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => json!({"type": "text", "text": text}),
                    Part::Call(id, name, input) => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
                })
                .collect();
            let stop = if has_calls(parts) { "tool_use" } else { "end_turn" };
            json!({
                "id": id, "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
                "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 4}
            })
        }
        WireName::Responses => {
            let output: Vec<Value> = parts.iter().enumerate().map(|(at, part)| match part {
                Part::Text(text) => json!({
                    "id": format!("msg_{round}_{at}"), "type": "message", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]
                }),
                Part::Call(id, name, arguments) => json!({
                    "id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id, "name": name,
                    "arguments": arguments.to_string()
                }),
            }).collect();
            json!({
                "id": id, "object": "response", "status": "completed", "output": output,
                "usage": {"input_tokens": 10, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 4}}
            })
        }
        WireName::Gemini => {
            let parts: Vec<Value> = parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => json!({"text": text}),
                    Part::Call(_, name, args) => {
                        json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "sig"})
                    }
                })
                .collect();
            json!({
                "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 1, "cachedContentTokenCount": 4},
                "responseId": id
            })
        }
    }
}

/// Returns the events of the same answer.
fn streamed(wire: WireName, round: usize, parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::new();
    let answer = whole(wire, round, parts);
    match wire {
        WireName::Chat => stream_chat(&answer, &mut out),
        WireName::Messages => stream_messages(&answer, &mut out),
        WireName::Responses => stream_responses(&answer, &mut out),
        WireName::Gemini => {
            let mut event = answer.clone();
            for part in answer["candidates"][0]["content"]["parts"].as_array().expect("parts") {
                event["candidates"] = json!([{"content": {"role": "model", "parts": [part]}, "index": 0}]);
                sse::write(None, &event.to_string(), &mut out);
            }
            event["candidates"] =
                json!([{"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}]);
            sse::write(None, &event.to_string(), &mut out);
        }
    }
    out
}

fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn stream_chat(answer: &Value, out: &mut Vec<u8>) {
    let choice = &answer["choices"][0];
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(halves(text(&choice["message"], "content")).map(|half| json!({"content": half})));
    for (index, call) in choice["message"]["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let function = json!({"name": call["function"]["name"], "arguments": ""});
        deltas.push(
            json!({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}),
        );
        for half in halves(text(&call["function"], "arguments")) {
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": half}}]}));
        }
    }
    let event = |choices: Value, usage: &Value| json!({"id": answer["id"], "object": "chat.completion.chunk", "created": answer["created"], "model": "m", "choices": choices, "usage": usage});
    for delta in deltas {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        sse::write(None, &event(choices, &Value::Null).to_string(), out);
    }
    let choices = json!([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]);
    sse::write(None, &event(choices, &Value::Null).to_string(), out);
    sse::write(None, &event(json!([]), &answer["usage"]).to_string(), out);
    sse::write(None, "[DONE]", out);
}

fn stream_messages(answer: &Value, out: &mut Vec<u8>) {
    let mut write = |event: Value| sse::write(Some(text(&event, "type")), &event.to_string(), out);
    let mut message = answer.clone();
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    write(json!({"type": "message_start", "message": message}));
    write(json!({"type": "ping"}));
    for (index, block) in answer["content"].as_array().into_iter().flatten().enumerate() {
        let (mut start, pieces) = (
            block.clone(),
            match text(block, "type") {
                "text" => halves(text(block, "text")).map(|half| json!({"type": "text_delta", "text": half})),
                _ => halves(&block["input"].to_string())
                    .map(|half| json!({"type": "input_json_delta", "partial_json": half})),
            },
        );
        match text(block, "type") {
            "text" => start["text"] = "".into(),
            _ => start["input"] = json!({}),
        }
        write(json!({"type": "content_block_start", "index": index, "content_block": start}));
        pieces
            .into_iter()
            .for_each(|delta| write(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        write(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": answer["stop_reason"], "stop_sequence": null});
    write(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}));
    write(json!({"type": "message_stop"}));
}

fn stream_responses(answer: &Value, out: &mut Vec<u8>) {
    let mut number = 0;
    let mut write = |mut event: Value| {
        event["sequence_number"] = number.into();
        number += 1;
        sse::write(Some(text(&event, "type")), &event.to_string(), out);
    };
    let mut begun = answer.clone();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    write(json!({"type": "response.created", "response": begun}));
    write(json!({"type": "response.in_progress", "response": begun}));
    for (index, item) in answer["output"].as_array().into_iter().flatten().enumerate() {
        write(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        let (kind, whole) = match text(item, "type") {
            "message" => ("response.output_text.delta", text(&item["content"][0], "text")),
            _ => ("response.function_call_arguments.delta", text(item, "arguments")),
        };
        for half in halves(whole) {
            write(json!({"type": kind, "output_index": index, "item_id": item["id"], "delta": half}));
        }
        write(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    write(json!({"type": "response.completed", "response": answer}));
}

/// Returns the searches among the hidden calls of a round.
fn searches(round: &Round) -> Vec<&HeldCall> {
    round.hidden.iter().filter_map(|call| if let HiddenCall::Search(call) = call { Some(call) } else { None }).collect()
}

/// What the client has in its hands at the end: texts and calls, and the signs of one lifecycle.
#[derive(Debug, PartialEq)]
struct Outcome {
    said: String,
    lifecycle: String,
}

/// Answers the hidden calls of a round as an exchange does; returns whether the model goes on.
fn close(wire: &dyn Wire, calls: &mut Calls, round: Round, turn: &mut Turn) -> bool {
    let places = round.hidden_places;
    let answers = round.hidden.into_iter().map(|call| calls.answer(call));
    let parts: Vec<String> = answers.map(|answer| wire.answer_part(&answer)).collect();
    let items = turn.items.get_or_insert_default();
    items.extend(round.items);
    if parts.is_empty() {
        return false;
    }
    if round.client_calls > 0 {
        turn.parked = park(wire, parts, &places);
        return false;
    }
    items.extend(wire.answer_items(&parts));
    true
}

/// Streams rounds in chunks of a size; returns the bytes for the client, the turn, and what was said.
fn stream(name: WireName, rounds: &[Vec<Part>], chunk: usize) -> (Vec<u8>, Turn, Said) {
    let wire = name.wire();
    let (mut calls, mut out, mut turn) = (calls_of(wire), Vec::new(), Turn::default());
    let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
    for (at, parts) in rounds.iter().enumerate() {
        let mut reader = FrameReader::new(1 << 20);
        for bytes in streamed(name, at, parts).chunks(chunk) {
            for frame in reader.push(bytes).expect("small") {
                splicer.frame(&frame, &mut calls, &mut out);
            }
        }
        let round = splicer.end_round(&mut calls, &mut out);
        assert_eq!(round.end, End::Complete, "{name:?}");
        let goes_on = close(wire, &mut calls, round, &mut turn);
        assert_eq!(goes_on, at + 1 < rounds.len(), "{name:?} {at}");
    }
    splicer.finish(None, &mut out);
    (out, turn, splicer.said().clone())
}

fn events(bytes: &[u8]) -> Vec<Value> {
    let frames = FrameReader::new(1 << 20).push(bytes).expect("small");
    let parse = |data: String| serde_json::from_str(&data).unwrap_or(Value::String(data));
    frames.into_iter().filter_map(|frame| frame.data).map(parse).collect()
}

/// Assembles a stream as the clients of a wire do.
fn assemble(name: WireName, bytes: &[u8]) -> Outcome {
    let events = events(bytes);
    match name {
        WireName::Chat => assemble_chat(&events),
        WireName::Messages => assemble_messages(&events),
        WireName::Responses => assemble_responses(&events),
        WireName::Gemini => {
            let parts = events
                .iter()
                .flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten());
            let said: String = parts
                .map(|part| match part.get("functionCall") {
                    Some(call) => format!("[{} {}]", text(call, "name"), call["args"]),
                    None => text(part, "text").to_owned(),
                })
                .collect();
            let ends: Vec<&Value> =
                events.iter().filter_map(|event| event["candidates"][0].get("finishReason")).collect();
            let ids: std::collections::BTreeSet<&str> = events.iter().map(|event| text(event, "responseId")).collect();
            let usage = &events.last().expect("events")["usageMetadata"]["promptTokenCount"];
            Outcome { said, lifecycle: format!("{ids:?} {ends:?} {usage}") }
        }
    }
}

fn assemble_chat(events: &[Value]) -> Outcome {
    let (mut said, mut calls) = (String::new(), Vec::<(String, String, String)>::new());
    let (mut roles, mut ends, mut usage) = (0, Vec::new(), Vec::new());
    for event in events {
        let choice = &event["choices"][0];
        roles += usize::from(choice["delta"].get("role").is_some());
        said.push_str(text(&choice["delta"], "content"));
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().expect("a number") as usize;
            if index == calls.len() {
                calls.push((text(call, "id").to_owned(), text(&call["function"], "name").to_owned(), String::new()));
            }
            calls[index].2.push_str(text(&call["function"], "arguments"));
        }
        ends.extend(choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()));
        usage.extend(event.pointer("/usage/prompt_tokens"));
    }
    said.extend(calls.iter().map(|(id, name, arguments)| format!("[{id} {name} {arguments}]")));
    let ids: std::collections::BTreeSet<&str> =
        events.iter().map(|event| text(event, "id")).filter(|id| !id.is_empty()).collect();
    let dones = events.iter().filter(|event| *event == "[DONE]").count();
    Outcome { said, lifecycle: format!("{ids:?} roles={roles} {ends:?} usage={usage:?} done={dones}") }
}

fn assemble_messages(events: &[Value]) -> Outcome {
    let (mut said, mut open, mut next) = (String::new(), None, 0);
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for event in events {
        match text(event, "type") {
            "message_start" => starts.push(text(&event["message"], "id")),
            "content_block_start" => {
                assert_eq!((event["index"].as_u64(), open), (Some(next), None), "blocks follow one another");
                open = Some(next);
                let block = &event["content_block"];
                if block["type"] == "tool_use" {
                    said.push_str(&format!("[{} {} ", text(block, "id"), text(block, "name")));
                }
            }
            "content_block_delta" => {
                assert_eq!(event["index"].as_u64(), open);
                said.push_str(text(&event["delta"], "text"));
                said.push_str(text(&event["delta"], "partial_json"));
                if event["delta"]["type"] == "input_json_delta" {
                    said.push('\u{1}');
                }
            }
            "content_block_stop" => {
                assert_eq!(event["index"].as_u64(), open.take());
                if said.contains('\u{1}') {
                    said = said.replace('\u{1}', "") + "]";
                }
                next += 1;
            }
            "message_delta" => {
                ends.push(format!("{} {}", event["delta"]["stop_reason"], event["usage"]["output_tokens"]));
            }
            "message_stop" => ends.push("stop".to_owned()),
            _ => {}
        }
    }
    Outcome { said, lifecycle: format!("{starts:?} {ends:?}") }
}

fn assemble_responses(events: &[Value]) -> Outcome {
    let mut items: Vec<Value> = Vec::new();
    let mut lifecycle = Vec::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
        match text(event, "type") {
            "response.output_item.added" => {
                assert_eq!(event["output_index"], items.len(), "{event}");
                items.push(event["item"].clone());
            }
            "response.output_item.done" => {
                items[event["output_index"].as_u64().expect("a number") as usize] = event["item"].clone();
            }
            kind @ ("response.created" | "response.completed") => {
                lifecycle.push(format!("{kind} {}", text(&event["response"], "id")));
                if kind == "response.completed" {
                    assert_eq!(event["response"]["output"], json!(items), "the final response has all items");
                    lifecycle.push(event["response"]["usage"]["input_tokens"].to_string());
                }
            }
            _ => {}
        }
    }
    let said = items.iter().map(|item| match text(item, "type") {
        "message" => super::chat::content_text(&item["content"]),
        _ => format!("[{} {} {}]", text(item, "call_id"), text(item, "name"), text(item, "arguments")),
    });
    Outcome { said: said.collect(), lifecycle: format!("{lifecycle:?}") }
}

/// Checks what a client gets on every wire. Gemini has no ids.
#[track_caller]
fn check(rounds: &[Vec<Part>], said: &str) {
    let lifecycle = |name: WireName, last: &[Part]| {
        let (n, has_calls) = (rounds.len(), said.contains('[') && has_calls(last));
        match name {
            WireName::Chat => format!(
                "{{\"r0\"}} roles=1 [{:?}] usage=[Number({})] done=1",
                if has_calls { "tool_calls" } else { "stop" },
                10 * n
            ),
            WireName::Messages => {
                let stop = if has_calls { "tool_use" } else { "end_turn" };
                format!("[\"r0\"] [{:?}, \"stop\"]", format!("\"{stop}\" {n}"))
            }
            WireName::Responses => format!("[\"response.created r0\", \"response.completed r0\", \"{}\"]", 10 * n),
            WireName::Gemini => format!("{{\"r0\"}} [String(\"STOP\")] {}", 10 * n),
        }
    };
    for name in WIRES {
        let (bytes, turn, _) = stream(name, rounds, usize::MAX);
        let outcome = assemble(name, &bytes);
        let expected = match name {
            WireName::Gemini => said.replace("[c1 ", "[").replace("[c2 ", "["),
            _ => said.to_owned(),
        };
        assert_eq!(outcome.said, expected, "{name:?}");
        assert_eq!(outcome.lifecycle, lifecycle(name, rounds.last().expect("a round")), "{name:?}");
        assert!(!String::from_utf8_lossy(&bytes).contains(SEARCH), "{name:?}: the search is hidden");
        assert!(turn.items.is_some());
    }
}

#[test]
fn answers_of_one_round_keep_their_bytes() {
    for name in WIRES {
        for parts in [vec![text_part("Hi")], vec![text_part("Hi"), call_part("c1", "send_mail", json!({"to": "a"}))]] {
            let bytes = streamed(name, 0, &parts);
            for chunk in [usize::MAX, 7] {
                assert_eq!(stream(name, std::slice::from_ref(&parts), chunk).0, bytes, "{name:?}");
            }
        }
    }
}

#[test]
fn searches_are_hidden() {
    check(&[vec![text_part("Wait. "), search()], vec![text_part("Done.")]], "Wait. Done.");
    check(&[vec![search()], vec![search()], vec![text_part("Done.")]], "Done.");
}

#[test]
fn calls_through_the_call_tool_become_the_client_s() {
    let call = wrapped("c1", "send_mail", json!({"to": "ann"}));
    check(&[vec![search()], vec![text_part("Now "), call]], "Now [c1 send_mail {\"to\":\"ann\"}]");
    let both = vec![wrapped("c1", "send_mail", json!({"to": "a"})), wrapped("c2", "get_weather", json!({"to": "b"}))];
    check(&[both], "[c1 send_mail {\"to\":\"a\"}][c2 get_weather {\"to\":\"b\"}]");
}

#[test]
fn invalid_calls_are_answered_inside() {
    let invalid = [wrapped("c1", "send_mail", json!({"too": 1})), wrapped("c1", "no_such_tool", json!({}))];
    for call in invalid {
        let valid = wrapped("c2", "send_mail", json!({"to": "ann"}));
        check(&[vec![call], vec![valid]], "[c2 send_mail {\"to\":\"ann\"}]");
    }
}

#[test]
fn hidden_calls_are_answered_in_the_order_of_the_model() {
    let invalid = wrapped("c1", "no_such_tool", json!({}));
    for name in WIRES {
        for parts in [vec![search(), invalid.clone()], vec![invalid.clone(), search()]] {
            let (_, turn, _) = stream(name, &[parts.clone(), vec![text_part("Done.")]], usize::MAX);
            let items = turn.items.expect("items").join("\n");
            let answers = ["no_such_tool`", "Send an e-mail"].map(|text| items.find(text).expect("an answer"));
            let is_search_first = matches!(&parts[0], Part::Call(_, name, _) if name == SEARCH);
            assert_eq!(answers[1] < answers[0], is_search_first, "{name:?}: {items}");
        }
    }
}

#[test]
fn mixed_calls_end_the_turn() {
    check(&[vec![search(), wrapped("c1", "send_mail", json!({"to": "a"}))]], "[c1 send_mail {\"to\":\"a\"}]");
    check(&[vec![search(), call_part("c1", "get_weather", json!({"to": "a"}))]], "[c1 get_weather {\"to\":\"a\"}]");
}

#[test]
fn answers_in_one_piece_say_the_same() {
    let rounds =
        [vec![text_part("Wait. "), search()], vec![text_part("Now "), wrapped("c1", "send_mail", json!({"to": "a"}))]];
    for name in WIRES {
        let (_, turn, said) = stream(name, &rounds, usize::MAX);
        let (public, whole_turn, whole_said) = answer(name, &rounds);
        assert_eq!(whole_said, said, "{name:?}");
        assert_eq!(whole_turn.items.map(|items| items.len()), turn.items.map(|items| items.len()), "{name:?}");
        assert!(!public.to_string().contains(SEARCH) && !public.to_string().contains(CALL), "{name:?}: {public}");
        let usage = [
            &public["usage"]["prompt_tokens"],
            &public["usage"]["input_tokens"],
            &public["usageMetadata"]["promptTokenCount"],
        ];
        assert!(usage.contains(&&json!(20)), "{name:?}: {public}");
    }
}

#[test]
fn broken_and_stopped_answers() {
    for name in WIRES {
        let wire = name.wire();
        let bytes = streamed(name, 0, &[text_part("Hi"), search()]);
        let (mut calls, mut out) = (calls_of(wire), Vec::new());
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        let mut frames = FrameReader::new(1 << 20).push(&bytes).expect("small");
        let ends = [
            "\"finish_reason\":\"tool",
            "message_delta",
            "message_stop",
            "response.completed",
            "\"finishReason\"",
            "[DONE]",
        ];
        frames.retain(|frame| !ends.iter().any(|end| String::from_utf8_lossy(&frame.raw).contains(end)));
        frames.iter().for_each(|frame| splicer.frame(frame, &mut calls, &mut out));
        assert_eq!(splicer.end_round(&mut calls, &mut out).end, End::Broken, "{name:?}");
    }
    let length = String::from_utf8(streamed(WireName::Chat, 0, &[text_part("Hi"), search()])).expect("text");
    let length = length.replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\"");
    let (mut calls, mut out) = (calls_of(&Chat), Vec::new());
    let mut splicer = Chat.splicer(&Object::parse("{}").expect("an object"));
    for frame in FrameReader::new(1 << 20).push(length.as_bytes()).expect("small") {
        splicer.frame(&frame, &mut calls, &mut out);
    }
    let round = splicer.end_round(&mut calls, &mut out);
    assert_eq!((round.end, round.hidden.len(), round.client_calls), (End::Stopped, 0, 0));
    assert_eq!(round.items, [r#"{"role":"assistant","content":"Hi"}"#]);
}

#[test]
fn rejected_calls_of_a_stopped_answer_are_not_answered() {
    let stops = [
        ("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\""),
        ("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"max_tokens\""),
        ("\"finishReason\":\"STOP\"", "\"finishReason\":\"MAX_TOKENS\""),
        ("response.completed", "response.incomplete"),
    ];
    for name in WIRES {
        let wire = name.wire();
        let invalid = wrapped("c1", "no_such_tool", json!({}));
        let text = String::from_utf8(streamed(name, 0, &[text_part("Hi"), invalid])).expect("text");
        let stopped = stops.iter().fold(text.clone(), |text, (end, stop)| text.replace(end, stop));
        assert_ne!(stopped, text, "{name:?}");
        let (mut calls, mut out) = (calls_of(wire), Vec::new());
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        for frame in FrameReader::new(1 << 20).push(stopped.as_bytes()).expect("small") {
            splicer.frame(&frame, &mut calls, &mut out);
        }
        let round = splicer.end_round(&mut calls, &mut out);
        assert_eq!((round.end, round.has_hidden_calls(), round.client_calls), (End::Stopped, false, 0), "{name:?}");
        assert!(!round.items.concat().contains("no_such_tool"), "{name:?}: {:?}", round.items);
    }
}

/// However long an answer is, what the client has got already is not held.
#[test]
fn only_what_the_client_does_not_get_is_held() {
    let held = |name: WireName, parts: &[Part]| {
        let wire = name.wire();
        let (mut calls, mut out, mut held) = (calls_of(wire), Vec::new(), 0);
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        for at in 0..2 {
            let frames = FrameReader::new(1 << 20).push(&streamed(name, at, parts)).expect("small");
            held += splice_frames(splicer.as_mut(), &frames, &mut calls, &mut out);
            splicer.end_round(&mut calls, &mut out);
        }
        held
    };
    let long = "x".repeat(50_000);
    for name in WIRES {
        let (text, call) = (text_part(&long), call_part("c1", "send_mail", json!({"to": long})));
        // The final event of Responses has the whole answer once more.
        let end = if name == WireName::Responses { 2 * 100_000 } else { 0 };
        let passed = held(name, &[text, call]);
        assert!(passed < end + 3_000, "{name:?}: {passed}");
        let hidden = held(name, &[call_part("s1", SEARCH, json!({"query": long}))]);
        assert!(hidden > 100_000, "{name:?}: {hidden}");
    }
}

#[test]
fn a_round_is_over_with_its_last_event() {
    for name in WIRES {
        let (wire, mut out) = (name.wire(), Vec::new());
        let mut calls = calls_of(wire);
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        for (at, parts) in [vec![search()], vec![text_part("Done.")]].iter().enumerate() {
            assert!(!splicer.is_round_over(), "{name:?} {at}");
            let frames = FrameReader::new(1 << 20).push(&streamed(name, at, parts)).expect("small");
            for (number, frame) in frames.iter().enumerate() {
                splicer.frame(frame, &mut calls, &mut out);
                // Gemini has no event that is surely the last one.
                let is_last = number + 1 == frames.len() && name != WireName::Gemini;
                assert_eq!(splicer.is_round_over(), is_last, "{name:?} {at} {number}");
            }
            assert_eq!(splicer.end_round(&mut calls, &mut out).end, End::Complete, "{name:?}");
        }
    }
}

#[test]
fn an_event_about_the_request_is_not_the_head_of_an_answer() {
    let about = json!({"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []});
    let mut about_request = Vec::new();
    sse::write(None, &about.to_string(), &mut about_request);
    let (mut calls, mut out) = (calls_of(&Chat), Vec::new());
    let mut splicer = Chat.splicer(&Object::parse("{}").expect("an object"));
    for (at, parts) in [vec![search()], vec![text_part("Done.")]].iter().enumerate() {
        let bytes = [about_request.clone(), streamed(WireName::Chat, at, parts)].concat();
        for frame in FrameReader::new(1 << 20).push(&bytes).expect("small") {
            splicer.frame(&frame, &mut calls, &mut out);
        }
        splicer.end_round(&mut calls, &mut out);
    }
    splicer.finish(None, &mut out);
    let (first, rest) = out.split_at(about_request.len());
    assert_eq!(first, about_request);
    let outcome = assemble(WireName::Chat, rest);
    assert_eq!(outcome.said, "Done.");
    assert_eq!(outcome.lifecycle, r#"{"r0"} roles=1 ["stop"] usage=[Number(20)] done=1"#);
    assert!(events(rest).iter().all(|event| event == "[DONE]" || event["object"] == "chat.completion.chunk"));
}

#[test]
fn events_of_gemini_without_candidates_belong_to_the_answer() {
    let wire = WireName::Gemini.wire();
    let (mut calls, mut out) = (calls_of(wire), Vec::new());
    let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
    let take = |splicer: &mut Box<dyn Splicer>, calls: &mut Calls, event: &Value| {
        let mut public = Vec::new();
        let bytes = format!("data: {event}\n\n");
        for frame in FrameReader::new(10_000).push(bytes.as_bytes()).expect("small") {
            splicer.frame(&frame, calls, &mut public);
        }
        public
    };
    let mut reader = FrameReader::new(1 << 20);
    for frame in reader.push(&streamed(WireName::Gemini, 0, &[search()])).expect("small") {
        splicer.frame(&frame, &mut calls, &mut out);
    }
    assert_eq!(splicer.end_round(&mut calls, &mut out).hidden.len(), 1);
    let usage = json!({"promptTokenCount": 7});
    let counted = json!({"usageMetadata": usage, "responseId": "r1"});
    let counted = events(&take(&mut splicer, &mut calls, &counted));
    assert_eq!(
        (&counted[0]["responseId"], &counted[0]["usageMetadata"]["promptTokenCount"]),
        (&json!("r0"), &json!(17))
    );
    let blocked = json!({"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": usage, "responseId": "r1"});
    let blocked = events(&take(&mut splicer, &mut calls, &blocked));
    assert_eq!(
        (&blocked[0]["responseId"], &blocked[0]["usageMetadata"]["promptTokenCount"]),
        (&json!("r0"), &json!(17))
    );
    assert_eq!(splicer.end_round(&mut calls, &mut out).end, End::Stopped);
    let mut rest = Vec::new();
    splicer.finish(None, &mut rest);
    assert!(rest.is_empty(), "the end of the first round is not that of the answer");
}

/// However early a hidden round ends without an error, its end is not that of the round before it.
#[test]
fn the_end_of_a_round_is_not_that_of_the_next_one() {
    for name in WIRES {
        let wire = name.wire();
        let first = streamed(name, 0, &[text_part("Wait. "), search()]);
        let second = streamed(name, 1, &[text_part("Done.")]);
        let read = |bytes: &[u8]| FrameReader::new(1 << 20).push(bytes).expect("small");
        let ends = ["\"finish_reason\":\"stop", "message_delta", "response.completed", "\"finishReason\""];
        let is_end = |frame: &Frame| ends.iter().any(|end| String::from_utf8_lossy(&frame.raw).contains(end));
        let frames = read(&second);
        let ending = frames.iter().position(is_end).expect("an end");
        for cut in 0..=frames.len() {
            let (mut calls, mut out) = (calls_of(wire), Vec::new());
            let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
            read(&first).iter().for_each(|frame| splicer.frame(frame, &mut calls, &mut out));
            assert_eq!(splicer.end_round(&mut calls, &mut out).end, End::Complete, "{name:?}");
            frames[..cut].iter().for_each(|frame| splicer.frame(frame, &mut calls, &mut out));
            let expected = if cut > ending { End::Complete } else { End::Broken };
            assert_eq!(splicer.end_round(&mut calls, &mut out).end, expected, "{name:?} {cut} of {}", frames.len());
            if expected == End::Broken {
                continue;
            }
            splicer.finish(None, &mut out);
            let out = String::from_utf8(out).expect("text");
            for end in ["[DONE]", "\"message_stop\""] {
                let is_sent = frames[..cut].iter().any(|frame| String::from_utf8_lossy(&frame.raw).contains(end));
                assert_eq!(out.contains(end), is_sent, "{name:?} {cut}: {end} in {out}");
            }
        }
    }
}

/// Answers in one piece.
fn answer(name: WireName, rounds: &[Vec<Part>]) -> (Value, Turn, Said) {
    let wire = name.wire();
    let (mut calls, mut turn) = (calls_of(wire), Turn::default());
    let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
    for (at, parts) in rounds.iter().enumerate() {
        let round = splicer.answer(whole(name, at, parts), &mut calls);
        close(wire, &mut calls, round, &mut turn);
    }
    let public = serde_json::from_str(&splicer.finish_answer(None)).expect("JSON");
    (public, turn, splicer.said().clone())
}

/// Returns what a client sends back of an answer.
fn echo(name: WireName, public: &Value) -> Vec<String> {
    match name {
        WireName::Chat => vec![public["choices"][0]["message"].to_string()],
        WireName::Messages => vec![json!({"role": "assistant", "content": public["content"]}).to_string()],
        WireName::Responses => public["output"].as_array().into_iter().flatten().map(Value::to_string).collect(),
        WireName::Gemini => vec![public["candidates"][0]["content"].to_string()],
    }
}

fn user(name: WireName, text: &str) -> String {
    match name {
        WireName::Gemini => json!({"role": "user", "parts": [{"text": text}]}).to_string(),
        _ => json!({"role": "user", "content": text}).to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However a stream is cut, the client gets the same.
    #[test]
    fn chunks_do_not_matter(chunk in 1_usize..60, text in "[a-zé \n]{0,12}", to in "[a-z\"\\\\é]{0,8}") {
        let rounds = [vec![text_part(&text), search()], vec![text_part(&text), wrapped("c1", "send_mail", json!({"to": to}))]];
        for name in WIRES {
            let (bytes, turn, said) = stream(name, &rounds, chunk);
            prop_assert_eq!((bytes, turn, said), stream(name, &rounds, usize::MAX));
        }
    }

    /// What the client has not seen is restored byte for byte.
    #[test]
    fn what_was_rewritten_is_restored(text in "[a-zé ]{0,12}", to in ".{0,8}", is_mixed: bool) {
        let call = wrapped("c1", "send_mail", json!({"to": to, "n": [1.5, null]}));
        let mut last = vec![text_part(&text), call];
        if is_mixed {
            last.push(search());
        }
        let rounds = [vec![text_part(&text), search()], last];
        for name in WIRES {
            let wire = name.wire();
            let conversations = Conversations::open(None, Duration::from_secs(60)).expect("memory");
            let restore = |items: &[String]| {
                let items: Vec<Cow<'_, str>> = items.iter().map(|item| Cow::Borrowed(item.as_str())).collect();
                conversation::restore(&conversations, wire, [0; 32], None, &items, &|_| true).expect("a history")
            };
            let (public, turn, said) = answer(name, &rounds);
            let before = restore(&[user(name, "Hi")]);
            conversations.put(&[conversation::after_model(&before.link, &said)], turn.clone());
            let mut items = vec![user(name, "Hi")];
            items.extend(echo(name, &public));
            items.push(user(name, "Go on"));
            let restored = restore(&items);
            let mut expected = vec![user(name, "Hi")];
            expected.extend(turn.items.clone().unwrap_or_default());
            match turn.parked.is_empty() {
                true => expected.push(user(name, "Go on")),
                false => expected.extend(wire.join_answers(&expected, &turn.parked, &user(name, "Go on"))),
            }
            prop_assert_eq!(restored.text, expected.join(","));
            prop_assert_eq!(restored.called.len(), 0);
        }
    }
}

#[test]
fn responses_repeat_the_request_of_the_client() {
    let body = Object::parse(r#"{"previous_response_id":"public"}"#).expect("an object");
    let changed = json!({"tools": [{"name": SEARCH}], "previous_response_id": "last", "tool_choice": "auto"});
    let answered = |round: usize, parts: &[Part]| {
        let mut response = whole(WireName::Responses, round, parts);
        changed.as_object().into_iter().flatten().for_each(|(key, value)| response[key.as_str()] = value.clone());
        response
    };
    let mut calls = calls_of(&Responses);
    let tools: Value = serde_json::from_str(calls.tools().source()).expect("JSON");
    let mut splicer = Responses.splicer(&body);
    splicer.answer(answered(0, &[search()]), &mut calls);
    let mut last = answered(1, &[text_part("Done.")]);
    last["tool_choice"] = "none".into();
    splicer.answer(last, &mut calls);
    assert!(splicer.repeats_request());
    let check = |response: &Value| {
        let found = [&response["tools"], &response["previous_response_id"], &response["tool_choice"]];
        assert_eq!(found, [&tools, &json!("public"), &json!("auto")], "{response}");
    };
    check(&serde_json::from_str(&splicer.finish_answer(None)).expect("JSON"));
    let mut out = Vec::new();
    stream_responses(&answered(0, &[text_part("Done.")]), &mut out);
    let (mut splicer, mut public) = (Responses.splicer(&body), Vec::new());
    for frame in FrameReader::new(1 << 20).push(&out).expect("small") {
        splicer.frame(&frame, &mut calls, &mut public);
    }
    splicer.end_round(&mut calls, &mut public);
    splicer.finish(None, &mut public);
    let responses: Vec<Value> =
        events(&public).into_iter().filter_map(|event| event.get("response").cloned()).collect();
    assert_eq!(responses.len(), 3);
    responses.iter().for_each(check);
}

#[test]
fn items_that_clients_may_refer_to_are_those_they_have_seen() {
    let rounds = [vec![text_part("Wait. "), search()], vec![wrapped("c1", "send_mail", json!({"to": "a"}))]];
    for (body, is_stored) in [("{}", true), (r#"{"store":false}"#, false)] {
        let (mut calls, mut out) = (calls_of(&Responses), Vec::new());
        let mut splicer = Responses.splicer(&Object::parse(body).expect("an object"));
        for (at, parts) in rounds.iter().enumerate() {
            let bytes = streamed(WireName::Responses, at, parts);
            for frame in FrameReader::new(1 << 20).push(&bytes).expect("small") {
                splicer.frame(&frame, &mut calls, &mut out);
            }
            splicer.end_round(&mut calls, &mut out);
        }
        let kept = splicer.referable_items(Some("The end."));
        splicer.finish(Some("The end."), &mut out);
        let last = events(&out).pop().expect("an event");
        let output = last["response"]["output"].as_array().cloned().expect("items");
        assert_eq!(output.len(), 3, "{output:?}");
        let expected: Vec<Value> = if is_stored { output } else { Vec::new() };
        assert_eq!(kept.len(), expected.len());
        for ((id, kept), seen) in kept.iter().zip(&expected) {
            let kept: Value = serde_json::from_str(kept).expect("JSON");
            assert_eq!((id.as_str(), Responses.said(&kept)), (text(seen, "id"), Responses.said(seen)));
        }
    }
}

#[test]
fn a_search_with_references_tells_what_was_not_found() {
    let tools = calls_of(&Messages).shared_tools();
    let mut calls = Calls::new(tools.session().expect("tools"), tools, Delivery::Reference);
    let mut search = |queries: &[&str]| {
        let arguments = json!({"queries": queries}).to_string();
        calls.search(&HeldCall { id: "s1".to_owned(), name: SEARCH.to_owned(), arguments })
    };
    let both = search(&["send mail", "xyzzy"]);
    assert!(both.references.contains(&"send_mail".to_owned()), "{both:?}");
    assert_eq!(both.text, "No tool fits `xyzzy`; try other words.");
    assert_eq!(search(&["send mail"]).text, "", "the definitions are not repeated");
    let none = search(&["xyzzy"]);
    assert!(none.references.is_empty() && none.text.contains("No tool fits"), "{none:?}");
}

#[test]
fn an_answer_whose_searches_were_stopped_ends_with_a_notice() {
    for name in WIRES {
        let wire = name.wire();
        let (mut calls, mut out) = (calls_of(wire), Vec::new());
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        for at in 0..2 {
            for frame in FrameReader::new(1 << 20).push(&streamed(name, at, &[search()])).expect("small") {
                splicer.frame(&frame, &mut calls, &mut out);
            }
            assert!(splicer.end_round(&mut calls, &mut out).has_hidden_calls(), "{name:?}");
        }
        splicer.finish(Some("Stopped."), &mut out);
        let outcome = assemble(name, &out);
        assert_eq!(outcome.said, "Stopped.", "{name:?}");
        let expected = match name {
            WireName::Chat => r#"{"r0"} roles=1 ["stop"] usage=[Number(20)] done=1"#,
            WireName::Messages => r#"["r0"] ["\"end_turn\" 2", "stop"]"#,
            WireName::Responses => r#"["response.created r0", "response.completed r0", "20"]"#,
            WireName::Gemini => r#"{"r0"} [String("STOP")] 20"#,
        };
        assert_eq!(outcome.lifecycle, expected, "{name:?}");
        let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
        assert!(splicer.answer(whole(name, 0, &[search()]), &mut calls).has_hidden_calls(), "{name:?}");
        let answer = splicer.finish_answer(Some("Stopped."));
        assert!(answer.contains("Stopped.") && !answer.contains("tool_use"), "{name:?}: {answer}");
        assert!(!answer.contains("tool_calls") && !answer.contains(SEARCH), "{name:?}: {answer}");
    }
}

#[test]
fn servers_in_names() {
    let check = |name: &str, expected: Option<&str>| {
        let RawTool { server, .. } = searchable(name, "", None);
        assert_eq!(server.as_deref(), expected, "{name}");
    };
    check("mcp__github__create_issue", Some("github"));
    check("mcp____x", None);
    check("create_issue", None);
}

#[test]
fn every_event_of_gemini_with_a_reason_to_finish_keeps_its_text() {
    let wire = WireName::Gemini.wire();
    let mut splicer = wire.splicer(&Object::parse("{}").expect("JSON"));
    let (mut calls, mut out) = (calls_of(wire), Vec::new());
    let mut reader = FrameReader::new(10_000);
    for text in ["one", "two"] {
        let candidate = json!({"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"});
        let event = format!("data: {}\n\n", json!({"candidates": [candidate], "responseId": "r1"}));
        let frames = reader.push(event.as_bytes()).expect("it is small");
        frames.iter().for_each(|frame| splicer.frame(frame, &mut calls, &mut out));
    }
    assert_eq!(splicer.end_round(&mut calls, &mut out).end, End::Complete);
    splicer.finish(None, &mut out);
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out.matches("\"text\":").count(), 2, "{out}");
    assert_eq!(out.matches("finishReason").count(), 1, "only the last one is final: {out}");
}

#[test]
fn items_behind_reasoning_that_is_not_stored_have_no_optional_ids() {
    let wire = WireName::Responses.wire();
    let check = |body: &str, encrypted: Option<&str>, expected: [bool; 4]| {
        let mut splicer = wire.splicer(&Object::parse(body).expect("JSON"));
        let mut reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        reasoning["encrypted_content"] = encrypted.into();
        let arguments = json!({"query": "send mail"}).to_string();
        let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
        let search = json!({"type": "function_call", "id": "fc_1", "call_id": "s1", "name": SEARCH, "arguments": arguments, "status": "completed"});
        let web = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        let answer = json!({"id": "resp_1", "status": "completed", "output": [message, reasoning, web, search]});
        let items = splicer.answer(answer, &mut calls_of(wire)).items;
        let has = |id: &str| items.iter().any(|item| item.contains(&format!("\"id\":\"{id}\"")));
        assert_eq!(["msg_1", "rs_1", "ws_1", "fc_1"].map(has), expected, "{body} {encrypted:?}: {items:?}");
        assert!(items.iter().any(|item| item.contains("\"call_id\":\"s1\"")), "{items:?}");
    };
    check("{}", None, [true, true, true, true]);
    check(r#"{"store":false}"#, Some("secret"), [true, true, true, true]);
    check(r#"{"store":false}"#, None, [true, false, true, false]);
}

#[test]
fn pieces_of_a_text_in_a_list_grow_in_place() {
    let mut parts = vec![json!({"type": "text", "text": ""})];
    parts[0]["text"] = String::with_capacity(1 << 20).into();
    let address = |parts: &[Value]| parts[0]["text"].as_str().map(str::as_ptr);
    let before = address(&parts);
    (0..1000).for_each(|_| push_text(&mut parts, "x"));
    assert_eq!((address(&parts), text(&parts[0], "text").len()), (before, 1000), "nothing was copied");
    let mut parts = vec![json!({"type": "thinking", "thinking": "hm"})];
    ["", "a", "b"].iter().for_each(|piece| push_text(&mut parts, piece));
    assert_eq!(parts[1..], [json!({"type": "text", "text": "ab"})]);
}

#[test]
fn answers_of_gemini_belong_to_the_calls_at_their_places() {
    let wire = WireName::Gemini.wire();
    let (valid, rejected) = (json!({"to": "a"}), json!({"from": "a"}));
    for arguments in [[&rejected, &valid], [&valid, &rejected]] {
        let mut rounds = vec![arguments.map(|arguments| wrapped("", "send_mail", arguments.clone())).to_vec()];
        rounds[0].push(search());
        let (bytes, turn, said) = stream(WireName::Gemini, &rounds, 1000);
        assert_eq!((said.calls.len(), turn.parked.len()), (1, 2), "{}", String::from_utf8_lossy(&bytes));
        let next = json!({"role": "user", "parts": [
            {"functionResponse": {"name": "send_mail", "response": {"output": "sent"}}}
        ]});
        let known = turn.items.expect("hidden calls");
        let joined = wire.join_answers(&known, &turn.parked, &next.to_string());
        let joined: Value = serde_json::from_str(&joined[0]).expect("JSON");
        let found = joined["parts"].as_array().expect("parts").iter().map(|part| {
            assert_eq!(part.as_object().expect("a part").len(), 1, "{part}");
            let response = &part["functionResponse"];
            (text(response, "name"), response["response"]["output"] == "sent")
        });
        let is_first = arguments[0] == &valid;
        let expected = [(CALL, is_first), (CALL, !is_first), (SEARCH, false)];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{joined}");
        assert!(!wire.answer_items(&turn.parked)[0].contains("pegboard"), "{:?}", turn.parked);
    }
}

#[test]
fn long_answers_go_on_without_copies() {
    let long = "x".repeat(100_000);
    for name in WIRES {
        let parts = [text_part(&long), call_part("c1", "send_mail", json!({"to": long}))];
        let bytes = streamed(name, 0, &parts);
        let frames = FrameReader::new(1 << 20).push(&bytes).expect("small");
        for stop in 0..frames.len() {
            let wire = name.wire();
            let (mut calls, mut out) = (calls_of(wire), Vec::new());
            let mut splicer = wire.splicer(&Object::parse("{}").expect("an object"));
            for (at, frame) in frames.iter().enumerate() {
                if at == stop {
                    splicer.stop_keeping();
                }
                splicer.frame(frame, &mut calls, &mut out);
            }
            let round = splicer.end_round(&mut calls, &mut out);
            assert!(
                round.end == End::Complete && !round.has_hidden_calls() && !splicer.needs_copies(),
                "{name:?} {stop}"
            );
            let kept: usize = round.items.iter().map(String::len).sum();
            assert!(kept + splicer.said().text.len() < 1000, "{name:?} {stop}: {kept}");
            splicer.finish(None, &mut out);
            assert!(out == bytes, "{name:?} {stop}: the client gets all of it");
        }
        // Calls of the proxy are still held, and are known to be there.
        let mut splicer = name.wire().splicer(&Object::parse("{}").expect("an object"));
        let (mut calls, mut out) = (calls_of(name.wire()), Vec::new());
        splicer.stop_keeping();
        for frame in FrameReader::new(1 << 20).push(&streamed(name, 0, &[text_part("a"), search()])).expect("small") {
            splicer.frame(&frame, &mut calls, &mut out);
        }
        assert!(splicer.end_round(&mut calls, &mut out).has_hidden_calls(), "{name:?}");
        assert!(!String::from_utf8_lossy(&out).contains(SEARCH), "{name:?}");
    }
}

#[test]
fn what_is_held_beside_text_counts() {
    let query = "x".repeat(50_000);
    let call = json!({"name": SEARCH, "args": {"query": query}});
    let parts = json!([{"text": "Let me look."}, {"functionCall": call}]);
    let event = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]});
    let mut bytes = Vec::new();
    sse::write(None, &event.to_string(), &mut bytes);
    let frames = FrameReader::new(1 << 20).push(&bytes).expect("small");
    let (mut calls, mut out) = (calls_of(&Gemini), Vec::new());
    let mut splicer = Gemini.splicer(&Object::parse("{}").expect("an object"));
    let held = splice_frames(splicer.as_mut(), &frames, &mut calls, &mut out);
    assert!(held > 50_000 && String::from_utf8_lossy(&out).contains("Let me look."), "{held}");
}
