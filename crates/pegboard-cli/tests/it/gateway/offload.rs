//! jq filters over long results, which this program runs in a process of its own. Everything else of
//! `offload` is tested in `pegboard-gateway`.

use serde_json::{Value, json};

use super::{Reply, Served, fixture, text};

async fn ask(served: &Served, name: &str, arguments: Value) -> Reply {
    served.modern("tools/call", json!({"name": name, "arguments": arguments})).await
}

#[tokio::test]
async fn a_long_result_is_queried_with_jq() {
    let config = json!({
        "mcpServers": {"one": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "offload": {"tokens": 200, "lifetime": "10m", "maxBytes": 1_000_000}}
    });
    let served = Served::start("offload-jq", &config).await;
    let items: Vec<Value> = (0..500).map(|at| json!({"id": at, "name": format!("item {at}")})).collect();
    let result = text(&ask(&served, "echo", json!({"items": items})).await);
    let at = result.find("`result_").unwrap_or_else(|| panic!("no reference in {result}")) + 1;
    let reference = result[at..].split('`').next().unwrap_or_default();
    let query = async |filter: &str| {
        text(&ask(&served, "read_result", json!({"reference": reference, "query": filter, "compact": true})).await)
    };
    assert_eq!(query(".items | map(select(.id > 497)) | map(.name)").await, r#"["item 498","item 499"]"#);
    assert!(query(".items[].name").await.contains("[Truncated. Narrow the filter"));
    assert_eq!(query("env").await, "the filter is not valid: no filter `env`");
    assert_eq!(query("error(\"mine\")").await, "the filter failed: \"mine\"");
}
