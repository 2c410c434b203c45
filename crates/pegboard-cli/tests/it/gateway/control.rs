//! The control API of a process. Its content and permissions are tested in `pegboard-gateway`.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{CONTROL, PATIENCE, Served, client::http, fixture};

fn get(served: &Served, token: Option<&str>) -> RequestBuilder {
    let request = http().get(served.url.replace("/mcp", "/control/status"));
    request.bearer_auth(token.unwrap_or(CONTROL))
}

fn post(served: &Served, path: &str) -> RequestBuilder {
    let request = http().post(served.url.replace("/mcp", &format!("/control/{path}")));
    request.bearer_auth(CONTROL).header("content-type", "application/json")
}

/// Returns the status code and the document.
async fn ask(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.expect("a body")).expect("JSON"))
}

/// Waits until the status of a gateway satisfies `is_so`.
pub(super) async fn wait_for_status(served: &Served, token: Option<&str>, is_so: impl Fn(&Value) -> bool) -> Value {
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

#[tokio::test]
async fn a_program_is_watched_and_changed() {
    let config = json!({"mcpServers": {"one": fixture(&["--extras"])}});
    let served = Served::start("control-changes", &config).await;
    let before = wait_for_status(&served, None, |status| status["servers"][0]["pid"].is_u64()).await;
    assert_eq!(before["gateway"]["endpoint"], served.url);
    assert_eq!(before["gateway"]["pid"], served.pid());
    assert!(before["configuration"]["file"].as_str().is_some_and(|file| file.ends_with("pegboard.json")), "{before}");
    assert_eq!(ask(post(&served, "reload").header("origin", "http://evil.example.com")).await.0, 403);

    let (status, restarted) = ask(post(&served, "servers/one/restart")).await;
    assert_eq!((status, &restarted["restarting"]), (202, &json!("one")));
    let pid = &before["servers"][0]["pid"];
    let is_another = |status: &Value| status["servers"][0]["pid"].is_u64() && status["servers"][0]["pid"] != *pid;
    wait_for_status(&served, None, is_another).await;

    let same = json!({"added": [], "changed": [], "removed": [], "hasSettings": false});
    assert_eq!(ask(post(&served, "reload")).await, (200, same));
    let file = served.folder.join("pegboard.json");
    std::fs::write(&file, r#"{"mcpServers": {"one": {"comand": "x"}}}"#).expect("a file");
    let (status, refused) = ask(post(&served, "reload")).await;
    assert_eq!(status, 422);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("comand")), "{refused}");
    let (_, status) = ask(get(&served, None)).await;
    assert_eq!(status["configuration"]["refused"], refused["error"]);
    let mut other = config.clone();
    other["mcpServers"]["two"] = fixture(&[]);
    std::fs::write(&file, other.to_string()).expect("a file");
    // The gateway may have seen it by itself already.
    ask(post(&served, "reload")).await;
    let status = wait_for_status(&served, None, |status| status["servers"][1]["state"] == "ready").await;
    assert_eq!((&status["servers"][1]["name"], &status["configuration"]["refused"]), (&json!("two"), &Value::Null));
}

#[tokio::test]
async fn the_console_and_its_credential() {
    let config = json!({"mcpServers": {"one": fixture(&[])}});
    let served = Served::start("control-console", &config).await;
    let at = |path: &str| served.url.replace("/mcp", path);
    let page = http().get(at("/console/")).send().await.expect("an answer");
    assert_eq!(page.status().as_u16(), 200);
    assert!(
        page.headers()["content-security-policy"].to_str().is_ok_and(|policy| policy.contains("script-src 'self'"))
    );
    for path in ["/control/status", "/control/tools", "/control/events", "/control/activity"] {
        let refused = http().get(at(path)).send().await.expect("an answer");
        assert_eq!(refused.status().as_u16(), 401, "{path}");
    }
    let (_, made) = ask(post(&served, "console/url")).await;
    let url = made["url"].as_str().expect("a URL");
    let code = url.strip_prefix(&format!("{}#code=", at("/console/"))).expect("a code").to_owned();
    let login = || {
        let request = http().post(at("/control/console/login")).header("content-type", "application/json");
        request.header("origin", at("").trim_end_matches('/')).body(json!({"code": code}).to_string())
    };
    let (status, given) = ask(login()).await;
    let credential = given["credential"].as_str().expect("a credential");
    assert_eq!((status, ask(login()).await.0), (200, 401), "a code is valid once");
    let (_, status) = ask(get(&served, Some(credential))).await;
    assert_eq!(status["servers"][0]["name"], "one");

    let off = Served::start_with("control-no-console", &config, &["--no-console"], &[]).await;
    let page = http().get(off.url.replace("/mcp", "/console/")).send().await.expect("an answer");
    assert_eq!(page.status().as_u16(), 404);
}

#[tokio::test]
async fn followed_logs_leave_room_for_commands() {
    let served = Served::start("control-follow", &json!({"mcpServers": {"one": fixture(&[])}})).await;
    let follow = || http().get(served.url.replace("/mcp", "/control/logs?follow=true")).bearer_auth(CONTROL).send();
    let mut followed = Vec::new();
    // More than the requests of the operator's share.
    for _ in 0..12 {
        let response = follow().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200);
        followed.push(response);
    }
    assert_eq!(ask(get(&served, None)).await.0, 200);
}

#[tokio::test]
async fn findings_in_running_servers() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("control-findings-catalog");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let catalog = folder.join("tools.jsonl");
    let tool = json!({"name": "undescribed", "inputSchema": {"type": "object"}});
    std::fs::write(&catalog, format!("{tool}\n")).expect("a temporary file");
    let quiet = fixture(&["--catalog", catalog.to_str().expect("a path")]);
    let config = json!({"mcpServers": {"quiet": quiet, "broken": {"command": "no-such-program-anywhere"}}});
    let served = Served::start("control-findings", &config).await;
    wait_for_status(&served, None, |status| status["servers"][0]["state"] == "ready").await;
    wait_for_status(&served, None, |status| status["servers"][1]["state"] == "failed").await;
    let request = http().get(served.url.replace("/mcp", "/control/health")).bearer_auth(CONTROL);
    let (status, health) = ask(request).await;
    assert_eq!(status, 200, "{health}");
    let findings = health["findings"].as_array().expect("a list");
    let has = |server: &str, check: &str| {
        findings.iter().any(|finding| finding["server"] == server && finding["check"] == check)
    };
    assert!(has("quiet", "missing-description") && has("broken", "start-failed"), "{health}");
}
