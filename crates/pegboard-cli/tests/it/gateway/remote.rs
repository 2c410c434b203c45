//! Remote servers.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::{Served, fixture, names, text};

/// Starts a gateway in front of the fixture, for another gateway to reach over HTTP.
async fn inner(test: &str) -> Served {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "tokens": [{"name": "outer", "token": "open-sesame-open-sesame"}]}
    });
    Served::start(test, &config).await
}

fn outer(url: &str, protocol: &str) -> Value {
    json!({
        "mcpServers": {"far": {
            "type": "http", "url": url, "protocol": protocol,
            "headers": {"Authorization": "Bearer open-sesame-open-sesame"}
        }},
        "pegboard": {"exposure": "never"}
    })
}

#[tokio::test]
async fn streamable_http_of_both_eras() {
    for protocol in ["legacy", "modern", "auto"] {
        let inner = inner(&format!("inner-{protocol}")).await;
        let served = Served::start(&format!("outer-{protocol}"), &outer(&inner.url, protocol)).await;
        let session = served.legacy().await;
        assert!(names(&session.request("tools/list", json!({})).await, "tools").contains(&"echo".to_owned()));
        assert!(text(&session.call("echo", json!({"message": "far away"})).await).contains("far away"));
        let call = json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "t"}});
        let progress = session.request("tools/call", call).await;
        assert!(progress.methods_before().len() >= 3, "{protocol}: {progress:?}");
        // Before the server asks: from then on its clients have connections of their own, and lists come from the
        // catalog connection.
        let mut stream = session.stream().await;
        session.call("change_tools", json!({"name": "a_new_one"})).await.result();
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed", "{protocol}");
        assert!(names(&session.request("tools/list", json!({})).await, "tools").contains(&"a_new_one".to_owned()));
        let asked = session
            .request_answering(
                "tools/call",
                json!({"name": "test_elicitation", "arguments": {"message": "?"}}),
                |_| json!({"action": "accept", "content": {"username": "zoe", "email": "z@example.com"}}),
            )
            .await;
        assert!(text(&asked).contains("zoe"), "{protocol}: {asked:?}");
        let asked = served.modern("tools/call", json!({"name": "test_sampling", "arguments": {"prompt": "?"}})).await;
        assert_eq!(asked.result()["resultType"], "input_required", "{protocol}");
        let region = json!({"name": "test_x_mcp_header", "arguments": {"region": "eu"}});
        session.request("tools/call", region).await.result();
        assert!(!served.log().contains("sesame") && !inner.log().contains("sesame"));
    }
}

#[tokio::test]
async fn a_remote_server_that_is_restarted_is_found_again() {
    for protocol in ["legacy", "modern"] {
        let port = {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
            socket.local_addr().expect("an address").port()
        };
        let address = format!("127.0.0.1:{port}");
        let config = json!({
            "mcpServers": {"fixture": fixture(&["--extras"])},
            "pegboard": {"exposure": "never", "listen": address}
        });
        let mut first = Served::start_at(&format!("restart-1-{protocol}"), &config, &address).await;
        let served = Served::start(&format!("restart-outer-{protocol}"), &outer(&first.url, protocol)).await;
        let session = served.legacy().await;
        assert!(text(&session.call("echo", json!({"message": "before"})).await).contains("before"));
        first.signal("KILL");
        first.wait_for_exit().await;
        let away = session.call("echo", json!({"message": "while away"})).await;
        assert_eq!(away.result()["isError"], true, "{protocol}: {away:?}");
        let _second = Served::start_at(&format!("restart-2-{protocol}"), &config, &address).await;
        loop {
            let reply = session.call("echo", json!({"message": "after"})).await;
            if reply.result()["isError"] != true {
                assert!(text(&reply).contains("after"));
                break;
            }
        }
    }
}

#[tokio::test]
async fn remote_servers_that_refuse_are_a_state_with_a_reason() {
    let inner = inner("refusing").await;
    let config = json!({
        "mcpServers": {
            "locked": {"url": inner.url},
            "nobody": {"url": "http://127.0.0.1:9/mcp"},
            "good": fixture(&["--extras"])
        },
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("refused", &config).await;
    served.wait_for_log("HTTP status 401").await;
    served.wait_for_log("cannot reach the server").await;
    let session = served.legacy().await;
    assert!(text(&session.call("good___echo", json!({"message": "fine"})).await).contains("fine"));
}
