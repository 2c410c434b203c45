//! Requests that the provider refuses, in front of a provider whose responses are written byte by byte.

use std::sync::Mutex;

use axum::body::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tower::ServiceExt as _;

use super::*;
use crate::{
    json,
    proxy::{Proxy, Settings},
};

/// A model that calls found tools through `call_tool`.
const CONSTANT: &str = "claude-3-5-haiku-20241022";

/// A model that understands references to tools.
const REFERENCES: &str = "claude-opus-4-8";

/// A provider that answers each connection with the next response.
struct Upstreams {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    serving: JoinHandle<()>,
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Upstreams {
    async fn start(responses: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let request = read_request(&mut stream).await;
                requests.lock().expect("no panic").push(request);
                stream.write_all(&response).await.expect("sent");
                stream.shutdown().await.expect("closed");
            }
        });
        Self { url, asked, serving }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("no panic").clone()
    }

    fn proxy(&self) -> Proxy {
        let mut settings = Settings::default();
        settings.upstreams.set(Route::Anthropic, &self.url);
        settings.upstreams.set(Route::OpenAi, &self.url);
        Proxy::new(settings).expect("a proxy")
    }
}

async fn read_request(stream: &mut TcpStream) -> Value {
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.expect("a head")));
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).expect("a length")];
    stream.read_exact(&mut body).await.expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// Returns a response whose body may be shorter than it announces.
fn response(status: u16, kind: &str, length: usize, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close");
    format!("{head}\r\n\r\n{body}").into_bytes()
}

fn refused(message: &str) -> Vec<u8> {
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).to_string();
    response(400, "application/json", body.len(), &body)
}

/// Returns an answer of a model with these blocks.
fn said(is_streamed: bool, stop: &str, blocks: &[Value]) -> Vec<u8> {
    let mut message = json!({"id": "m", "type": "message", "role": "assistant", "model": "x", "content": blocks,
        "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}});
    if !is_streamed {
        let body = message.to_string();
        return response(200, "application/json", body.len(), &body);
    }
    let mut body = Vec::new();
    let mut write = |event: Value| crate::sse::write(event["type"].as_str(), &event.to_string(), &mut body);
    message["content"] = json!([]);
    write(json!({"type": "message_start", "message": message}));
    for (index, block) in blocks.iter().enumerate() {
        write(json!({"type": "content_block_start", "index": index, "content_block": block}));
        write(json!({"type": "content_block_stop", "index": index}));
    }
    write(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}}));
    write(json!({"type": "message_stop"}));
    response(200, "text/event-stream", body.len(), &String::from_utf8(body).expect("text"))
}

fn searched(is_streamed: bool) -> Vec<u8> {
    let search =
        json!({"type": "tool_use", "id": "s1", "name": "search_tools", "input": {"query": "weather forecast"}});
    said(is_streamed, "tool_use", &[search])
}

fn done(is_streamed: bool) -> Vec<u8> {
    said(is_streamed, "end_turn", &[json!({"type": "text", "text": "Done."})])
}

fn request(model: &str, is_streamed: bool, messages: &Value) -> Value {
    let tool = |at| json!({"name": format!("tool_{at}"), "description": "A tool", "input_schema": {"type": "object"}});
    let mut tools: Vec<Value> = (0..40).map(tool).collect();
    tools[7]["description"] = "Weather forecast of a city".into();
    json!({"model": model, "max_tokens": 9, "stream": is_streamed, "messages": messages, "tools": tools})
}

fn hi() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

/// What the client gets.
struct Got {
    status: u16,
    report: String,
    body: Vec<u8>,
    is_whole: bool,
}

impl Got {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

async fn send(proxy: &Proxy, body: &Value) -> Got {
    send_to("/anthropic/v1/messages", proxy, body).await
}

async fn send_to(path: &str, proxy: &Proxy, body: &Value) -> Got {
    let request = axum::http::Request::post(path).header("x-api-key", "key");
    let request = request.body(Body::from(body.to_string())).expect("a request");
    let response = proxy.router().oneshot(request).await.expect("a response");
    let status = response.status().as_u16();
    let report = response.headers()["x-pegboard"].to_str().expect("text").to_owned();
    let (mut stream, mut body) = (response.into_body(), Vec::new());
    let is_whole = loop {
        match next_bytes(&mut stream).await {
            Some(Ok(bytes)) => body.extend_from_slice(&bytes),
            Some(Err(_)) => break false,
            None => break true,
        }
    };
    Got { status, report, body, is_whole }
}

async fn next_bytes(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    use http_body::Body as _;

    let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await;
    frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()))
}

