//! Trace contexts on their way from a client to a server.

use serde_json::{Value, json};

use super::world::{Server, World, plain, text};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn without_a_collector_the_client_stays_the_parent() {
    let world = World::new(vec![Server::new(&["meta"]).config("one")], plain()).await;
    let check = async |own: Value, headers: &[(&str, &str)], expected: Value| {
        let response = world.modern_with("tools/call", json!({"name": "meta", "_meta": own}), headers).await;
        let meta: Value = serde_json::from_str(&text(&response)).expect("JSON");
        assert_eq!(meta["traceparent"], expected, "{own} {headers:?}");
        meta
    };
    let own = json!({"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=ada", "kept": 1});
    let meta = check(own, &[], json!(PARENT)).await;
    assert_eq!(
        ["tracestate", "baggage", "kept"].map(|key| &meta[key]),
        [&json!("vendor=1"), &json!("user=ada"), &json!(1)]
    );
    check(json!({}), &[("traceparent", PARENT)], json!(PARENT)).await;
    // What is not well-formed goes no further.
    check(json!({"traceparent": "nonsense"}), &[], Value::Null).await;
    check(json!({"traceparent": {"a": 1}}), &[], Value::Null).await;
    check(json!({}), &[("traceparent", "nonsense")], Value::Null).await;
}
