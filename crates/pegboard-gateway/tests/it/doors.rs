//! The same requests through every door.

use pegboard_gateway::GatewaySettings;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::world::{PATIENCE, Server, World};

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

/// Speaks on a pipe; the lines that came back, until the client closes its end.
async fn pipe(world: &World, lines: &[String]) -> Vec<Value> {
    let (client, server) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(server);
    let (reader, mut writer) = tokio::io::split(client);
    let talk = async {
        for line in lines {
            writer.write_all(format!("{line}\n").as_bytes()).await.expect("a pipe");
        }
        let expected = lines.iter().filter(|line| line.contains("\"id\"") || !line.starts_with('{')).count();
        let mut answers = Vec::new();
        let mut reader = BufReader::new(reader).lines();
        while answers.len() < expected {
            let line = reader.next_line().await.expect("a pipe").expect("an answer");
            answers.push(serde_json::from_str(&line).expect("JSON"));
        }
        writer.shutdown().await.expect("a pipe");
        answers
    };
    let (served, answers) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(world.gateway.serve_pipe(input, output), talk) })
            .await
            .expect("in time");
    served.expect("a pipe");
    answers
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[tokio::test]
async fn a_pipe_speaks_both_versions() {
    let world = world().await;
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let lines = [
        request(1, "tools/list", &json!({})),
        request(2, "ping", &json!({})),
        request(3, "initialize", &hello),
        request(4, "tools/call", &json!({"name": "echo", "arguments": {}})),
        request(5, "tools/call", &json!({"name": "echo", "arguments": {}, "_meta": meta()})),
        request(6, "server/discover", &json!({"_meta": meta()})),
        request(7, "nothing", &json!({})),
        "nonsense".to_owned(),
    ];
    let answers = pipe(&world, &lines).await;
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).cloned().unwrap_or_default();
    assert!(answer(1)["error"]["message"].as_str().is_some_and(|text| text.contains("nothing was initialized")));
    assert_eq!(answer(2)["result"], json!({}));
    assert_eq!(answer(3)["result"]["protocolVersion"], "2025-06-18");
    assert!(answer(4)["result"]["content"].is_array() && answer(4)["result"].get("resultType").is_none());
    assert_eq!(answer(5)["result"]["resultType"], "complete");
    assert_eq!(answer(6)["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(answer(7)["error"]["code"], -32601);
    assert!(answers.iter().any(|answer| answer["error"]["code"] == -32700));
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
    assert!(ambiguous.contains("must not give a key twice"), "{ambiguous}");
    let list = session.request("tools/call", json!({"name": "echo", "arguments": []})).await;
    assert_eq!(list["error"]["message"], "`arguments` must be an object");
    let nameless = session.request("tools/call", json!({})).await;
    assert_eq!(nameless["error"]["message"], "`name` is required, as text");
    let long = session.request("tools/call", json!({"name": "n".repeat(1025)})).await;
    assert_eq!(long["error"]["message"], "`name` is 1025 bytes, over the limit of 1024");
}
