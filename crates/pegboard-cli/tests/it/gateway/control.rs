//! The control API of a process. Its content and permissions are tested in `pegboard-gateway`.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{PATIENCE, Served, client::http, fixture};

fn get(served: &Served, token: Option<&str>) -> RequestBuilder {
    let request = http().get(served.url.replace("/mcp", "/control/status"));
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

fn post(served: &Served, path: &str) -> RequestBuilder {
    let request = http().post(served.url.replace("/mcp", &format!("/control/{path}")));
    request.header("content-type", "application/json")
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

    assert_eq!(ask(post(&served, "servers/one/restart")).await, (202, json!({"restarting": "one"})));
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
