//! Requests that the listener accepts and rejects. What callers then see is tested in
//! `pegboard-gateway`.

use serde_json::json;

use super::{Legacy, Served, command, fixture, modern_with, names};

#[tokio::test]
async fn tokens_open_the_door() {
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
    let get = async |path: &str, token: Option<&str>| {
        let request = super::client::http().get(served.url.replace("/mcp", path));
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a body"))
    };
    assert_eq!(get("/health", None).await, (200, json!({"status": "ok"}).to_string()));
    assert_eq!(get("/health", Some("secret-token-of-eve")).await.0, 401);
    assert_eq!(get("/metrics", None).await.0, 401);
    assert_eq!(get("/metrics", Some("secret-token-of-ann")).await.0, 200);
    let tools = async |token: &str| {
        let session = Legacy::begin_as(&served.url, "test", json!({}), Some(token)).await;
        (names(&session.request("tools/list", json!({})).await, "tools"), session)
    };
    assert!(tools("secret-token-of-ann").await.0.len() > 60);
    let (listed, bob) = tools("secret-token-of-bob").await;
    assert_eq!(listed, ["one___echo"]);
    let stolen = super::client::http().post(&served.url).header("mcp-session-id", &bob.session);
    let stolen = stolen.bearer_auth("secret-token-of-ann").body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(stolen.send().await.expect("an answer").status().as_u16(), 404, "the session of another token");
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
async fn foreign_hosts_origins_and_long_bodies_are_refused() {
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
    check(&[], &format!("{ping}{}", " ".repeat(3000)), 413).await;
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
    served.wait_for_log("request rejected").await;
}

#[tokio::test]
async fn secrets_in_addresses_stay_there() {
    let config = json!({
        "mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp?key=tell-nobody"}, "near": fixture(&[])},
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("addresses", &config).await;
    let session = served.legacy().await;
    served.wait_for_log("server failed").await;
    let called = session.call("far___anything", json!({})).await;
    let health = super::client::http().get(served.url.replace("/mcp", "/health")).send().await.expect("an answer");
    let health = health.text().await.expect("a body");
    assert!(health.contains("degraded"), "{health}");
    for told in [served.log(), called.raw, health] {
        // The log lines of the HTTP library at this level are not Pegboard's.
        let ours: Vec<&str> = told.lines().filter(|line| !line.contains("connecting to")).collect();
        assert!(!ours.concat().contains("tell-nobody"), "{ours:?}");
    }
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
