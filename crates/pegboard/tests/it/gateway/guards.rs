//! Who may come in, and how much they may send.

use serde_json::{Value, json};

use super::{Legacy, Served, command, fixture, modern_with, names};

#[tokio::test]
async fn tokens_open_the_door_and_narrow_the_view() {
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&["--extras"])},
        "pegboard": {
            "exposure": "never",
            "tokens": [
                {"name": "ann", "token": "secret-token-of-ann"},
                {"name": "bob", "token": "secret-token-of-bob", "selection": {"tools": ["one:echo"]}}
            ]
        }
    });
    let served = Served::start("tokens", &config).await;
    let plain = served.modern("tools/list", json!({})).await;
    assert_eq!((plain.status, &plain.headers["www-authenticate"]), (401, &"Bearer".parse().expect("a header")));
    let health = super::client::http().get(served.url.replace("/mcp", "/health")).send().await.expect("an answer");
    assert_eq!(health.status().as_u16(), 200);
    let tools = async |token: &str| {
        let session = Legacy::begin_as(&served.url, "test", json!({}), Some(token)).await;
        (names(&session.request("tools/list", json!({})).await, "tools"), session)
    };
    assert!(tools("secret-token-of-ann").await.0.len() > 60);
    let (listed, bob) = tools("secret-token-of-bob").await;
    assert_eq!(listed, ["one___echo"]);
    assert!(!bob.hello.to_string().contains("two"), "{}", bob.hello);
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "_meta": super::client::modern_meta(&json!({})),
        "notifications": {"resourceSubscriptions": ["two+test://watched-resource"]}
    }});
    let listen = super::client::http()
        .post(&served.url)
        .bearer_auth("secret-token-of-bob")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .body(listen.to_string());
    let mut events = super::client::Events::new(listen.send().await.expect("an answer"));
    assert_eq!(events.message().await["params"]["notifications"]["resourceSubscriptions"], json!([]));
    for hidden in ["two___echo", "one___slow"] {
        let refused = bob.call(hidden, json!({})).await;
        let told = refused.response.to_string();
        assert!(told.contains("no tool") && !told.contains("one___slow,"), "{told}");
    }
    assert_eq!(names(&bob.request("prompts/list", json!({})).await, "prompts"), Vec::<String>::new());
    assert_eq!(bob.request("resources/read", json!({"uri": "two+test://static-text"})).await.error().0, -32002);
    let stolen = super::client::http().post(&served.url).header("mcp-session-id", &bob.session);
    let stolen = stolen.bearer_auth("secret-token-of-ann").body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(stolen.send().await.expect("an answer").status().as_u16(), 404, "a session of somebody else");
    let private = modern_with(
        &served.url,
        "tools/list",
        json!({}),
        &json!({}),
        &[("authorization", "Bearer secret-token-of-bob")],
    )
    .await;
    assert_eq!(private.result()["cacheScope"], "private");
    assert!(!served.log().contains("secret-"), "a secret in the log");
}

#[tokio::test]
async fn public_addresses_want_tokens() {
    let output = command().args(["serve", "--listen", "0.0.0.0:0"]).output().await.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("can be reached from other machines") && told.contains("--allow-public"), "{told}");
}

#[tokio::test]
async fn foreign_hosts_origins_and_bodies_are_refused() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&[])},
        "pegboard": {"maxBodyBytes": 2000}
    });
    let served = Served::start("foreign", &config).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let check = async |headers: &[(&str, &str)], body: &str, expected: u16| {
        let mut request = super::client::http().post(&served.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let status = request.body(body.to_owned()).send().await.expect("an answer").status().as_u16();
        assert_eq!(status, expected, "{headers:?} {}", body.len());
    };
    check(&[], ping, 200).await;
    check(&[("host", "evil.example.com")], ping, 403).await;
    check(&[("origin", "http://evil.example.com")], ping, 403).await;
    check(&[("origin", "http://localhost:3000")], ping, 200).await;
    check(&[("mcp-session-id", "unknown")], ping, 404).await;
    check(&[], &format!("{ping}{}", " ".repeat(3000)), 413).await;
    check(&[], "{", 400).await;
    check(&[], "[]", 400).await;
    check(&[("mcp-protocol-version", "v999")], ping, 400).await;
    for method in ["GET", "DELETE", "PUT"] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let response = super::client::http().request(method, &served.url).send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 405);
    }
}

