use serde_json::json;

use super::*;

/// What these events make: the text and the usage of a turn, or why there is none.
#[track_caller]
fn check(wire: Wire, events: &[Value], expected: &str) {
    let mut collector = wire.format().collector();
    let mut collected = || {
        for data in events {
            collector.event(text(data, "type"), data)?;
        }
        Ok(())
    };
    let answer = collected().and_then(|()| collector.finish());
    let found = match answer.and_then(|answer| wire.read_turn(&answer)) {
        Ok(Turn { text, usage, .. }) => format!("{text} {}/{}/{}", usage.input, usage.cached, usage.output),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{events:?}");
}

#[test]
fn pieces_make_a_whole() {
    let block =
        |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let begin = json!({"type": "message_start", "message": {}});
    let end = json!({"type": "message_stop"});
    check(Wire::Anthropic, &[begin, start, block("a"), block(""), block("b"), end], "ab 0/0/0");
    let piece = |content: &str| json!({"choices": [{"delta": {"content": content}}]});
    let end = json!({"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    check(Wire::Chat, &[piece("a"), piece("b"), end], "ab 3/0/4");
    let piece = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}]});
    let end = json!({"candidates": [{"finishReason": "STOP"}]});
    check(Wire::Gemini, &[piece("a"), piece("b"), end], "ab 0/0/0");
}

#[test]
fn what_is_no_object_does_no_harm() {
    let end = json!({"type": "message_stop"});
    let message = |message: Value| json!({"type": "message_start", "message": message});
    let usage = json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2, "input_tokens": null}});
    check(Wire::Anthropic, &[message(json!("x")), usage.clone(), end.clone()], "the response has no `message`");
    check(Wire::Anthropic, &[message(json!({"usage": 7})), usage.clone(), end.clone()], " 0/0/2");
    check(Wire::Anthropic, &[usage, end.clone()], " 0/0/2");
    let start = json!({"type": "content_block_start", "index": 0, "content_block": "x"});
    check(Wire::Anthropic, &[start, end], "the response has no `content_block`");
    let usage = json!({"choices": [{"delta": 3, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}});
    check(Wire::Chat, &[json!("x"), json!([1]), usage], " 3/0/0");
    check(Wire::Chat, &[json!(1), json!([1])], "the response ended before it was complete");
}

#[test]
fn counts_have_an_end() {
    let most = u64::MAX;
    let usage = json!({"input_tokens": most, "cache_read_input_tokens": 2, "cache_creation_input_tokens": most});
    let message = json!({"type": "message_start", "message": {"content": [], "usage": usage}});
    check(Wire::Anthropic, &[message, json!({"type": "message_stop"})], &format!(" {most}/2/0"));
    let usage = json!({"candidatesTokenCount": most, "thoughtsTokenCount": 1});
    let candidates = json!([{"content": {"parts": []}, "finishReason": "STOP"}]);
    check(Wire::Gemini, &[json!({"candidates": candidates, "usageMetadata": usage})], &format!(" 0/0/{most}"));
}

/// The names and arguments of the calls that pieces of Chat Completions make.
#[test]
fn calls_are_told_apart_by_index_and_by_number() {
    let check = |pieces: &[Value], finish: &str, expected: &[(&str, Value)]| {
        let mut collector = Wire::Chat.format().collector();
        let end = json!({"choices": [{"delta": {}, "finish_reason": finish}]});
        for piece in pieces {
            let data = json!({"choices": [{"delta": {"tool_calls": [piece]}}]});
            collector.event("", &data).expect("an event");
        }
        collector.event("", &end).expect("an event");
        let turn = Wire::Chat.read_turn(&collector.finish().expect("an answer")).expect("a turn");
        let found: Vec<(&str, Value)> =
            turn.calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
        assert_eq!(found, expected, "{pieces:?}");
    };
    let piece = |index: Value, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let usual = [
        piece(json!(0), "1", "a", ""),
        piece(json!(0), "", "", "{\"x\":"),
        piece(json!(1), "2", "b", "{}"),
        piece(json!(0), "", "", "1}"),
    ];
    check(&usual, "tool_calls", &[("a", json!({"x": 1})), ("b", json!({}))]);
    // Local servers give every call the same index, or none, or begin with one.
    for index in [json!(0), Value::Null] {
        let same = [piece(index.clone(), "1", "a", "{\"x\":1}"), piece(index, "2", "b", "{\"y\":2}")];
        check(&same, "stop", &[("a", json!({"x": 1})), ("b", json!({"y": 2}))]);
    }
    check(&[piece(json!(1), "1", "a", "{}")], "tool_calls", &[("a", json!({}))]);
    check(&[piece(json!(0), "1", "", "{}")], "tool_calls", &[("", json!({}))]);
    check(&[piece(json!(0), "1", "", "")], "length", &[]);
    check(&[piece(json!(0), "", "", "{}")], "tool_calls", &[]);
}
