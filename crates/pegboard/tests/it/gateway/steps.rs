//! The middleware of the configuration.

use serde_json::json;

use super::{Served, fixture, names, text};

#[tokio::test]
async fn filters_hide_and_refuse() {
    let config = json!({
        "mcpServers": {
            "one": fixture(&["--extras"]),
            "two": {"command": super::fixture_path(), "args": ["--extras"], "middleware": [
                {"type": "tool_filter", "config": {"allow": "echo"}}
            ]}
        },
        "middleware": [{"type": "tool_filter", "config": {"allow": ["^test_", "echo", "slow"], "deny": ["*_content"]}}],
        "pegboard": {"exposure": "never"}
    });
    let served = Served::start("filters", &config).await;
    let session = served.legacy().await;
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    assert!(listed.contains(&"one___test_simple_text".to_owned()) && listed.contains(&"one___slow".to_owned()));
    assert!(!listed.iter().any(|name| name.ends_with("_content") || name.ends_with("exit")), "{listed:?}");
    let of_two: Vec<&String> = listed.iter().filter(|name| name.starts_with("two___")).collect();
    assert_eq!(of_two, ["two___echo"], "its own list takes the place of the general one");
    for hidden in ["one___test_image_content", "two___slow"] {
        let refused = session.call(hidden, json!({})).await;
        assert_eq!(refused.result()["isError"], true, "{refused:?}");
        assert!(text(&refused).contains("no tool"), "{refused:?}");
    }
}

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
    served.logged("no-passwords").await;
    served.logged("call server=\"fixture\" tool=\"echo\"").await;
    let listed = session.request("tools/list", json!({})).await;
    let tools = listed.result()["tools"].as_array().expect("a list");
    assert!(tools.iter().all(|tool| tool["description"].as_str().is_some_and(|text| text.ends_with(" (checked)"))));
}
