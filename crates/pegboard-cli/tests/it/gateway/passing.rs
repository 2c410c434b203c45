//! Messages pass through a process unchanged.

use serde_json::json;

use super::{Served, fixture};

#[tokio::test]
async fn unknown_fields_numbers_and_key_order_survive() {
    for era in ["legacy", "modern"] {
        let config = json!({
            "mcpServers": {"fixture": fixture(&["--era", era, "--extras"])},
            "pegboard": {"exposure": "never"}
        });
        let served = Served::start(&format!("bytes-{era}"), &config).await;
        let session = served.legacy().await;
        let listed = session.request("tools/list", json!({})).await;
        let tools = listed.result()["tools"].as_array().expect("a list");
        let echo = tools.iter().find(|tool| tool["name"] == "echo").expect("listed");
        assert!(echo.get("x-vendor").is_some(), "{echo}");
        // Written by hand, since a JSON library would tidy it up.
        let arguments =
            r#"{"z":1.0,"a":[1e2,123456789012345678901234567890],"message":"\u00e9","m":{"y":null,"x":0.10}}"#;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        );
        let request = super::client::http().post(&served.url).header("mcp-session-id", &session.session);
        let answer = request.body(body).send().await.expect("an answer").text().await.expect("a body");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["result"]["content"][0]["text"], arguments, "{era}");
        assert!(answer["result"].get("x-vendor").is_some(), "{answer}");
    }
}
