//! The configuration changes while the gateway runs.

use pegboard_core::Selection;
use pegboard_discovery::{
    Exposure,
    policy::{Middleware, NamePattern, Policies},
};
use pegboard_gateway::{Change, GatewaySettings, Prefixes, Token};
use pegboard_upstream::config::ServerConfig;
use serde_json::json;

use super::{
    tokens::token,
    world::{Events, Legacy, Server, World, plain, until},
};

const LIST_CHANGED: &str = "notifications/tools/list_changed";

fn prefixed() -> GatewaySettings {
    GatewaySettings { prefixes: Prefixes::Always, ..plain() }
}

/// Lists until the list is as it should be, once after each notification.
async fn lists(session: &Legacy, events: &mut Events, is_right: impl Fn(&[String]) -> bool) {
    while !is_right(&session.names().await) {
        events.wait_for(LIST_CHANGED).await;
    }
}

/// Changes the settings alone.
async fn change_settings(world: &World, settings: GatewaySettings) {
    let servers = world.gateway.servers().iter().map(|server| server.config().clone()).collect();
    let change = world.gateway.reconfigure(servers, settings, None).await;
    assert!(change.has_settings && change.servers.is_empty(), "{change:?}");
}

#[tokio::test]
async fn servers_come_change_and_go_alone() {
    let (stays, goes) = (Server::new(&["echo"]), Server::new(&["leave"]));
    let (before, after, comes) = (Server::new(&["first"]), Server::new(&["first", "second"]), Server::new(&["enter"]));
    let servers = vec![stays.config("stays"), before.config("changes"), goes.config("goes")];
    let world = World::new(servers, prefixed()).await;
    let session = world.legacy().await;
    let mut events = session.stream().await;
    assert_eq!(session.names().await, ["stays___echo", "changes___first", "goes___leave"]);
    let servers = || vec![stays.config("stays"), after.config("changes"), comes.config("comes")];
    let Change { servers: change, has_settings, .. } = world.gateway.reconfigure(servers(), prefixed(), None).await;
    assert_eq!(
        (change.added, change.changed, change.removed),
        (vec!["comes".to_owned()], vec!["changes".to_owned()], vec!["goes".to_owned()],)
    );
    assert!(!has_settings);
    let expected = ["stays___echo", "changes___first", "changes___second", "comes___enter"];
    lists(&session, &mut events, |names| names == expected).await;
    assert_eq!(session.call("comes___enter", "{}").await, "done");
    assert!(session.call("goes___leave", "{}").await.contains("no tool"));
    assert!(world.gateway.reconfigure(servers(), prefixed(), None).await.is_empty(), "nothing is different");
    assert_eq!(session.names().await, expected);
    assert_eq!([&stays, &after, &comes].map(|server| server.starts()), [1, 1, 1]);
}

#[tokio::test]
async fn calls_under_way_are_finished_and_new_ones_wait() {
    let server = Server::new(&["wait", "echo"]);
    let described =
        |description: &str| ServerConfig { description: Some(description.to_owned()), ..server.config("one") };
    let world = World::new(vec![described("before")], prefixed()).await;
    let session = world.legacy().await;
    let slow = session.call("one___wait", "{}");
    let change = async {
        until("the call runs", async || server.called() == ["wait"]).await;
        let change = world.gateway.reconfigure(vec![described("after")], prefixed(), None).await;
        assert_eq!(change.servers.changed, ["one"]);
        // Only the description is different, so that its tools are still known.
        let echo = session.call("one___echo", "{}");
        let release = async {
            until("the next call waits", async || world.gateway.servers()[0].report().calls.running == 1).await;
            assert_eq!((server.starts(), server.called()), (1, vec!["wait".to_owned()]));
            server.release(1);
        };
        tokio::join!(echo, release).0
    };
    let (slow, echo) = tokio::join!(slow, change);
    assert_eq!((slow.as_str(), echo.as_str()), ("done", "done"));
    assert_eq!((server.starts(), server.dropped()), (2, 0));
}

#[tokio::test]
async fn tokens_change_for_sessions_that_go_on() {
    let everything = |name: &str| token(name, Selection::everything());
    let with = |tokens: Vec<Token>| GatewaySettings { tokens, ..plain() };
    let servers = vec![Server::new(&["echo", "slow"]).config("one")];
    let world = World::new(servers, with(vec![everything("ann"), everything("bob")])).await;
    let holder = |name: &str| {
        let secret = format!("secret-token-of-{name}");
        let tokens = world.gateway.tokens();
        tokens.iter().find(|(_, own)| *own == secret).map(|(holder, _)| holder.0).expect("a token")
    };
    let (ann, bob) = (world.legacy_as(holder("ann")).await, world.legacy_as(holder("bob")).await);
    let (mut for_ann, mut for_bob) = (ann.stream().await, bob.stream().await);
    let bobs = holder("bob");
    // Bob's token is withdrawn, another one has its place in the list, and Ann may see less.
    let narrowed = token("ann", Selection::everything().allow_tools(["one:echo"]));
    change_settings(&world, with(vec![everything("cat"), narrowed])).await;
    lists(&ann, &mut for_ann, |names| names == ["echo"]).await;
    assert!(ann.call("slow", "{}").await.contains("no tool"));
    assert_eq!(bob.status("tools/list", json!({})).await, 401);
    while for_bob.next().await.is_some() {}
    assert_ne!(holder("cat"), bobs);
    assert_eq!(world.legacy_as(holder("cat")).await.names().await, ["echo", "slow"]);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let stolen = world.post_as(Some(holder("cat")), &[("mcp-session-id", bob.id())], &ping).await;
    assert_eq!(stolen.0, 404);
    assert_eq!(world.modern_messages(Some(bobs), "tools/list", json!({}), &[]).await.0, 401);
    // Back again, Bob begins a new session.
    change_settings(&world, with(vec![everything("bob")])).await;
    let bob = bob.held_by(holder("bob"));
    assert_eq!(bob.status("tools/list", json!({})).await, 404);
    assert_eq!(world.legacy_as(holder("bob")).await.names().await, ["echo", "slow"]);
}

#[tokio::test]
async fn settings_change_for_sessions_that_go_on() {
    let world = World::new(vec![Server::new(&["echo", "slow"]).config("one")], plain()).await;
    let session = world.legacy().await;
    let mut events = session.stream().await;
    assert_eq!(session.names().await, ["echo", "slow"]);
    let searching = GatewaySettings { exposure: Exposure::Always, ..GatewaySettings::default() };
    change_settings(&world, searching).await;
    lists(&session, &mut events, |names| names == ["search_tools", "call_tool"]).await;
    change_settings(&world, prefixed()).await;
    lists(&session, &mut events, |names| names == ["one___echo", "one___slow"]).await;
    let allow = vec![NamePattern::new("echo").expect("a pattern")];
    let policies =
        Policies { general: vec![Middleware::ToolFilter { allow, deny: Vec::new() }], by_server: Vec::new() };
    change_settings(&world, GatewaySettings { policies, ..plain() }).await;
    lists(&session, &mut events, |names| names == ["echo"]).await;
    assert_eq!(world.legacy().await.names().await, ["echo"]);
}
