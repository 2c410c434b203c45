//! The same turns on every wire.

use pegboard_testkit::provider::{
    Check, Noise, Output, Part, Provider, Script, ScriptedTurn, Search, Sending, Stop, Usage,
};
use serde_json::{Value, json};

use crate::{
    client::{Response, post},
    decode::assemble,
};

pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const GEMINI: &str = "/v1beta/models/gemini-3-pro:generateContent";
pub(crate) const MINIMAX_MESSAGES: &str = "/minimax/anthropic/v1/messages";
pub(crate) const MINIMAX_CHAT: &str = "/minimax/v1/chat/completions";

const WIRES: [&str; 6] = [MESSAGES, CHAT, RESPONSES, GEMINI, MINIMAX_MESSAGES, MINIMAX_CHAT];

/// The shortest request that `path` accepts.
pub(crate) fn plain(path: &str) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match path {
        MESSAGES => json!({"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages}),
        MINIMAX_MESSAGES => json!({"model": "MiniMax-M3", "max_tokens": 100, "messages": messages}),
        CHAT | MINIMAX_CHAT => json!({"model": "gpt-5.4", "messages": messages}),
        RESPONSES => json!({"model": "gpt-5.4", "input": messages}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    }
}

/// `path` and `body` changed so that the answer is streamed.
fn streamed(path: &str, body: &Value) -> (String, Value) {
    if path == GEMINI {
        return (path.replace(":generateContent", ":streamGenerateContent?alt=sse"), body.clone());
    }
    let mut body = body.clone();
    body["stream"] = true.into();
    if path == CHAT || path == MINIMAX_CHAT {
        body["stream_options"] = json!({"include_usage": true});
    }
    (path.into(), body)
}

fn ask(path: &str, body: &Value, turn: &ScriptedTurn) -> Response {
    let provider = Provider::start(Script::new([turn.clone()]));
    let response = post(&provider, path, body);
    provider.assert_clean();
    assert_eq!((response.status, response.is_whole), (200, true));
    response
}

/// Checks that `turn` is the same streamed and not, also amid noise, and holds `expected` under
/// the pointers given.
#[track_caller]
fn check(path: &str, body: &Value, turn: &ScriptedTurn, expected: &[(&str, Value)]) {
    let whole = ask(path, body, turn).json();
    for (pointer, expected) in expected {
        assert_eq!(whole.pointer(pointer), Some(expected), "{path} {pointer} of {whole:#}");
    }
    let (stream_path, stream_body) = streamed(path, body);
    let noisy = Sending { noise: [Noise::Ping, Noise::Comment, Noise::Event].into(), delta: 1, ..Sending::default() };
    for sending in [Sending::default(), noisy, Sending::chunks_of(1)] {
        let response = ask(&stream_path, &stream_body, &turn.clone().sending(sending));
        assert_eq!(assemble(&stream_path, &response), whole, "{path}");
    }
}

fn say(parts: impl IntoIterator<Item = Part>) -> ScriptedTurn {
    let usage = Usage { input: 100, output: 20, cache_read: 10, cache_write: 5, reasoning: 3 };
    ScriptedTurn::Say(Output { parts: parts.into_iter().collect(), usage: Some(usage), ..Output::default() })
}

const TEXT: &str = "Grüße, 日本 \"\\ 🦀\n";

#[test]
fn text_and_usage() {
    let turn = say([Part::text(TEXT)]);
    check(
        MESSAGES,
        &plain(MESSAGES),
        &turn,
        &[
            ("/content/0/text", json!(TEXT)),
            ("/stop_reason", json!("end_turn")),
            ("/usage/input_tokens", json!(85)),
            ("/usage/cache_read_input_tokens", json!(10)),
        ],
    );
    check(
        CHAT,
        &plain(CHAT),
        &turn,
        &[
            ("/choices/0/message/content", json!(TEXT)),
            ("/choices/0/finish_reason", json!("stop")),
            ("/usage/prompt_tokens_details/cached_tokens", json!(10)),
        ],
    );
    check(
        RESPONSES,
        &plain(RESPONSES),
        &turn,
        &[
            ("/output/0/content/0/text", json!(TEXT)),
            ("/status", json!("completed")),
            ("/usage/total_tokens", json!(120)),
        ],
    );
    check(
        GEMINI,
        &plain(GEMINI),
        &turn,
        &[
            ("/candidates/0/content/parts/0/text", json!(TEXT)),
            ("/candidates/0/finishReason", json!("STOP")),
            ("/usageMetadata/thoughtsTokenCount", json!(3)),
        ],
    );
}

#[test]
fn parallel_calls() {
    let arguments = json!({"city": "Köln 🦀", "deep": [{"a": null}]});
    let text = arguments.to_string();
    let turn = say([Part::text("so"), Part::call("a", arguments.clone()), Part::call("b", json!({}))]);
    for path in [MESSAGES, MINIMAX_MESSAGES] {
        check(
            path,
            &plain(path),
            &turn,
            &[
                ("/content/1/name", json!("a")),
                ("/content/1/input", arguments.clone()),
                ("/content/2/input", json!({})),
                ("/stop_reason", json!("tool_use")),
            ],
        );
    }
    for path in [CHAT, MINIMAX_CHAT] {
        check(
            path,
            &plain(path),
            &turn,
            &[
                ("/choices/0/message/tool_calls/0/function/arguments", json!(text)),
                ("/choices/0/message/tool_calls/1/function/name", json!("b")),
                ("/choices/0/finish_reason", json!("tool_calls")),
            ],
        );
    }
    check(RESPONSES, &plain(RESPONSES), &turn, &[("/output/1/arguments", json!(text)), ("/output/2/name", json!("b"))]);
    check(
        GEMINI,
        &plain(GEMINI),
        &turn,
        &[
            ("/candidates/0/content/parts/1/functionCall/args", arguments),
            ("/candidates/0/content/parts/2/functionCall/name", json!("b")),
        ],
    );
}

#[test]
fn thinking() {
    let thought = Part::Thinking { text: "hm 思".into(), signature: Some("sig".into()) };
    let turn = say([thought, Part::text("so"), Part::call("a", json!({}))]);
    check(
        MESSAGES,
        &plain(MESSAGES),
        &turn,
        &[("/content/0", json!({"type": "thinking", "thinking": "hm 思", "signature": "sig"}))],
    );
    check(CHAT, &plain(CHAT), &turn, &[("/choices/0/message/reasoning_content", json!("hm 思"))]);
    check(
        MINIMAX_CHAT,
        &plain(MINIMAX_CHAT),
        &turn,
        &[("/choices/0/message/content", json!("<think>\nhm 思\n</think>\n\nso"))],
    );
    let mut split = plain(MINIMAX_CHAT);
    split["reasoning_split"] = true.into();
    check(MINIMAX_CHAT, &split, &turn, &[("/choices/0/message/reasoning_content", json!("hm 思"))]);
    let mut kept = plain(RESPONSES);
    kept["include"] = json!(["reasoning.encrypted_content"]);
    check(
        RESPONSES,
        &kept,
        &turn,
        &[("/output/0/summary/0/text", json!("hm 思")), ("/output/0/encrypted_content", json!("sig"))],
    );
    check(
        GEMINI,
        &plain(GEMINI),
        &turn,
        &[
            ("/candidates/0/content/parts/0", json!({"text": "hm 思", "thought": true})),
            ("/candidates/0/content/parts/2/thoughtSignature", json!("sig")),
        ],
    );
    let turn = say([Part::thinking("hm"), Part::text("so")]);
    let signature = json!("c2lnbmF0dXJlLTAwMDAwMg==");
    check(GEMINI, &plain(GEMINI), &turn, &[("/candidates/0/content/parts/1/thoughtSignature", signature)]);
}

/// A definition on Responses.
fn function(name: &str) -> Value {
    let parameters = json!({"type": "object"});
    json!({"type": "function", "name": name, "description": name, "parameters": parameters, "defer_loading": true})
}

#[test]
fn native_search_on_messages() {
    let mut body = plain(MESSAGES);
    body["tools"] = json!([
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
        {"name": "x", "input_schema": {"type": "object"}, "defer_loading": true},
    ]);
    let regex = Part::Search(Search { pattern: Some("^x".into()), matches: vec!["x".into()], ..Search::default() });
    let failed = Search { query: Some("x".into()), error: Some("unavailable".into()), ..Search::default() };
    let turn = say([regex, Part::Search(failed), Part::call("x", json!({}))]);
    check(
        MESSAGES,
        &body,
        &turn,
        &[
            ("/content/0/name", json!("tool_search_tool_regex")),
            ("/content/0/input", json!({"pattern": "^x"})),
            ("/content/1/tool_use_id", json!("srvtoolu_000002")),
            ("/content/1/content/tool_references", json!([{"type": "tool_reference", "tool_name": "x"}])),
            ("/content/3/content/error_code", json!("unavailable")),
            ("/stop_reason", json!("tool_use")),
        ],
    );
}

#[test]
fn native_search_on_responses() {
    let mut body = plain(RESPONSES);
    let space = json!({"type": "namespace", "name": "crm", "description": "", "tools": [function("y"), function("z")]});
    body["tools"] = json!([{"type": "tool_search"}, space, function("x")]);
    let turn = say([Part::search("q", ["y", "x"]), Part::call("y", json!({})), Part::call("x", json!({}))]);
    check(
        RESPONSES,
        &body,
        &turn,
        &[
            ("/output/0/arguments", json!({"paths": ["y", "x"]})),
            ("/output/0/call_id", Value::Null),
            ("/output/1/tools/0/name", json!("crm")),
            ("/output/1/tools/0/tools", json!([function("y")])),
            ("/output/1/tools/1", function("x")),
            ("/output/2/namespace", json!("crm")),
            ("/output/3/namespace", json!("x")),
        ],
    );
    body["tools"] = json!([{"type": "tool_search", "execution": "client"}]);
    check(
        RESPONSES,
        &body,
        &say([Part::search("q", [])]),
        &[
            ("/output/0/execution", json!("client")),
            ("/output/0/arguments", json!({"query": "q"})),
            ("/output/0/call_id", json!("call_000003")),
        ],
    );
}

#[test]
fn a_search_is_refused_where_there_is_none() {
    for path in WIRES {
        let provider = Provider::start(Script::new([say([Part::search("q", ["x"])])]));
        assert_eq!(post(&provider, path, &plain(path)).status, 400, "{path}");
        assert_eq!(provider.violations()[0].check, Check::Script);
    }
}

#[test]
fn reasons_to_stop() {
    let stop = |stop| ScriptedTurn::Say(Output { parts: vec![Part::text("x")], stop: Some(stop), ..Output::default() });
    let turn = stop(Stop::MaxTokens);
    check(MESSAGES, &plain(MESSAGES), &turn, &[("/stop_reason", json!("max_tokens"))]);
    check(CHAT, &plain(CHAT), &turn, &[("/choices/0/finish_reason", json!("length"))]);
    check(RESPONSES, &plain(RESPONSES), &turn, &[("/incomplete_details/reason", json!("max_output_tokens"))]);
    check(GEMINI, &plain(GEMINI), &turn, &[("/candidates/0/finishReason", json!("MAX_TOKENS"))]);
    check(MESSAGES, &plain(MESSAGES), &stop(Stop::Pause), &[("/stop_reason", json!("pause_turn"))]);
    check(GEMINI, &plain(GEMINI), &stop(Stop::Other("NEW".into())), &[("/candidates/0/finishReason", json!("NEW"))]);
}

#[test]
fn what_no_client_knows_is_in_the_answer() {
    let turn = say([Part::text("so"), Part::Raw(json!({"type": "raw", "n": 1}))]).sending(Sending::noisy());
    for (path, unknown, raw) in [
        (MESSAGES, "/content/1/type", "/content/2/n"),
        (CHAT, "/choices/0/message/future_field/nested", "/choices/0/message/n"),
        (RESPONSES, "/output/0/data", "/output/2/n"),
        (GEMINI, "/candidates/0/content/parts/0/futurePart", "/candidates/0/content/parts/2/n"),
    ] {
        let whole = ask(path, &plain(path), &turn).json();
        assert!(whole.pointer(unknown).is_some(), "{whole:#}");
        assert_eq!(whole.pointer(raw), Some(&json!(1)));
    }
}

#[test]
fn gemini_streams_an_array_too() {
    let turn = say([Part::thinking("hm"), Part::text(TEXT), Part::call("a", json!({}))]);
    let whole = ask(GEMINI, &plain(GEMINI), &turn).json();
    let path = GEMINI.replace(":generate", ":streamGenerate");
    assert_eq!(assemble(&path, &ask(&path, &plain(GEMINI), &turn)), whole);
    assert_eq!(ask(&GEMINI.replace("v1beta", "v1"), &plain(GEMINI), &turn).json(), whole);
}

#[test]
fn chunks_of_every_size_hold_the_same_bytes() {
    let turn = say([Part::thinking("hm 思"), Part::text(TEXT), Part::call("a", json!({"city": "Köln 🦀"}))]);
    for path in WIRES {
        let (path, body) = streamed(path, &plain(path));
        let expected = ask(&path, &body, &turn).body();
        for size in 1..=40 {
            let response = ask(&path, &body, &turn.clone().sending(Sending::chunks_of(size)));
            assert!(response.body() == expected, "{path} in chunks of {size}");
            let (last, others) = response.chunks.split_last().expect("chunks");
            assert!(others.iter().all(|chunk| chunk.len() == size) && last.len() <= size);
            // The smaller ones cut through characters.
            assert!(size > 2 || others.iter().any(|chunk| std::str::from_utf8(chunk).is_err()));
        }
    }
}

#[test]
fn usage_comes_only_to_those_who_ask_on_chat() {
    let mut body = plain(CHAT);
    body["stream"] = true.into();
    assert!(ask(CHAT, &body, &say([Part::text("x")])).events().iter().all(|(_, data)| data.get("usage").is_none()));
}

#[test]
fn the_final_count_on_messages_is_in_the_last_delta() {
    let mut body = plain(MESSAGES);
    body["stream"] = true.into();
    body["tools"] = json!([
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
        {"name": "x", "input_schema": {"type": "object"}, "defer_loading": true},
    ]);
    let events = ask(MESSAGES, &body, &say([Part::search("q", ["x"])])).events();
    assert_eq!(events[0].1["message"]["usage"]["input_tokens"], 42);
    assert_eq!(events[events.len() - 2].1["usage"]["input_tokens"], 85);
}
