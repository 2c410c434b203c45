//! The same requests through every door.

use std::{io, sync::Arc};

use axum::http::Method;
use pegboard_discovery::DialectName;
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use super::world::{PATIENCE, Server, World, methods, plain, settings, until};

async fn world() -> World {
    World::new(vec![Server::new(&["echo", "wait"]).config("one")], GatewaySettings::default()).await
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A client on a pipe.
struct Pipe {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<io::Result<()>>,
}

impl Pipe {
    fn open(world: &World) -> Self {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (output, input) = tokio::io::split(client);
        let (reader, writer) = tokio::io::split(server);
        let gateway = Arc::clone(&world.gateway);
        let served = tokio::spawn(async move { gateway.serve_pipe(reader, writer).await });
        Self { input, output: BufReader::new(output).lines(), served }
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("a pipe");
    }

    /// The next line; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("in time").expect("a pipe");
        line.map(|line| serde_json::from_str(&line).expect("JSON"))
    }

    /// Makes a request; everything up to its response.
    async fn request(&mut self, id: u64, method: &str, params: &Value) -> Vec<Value> {
        self.send(&request(id, method, params)).await;
        let mut messages = Vec::new();
        loop {
            let message = self.next().await.expect("a response");
            let is_response = message["id"] == id && message.get("method").is_none();
            messages.push(message);
            if is_response {
                return messages;
            }
        }
    }

    /// Begins a session.
    async fn initialize(&mut self, version: &str) -> Value {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let greeted = self.request(0, "initialize", &params).await.pop().expect("a response");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        greeted
    }

    /// Closes the client's end; the lines that still come.
    async fn close(mut self) -> Vec<Value> {
        self.input.shutdown().await.expect("a pipe");
        let mut rest = Vec::new();
        while let Some(message) = self.next().await {
            rest.push(message);
        }
        tokio::time::timeout(PATIENCE, self.served).await.expect("in time").expect("it ends").expect("a pipe");
        rest
    }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[tokio::test]
async fn a_pipe_speaks_both_versions() {
    let world = world().await;
    let mut pipe = Pipe::open(&world);
    for (line, code) in [("nonsense", -32700), ("{\"jsonrpc\":\"2.0\",\"id\":[]}", -32600)] {
        pipe.send(line).await;
        let refused = pipe.next().await.expect("an answer");
        assert_eq!((refused["error"]["code"].as_i64(), refused.get("id")), (Some(code), None), "{refused}");
    }
    let early = pipe.request(1, "tools/list", &json!({})).await;
    assert_eq!(early[0]["error"]["code"], -32600);
    assert!(early[0]["error"]["message"].as_str().is_some_and(|text| text.contains("send `initialize` first")));
    assert_eq!(pipe.request(2, "ping", &json!({})).await[0]["result"], json!({}));
    let modern = pipe.request(3, "tools/call", &json!({"name": "echo", "arguments": {}, "_meta": meta()})).await;
    assert_eq!(modern[0]["result"]["resultType"], "complete");
    let discovered = pipe.request(4, "server/discover", &json!({"_meta": meta()})).await;
    assert_eq!(discovered[0]["result"]["supportedVersions"], json!(["2026-07-28"]));
    let mut future = meta();
    future["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    let unsupported = pipe.request(5, "tools/list", &json!({"_meta": future})).await;
    assert_eq!(unsupported[0]["error"]["code"], -32022);
    assert_eq!(pipe.initialize("2025-06-18").await["result"]["protocolVersion"], "2025-06-18");
    let legacy = pipe.request(6, "tools/call", &json!({"name": "echo", "arguments": {}})).await;
    assert!(legacy[0]["result"]["content"].is_array() && legacy[0]["result"].get("resultType").is_none());
    assert_eq!(pipe.request(7, "nothing", &json!({})).await[0]["error"]["code"], -32601);
    assert_eq!(pipe.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_batch_on_a_pipe_is_answered_on_one_line() {
    let world = world().await;
    let mut pipe = Pipe::open(&world);
    assert_eq!(pipe.initialize("2025-03-26").await["result"]["protocolVersion"], "2025-03-26");
    let call = request(1, "tools/call", &json!({"name": "echo", "arguments": {}}));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
    let again = request(3, "initialize", &json!({}));
    pipe.send(&format!("[{call},{note},{},{again}]", request(2, "ping", &json!({})))).await;
    let answers = pipe.next().await.expect("an answer");
    let ids: Vec<&Value> = answers.as_array().expect("a batch").iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(answers[0]["result"]["content"].is_array() && answers[1]["result"] == json!({}));
    assert_eq!(answers[2]["error"]["code"], -32600);
    pipe.send("[]").await;
    assert_eq!(pipe.next().await.expect("an answer")["error"]["code"], -32600);
    pipe.send(&format!("[{note}]")).await;
    assert_eq!(pipe.request(4, "ping", &json!({})).await.len(), 1, "notifications alone have no answer");
}

#[tokio::test]
async fn a_pipe_gets_notifications_before_the_result() {
    let others: Vec<String> = (0..60).map(|number| format!("other_{number:02}")).collect();
    let names: Vec<&str> = others.iter().map(String::as_str).chain(["play_audio"]).collect();
    let dialect = settings(Profile::Dialect(DialectName::Gateway));
    let world = World::new(vec![Server::new(&names).config("many")], dialect).await;
    let mut pipe = Pipe::open(&world);
    pipe.initialize("2025-06-18").await;
    let search = json!({"name": "search_available_tools", "arguments": {"query": "audio"}});
    let messages = pipe.request(1, "tools/call", &search).await;
    assert_eq!(methods(&messages), ["notifications/tools/list_changed"]);
    let text = messages[1]["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(messages.len() == 2 && text.starts_with("Found 1 "), "{messages:?}");
}

#[tokio::test]
async fn a_pipe_that_ends_is_answered_first() {
    let world = world().await;
    let mut pipe = Pipe::open(&world);
    pipe.initialize("2025-11-25").await;
    pipe.send(&request(1, "tools/list", &json!({}))).await;
    pipe.send(&request(2, "tools/call", &json!({"name": "echo"}))).await;
    let mut ids: Vec<u64> = pipe.close().await.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
}

#[tokio::test]
async fn a_pipe_that_stays_open_ends_with_the_gateway() {
    let world = world().await;
    let mut pipe = Pipe::open(&world);
    pipe.request(1, "tools/list", &json!({"_meta": meta()})).await;
    world.gateway.close_streams();
    let ended = tokio::time::timeout(PATIENCE, pipe.served).await.expect("in time");
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
}

/// A call that is cancelled while it runs, one that is cancelled while it waits for its turn, and
/// one that does not fit.
#[tokio::test]
async fn calls_on_a_pipe_are_checked_and_take_turns() {
    let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
    let tools = ["wait", "echo"].map(|name| json!({"name": name, "inputSchema": schema}));
    let server = Server::with(tools.to_vec());
    let mut config = server.config("one");
    config.limits.concurrent = 1;
    let world = World::new(vec![config], plain()).await;
    let mut pipe = Pipe::open(&world);
    pipe.initialize("2025-11-25").await;
    let wrong = pipe.request(1, "tools/call", &json!({"name": "wait", "arguments": {"ms": []}})).await;
    assert_eq!(wrong[0]["result"]["isError"], true);
    let text = wrong[0]["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("`wait` was not called: /ms must be an integer, not []\nschema: "), "{text}");
    let wait = json!({"name": "wait", "arguments": {}});
    pipe.send(&request(2, "tools/call", &wait)).await;
    until("it runs", async || server.called() == ["wait"]).await;
    pipe.send(&request(3, "tools/call", &wait)).await;
    until("it waits", async || world.gateway.servers()[0].report().calls.waiting == 1).await;
    for id in [3, 2] {
        let params = json!({"requestId": id});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        pipe.send(&cancel.to_string()).await;
    }
    let echo = pipe.request(4, "tools/call", &json!({"name": "echo", "arguments": {"ms": 1}})).await;
    assert_eq!(echo[0]["result"]["content"][0]["text"], "done");
    assert_eq!(server.calls()[1..], [("echo".to_owned(), r#"{"ms":1}"#.to_owned())]);
}

#[tokio::test]
async fn calls_on_a_pipe_are_cut_by_a_shutdown() {
    let server = Server::new(&["wait"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let mut pipe = Pipe::open(&world);
    pipe.send(&request(1, "tools/call", &json!({"name": "wait", "arguments": {}, "_meta": meta()}))).await;
    until("it runs", async || !server.calls().is_empty()).await;
    world.gateway.cut_calls();
    let cut = pipe.next().await.expect("an answer");
    let expected =
        "server `one`: the gateway is shutting down; the call was interrupted and may or may not have taken effect";
    assert_eq!(
        (&cut["id"], &cut["error"]["code"], &cut["error"]["message"]),
        (&json!(1), &json!(-32603), &json!(expected))
    );
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order() {
    let world = world().await;
    let session = world.legacy().await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "echo"}},
        {"jsonrpc": "2.0", "id": "c", "method": "nothing"},
        {"jsonrpc": "2.0", "id": "d", "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
        {"jsonrpc": "2.0", "id": "e", "method": "tools/call", "params": []}
    ]);
    let (status, _, mut answers) = world.post(&[("mcp-session-id", session.id())], &batch).await;
    let answers = answers.pop().unwrap_or_default();
    let found: Vec<String> = answers
        .as_array()
        .into_iter()
        .flatten()
        .map(|answer| format!("{} {}", answer["id"].as_str().unwrap_or_default(), answer["error"]["code"]))
        .collect();
    assert_eq!(
        (status, found),
        (200, ["a null", "b null", "c -32601", "d -32600", "e -32602"].map(str::to_owned).to_vec())
    );
    let empty = world.post(&[], &json!([])).await;
    assert_eq!(empty.0, 400);
}

#[tokio::test]
async fn headers_and_body_must_agree() {
    let world = world().await;
    let params = json!({"name": "echo", "arguments": {}, "_meta": meta()});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let check = async |headers: &[(&str, &str)], expected: (u16, i64)| {
        let (status, _, mut messages) = world.post(headers, &body).await;
        let code = messages.pop().unwrap_or_default()["error"]["code"].as_i64().unwrap_or_default();
        assert_eq!((status, code), expected, "{headers:?}");
    };
    let version = ("mcp-protocol-version", "2026-07-28");
    check(&[version, ("mcp-method", "tools/call"), ("mcp-name", "echo")], (200, 0)).await;
    check(&[version, ("mcp-method", "tools/list"), ("mcp-name", "echo")], (400, -32020)).await;
    check(&[version, ("mcp-method", "tools/call"), ("mcp-name", "other")], (400, -32020)).await;
    check(&[("mcp-method", "tools/call"), ("mcp-name", "echo")], (400, -32020)).await;
}

#[tokio::test]
async fn requests_that_cannot_be_read() {
    let world = world().await;
    let session = world.legacy().await;
    let ambiguous = session.call("echo", r#"{"a":1,"a":2}"#).await;
    assert!(ambiguous.contains("has a duplicate key"), "{ambiguous}");
    let list = session.request("tools/call", json!({"name": "echo", "arguments": []})).await;
    assert_eq!(list["error"]["message"], "`arguments` must be an object");
    let nameless = session.request("tools/call", json!({})).await;
    assert_eq!(nameless["error"]["message"], "`name` is required and must be a string");
    let long = session.request("tools/call", json!({"name": "n".repeat(1025)})).await;
    assert_eq!(long["error"]["message"], "`name` is 1025 bytes, over the limit of 1024");
}

#[tokio::test]
async fn requests_are_refused_by_their_status() {
    let world = world().await;
    let small = world.at(world.gateway.router(2000));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let check = async |headers: &[(&str, &str)], body: &str, expected: u16| {
        let status = small.send_text(None, headers, body).await.status().as_u16();
        assert_eq!(status, expected, "{headers:?} {}", body.len());
    };
    check(&[], ping, 200).await;
    check(&[("mcp-session-id", "unknown")], ping, 404).await;
    check(&[], &format!("{ping}{}", " ".repeat(3000)), 413).await;
    check(&[], "{", 400).await;
    check(&[], "[]", 400).await;
    check(&[("mcp-protocol-version", "v999")], ping, 400).await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        assert_eq!(small.http(method, "/mcp", None, &[], "").await.status().as_u16(), 405);
    }
}

#[tokio::test]
async fn sessions_end_on_request_and_make_room() {
    let servers = vec![Server::new(&["echo"]).config("one")];
    let world = World::new(servers, GatewaySettings { max_sessions: 2, ..plain() }).await;
    let first = world.legacy().await;
    assert_eq!(first.status("ping", json!({})).await, 200);
    assert_eq!(first.end().await, 200);
    assert_eq!(first.status("ping", json!({})).await, 404);
    let (oldest, second, third) = (world.legacy().await, world.legacy().await, world.legacy().await);
    let statuses = [&oldest, &second, &third].map(async |session| session.status("ping", json!({})).await);
    let [oldest, second, third] = statuses;
    assert_eq!((oldest.await, second.await, third.await), (404, 200, 200), "the oldest made room");
}