#[tokio::test]
async fn sessions_end_when_told_and_make_room() {
    let config = json!({"mcpServers": {"fixture": fixture(&[])}, "pegboard": {"maxSessions": 2}});
    let served = Served::start("room", &config).await;
    let first = served.legacy().await;
    assert_eq!(first.end().await, 200);
    assert_eq!(first.request("ping", json!({})).await.status, 404);
    let (oldest, _second) = (served.legacy().await, served.legacy().await);
    let _third = served.legacy().await;
    assert_eq!(oldest.request("ping", json!({})).await.status, 404, "it made room");
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&[])},
        "pegboard": {
            "allowedOrigins": ["https://app.example.com"],
            "tokens": [{"name": "a", "token": "secret-token-of-a"}]
        }
    });
    let served = Served::start("guard-pages", &config).await;
    let ask = async |origin: &str| {
        let request = super::client::http().request(reqwest::Method::OPTIONS, &served.url).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        request.send().await.expect("an answer")
    };
    let allowed = ask("https://app.example.com").await;
    assert_eq!(allowed.status().as_u16(), 204);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example.com");
    assert_eq!(ask("https://evil.example.com").await.status().as_u16(), 403);
    let ping = super::client::http()
        .post(&served.url)
        .bearer_auth("secret-token-of-a")
        .header("origin", "https://app.example.com");
    let ping = ping.body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).send().await.expect("an answer");
    assert_eq!(ping.headers()["access-control-allow-origin"], "https://app.example.com");
    served.logged("request rejected").await;
}

#[tokio::test]
async fn what_two_readers_would_read_differently_is_refused() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "middleware": [
            {"type": "tool_filter", "config": {"deny": ["test_simple_text"]}},
            {"type": "security", "config": {"rules": [{"name": "rm", "pattern": "rm -rf", "message": "no"}]}}
        ],
        "pegboard": {"dialect": "bridge"}
    });
    let served = Served::start("twice", &config).await;
    let check = async |params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let answer = super::client::http().post(&served.url).body(body).send().await.expect("an answer");
        let answer = answer.text().await.expect("a body");
        assert!(answer.contains("-32602"), "{params}: {answer}");
    };
    check(r#"{"name":"echo","arguments":{},"name":"test_simple_text"}"#).await;
    check(r#"{"name":"echo","arguments":{"message":"fine"},"arguments":{"message":"rm -rf /"}}"#).await;
    check(r#"{"name":"echo","arguments":{"message":"fine","message":"rm -rf /"}}"#).await;
    check(r#"{"name":"call_tool","arguments":{"name":"echo","arguments":{"m":"rm -rf /"},"arguments":{"m":1}}}"#).await;
}

#[tokio::test]
async fn secrets_in_addresses_stay_there() {
    let config = json!({
        "mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp?key=tell-nobody"}, "near": fixture(&[])},
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("addresses", &config).await;
    let session = served.legacy().await;
    served.logged("a server failed").await;
    let called = session.call("far___anything", json!({})).await;
    let health = super::client::http().get(served.url.replace("/mcp", "/health")).send().await.expect("an answer");
    let health = health.text().await.expect("a body");
    assert!(health.contains("degraded"), "{health}");
    for told in [served.log(), called.raw, health] {
        // What the HTTP library itself logs at this level is not ours.
        let ours: Vec<&str> = told.lines().filter(|line| !line.contains("connecting to")).collect();
        assert!(!ours.concat().contains("tell-nobody"), "{ours:?}");
    }
}

#[tokio::test]
async fn numbers_for_whoever_collects_them() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras", "--tools", "200"])},
        "pegboard": {"dialect": "bridge", "tokens": [
            {"name": "me", "token": "alpha-alpha-alpha"}, {"name": "guest", "token": "beta-beta-beta-beta", "selection": {"tools": ["fixture:echo"]}}
        ]}
    });
    let served = Served::start("metrics", &config).await;
    let get = async |path: &str, token: Option<&str>| {
        let request = super::client::http().get(served.url.replace("/mcp", path));
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a body"))
    };
    let session = Legacy::begin_as(&served.url, "test", json!({}), Some("alpha-alpha-alpha")).await;
    session.request("tools/list", json!({})).await;
    session.call("search_tools", json!({"query": "echo"})).await;
    session.call("search_tools", json!({"query": "zzzqqq"})).await;
    session.call("call_tool", json!({"name": "echo", "arguments": {"a": 1}})).await;
    session.call("call_tool", json!({"name": "slow", "arguments": {}})).await;
    assert_eq!(get("/ready", None).await.0, 200);
    assert_eq!(get("/metrics", None).await.0, 401, "names of servers are for those who may see them");
    assert_eq!(
        get("/metrics", Some("beta-beta-beta-beta")).await,
        (403, String::new()),
        "the numbers are of all servers"
    );
    let (status, text) = get("/metrics", Some("alpha-alpha-alpha")).await;
    assert_eq!(status, 200);
    for line in [
        "pegboard_sessions 1",
        "pegboard_servers{state=\"ready\"} 1",
        "pegboard_searches_total{outcome=\"hit\"} 1",
        "pegboard_searches_total{outcome=\"miss\"} 1",
        "pegboard_calls_total{server=\"fixture\",outcome=\"ok\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "no `{line}` in:\n{text}");
    }
    let saved = text.lines().find_map(|line| line.strip_prefix("pegboard_tokens_saved_total "));
    let saved: u64 = saved.and_then(|saved| saved.parse().ok()).expect("a number");
    assert!(saved > 1_000, "{saved}");
}

