//! The control API.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{Legacy, PATIENCE, Served, client::http, fixture, text};

fn get(served: &Served, token: Option<&str>) -> RequestBuilder {
    with_token(http().get(served.url.replace("/mcp", "/control/status")), token)
}

fn post(served: &Served, path: &str, token: Option<&str>) -> RequestBuilder {
    let request = http().post(served.url.replace("/mcp", &format!("/control/{path}")));
    with_token(request.header("content-type", "application/json"), token)
}

fn with_token(request: RequestBuilder, token: Option<&str>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// The status code and the document.
async fn ask(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.expect("a body")).expect("JSON"))
}

/// Waits until the status of a gateway is as it should be.
pub(super) async fn until(served: &Served, token: Option<&str>, is_so: impl Fn(&Value) -> bool) -> Value {
    let waiting = async {
        loop {
            let (_, status) = ask(get(served, token)).await;
            if is_so(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes to that")
}

fn names(status: &Value) -> Vec<&str> {
    let servers = status["servers"].as_array().expect("a list");
    servers.iter().map(|server| server["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn everything_is_told() {
    let config = json!({
        "mcpServers": {
            "one": fixture(&["--extras"]),
            "broken": {"command": "/nowhere/to/be/found"},
            "off": {"command": "/nowhere", "disabled": true}
        },
        "pegboard": {"exposure": "always", "dialect": "bridge"}
    });
    let served = Served::start("control-status", &config).await;
    let session = served.legacy().await;
    session.request("tools/list", json!({})).await.result();
    let found = session.call("search_tools", json!({"query": "returns its arguments"})).await;
    assert!(text(&found).contains("one___echo"), "{found:?}");
    session.call("call_tool", json!({"name": "one___echo", "arguments": {}})).await.result();
    let status = until(&served, None, |status| status["servers"][1]["state"] == "failed").await;
    assert_eq!((&status["format"], names(&status)), (&json!(1), vec!["one", "broken", "off"]));
    assert_eq!(status["gateway"]["endpoint"], served.url);
    assert_eq!(status["gateway"]["pid"], served.pid());
    assert!(status["configuration"]["file"].as_str().is_some_and(|file| file.ends_with("pegboard.json")), "{status}");
    assert_eq!(status["configuration"]["refused"], Value::Null);
    let one = &status["servers"][0];
    assert_eq!(
        (&one["state"], &one["calls"]["total"], &one["calls"]["failed"]),
        (&json!("ready"), &json!(1), &json!(0))
    );
    assert!(one["latency"]["p50Us"].is_u64() && one["tools"].as_u64() > Some(5), "{one}");
    let broken = &status["servers"][1];
    assert!(broken["reason"].as_str().is_some_and(|reason| reason.contains("/nowhere/to/be/found")), "{broken}");
    assert!(broken["retryInMs"].is_u64() && broken["lastError"].is_string(), "{broken}");
    assert_eq!(status["servers"][2]["state"], "disabled");
    let client = &status["sessions"]["clients"][0];
    assert_eq!((&status["sessions"]["count"], &client["client"]), (&json!(1), &json!("test")));
    assert_eq!((&client["profile"], &client["sessions"]), (&json!("bridge"), &json!(1)));
    let totals = &status["totals"];
    assert_eq!((&totals["hits"], &totals["misses"], &totals["lists"]), (&json!(1), &json!(0), &json!(1)));
    assert!(totals["tokensSaved"].as_u64() > Some(100) && totals["searchLatency"]["p99Us"].is_u64(), "{totals}");
    assert!(!status.to_string().contains(&session.session), "the names of sessions are secrets");
}

#[tokio::test]
async fn a_token_shows_what_its_selection_allows() {
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&["--extras"]), "three": fixture(&[])},
        "pegboard": {"exposure": "never", "tokens": [
            {"name": "ann", "token": "secret-token-of-ann"},
            {"name": "bob", "token": "secret-token-of-bob", "selection": {"tools": ["one:echo"], "servers": ["three"]}},
            {"name": "cat", "token": "secret-token-of-cat", "selection": {"deny": ["one:slow", "echo"]}}
        ]}
    });
    let served = Served::start("control-tokens", &config).await;
    let (ann, bob, cat) = (Some("secret-token-of-ann"), Some("secret-token-of-bob"), Some("secret-token-of-cat"));
    assert_eq!(ask(get(&served, None)).await.0, 401);
    assert_eq!(ask(get(&served, Some("secret-token-of-eve"))).await.0, 401);
    let _session = Legacy::begin_as(&served.url, "of ann", json!({}), ann).await;
    let is_listed = |status: &Value| status["servers"][0]["tools"].as_u64() > Some(0);
    let whole = until(&served, ann, is_listed).await;
    assert_eq!(names(&whole), ["one", "two", "three"]);
    assert_eq!(whole["sessions"]["clients"][0]["client"], "of ann");
    assert!(whole["totals"].is_object() && whole["configuration"].is_object(), "{whole}");
    let part = until(&served, bob, is_listed).await;
    assert_eq!((names(&part), &part["servers"][0]["tools"]), (vec!["one", "three"], &json!(1)));
    assert_eq!(
        (&part["sessions"]["count"], &part["totals"], &part["configuration"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    for (path, token, expected) in [
        ("reload", None, 401),
        ("reload", bob, 403),
        ("reload", ann, 200),
        ("servers/two/restart", bob, 404),
        // It sees one tool of it, and others need the rest.
        ("servers/one/restart", bob, 404),
        ("servers/three/restart", bob, 202),
        // A denied tool is a part of its server that the token does not see.
        ("servers/one/restart", cat, 404),
        ("servers/two/restart", cat, 404),
        ("servers/four/restart", ann, 404),
        ("servers/two/restart", ann, 202),
    ] {
        let (status, answer) = ask(post(&served, path, token)).await;
        assert_eq!(status, expected, "{path} {token:?} {answer}");
    }
    // With a token a page may do so too.
    let page = post(&served, "reload", ann).header("origin", "http://localhost:5173");
    assert_eq!(ask(page).await.0, 200);
    assert!(!served.log().contains("secret-"), "a secret in the log");
}

#[tokio::test]
async fn changes_on_request() {
    let config = json!({"mcpServers": {
        "one": fixture(&["--extras"]),
        "off": {"command": "/nowhere", "disabled": true}
    }});
    let served = Served::start("control-changes", &config).await;
    let before = until(&served, None, |status| status["servers"][0]["pid"].is_u64()).await;
    // No web page without a token, whatever it sends.
    let plain = http().post(served.url.replace("/mcp", "/control/reload"));
    assert_eq!(ask(plain.body("{}")).await.0, 415);
    for (name, value) in [("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")] {
        assert_eq!(ask(post(&served, "servers/one/restart", None).header(name, value)).await.0, 403);
    }
    assert_eq!(ask(post(&served, "reload", None).header("origin", "http://evil.example.com")).await.0, 403);
    let method = http().get(served.url.replace("/mcp", "/control/reload")).send().await.expect("an answer");
    assert_eq!(method.status().as_u16(), 405);

    let session = served.legacy().await;
    assert_eq!(ask(post(&served, "servers/one/restart", None)).await, (202, json!({"restarting": "one"})));
    let pid = &before["servers"][0]["pid"];
    let is_another = |status: &Value| status["servers"][0]["pid"].is_u64() && status["servers"][0]["pid"] != *pid;
    until(&served, None, is_another).await;
    session.call("echo", json!({})).await.result();
    assert_eq!(ask(post(&served, "servers/off/restart", None)).await.0, 409);

    let same = json!({"added": [], "changed": [], "removed": [], "hasSettings": false});
    assert_eq!(ask(post(&served, "reload", None)).await, (200, same));
    let file = served.folder.join("pegboard.json");
    std::fs::write(&file, r#"{"mcpServers": {"one": {"comand": "x"}}}"#).expect("a file");
    let (status, refused) = ask(post(&served, "reload", None)).await;
    assert_eq!(status, 422);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("comand")), "{refused}");
    let (_, status) = ask(get(&served, None)).await;
    assert_eq!((&status["configuration"]["refused"], names(&status)), (&refused["error"], vec!["one", "off"]));
    let mut other = config.clone();
    other["mcpServers"]["off"]["disabled"] = json!(false);
    other["mcpServers"]["two"] = fixture(&[]);
    std::fs::write(&file, other.to_string()).expect("a file");
    // The gateway may have seen it by itself already.
    ask(post(&served, "reload", None)).await;
    let status = until(&served, None, |status| status["servers"][2]["state"] == "ready").await;
    assert_eq!((names(&status), &status["configuration"]["refused"]), (vec!["one", "off", "two"], &Value::Null));
}

#[tokio::test]
async fn the_demo_has_no_configuration_to_read() {
    let served = Served::demo("control-demo").await;
    assert_eq!(ask(post(&served, "reload", None)).await.0, 409);
    let (_, status) = ask(get(&served, None)).await;
    assert_eq!(status["configuration"], json!({"file": null, "refused": null}));
}
