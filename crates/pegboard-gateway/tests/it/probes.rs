//! Health, readiness and metrics.

use pegboard_discovery::DialectName;
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::{Value, json};

use super::{
    tokens::{ADMIN, GUEST, tokens},
    world::{Server, World, settings, tool},
};

async fn world() -> World {
    let many = (0..200).map(|number| tool(&format!("other_{number:03}"), "Does something else."));
    let server = Server::with([tool("echo", "Echoes."), tool("fail", "Fails.")].into_iter().chain(many).collect());
    let bridge = settings(Profile::Dialect(DialectName::Bridge));
    World::new(vec![server.config("one")], GatewaySettings { tokens: tokens(), ..bridge }).await
}

#[tokio::test]
async fn metrics_are_for_tokens_that_see_everything() {
    let world = world().await;
    let session = world.legacy_as(ADMIN).await;
    session.names().await;
    session.call("search_tools", r#"{"query":"echo"}"#).await;
    session.call("search_tools", r#"{"query":"zzzqqq"}"#).await;
    session.call("call_tool", r#"{"name":"echo","arguments":{"a":1}}"#).await;
    session.call("call_tool", r#"{"name":"fail","arguments":{}}"#).await;
    assert_eq!(world.get("/metrics", None).await, (401, String::new()));
    assert_eq!(world.get("/metrics", Some(GUEST)).await, (403, String::new()));
    let (status, text) = world.get("/metrics", Some(ADMIN)).await;
    assert_eq!(status, 200);
    for line in [
        "pegboard_sessions 1",
        "pegboard_servers{state=\"ready\"} 1",
        "pegboard_searches_total{outcome=\"hit\"} 1",
        "pegboard_searches_total{outcome=\"miss\"} 1",
        "pegboard_calls_total{server=\"one\",outcome=\"ok\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "no `{line}` in:\n{text}");
    }
    let saved = text.lines().find_map(|line| line.strip_prefix("pegboard_tokens_saved_total "));
    let saved: u64 = saved.and_then(|saved| saved.parse().ok()).expect("a number");
    assert!(saved > 1_000, "{saved}");
}

#[tokio::test]
async fn without_a_whole_token_health_is_liveness_alone() {
    let world = world().await;
    let _session = world.legacy_as(ADMIN).await;
    let get = async |path: &str, holder: Option<usize>| {
        let (status, text) = world.get(path, holder).await;
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    for holder in [None, Some(GUEST)] {
        assert_eq!(get("/health", holder).await, (200, json!({"status": "ok"})));
        assert_eq!(get("/ready", holder).await, (200, json!({"ready": true})));
    }
    let (status, health) = get("/health", Some(ADMIN)).await;
    assert_eq!((status, &health["servers"], &health["sessions"]), (200, &json!(1), &json!(1)));
    assert_eq!(get("/ready", Some(ADMIN)).await, (200, json!({"ready": true, "starting": 0})));
}
