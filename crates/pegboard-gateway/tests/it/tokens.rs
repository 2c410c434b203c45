//! Holders of tokens, and what is theirs.

use pegboard_core::{Secret, Selection};
use pegboard_discovery::Exposure;
use pegboard_gateway::{GatewaySettings, Prefixes, Token};
use serde_json::{Value, json};

use super::world::{Events, Server, World, names};

pub(crate) const ADMIN: usize = 0;
pub(crate) const GUEST: usize = 1;

/// A token of this name.
pub(crate) fn token(name: &str, selection: Selection) -> Token {
    let secret = Secret::new(format!("secret-token-of-{name}"));
    Token { name: name.to_owned(), secret, selection, limits: None }
}

pub(crate) fn tokens() -> Vec<Token> {
    let guest = Selection::everything().allow_servers(["one"]).deny(["one:secret"]);
    vec![token("admin", Selection::everything()), token("guest", guest)]
}

async fn world() -> World {
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let settings = GatewaySettings { tokens: tokens(), exposure: Exposure::Never, ..GatewaySettings::default() };
    World::new(servers, settings).await
}

async fn begin(world: &World, holder: usize) -> String {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (_, headers, _) = world.post_as(Some(holder), &[], &body).await;
    headers["mcp-session-id"].to_str().expect("text").to_owned()
}

async fn ask(world: &World, holder: Option<usize>, session: &str, method: &str, params: Value) -> (u16, Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, _, mut messages) = world.post_as(holder, &[("mcp-session-id", session)], &body).await;
    (status, messages.pop().unwrap_or_default())
}

#[tokio::test]
async fn what_is_hidden_from_a_holder_does_not_exist() {
    let world = world().await;
    let session = begin(&world, GUEST).await;
    let (_, listed) = ask(&world, Some(GUEST), &session, "tools/list", json!({})).await;
    assert_eq!(names(&listed), ["one___echo"]);
    for hidden in ["one___secret", "two___echo", "secret"] {
        let (_, called) = ask(&world, Some(GUEST), &session, "tools/call", json!({"name": hidden})).await;
        let text = called["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("no tool") && !text.contains("nearest"), "{hidden}: {called}");
    }
    let (_, prompts) = ask(&world, Some(GUEST), &session, "prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"].as_array().map(Vec::len), Some(1));
    let (_, read) = ask(&world, Some(GUEST), &session, "resources/read", json!({"uri": "two+toy://text"})).await;
    assert_eq!(read["error"]["code"], -32002);
    let hello = world.legacy_as(GUEST).await.hello;
    assert!(!hello.to_string().contains("two"), "{hello}");
    let params = json!({"notifications": {"resourceSubscriptions": ["two+toy://text", "one+toy://text"]}});
    let mut events = Events::new(world.modern_send(Some(GUEST), 1, "subscriptions/listen", params, &[]).await);
    let agreed = &events.message().await["params"]["notifications"];
    assert_eq!(agreed["resourceSubscriptions"], json!(["one+toy://text"]));
    let scope = async |holder| {
        let (_, _, messages) = world.modern_messages(Some(holder), "tools/list", json!({}), &[]).await;
        (names(&messages[0]).len(), messages[0]["result"]["cacheScope"].clone())
    };
    assert_eq!(scope(GUEST).await, (1, json!("private")));
    assert_eq!(scope(ADMIN).await, (3, json!("private")));
}

#[tokio::test]
async fn a_session_is_its_holders_alone() {
    let world = world().await;
    let session = begin(&world, ADMIN).await;
    assert_eq!(ask(&world, Some(GUEST), &session, "tools/list", json!({})).await.0, 404);
    assert_eq!(ask(&world, Some(ADMIN), "0123456789abcdef0123456789abcdef", "ping", json!({})).await.0, 404);
    assert_eq!(ask(&world, None, &session, "tools/list", json!({})).await.0, 401, "tokens are asked for");
    assert_eq!(ask(&world, Some(ADMIN), &session, "tools/list", json!({})).await.0, 200);
}

#[tokio::test]
async fn a_token_that_is_withdrawn_is_no_longer_one() {
    let world = world().await;
    let session = begin(&world, GUEST).await;
    let mut left = tokens();
    left.truncate(1);
    let settings = GatewaySettings { tokens: left, exposure: Exposure::Never, ..GatewaySettings::default() };
    let servers = world.gateway.servers().iter().map(|server| server.config().clone()).collect();
    assert!(world.gateway.reconfigure(servers, settings, None).await.has_settings);
    assert_eq!(ask(&world, Some(GUEST), &session, "tools/list", json!({})).await.0, 401);
}

#[tokio::test]
async fn event_streams_are_bounded_for_each_holder() {
    let servers = vec![Server::new(&["echo"]).config("one")];
    let settings = GatewaySettings { tokens: tokens(), streams_per_caller: 0, ..GatewaySettings::default() };
    let world = World::new(servers, settings).await;
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let (status, headers, _) = world.post_as(Some(GUEST), &headers, &body).await;
    assert_eq!((status, headers["retry-after"].to_str().ok()), (503, Some("1")));
}

#[tokio::test]
async fn a_hidden_server_changes_no_visible_name() {
    let (hidden, one) = (Server::new(&["echo"]), Server::new(&["echo", "a.b"]));
    let settings = GatewaySettings {
        tokens: tokens(),
        exposure: Exposure::Never,
        prefixes: Prefixes::Never,
        ..GatewaySettings::default()
    };
    let world = World::new(vec![hidden.config("hidden"), one.config("one")], settings).await;
    let session = begin(&world, GUEST).await;
    let asked =
        async |holder, session: &str, method, params| ask(&world, Some(holder), session, method, params).await.1;
    let listed = asked(GUEST, &session, "tools/list", json!({})).await;
    assert_eq!(names(&listed), ["echo", "a_b"]);
    asked(GUEST, &session, "tools/call", json!({"name": "echo"})).await;
    assert_eq!((hidden.called().len(), one.called().len()), (0, 1));
    let prompts = asked(GUEST, &session, "prompts/list", json!({})).await;
    let prompt = prompts["result"]["prompts"][0]["name"].clone();
    let read = asked(GUEST, &session, "resources/read", json!({"uri": "toy://text"})).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    asked(GUEST, &session, "resources/subscribe", json!({"uri": "toy://text"})).await;
    assert_eq!((hidden.watched().len(), one.watched().len()), (0, 1));
    let session = begin(&world, ADMIN).await;
    let listed = asked(ADMIN, &session, "tools/list", json!({})).await;
    assert_eq!(
        names(&listed),
        ["hidden___echo", "one___echo", "a_b"],
        "a caller who sees both servers sees their names"
    );
    let prompts = asked(ADMIN, &session, "prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], prompt, "the first of two prompts keeps its name");
    assert_ne!(prompts["result"]["prompts"][1]["name"], prompt);
}
