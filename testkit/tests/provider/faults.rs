//! A server that fails.

use std::time::{Duration, Instant};

use pegboard_testkit::provider::{
    Ending, Fault, Part, Provider, Recorded, Script, ScriptedError, ScriptedTurn, Sending, Stall,
};
use serde_json::{Value, json};

use crate::{
    client::{Client, post},
    wires::{CHAT, GEMINI, MESSAGES, RESPONSES, plain},
};

const SOON: Duration = Duration::from_secs(60);

fn streamed(path: &str) -> Value {
    let mut body = plain(path);
    body["stream"] = true.into();
    body
}

fn text() -> ScriptedTurn {
    ScriptedTurn::say([Part::text("a text of some length")])
}

#[test]
fn statuses_come_with_the_providers_error() {
    let refusal = ScriptedError {
        status: 429,
        message: Some("slow down".into()),
        retry_after: Some("7".into()),
        headers: vec![("x-ratelimit-remaining-tokens".into(), "0".into())],
        ..ScriptedError::default()
    };
    let script = Script::new([ScriptedTurn::Fail(Fault::Status(refusal)), ScriptedTurn::status(529), text()]);
    for (path, pointer, kinds) in [
        (MESSAGES, "/error/type", ["rate_limit_error", "overloaded_error"]),
        (CHAT, "/error/type", ["requests", "server_error"]),
        (RESPONSES, "/error/type", ["requests", "server_error"]),
        (GEMINI, "/error/status", ["RESOURCE_EXHAUSTED", "INTERNAL"]),
    ] {
        let provider = Provider::start(script.clone());
        let mut client = Client::new(&provider);
        let slow = client.post(path, &plain(path));
        assert_eq!((slow.status, slow.header("retry-after")), (429, Some("7")));
        assert_eq!(slow.header("x-ratelimit-remaining-tokens"), Some("0"));
        assert_eq!(slow.json().pointer(pointer), Some(&json!(kinds[0])));
        assert_eq!(slow.json()["error"]["message"], "slow down");
        assert_eq!(client.post(path, &plain(path)).json().pointer(pointer), Some(&json!(kinds[1])));
        // The connection outlives both.
        assert_eq!(client.post(path, &plain(path)).status, 200);
        provider.assert_clean();
        assert_eq!(provider.turns_taken(), 3);
    }
}

#[test]
fn a_body_of_its_own_replaces_the_error() {
    let refusal = ScriptedError { status: 502, body: Some(json!({"proxy": "down"})), ..ScriptedError::default() };
    let provider = Provider::start(Script::new([ScriptedTurn::Fail(Fault::Status(refusal))]));
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).json(), json!({"proxy": "down"}));
}

#[test]
fn connections_are_dropped() {
    let provider = Provider::start(Script::new([ScriptedTurn::Fail(Fault::Drop), text()]));
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 0);
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 200);
    assert!(ends(&provider, 0, Ending::Broken));
}

fn ends(provider: &Provider, index: usize, ending: Ending) -> bool {
    provider.wait_until(SOON, |requests: &[Recorded]| requests[index].ending == ending)
}

#[test]
fn streams_are_cut_after_any_byte() {
    let whole = post(&Provider::start(Script::new([text()])), MESSAGES, &streamed(MESSAGES)).body();
    for cut in [0, 1, 57, whole.len() - 1, whole.len()] {
        let provider = Provider::start(Script::new([text().sending(Sending::cut_after(cut))]));
        let response = post(&provider, MESSAGES, &streamed(MESSAGES));
        assert_eq!((response.status, response.is_whole), (200, false));
        assert!(response.body() == whole[..cut], "cut after {cut}");
        assert!(ends(&provider, 0, Ending::Broken));
    }
    let provider = Provider::start(Script::new([text().sending(Sending::cut_after(10))]));
    let response = post(&provider, MESSAGES, &plain(MESSAGES));
    assert_eq!((response.body().len(), response.is_whole), (10, false), "also what is not streamed");
}