#[tokio::test]
async fn without_a_token_health_is_liveness_alone() {
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"])},
        "pegboard": {"tokens": [
            {"name": "ann", "token": "secret-token-of-ann"},
            {"name": "bob", "token": "secret-token-of-bob", "selection": {"tools": ["one:echo"]}}
        ]}
    });
    let served = Served::start("liveness", &config).await;
    Legacy::begin_as(&served.url, "test", json!({}), Some("secret-token-of-ann")).await;
    let get = async |path: &str, token: Option<&str>| {
        let request = super::client::http().get(served.url.replace("/mcp", path));
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.json::<Value>().await.unwrap_or_default())
    };
    for token in [None, Some("secret-token-of-bob")] {
        assert_eq!(get("/health", token).await, (200, json!({"status": "ok"})));
        assert_eq!(get("/ready", token).await, (200, json!({"ready": true})));
    }
    let (status, health) = get("/health", Some("secret-token-of-ann")).await;
    assert_eq!((status, &health["servers"], &health["sessions"]), (200, &json!(1), &json!(1)));
    assert_eq!(get("/ready", Some("secret-token-of-ann")).await, (200, json!({"ready": true, "starting": 0})));
    assert_eq!(get("/health", Some("secret-token-of-eve")).await.0, 401);
}

#[tokio::test]
async fn tokens_cannot_be_tried_in_bulk() {
    let config = json!({
        "mcpServers": {"one": fixture(&[])},
        "pegboard": {"tokens": [{"name": "ann", "token": "secret-token-of-ann"}]}
    });
    let served = Served::start("guesses", &config).await;
    let list = async |tokens: &[&str]| {
        let headers: Vec<String> = tokens.iter().map(|token| format!("Bearer {token}")).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|header| ("authorization", header.as_str())).collect();
        modern_with(&served.url, "tools/list", json!({}), &json!({}), &headers).await.status
    };
    let began = std::time::Instant::now();
    for guess in 0..7 {
        assert_eq!(list(&[&format!("secret-token-of-{guess}")]).await, 401);
    }
    // 100, 200, 400 and 800 ms from the fourth one on; how fast the valid one is, is not measured here.
    assert!(began.elapsed() >= std::time::Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(list(&["secret-token-of-ann"]).await, 200);
    assert_eq!(list(&["secret-token-of-ann", "secret-token-of-ann"]).await, 400);
    assert_eq!(list(&["secret-token-of-ann", "secret-token-of-eve"]).await, 400);
}
