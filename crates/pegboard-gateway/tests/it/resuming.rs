//! Clients that lose the connection of a stream and resume it.

use axum::http::Method;
use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::{
    tokens::token,
    world::{Events, Legacy, Server, World, plain, until},
};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");

/// Calls a tool with progress, as a client of 2025-11-25 or of an older version.
async fn begin(world: &World, session: &Legacy, tool: &str, version: &str) -> Events {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let headers = [("mcp-session-id", session.id()), (VERSION.0, version)];
    Events::new(world.send(session.holder(), &headers, &body).await)
}

/// Resumes a stream; the status and the events.
async fn resume(world: &World, session: &Legacy, event: &str) -> (u16, Events) {
    let headers =
        [("accept", "text/event-stream"), ("mcp-session-id", session.id()), VERSION, ("last-event-id", event)];
    let response = world.http(Method::GET, "/mcp", session.holder(), &headers, "").await;
    (response.status().as_u16(), Events::new(response))
}

/// The rest of a stream, up to its end.
async fn rest(mut events: Events) -> Vec<Value> {
    let mut found = Vec::new();
    while let Some(message) = events.next().await {
        found.push(message.get("params").and_then(|params| params.get("progress")).unwrap_or(&message["id"]).clone());
    }
    found
}

#[tokio::test]
async fn a_client_gets_what_it_missed_of_its_stream() {
    let server = Server::of(Era::Legacy, &["progress", "wait"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let session = world.legacy().await;
    let mut events = begin(&world, &session, "progress", "2025-11-25").await;
    let priming = events.frame().await;
    assert!(priming.starts_with("id: ") && priming.ends_with("\nretry: 1000\ndata: \n\n"), "{priming}");
    assert_eq!(events.message().await["params"]["progress"], 1);
    let first = events.last_id().to_owned();
    drop(events);
    let (status, events) = resume(&world, &session, &first).await;
    assert_eq!((status, rest(events).await), (200, vec![json!(2), json!(3), json!(7)]));
    // From the priming event on, as often as it is wanted.
    let primed = format!("{}-0", first.rsplit_once('-').expect("an id").0);
    let (_, mut events) = resume(&world, &session, &primed).await;
    for progress in 1..=3 {
        assert_eq!(events.message().await["params"]["progress"], progress);
    }
    assert_eq!(events.message().await["id"], 7);
    // There is nothing left, which tells the client to stop.
    assert_eq!(resume(&world, &session, events.last_id()).await.0, 204);
    assert_eq!(resume(&world, &session, "x-9-1").await.0, 400);
    // Another session has other streams.
    let other = world.legacy().await;
    assert_eq!(resume(&world, &other, &first).await.0, 400);
}

#[tokio::test]
async fn an_answer_waits_for_a_client_that_was_away() {
    let server = Server::of(Era::Legacy, &["wait", "large"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let session = world.legacy().await;
    // Nothing is said before the answer: the stream begins when it takes a while.
    let mut events = begin(&world, &session, "wait", "2025-11-25").await;
    let place = events.frame().await;
    let place = place.lines().next().and_then(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    drop(events);
    until("it is called", async || server.called() == ["wait"]).await;
    server.release(1);
    until("it has ended", async || world.gateway.running_calls() == 0).await;
    let (status, events) = resume(&world, &session, &place).await;
    assert_eq!((status, rest(events).await), (200, vec![json!(7)]));
    assert_eq!(server.dropped(), 0);
}

#[tokio::test]
async fn older_clients_get_ids_and_no_event_without_data() {
    let server = Server::of(Era::Legacy, &["progress"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let session = world.legacy().await;
    let mut events = begin(&world, &session, "progress", "2025-06-18").await;
    let first = events.frame().await;
    assert!(first.starts_with("id: ") && first.contains("\nevent: message\ndata: {"), "{first}");
}

#[tokio::test]
async fn messages_between_requests_are_replayed_to_their_client_alone() {
    let server = Server::of(Era::Legacy, &["echo"]);
    let settings = pegboard_gateway::GatewaySettings {
        tokens: ["ann", "bob"].map(|name| token(name, pegboard_core::Selection::everything())).into(),
        ..plain()
    };
    let world = World::new(vec![server.config("one")], settings).await;
    let (ann, bob) = (world.legacy_as(0).await, world.legacy_as(1).await);
    for session in [&ann, &bob] {
        session.request("resources/subscribe", json!({"uri": "toy://text"})).await;
    }
    let (mut events, mut others) = (ann.stream().await, bob.stream().await);
    assert!(server.update("toy://text"));
    events.wait_for("notifications/resources/updated").await;
    let last = events.last_id().to_owned();
    drop(events);
    assert!(server.update("toy://text"));
    others.wait_for("notifications/resources/updated").await;
    others.wait_for("notifications/resources/updated").await;
    // The token of another caller does not open the session.
    let thief = world.legacy_as(1).await;
    assert_eq!(resume(&world, &thief, &last).await.0, 200, "a stream of its own, which begins anew");
    let headers = [("accept", "text/event-stream"), ("mcp-session-id", ann.id()), ("last-event-id", last.as_str())];
    assert_eq!(world.http(Method::GET, "/mcp", Some(1), &headers, "").await.status().as_u16(), 404);
    let (_, mut events) = resume(&world, &ann, &last).await;
    assert_eq!(events.wait_for("notifications/resources/updated").await["params"]["uri"], "toy://text");
}
