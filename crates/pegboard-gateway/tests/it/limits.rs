//! Calls that are refused before they reach a server, and calls that wait for their turn.

use std::{collections::BTreeMap, sync::Arc};

use pegboard_discovery::DialectName;
use pegboard_gateway::{CallLimits, GatewaySettings, Profile};
use pegboard_upstream::config::{ServerConfig, ServerLimits};
use serde_json::{Value, json};

use super::world::{LARGE, PATIENCE, Server, World, plain, settings, text, tool, until};

/// A server with a tool `slow`, which takes a number of at least 0, and others.
fn strict() -> Arc<Server> {
    let properties = json!({"ms": {"type": "integer", "minimum": 0}});
    let schema = json!({"type": "object", "properties": properties, "required": ["ms"]});
    Server::with(vec![json!({"name": "slow", "inputSchema": schema}), tool("echo", "Echoes.")])
}

/// A server that is used by one call at a time.
fn one_at_a_time(server: &Arc<Server>, name: &str) -> ServerConfig {
    let mut config = server.config(name);
    config.limits.concurrent = 1;
    config
}

#[tokio::test]
async fn arguments_that_do_not_fit_reach_no_server() {
    let server = strict();
    let world = World::new(vec![server.config("one")], plain()).await;
    let session = world.legacy().await;
    let legacy = session.request("tools/call", json!({"name": "slow", "arguments": {"ms": "soon", "sm": 1}})).await;
    let modern = world.modern("tools/call", json!({"name": "slow", "arguments": {"ms": "soon"}})).await;
    for response in [&legacy, &modern] {
        assert_eq!(response["result"]["isError"], true);
        let text = text(response);
        let expected = "`slow` was not called: /ms must be an integer, not \"soon\"\nschema: {\"type\":\"object\"";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\nfor example: {\"ms\":0}"), "{text}");
    }
    assert_eq!(modern["result"]["resultType"], "complete");
    assert!(session.call("slow", "{}").await.starts_with("`slow` was not called: /ms is missing\n"));
    assert_eq!(session.call("slow", r#"{"ms":1}"#).await, "done");
    assert_eq!(world.metric("pegboard_calls_refused_total{reason=\"arguments\"}").await, 3);
    assert_eq!(server.calls(), [("slow".to_owned(), r#"{"ms":1}"#.to_owned())]);
}

#[tokio::test]
async fn a_call_tool_is_checked_by_the_tool_it_calls() {
    let server = strict();
    let world = World::new(vec![server.config("one")], settings(Profile::Dialect(DialectName::Bridge))).await;
    let session = world.legacy().await;
    let text = session.call("call_tool", r#"{"name":"slow","arguments":{"ms":-1}}"#).await;
    assert!(text.starts_with("`slow` was not called: /ms must be at least 0, not -1\n"), "{text}");
    assert!(text.ends_with("for example: {\"name\":\"slow\",\"arguments\":{\"ms\":0}}"), "{text}");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn arguments_are_not_checked_where_that_is_switched_off() {
    let check = async |is_on: bool, own: Option<bool>, base: GatewaySettings, tool: &str, arguments: &str| {
        let server = strict();
        let servers: BTreeMap<String, bool> = own.map(|own| ("one".to_owned(), own)).into_iter().collect();
        let mut discovery = base.discovery.clone();
        (discovery.validation.is_on, discovery.validation.servers) = (Some(is_on), servers);
        let world = World::new(vec![server.config("one")], GatewaySettings { discovery, ..base }).await;
        let text = world.legacy().await.call(tool, arguments).await;
        assert_eq!((text.as_str(), server.called()), ("done", vec!["slow".to_owned()]));
    };
    let bridge = || settings(Profile::Dialect(DialectName::Bridge));
    check(false, None, plain(), "slow", r#"{"ms":"soon"}"#).await;
    check(true, Some(false), plain(), "slow", r#"{"ms":"soon"}"#).await;
    check(true, Some(false), bridge(), "slow", r#"{"ms":"soon"}"#).await;
    check(true, Some(false), bridge(), "call_tool", r#"{"name":"slow","arguments":{"ms":"soon"}}"#).await;
}

#[tokio::test]
async fn arguments_and_results_that_are_too_large_are_errors() {
    let server = Server::new(&["large", "echo"]);
    let mut config = server.config("one");
    config.limits = ServerLimits { argument_bytes: 1000, result_bytes: 2000, ..ServerLimits::default() };
    let world = World::new(vec![config], plain()).await;
    let session = world.legacy().await;
    let large = session.request("tools/call", json!({"name": "large"})).await;
    assert_eq!(large["result"]["isError"], true);
    let bytes = json!({"content": [{"type": "text", "text": "x".repeat(LARGE)}]}).to_string().len();
    let expected = format!("server `one`: result is {bytes} bytes, over the limit of 2000 (`maxResultBytes`)");
    assert_eq!(text(&large), expected);
    let arguments = json!({"message": "x".repeat(2000)}).to_string();
    let expected = "`echo` was not called: server `one`: arguments are 2014 bytes, over the limit of 1000 \
                    (`maxArgumentBytes`)";
    assert_eq!(session.call("echo", &arguments).await, expected);
    assert_eq!(session.call("echo", r#"{"a":1}"#).await, "done");
    assert_eq!(server.called(), ["large", "echo"]);
    for reason in ["result_bytes", "argument_bytes"] {
        assert_eq!(world.metric(&format!("pegboard_calls_refused_total{{reason=\"{reason}\"}}")).await, 1);
    }
}

#[tokio::test]
async fn a_caller_has_so_many_calls_a_minute() {
    let limits = CallLimits { per_minute: 2, ..CallLimits::default() };
    let server = Server::new(&["echo"]);
    let world = World::new(vec![server.config("one")], GatewaySettings { limits, ..plain() }).await;
    let (one, other) = (world.legacy().await, world.legacy().await);
    for _ in 0..2 {
        assert_eq!(one.call("echo", "{}").await, "done");
    }
    let refused = one.request("tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(refused["result"]["isError"], true);
    let expected = "`echo` was not called: rate limit reached: 2 calls per minute";
    let text = text(&refused);
    assert!(text.starts_with(expected) && text.contains("try again in "), "{text}");
    assert!(other.call("echo", "{}").await.starts_with(expected), "a new session gets no share of its own");
    let read = one.request("resources/read", json!({"uri": "toy://text"})).await;
    let message = read["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(read["error"]["code"], -32603);
    assert!(message.starts_with("request not sent: rate limit reached: 2 calls per minute"), "{message}");
    assert_eq!(world.metric("pegboard_calls_refused_total{reason=\"rate\"}").await, 3);
    assert_eq!(server.calls().len(), 2);
}

/// Waits until so many calls of the first server wait for their turn.
async fn wait_for_queue(world: &World, calls: u64) {
    until("calls wait", async || world.gateway.servers()[0].report().calls.waiting == calls).await;
}

#[tokio::test]
async fn a_session_that_floods_does_not_starve_another() {
    let server = Server::new(&["wait", "echo"]);
    let world = World::new(vec![one_at_a_time(&server, "one")], plain()).await;
    let (flood, other) = (Arc::new(world.legacy().await), world.legacy().await);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let flood = Arc::clone(&flood);
            tokio::spawn(async move { flood.call("wait", "{}").await })
        })
        .collect();
    wait_for_queue(&world, 19).await;
    let other = tokio::spawn(async move { other.call("echo", "{}").await });
    wait_for_queue(&world, 20).await;
    server.release(20);
    assert_eq!(other.await.expect("an answer"), "done");
    for call in calls {
        assert_eq!(call.await.expect("an answer"), "done");
    }
    let called = server.called();
    let place = called.iter().position(|name| name == "echo").expect("it was called");
    assert!(called.len() == 21 && place <= 2, "{called:?}");
}

#[tokio::test]
async fn a_slow_server_does_not_take_the_turns_of_another() {
    let (slow, quick) = (Server::new(&["wait"]), Server::new(&["echo"]));
    let world = World::new(vec![one_at_a_time(&slow, "slow"), one_at_a_time(&quick, "quick")], plain()).await;
    let session = Arc::new(world.legacy().await);
    let stuck: Vec<_> = (0..3)
        .map(|_| {
            let session = Arc::clone(&session);
            tokio::spawn(async move { session.call("slow___wait", "{}").await })
        })
        .collect();
    wait_for_queue(&world, 2).await;
    assert_eq!(session.call("quick___echo", "{}").await, "done");
    assert!(stuck.iter().all(|call| !call.is_finished()));
}

/// One client goes away while its call runs, another while its call waits.
#[tokio::test]
async fn a_client_that_goes_away_leaves_its_turn_to_others() {
    let server = Server::new(&["wait", "echo"]);
    let limits = CallLimits { concurrent: 3, ..CallLimits::default() };
    let world = World::new(vec![one_at_a_time(&server, "one")], GatewaySettings { limits, ..plain() }).await;
    let call = |name: &'static str| {
        let world = world.clone();
        tokio::spawn(async move { world.modern("tools/call", json!({"name": name, "arguments": {}})).await })
    };
    let running = call("wait");
    until("it runs", async || server.called() == ["wait"]).await;
    let waiting = call("wait");
    wait_for_queue(&world, 1).await;
    let next = call("echo");
    wait_for_queue(&world, 2).await;
    waiting.abort();
    wait_for_queue(&world, 1).await;
    running.abort();
    let answered = tokio::time::timeout(PATIENCE, next).await.expect("its turn comes").expect("an answer");
    assert_eq!(text(&answered), "done");
    let again = tokio::time::timeout(PATIENCE, call("echo")).await.expect("in time").expect("an answer");
    assert_eq!(text(&again), "done");
    assert_eq!(server.called(), ["wait", "echo", "echo"]);
}

#[tokio::test]
async fn a_server_that_ends_gives_its_turns_back() {
    let server = Server::new(&["exit", "echo"]);
    let world = World::new(vec![one_at_a_time(&server, "one")], plain()).await;
    let session = Arc::new(world.legacy().await);
    let calls: Vec<_> = ["exit", "echo", "echo"]
        .map(|tool| {
            let session = Arc::clone(&session);
            tokio::spawn(async move { session.request("tools/call", json!({"name": tool})).await })
        })
        .into();
    for call in calls {
        let response: Value = tokio::time::timeout(PATIENCE, call).await.expect("in time").expect("an answer");
        assert!(response.get("result").is_some(), "{response}");
    }
    until("it is back", async || session.call("echo", "{}").await == "done").await;
    assert_eq!(server.starts(), 2);
}
