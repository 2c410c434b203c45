//! Both protocol eras, and the crossings between them.

use serde_json::{Value, json};

use super::{Served, fixture, modern_with, names, text};

/// The fixture as each kind of server: a legacy one, and a modern one.
const ERAS: [&str; 2] = ["legacy", "modern"];

async fn serve(test: &str, era: &str) -> Served {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--era", era, "--extras"])},
        "pegboard": {"exposure": "never"}
    });
    Served::start(&format!("{test}-{era}"), &config).await
}

#[tokio::test]
async fn every_era_lists_and_calls_every_era() {
    for era in ERAS {
        let served = serve("lists", era).await;
        let legacy = served.legacy().await;
        assert_eq!(legacy.hello["protocolVersion"], "2025-11-25");
        assert_eq!(legacy.hello["capabilities"]["tools"]["listChanged"], true);
        let listed = legacy.request("tools/list", json!({})).await;
        assert!(names(&listed, "tools").contains(&"echo".to_owned()), "{era}");
        assert!(listed.result().get("ttlMs").is_none());
        let modern = served.modern("tools/list", json!({})).await;
        assert_eq!(names(&modern, "tools"), names(&listed, "tools"));
        assert_eq!(modern.result()["resultType"], "complete");
        assert_eq!(modern.result()["cacheScope"], "public");
        let arguments = json!({"name": "echo", "arguments": {"message": "hi"}});
        let by_legacy = legacy.request("tools/call", arguments.clone()).await;
        assert!(text(&by_legacy).contains("hi"));
        assert!(by_legacy.result().get("resultType").is_none());
        let by_modern = served.modern("tools/call", arguments).await;
        assert_eq!(by_modern.result()["resultType"], "complete");
    }
}

#[tokio::test]
async fn what_a_server_asks_reaches_the_client_that_called() {
    for era in ERAS {
        let served = serve("asks", era).await;
        let other = served.legacy().await;
        let mut others_stream = other.stream().await;
        let legacy = served.legacy().await;
        let call = json!({"name": "test_elicitation", "arguments": {"message": "who?"}});
        let reply = legacy
            .request_answering("tools/call", call.clone(), |question| {
                assert_eq!(question["method"], "elicitation/create");
                json!({"action": "accept", "content": {"username": "ann", "email": "a@example.com"}})
            })
            .await;
        assert!(text(&reply).contains("ann"), "{era}: {reply:?}");
        // The other client hears nothing of it; what it hears next is about its own list.
        other.request("resources/subscribe", json!({"uri": "test://watched-resource"})).await.result();
        legacy.call("update_resource", json!({})).await.result();
        assert_eq!(others_stream.message().await["method"], "notifications/resources/updated");

        let asked = served.modern("tools/call", call.clone()).await;
        assert_eq!(asked.result()["resultType"], "input_required", "{era}");
        let requests = asked.result()["inputRequests"].as_object().expect("requests").clone();
        let (key, question) = requests.iter().next().expect("a question");
        assert_eq!(question["method"], "elicitation/create");
        let mut again = call;
        let answer = json!({"action": "accept", "content": {"username": "bob", "email": "b@example.com"}});
        again["inputResponses"] = json!({key: answer});
        if let Some(state) = asked.result().get("requestState") {
            again["requestState"] = state.clone();
        }
        let done = served.modern("tools/call", again.clone()).await;
        assert!(text(&done).contains("bob"), "{era}: {done:?}");
        if era == "legacy" {
            let (code, message) = served.modern("tools/call", again).await.error();
            assert_eq!((code, message.as_str()), (-32602, "`requestState` is unknown or has expired"));
        }
    }
}

#[tokio::test]
async fn a_client_that_cannot_answer_is_not_asked() {
    for era in ERAS {
        let served = serve("cannot", era).await;
        let legacy = super::Legacy::begin(&served.url, "plain", json!({})).await;
        let reply = legacy.call("test_sampling", json!({"prompt": "x"})).await;
        let told = reply.response.to_string();
        assert!(told.contains("sampling"), "{era}: {told}");
        assert!(reply.before.is_empty());
    }
}