#[tokio::test]
async fn refusals_that_are_not_read_as_a_whole_pass() {
    let long = format!(r#"{{"type":"error","error":{{"message":"{}"}}}}"#, "x".repeat(2 * MAX_ERROR_BYTES));
    for is_streamed in [false, true] {
        for (sent, is_whole) in [(&long[..], true), (&long[..long.len() - 9], false), (&long[..99], false), ("", false)]
        {
            let upstreams = Upstreams::start(vec![response(400, "application/json", long.len(), sent)]).await;
            let got = send(&upstreams.proxy(), &request(CONSTANT, is_streamed, &hi())).await;
            assert_eq!((got.status, got.is_whole), (400, is_whole), "{} bytes: {}", sent.len(), got.report);
            assert!(got.body == sent.as_bytes(), "{} of {} bytes", got.body.len(), sent.len());
            assert_eq!(upstreams.asked().len(), 1);

            // The client has the beginning of the answer already, or none.
            let refusal = response(400, "text/plain", long.len(), sent);
            let upstreams = Upstreams::start(vec![searched(is_streamed), refusal]).await;
            let got = send(&upstreams.proxy(), &request(CONSTANT, is_streamed, &hi())).await;
            assert_eq!((got.status, got.is_whole), (if is_streamed { 200 } else { 400 }, true), "{}", sent.len());
            assert!(got.text().contains(HIDDEN_ERROR), "{}", got.text());
            assert_eq!(upstreams.asked().len(), 2);
        }
    }
}

/// Returns messages with thinking in an open loop, whose hidden turns are lost.
fn lost_loop() -> Value {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "S"});
    let call = json!({"type": "tool_use", "id": "c1", "name": "tool_1", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": "ok"});
    json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thinking, call]},
        {"role": "user", "content": [result]}
    ])
}

/// An error about thinking whose hidden turns are lost.
const BOUND: &str = "messages.1.content.0: this `thinking` block is bound to a different conversation";

fn thinking_request(model: &str, is_streamed: bool) -> Value {
    let mut body = request(model, is_streamed, &lost_loop());
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    body
}

#[tokio::test]
async fn lost_thinking_is_repaired_where_references_are_declared() {
    for is_streamed in [false, true] {
        // References are declared by the first search, and the error of its round is about them.
        let search = searched(is_streamed);
        let reference = refused("tools.1: `defer_loading`: Extra inputs are not permitted");
        let upstreams = Upstreams::start(vec![search, reference, done(is_streamed)]).await;
        let got = send(&upstreams.proxy(), &thinking_request(REFERENCES, is_streamed)).await;
        assert!(got.status == 200 && got.text().contains("Done."), "{}", got.text());
        assert_eq!(upstreams.asked()[2]["thinking"]["type"], "enabled");
        assert!(!upstreams.asked()[2].to_string().contains("defer_loading"));

        // This one is about the lost turns.
        let upstreams = Upstreams::start(vec![searched(is_streamed), refused(BOUND), done(is_streamed)]).await;
        let proxy = upstreams.proxy();
        let got = send(&proxy, &thinking_request(REFERENCES, is_streamed)).await;
        assert!(got.status == 200 && got.text().contains("Done."), "{}", got.text());
        assert!(got.is_whole);
        let asked = upstreams.asked();
        assert_eq!(asked[2]["thinking"], json!({"type": "disabled"}));
        assert!(!asked[2]["messages"].to_string().contains("signature"), "{}", asked[2]["messages"]);
        assert!(asked[2].to_string().contains("defer_loading"), "references are still declared");
    }
}

#[tokio::test]
async fn the_first_refusal_is_that_of_the_client_s_request() {
    let upstreams = Upstreams::start(vec![refused(BOUND), refused("another error")]).await;
    let mut body = thinking_request(CONSTANT, true);
    body["context_management"] = json!({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]});
    let got = send(&upstreams.proxy(), &body).await;
    assert!(got.status == 400 && got.text().contains("bound to a different"), "{}", got.text());
    let asked = upstreams.asked();
    assert_eq!((asked[0]["context_management"].is_object(), asked[1].get("context_management")), (true, None));
    // A request that cannot be changed is not sent again.
    let upstreams = Upstreams::start(vec![refused(BOUND)]).await;
    let mut body = thinking_request(CONSTANT, true);
    body["thinking"] = json!({"type": "disabled"});
    body["messages"][1]["content"].as_array_mut().expect("blocks").remove(0);
    assert_eq!(send(&upstreams.proxy(), &body).await.status, 400);
    assert_eq!(upstreams.asked().len(), 1);
}

