//! Shares of connections, streams and memory at the listener, which one caller cannot take from
//! others.

use std::{net::Ipv4Addr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    CONTROL, Legacy, PATIENCE, Reply, Served,
    client::{builder, http, modern_meta, modern_with},
    fixture, text,
};

const ANN: &str = "secret-token-of-ann";
const LOW: &str = "secret-token-of-low";

fn config(pegboard: &Value) -> Value {
    let mut own = json!({"exposure": "never", "tokens": [
        {"name": "ann", "token": ANN}, {"name": "low", "token": LOW, "selection": {"servers": ["one"]}}
    ]});
    own.as_object_mut().expect("an object").extend(pegboard.as_object().expect("an object").clone());
    json!({"mcpServers": {"one": fixture(&["--extras"])}, "pegboard": own})
}

/// Raises the limit of open files to a few thousand.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(4096, |maximum| maximum.min(4096));
    if now.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..now }).expect("more open files");
    }
}

async fn connect(served: &Served) -> TcpStream {
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    TcpStream::connect(address).await.expect("a connection")
}

/// Returns a `subscriptions/listen` request that stays open until it is closed.
fn listening(token: &str) -> String {
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": modern_meta(&json!({}))});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads the head of the answer; `None` if the connection is closed without one.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let reading = async {
        while !read.windows(4).any(|four| four == b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            read.push(byte[0]);
        }
        Some(String::from_utf8_lossy(&read).into_owned())
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time")
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// Opens an event stream, and returns it with its status.
async fn listen(served: &Served, token: &str) -> (TcpStream, String) {
    let mut stream = connect(served).await;
    stream.write_all(listening(token).as_bytes()).await.expect("a request");
    let head = head(&mut stream).await.expect("an answer");
    (stream, head)
}

async fn ping(served: &Served, token: &str) -> Reply {
    let bearer = format!("Bearer {token}");
    modern_with(&served.url, "tools/list", json!({}), &json!({}), &[("authorization", &bearer)]).await
}

#[tokio::test]
async fn one_token_with_a_thousand_streams_locks_nobody_out() {
    allow_many_files();
    let served = Served::start("token-streams", &config(&json!({}))).await;
    let mut open = Vec::new();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..1024 {
        let (stream, head) = listen(&served, LOW).await;
        *counts.entry(status(&head).to_owned()).or_default() += 1;
        assert!(status(&head) == "200" || head.contains("retry-after: 1"), "{head}");
        open.push(stream);
    }
    assert_eq!(counts, [("200".to_owned(), 64), ("503".to_owned(), 960)].into());
    assert_eq!(ping(&served, ANN).await.status, 200);
    let low = ping(&served, LOW).await;
    assert_eq!(low.status, 200, "streams are a part of what a token may do");
    drop(open);
    // A closed stream can be opened again, once the gateway has noticed.
    let again = async {
        while status(&listen(&served, LOW).await.1) != "200" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("a stream");
}

#[tokio::test]
async fn idle_connections_lock_nobody_out() {
    allow_many_files();
    let served = Served::start("idle-connections", &config(&json!({}))).await;
    let mut silent = Vec::new();
    for _ in 0..1200 {
        silent.push(connect(&served).await);
        assert_eq!(ping(&served, ANN).await.status, 200);
    }
    // Half a request is as little as none.
    for stream in &mut silent {
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: local").await;
    }
    assert_eq!(ping(&served, ANN).await.status, 200);
}

#[tokio::test]
async fn connections_that_do_not_authenticate_are_closed() {
    let served = Served::start("header-timeout", &config(&json!({"connections": {"headerTimeout": "200ms"}}))).await;
    let mut silent = connect(&served).await;
    let mut guessing = connect(&served).await;
    let guess = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    guessing.write_all(guess.as_bytes()).await.expect("a request");
    let health = head(&mut guessing).await.expect("an answer");
    assert_eq!(status(&health), "200");
    for stream in [&mut silent, &mut guessing] {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        closed.expect("it is closed").expect("in order");
    }
}

#[tokio::test]
async fn a_full_listener_refuses_clients_and_still_serves_its_operator() {
    let limits = json!({"total": 3, "reserved": 1, "perAddress": 100, "perToken": 100});
    let served = Served::start("reserved", &config(&json!({"connections": limits}))).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let (stream, head) = listen(&served, LOW).await;
        assert_eq!(status(&head), "200");
        streams.push(stream);
    }
    let refused = ping(&served, ANN).await;
    assert_eq!((refused.status, refused.error().1.as_str()), (503, "too many connections (`connections.total`)"));
    assert_eq!(refused.headers["retry-after"], "1");
    for path in ["/health", "/ready", "/control/status"] {
        let request = http().get(served.url.replace("/mcp", path)).bearer_auth(ANN);
        assert_eq!(request.send().await.expect("an answer").status().as_u16(), 200, "{path}");
    }
    drop(streams);
    let again = async {
        while ping(&served, ANN).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("room");
}

#[tokio::test]
async fn requests_in_progress_have_a_share_per_token_and_per_address() {
    let check = async |test: &str, limits: Value, tokens: Value, expected: &str| {
        let mut config = config(&json!({"connections": limits}));
        config["pegboard"]["tokens"] = tokens;
        let served = Served::start(test, &config).await;
        let (first, second) = (listen(&served, ANN).await, listen(&served, ANN).await);
        assert_eq!((status(&first.1), status(&second.1)), ("200", "200"), "{test}");
        let refused = ping(&served, ANN).await;
        assert_eq!((refused.status, refused.error().1.as_str()), (503, expected), "{test}");
        // The operator reaches the gateway all the same, from the same address.
        for path in ["/health", "/control/status"] {
            let token = if config["pegboard"]["tokens"] == json!([]) { CONTROL } else { ANN };
            let request = http().get(served.url.replace("/mcp", path)).bearer_auth(token);
            assert_eq!(request.send().await.expect("an answer").status().as_u16(), 200, "{test} {path}");
        }
        // Another address has a share of its own.
        let other =
            builder().local_address(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))).build().expect("a client");
        let health = other.get(served.url.replace("/mcp", "/health")).send().await.expect("an answer");
        assert_eq!(health.status().as_u16(), 200, "{test}");
    };
    let tokens = json!([{"name": "ann", "token": ANN}]);
    let expected = "too many requests in progress with this token (`connections.perToken`)";
    check("per-token", json!({"perToken": 2}), tokens.clone(), expected).await;
    let expected = "too many connections from this address (`connections.perAddress`)";
    check("per-address", json!({"perAddress": 2}), tokens, expected).await;
    check("per-address-open", json!({"perAddress": 2}), json!([]), expected).await;
}

