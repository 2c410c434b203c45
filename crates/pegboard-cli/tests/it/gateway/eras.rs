//! Server processes of both protocol eras. What clients of each era see is tested in
//! `pegboard-gateway`.

use serde_json::{Value, json};

use super::{Served, fixture, names, text};

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
async fn server_processes_of_every_era_answer_ask_and_notify() {
    for era in ERAS {
        let served = serve("lists", era).await;
        let legacy = served.legacy().await;
        let mut stream = legacy.stream().await;
        let listed = names(&legacy.request("tools/list", json!({})).await, "tools");
        assert_eq!(names(&served.modern("tools/list", json!({})).await, "tools"), listed, "{era}");
        let called = served.modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}})).await;
        assert!(text(&called).contains("hi"), "{era}: {called:?}");
        let call = json!({"name": "test_elicitation", "arguments": {"message": "who?"}});
        let asked = |question: &Value| {
            assert_eq!(question["method"], "elicitation/create");
            json!({"action": "accept", "content": {"username": "ann", "email": "a@example.com"}})
        };
        let reply = legacy.request_answering("tools/call", call, asked).await;
        assert!(text(&reply).contains("ann"), "{era}: {reply:?}");
        let call = json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
        let reply = legacy.request("tools/call", call).await;
        assert!(
            reply.methods_before().iter().filter(|method| *method == "notifications/progress").count() >= 3,
            "{era}"
        );
        legacy.request("resources/subscribe", json!({"uri": "test://watched-resource"})).await.result();
        legacy.call("update_resource", json!({})).await.result();
        assert_eq!(stream.message().await["method"], "notifications/resources/updated", "{era}");
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
            served.wait_for_log("slow: started").await;
            legacy.notify("notifications/cancelled", json!({"requestId": 1, "reason": "changed my mind"})).await
        };
        let (reply, status) = tokio::join!(slow, cancel);
        assert_eq!((status, reply.response), (202, Value::Null), "{era}");
        served.wait_for_log("slow: cancelled").await;
    }
}