#[tokio::test]
async fn progress_and_log_messages_come_before_the_result() {
    for era in ERAS {
        let served = serve("progress", era).await;
        let legacy = served.legacy().await;
        legacy.request("logging/setLevel", json!({"level": "debug"})).await.result();
        let call = json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
        let reply = legacy.request("tools/call", call.clone()).await;
        let progress: Vec<&Value> = reply.before.iter().filter(|m| m["method"] == "notifications/progress").collect();
        assert!(progress.len() >= 3, "{era}: {reply:?}");
        assert!(progress.iter().all(|message| message["params"]["progressToken"] == "mine"));
        let reply = served.modern("tools/call", call).await;
        assert!(reply.told().iter().filter(|method| *method == "notifications/progress").count() >= 3, "{era}");

        let logged = legacy.call("test_tool_with_logging", json!({})).await;
        assert!(logged.told().iter().filter(|method| *method == "notifications/message").count() >= 3, "{era}");
        let silent = served.modern("tools/call", json!({"name": "test_tool_with_logging", "arguments": {}})).await;
        assert_eq!(silent.told(), Vec::<String>::new(), "{era}: nobody asked for log messages");
    }
}

#[tokio::test]
async fn modern_headers_must_agree_with_the_body() {
    let served = serve("headers", "modern").await;
    let all = json!({});
    let check = async |headers: &[(&str, &str)], arguments: Value, expected: u16| {
        let params = json!({"name": "test_x_mcp_header", "arguments": arguments});
        let reply = modern_with(&served.url, "tools/call", params, &all, headers).await;
        assert_eq!(reply.status, expected, "{headers:?} {:?}", reply.response);
        if expected == 400 {
            assert_eq!(reply.error().0, -32020);
        }
    };
    check(&[("mcp-param-region", "eu")], json!({"region": "eu"}), 200).await;
    check(&[("mcp-param-region", "=?base64?ZXU=?=")], json!({"region": "eu"}), 200).await;
    check(&[("mcp-param-region", "us")], json!({"region": "eu"}), 400).await;
    check(&[("mcp-param-region", "=?base64?ZXU?=")], json!({"region": "eu"}), 400).await;
    check(&[], json!({"region": "eu"}), 400).await;
}

#[tokio::test]
async fn greetings_of_all_versions() {
    let served = serve("greetings", "modern").await;
    let http = super::client::http();
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = http.post(&served.url).body(body.to_string()).send().await.expect("an answer");
        let answer: Value = serde_json::from_str(&response.text().await.expect("a body")).expect("JSON");
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        assert_eq!(answer["id"], 0);
    }
    let hello = served.modern("server/discover", json!({})).await;
    assert_eq!(hello.result()["supportedVersions"], json!(["2026-07-28"]));
    for key in ["resultType", "ttlMs", "cacheScope", "capabilities"] {
        assert!(hello.result().get(key).is_some(), "{key}");
    }
    assert_eq!(hello.result()["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pegboard");
}

#[tokio::test]
async fn listening_is_acknowledged_tagged_and_filtered() {
    for era in ERAS {
        let served = serve("listen", era).await;
        served.modern("tools/list", json!({})).await.result();
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {
            "_meta": super::client::modern_meta(&json!({})),
            "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["test://watched-resource"]}
        }});
        let request = super::client::http()
            .post(&served.url)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "subscriptions/listen")
            .body(body.to_string());
        let mut events = super::client::Events::new(request.send().await.expect("an answer"));
        let check = |message: &Value, method: &str| {
            assert_eq!(message["method"], method, "{era}");
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{message}");
        };
        let first = events.message().await;
        check(&first, "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"]["toolsListChanged"], true);
        // A prompt changes first, which nobody here asked about.
        served.modern("tools/call", json!({"name": "test_trigger_prompt_change", "arguments": {}})).await.result();
        served.modern("tools/call", json!({"name": "change_tools", "arguments": {"name": "brand_new"}})).await.result();
        check(&events.message().await, "notifications/tools/list_changed");
        served.modern("tools/call", json!({"name": "update_resource", "arguments": {}})).await.result();
        let updated = events.message().await;
        check(&updated, "notifications/resources/updated");
        assert_eq!(updated["params"]["uri"], "test://watched-resource");
        let listed = served.modern("tools/list", json!({})).await;
        assert!(names(&listed, "tools").contains(&"brand_new".to_owned()));
    }
}

#[tokio::test]
async fn cancelling_reaches_the_server() {
    for era in ERAS {
        let served = serve("cancel", era).await;
        let legacy = served.legacy().await;
        // The next request has the number 1, since `initialize` had 0.
        let call = json!({"name": "slow", "arguments": {"ms": 60_000}, "_meta": {"progressToken": 1}});
        let slow = legacy.request("tools/call", call);
        let cancel = async {
            served.logged("slow: started").await;
            legacy.notify("notifications/cancelled", json!({"requestId": 1, "reason": "changed my mind"})).await
        };
        let (reply, status) = tokio::join!(slow, cancel);
        assert_eq!((status, reply.response), (202, Value::Null), "{era}");
        served.logged("slow: cancelled").await;
    }
}