#[tokio::test]
async fn every_lost_call_of_a_response_gets_a_result() {
    let missing = |id: &str| refused(&format!("No tool output found for function call {id}."));
    let answer =
        json!({"id": "r2", "object": "response", "status": "completed", "output": [], "usage": {}}).to_string();
    let answer = response(200, "application/json", answer.len(), &answer);
    let tool = |at| json!({"type": "function", "name": format!("tool_{at}"), "parameters": {"type": "object"}});
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "ok"});
    let body = json!({"model": "gpt-5.4", "previous_response_id": "lost", "input": [output],
        "tools": (0..40).map(tool).collect::<Vec<_>>()});
    let path = "/openai/v1/responses";
    let upstreams = Upstreams::start(vec![missing("s1"), missing("s2"), answer]).await;
    let got = send_to(path, &upstreams.proxy(), &body).await;
    assert_eq!(got.status, 200, "{} {}", got.report, got.text());
    let last = upstreams.asked().pop().expect("a request");
    let ids: Vec<&str> =
        last["input"].as_array().expect("items").iter().map(|item| json::text(item, "call_id")).collect();
    assert_eq!(ids, ["s2", "s1", "c1"]);
    // It ends, and with the error about the client's own request.
    let calls: Vec<Vec<u8>> = (0..=MAX_REPAIRS).map(|at| missing(&format!("s{at}"))).collect();
    let upstreams = Upstreams::start(calls).await;
    let got = send_to(path, &upstreams.proxy(), &body).await;
    assert!(got.status == 400 && got.text().contains("call s0."), "{}", got.text());
    assert_eq!(upstreams.asked().len(), MAX_REPAIRS + 1);
    let upstreams = Upstreams::start(vec![missing("s1"), missing("s1")]).await;
    assert_eq!(send_to(path, &upstreams.proxy(), &body).await.status, 400);
}

#[tokio::test]
async fn the_report_counts_what_was_sent_at_last() {
    for is_streamed in [false, true] {
        let reference = refused("tools.1: `defer_loading`: Extra inputs are not permitted");
        let upstreams = Upstreams::start(vec![searched(is_streamed), reference, done(is_streamed)]).await;
        let proxy = upstreams.proxy();
        let got = send(&proxy, &request(REFERENCES, is_streamed, &hi())).await;
        let sent = |at: usize| upstreams.asked()[at]["tools"].as_array().expect("tools").len();
        assert_eq!((sent(0), sent(2)), (1, 2));
        // The head of a stream is sent with the first round.
        let expected = if is_streamed { "sent=1" } else { "sent=2" };
        assert!(got.report.contains(expected), "{}", got.report);
    }
}

#[tokio::test]
async fn answers_over_the_limit_of_copies_are_streamed_but_have_no_searches() {
    let long = "x".repeat(MAX_KEPT_BYTES / 4);
    let texts = [(); 5].map(|()| json!({"type": "text", "text": long}));
    let upstreams = Upstreams::start(vec![said(true, "end_turn", &texts)]).await;
    let proxy = upstreams.proxy();
    let got = send(&proxy, &request(CONSTANT, true, &hi())).await;
    assert!(got.is_whole && got.body.len() > 5 * long.len(), "{} bytes", got.body.len());
    assert!(got.text().ends_with("message_stop\"}\n\n"));

    let search = json!({"type": "tool_use", "id": "s1", "name": "search_tools", "input": {"query": "tool"}});
    let blocks: Vec<Value> = texts.iter().cloned().chain([search]).collect();
    let upstreams = Upstreams::start(vec![said(true, "tool_use", &blocks)]).await;
    let got = send(&upstreams.proxy(), &request(CONSTANT, true, &hi())).await;
    assert!(!got.is_whole && got.body.len() > 5 * long.len(), "{} bytes", got.body.len());
    assert!(!got.text().contains("search_tools"));
    assert_eq!(upstreams.asked().len(), 1);
}