#[tokio::test]
async fn limits_without_tokens_are_those_of_an_address() {
    let mut config =
        config(&json!({"limits": {"callsPerMinute": 3}, "tokens": [], "trustedProxies": ["127.0.0.0/30"]}));
    let served = Served::start("address-limits", &config).await;
    let call = async |session: &Legacy| text(&session.call("echo", json!({})).await);
    let mut passed = 0;
    for _ in 0..20 {
        passed += usize::from(call(&served.legacy().await).await == "{}");
    }
    assert_eq!(passed, 3, "a new session is not a new caller");
    let behind = async |served: &Served, address: &str| {
        let params = json!({"name": "echo", "arguments": {}});
        let reply = modern_with(&served.url, "tools/call", params, &json!({}), &[("x-forwarded-for", address)]).await;
        text(&reply) == "{}"
    };
    // A trusted proxy says who its clients are.
    let mut found = Vec::new();
    for address in ["192.0.2.1", "192.0.2.1", "6.6.6.6, 192.0.2.1", "192.0.2.1, 127.0.0.2", "192.0.2.2", "127.0.0.1"] {
        found.push(behind(&served, address).await);
    }
    assert_eq!(found, [true, true, true, false, true, false]);
    // Anyone else is who it is.
    config["pegboard"]["trustedProxies"] = json!([]);
    let served = Served::start("address-limits-direct", &config).await;
    let mut passed = 0;
    for number in 0..20 {
        passed += usize::from(behind(&served, &format!("192.0.2.{number}")).await);
    }
    assert_eq!(passed, 3);
}

#[tokio::test]
async fn bodies_in_progress_have_a_share_of_memory() {
    let served = Served::start("body-bytes", &config(&json!({"maxBodyBytes": 2000}))).await;
    let unfinished = |token: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
        )
    };
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut stream = connect(&served).await;
        stream.write_all(unfinished(LOW, 2000).as_bytes()).await.expect("a request");
        open.push(stream);
    }
    // They are counted once their headers were read; then a ninth is refused.
    let refused = async {
        loop {
            let mut stream = connect(&served).await;
            stream.write_all(unfinished(LOW, 2000).as_bytes()).await.expect("a request");
            if let Ok(head) = tokio::time::timeout(Duration::from_millis(200), head(&mut stream)).await {
                return head.expect("an answer");
            }
        }
    };
    let head = tokio::time::timeout(PATIENCE, refused).await.expect("a refusal");
    assert_eq!((status(&head), head.contains("retry-after: 1")), ("503", true), "{head}");
    assert_eq!(ping(&served, ANN).await.status, 200, "another token has its own share");
}

#[tokio::test]
async fn calls_whose_client_has_gone_away_keep_their_share() {
    let connections = json!({"connections": {"perToken": 3}, "shutdownDeadline": "100ms"});
    let served = Served::start("abandoned", &config(&connections)).await;
    let session = Legacy::begin_as(&served.url, "low", json!({}), Some(LOW)).await.session;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "slow", "arguments": {"ms": 600_000}
    }});
    let body = call.to_string();
    for number in 1..=3 {
        let mut stream = connect(&served).await;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {LOW}\r\nMcp-Session-Id: {session}\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let is_running = |log: &String| log.matches("slow: started").count() == number;
        let mut log = served.log.clone();
        tokio::time::timeout(PATIENCE, log.wait_for(is_running)).await.expect("it runs").expect("a log");
        // The client goes away, and the call goes on.
        drop(stream);
    }
    assert_eq!(ping(&served, LOW).await.status, 503, "three calls are all that it may have");
    assert_eq!(ping(&served, ANN).await.status, 200);
}

#[tokio::test]
async fn refusals_are_logged_within_a_budget() {
    let served = Served::start("refusals", &config(&json!({}))).await;
    for _ in 0..300 {
        let request = http().post(&served.url).bearer_auth(LOW).header("mcp-session-id", "f".repeat(32));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(request.body(body.to_string()).send().await.expect("an answer").status(), 404);
    }
    let logged = served.log().matches("HTTP request rejected").count();
    // Ten seconds may have passed more than once on a busy machine.
    assert!((1..300).contains(&logged), "{logged}");
}
