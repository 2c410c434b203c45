//! The log of searches. What clients see and find is tested in `pegboard-gateway`.

use serde_json::json;

use super::{Served, fixture, names, text};

#[tokio::test]
async fn a_search_by_the_configuration_is_logged() {
    let config = json!({
        "mcpServers": {"fixture": fixture(&["--tools", "60"])},
        "middleware": [{"type": "tool_search", "enabled": true, "config": {"maxToolsLimit": 10, "debug": true}}]
    });
    let served = Served::start("exposes", &config).await;
    let session = served.legacy().await;
    let listed = names(&session.request("tools/list", json!({})).await, "tools");
    assert_eq!((listed.len(), listed.last().map(String::as_str)), (11, Some("search_available_tools")));
    let found = session.call("search_available_tools", json!({"query": "audio"})).await;
    assert!(text(&found).starts_with("Found "), "{found:?}");
    served.wait_for_log("🔍 Tool search query: \"audio\"").await;
    for fact in ["   Index size: ", "   Matches before threshold: ", "   Matches after threshold: ", "   Search time: "]
    {
        served.wait_for_log(fact).await;
    }
    let listed = names(&served.modern("tools/list", json!({})).await, "tools");
    assert_eq!(listed[10..], ["call_tool", "search_available_tools"], "the first ten tools come before them");
}
