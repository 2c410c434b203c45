//! The log of middleware. What it hides and rejects is tested in `pegboard-gateway`.

use serde_json::json;

use super::{Served, fixture};

#[tokio::test]
async fn rules_block_calls_and_logs_tell_of_them() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--extras"])},
        "middleware": [
            {"type": "security", "config": {"rules": [
                {"name": "no-passwords", "pattern": "/etc/passwd", "message": "not that file"}
            ]}},
            {"type": "logging", "config": {"arguments": true}},
            {"type": "description_enricher", "config": {"suffix": " (checked)"}}
        ],
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("rules", &config).await;
    let session = served.legacy().await;
    let blocked = session.call("echo", json!({"path": "/etc/passwd"})).await;
    assert_eq!(blocked.error(), (-32602, "not that file".to_owned()));
    session.call("echo", json!({"path": "/tmp"})).await.result();
    served.wait_for_log("no-passwords").await;
    served.wait_for_log("call server=\"fixture\" tool=\"echo\"").await;
    let listed = session.request("tools/list", json!({})).await;
    let tools = listed.result()["tools"].as_array().expect("a list");
    assert!(tools.iter().all(|tool| tool["description"].as_str().is_some_and(|text| text.ends_with(" (checked)"))));
}
