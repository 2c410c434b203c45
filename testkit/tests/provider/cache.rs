//! What the prompt cache of the server reads and writes.

use pegboard_testkit::provider::{Check, Part, Provider, Script, ScriptedTurn};
use serde_json::{Value, json};

use crate::{
    client::post,
    wires::{CHAT, MESSAGES},
};

const MINIMAX: &str = "/minimax/anthropic/v1/messages";

/// A request of one tool, a system prompt and so many messages, of which those at `marks` carry
/// a marker.
fn body(messages: usize, marks: &[usize]) -> Value {
    let message = |at: usize| {
        let mut block = json!({"type": "text", "text": format!("message {at} {}", "word ".repeat(40))});
        if marks.contains(&at) {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        json!({"role": if at.is_multiple_of(2) { "user" } else { "assistant" }, "content": [block]})
    };
    json!({"model": "a-model", "max_tokens": 9, "messages": (0..messages).map(message).collect::<Vec<_>>()})
}

/// For each request how much of it was read from the cache and written to it, in tenths.
fn charged(path: &str, bodies: &[Value]) -> Vec<(u64, u64)> {
    let provider = Provider::start(Script { repeat: true, ..Script::new([ScriptedTurn::say([Part::text("ok")])]) });
    let charge = |body: &Value| {
        let answer = post(&provider, path, body);
        assert_eq!(answer.status, 200, "{:?}", provider.violations());
        let usage = &answer.json()["usage"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let read = number(&usage["cache_read_input_tokens"]) + number(&usage["prompt_tokens_details"]["cached_tokens"]);
        let written = number(&usage["cache_creation_input_tokens"]);
        let fresh = number(&usage["input_tokens"]) + number(&usage["prompt_tokens"]);
        let all = if path == CHAT { fresh } else { fresh + read + written };
        let tenths = |part: u64| (part * 10 + all / 2) / all;
        (tenths(read), tenths(written))
    };
    bodies.iter().map(charge).collect()
}

#[test]
fn nothing_is_cached_without_a_marker() {
    assert_eq!(charged(MESSAGES, &[body(1, &[]), body(3, &[])]), [(0, 0), (0, 0)]);
    // MiniMax and the others cache by themselves.
    assert_eq!(charged(MINIMAX, &[body(1, &[]), body(2, &[])]), [(0, 0), (5, 0)]);
    assert_eq!(charged(CHAT, &[body(1, &[]), body(2, &[])]), [(0, 0), (5, 0)]);
}

#[test]
fn markers_write_and_later_requests_read() {
    for path in [MESSAGES, MINIMAX] {
        assert_eq!(charged(path, &[body(1, &[0]), body(2, &[1])]), [(0, 10), (5, 5)], "{path}");
        assert_eq!(charged(path, &[body(5, &[3]), body(5, &[3])]), [(0, 8), (8, 0)], "{path}");
        let mut other = body(2, &[1]);
        other["messages"][0]["content"][0]["text"] = "another beginning".into();
        assert_eq!(charged(path, &[body(2, &[1]), other])[1].0, 0, "{path}");
    }
}

#[test]
fn a_marker_reaches_back_twenty_blocks() {
    assert_eq!(charged(MESSAGES, &[body(10, &[9]), body(30, &[29])])[1].0, 3);
    assert_eq!(charged(MESSAGES, &[body(9, &[8]), body(30, &[29])])[1].0, 0);
    assert_eq!(charged(MESSAGES, &[body(9, &[8]), body(30, &[8, 29])])[1].0, 3);
}

#[test]
fn markers_that_are_refused() {
    let check = |body: &Value, message: &str| {
        let provider = Provider::start(Script::new([ScriptedTurn::say([Part::text("ok")])]));
        assert_eq!(post(&provider, MESSAGES, body).status, 400);
        let found = provider.violations();
        assert_eq!((found[0].check, found[0].message.as_str()), (Check::CacheControl, message));
    };
    check(&body(5, &[0, 1, 2, 3, 4]), "A maximum of 4 blocks with cache_control may be provided. Found 5.");
    let mut thoughtful = body(3, &[]);
    thoughtful["messages"][1]["content"][0] =
        json!({"type": "thinking", "thinking": "hm", "signature": "s", "cache_control": {"type": "ephemeral"}});
    check(&thoughtful, "messages.1.content.0: cache_control cannot be set for thinking blocks");
}