#[test]
fn a_stall_ends_or_goes_on() {
    let stall = Stall { after: 20, time: Some(Duration::from_millis(50)) };
    let sending = Sending { stall: Some(stall), ..Sending::default() };
    let provider = Provider::start(Script::new([
        text().sending(sending),
        ScriptedTurn::Fail(Fault::Stall(Some(stall.time.unwrap()))),
    ]));
    let begun = Instant::now();
    assert!(post(&provider, CHAT, &streamed(CHAT)).is_whole);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(post(&provider, CHAT, &plain(CHAT)).status, 0);
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_client_that_goes_away_is_noticed() {
    let length = post(&Provider::start(Script::new([text()])), CHAT, &streamed(CHAT)).body().len();
    let stall = |after| text().sending(Sending::stall_after(after));
    for turn in [stall(0), stall(30), stall(length), ScriptedTurn::Fail(Fault::Stall(None))] {
        let provider = Provider::start(Script::new([turn]));
        let mut client = Client::new(&provider);
        client.start(CHAT, &streamed(CHAT));
        assert!(provider.wait_until(SOON, |requests| requests.len() == 1));
        drop(client);
        assert!(ends(&provider, 0, Ending::Gone));
    }
}

#[test]
fn a_stopped_server_leaves_nobody_waiting() {
    let provider = Provider::start(Script::new([ScriptedTurn::Fail(Fault::Stall(None))]));
    let mut client = Client::new(&provider);
    client.start(CHAT, &plain(CHAT));
    assert!(provider.wait_until(SOON, |requests| requests.len() == 1));
    let mut idle = Client::new(&provider);
    drop(provider);
    assert_eq!(client.receive().status, 0);
    assert_eq!(idle.receive().status, 0);
}

#[test]
fn streams_break_off_with_an_error_event() {
    let script = Script::new([text().sending(Sending::error_after(2, 529))]);
    for (path, name, pointer, kind) in [
        (MESSAGES, Some("error"), "/error/type", json!("overloaded_error")),
        (CHAT, None, "/error/type", json!("server_error")),
        (RESPONSES, Some("error"), "/sequence_number", json!(2)),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", None, "/error/code", json!(529)),
    ] {
        let provider = Provider::start(script.clone());
        let body = if path.contains("gemini") { plain(GEMINI) } else { streamed(path) };
        let (last, data) = post(&provider, path, &body).events().pop().expect("an event");
        assert_eq!((last.as_deref(), data.pointer(pointer)), (name, Some(&kind)), "{path}");
    }
}

#[test]
fn bodies_may_come_in_chunks() {
    let provider = Provider::start(Script::new([text()]));
    let body = plain(CHAT).to_string();
    let (head, tail) = body.split_at(9);
    let mut client = Client::new(&provider);
    let chunk = |piece: &str| format!("{:x}\r\n{piece}\r\n", piece.len());
    let request = "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(format!("{request}{}{}0\r\n\r\n", chunk(head), chunk(tail)).as_bytes());
    assert_eq!(client.receive().status, 200);
    let recorded = &provider.requests()[0];
    assert_eq!((recorded.raw.as_slice(), &recorded.body), (body.as_bytes(), &plain(CHAT)));
    assert_eq!(recorded.header("authorization"), Some("Bearer x"));
}

#[test]
fn what_is_no_json_is_refused() {
    let provider = Provider::start(Script::new([text()]));
    let mut client = Client::new(&provider);
    client.send(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\n\r\n{\"a\":");
    let response = client.receive();
    assert_eq!((response.status, &response.json()["error"]["type"]), (400, &json!("invalid_request_error")));
}

#[test]
fn embeddings_fail_and_recover() {
    let mut script = Script::default();
    script.embeddings.faults = vec![Fault::Status(ScriptedError { status: 500, ..ScriptedError::default() })];
    let provider = Provider::start(script);
    let body = json!({"model": "m", "input": ["a", "b"], "dimensions": 3});
    assert_eq!(post(&provider, "/v1/embeddings", &body).status, 500);
    let answer = post(&provider, "/v1/embeddings", &body).json();
    assert_eq!(answer["data"][1]["embedding"].as_array().map(Vec::len), Some(3));
    assert_eq!(post(&provider, "/v1/embeddings", &json!({"input": "a"})).status, 400);
    let provider = Provider::start(Script { api_key: Some("another".into()), ..Script::default() });
    assert_eq!(post(&provider, "/v1/embeddings", &body).status, 401);
}

#[test]
fn counting_takes_no_turn() {
    let provider = Provider::start(Script::new([text()]));
    let mut body = plain(MESSAGES);
    body.as_object_mut().expect("a body").shift_remove("max_tokens");
    assert!(post(&provider, "/v1/messages/count_tokens", &body).json()["input_tokens"].as_u64() > Some(0));
    let mut body = plain(RESPONSES);
    body["instructions"] = "Be brief.".into();
    let count = post(&provider, "/v1/responses/input_tokens", &body).json();
    assert_eq!(
        (count["object"].as_str(), count["input_tokens"].as_u64() > Some(0)),
        (Some("response.input_tokens"), true)
    );
    provider.assert_clean();
    assert_eq!(provider.turns_taken(), 0);
}
