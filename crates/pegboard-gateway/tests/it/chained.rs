//! A gateway behind a gateway.

use std::time::Duration;

use pegboard_discovery::DialectName;
use pegboard_gateway::Profile;
use pegboard_http::{Listener, Settings};
use pegboard_mcp::era::Era;
use pegboard_upstream::config::{HttpKind, ServerConfig, TransportConfig};

use super::world::{Legacy, PATIENCE, Server, World, settings};

/// Arguments that would be others if they were read and written again.
const EXACT: &str = r#"{"z":1.50,"a":[1e2, {"y":1,"x":18446744073709551616}],"text":"\u00e9"}"#;

/// The inner gateway on a socket, and how the outer one reaches it.
async fn serve(inner: &World, era: Option<Era>) -> ServerConfig {
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(Settings::new(address)).await.expect("a socket");
    let url = format!("http://{}/mcp", listener.address());
    let router = inner.gateway.router(1 << 20);
    tokio::spawn(listener.serve(router, std::future::pending(), || {}));
    let transport = TransportConfig::Http { url, headers: Vec::new(), kind: HttpKind::Auto };
    ServerConfig { era, ..ServerConfig::new("inner", transport) }
}

/// What a tool of the inner gateway is called in the outer one.
fn shown(outer: DialectName, name: &str) -> String {
    let is_taken = outer.meta_names().contains(&name) || (outer == DialectName::Ranked && name == "tool_search");
    if is_taken { format!("inner__{name}") } else { name.to_owned() }
}

/// Calls the leaf by its name once the outer gateway has heard of it.
async fn call_when_listed(session: &Legacy) {
    let listed = async {
        while session.call("leaf", EXACT).await != "done" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.expect("the leaf is listed");
}

/// Calls the leaf behind the inner gateway as a client of the outer one can.
async fn reach(session: &Legacy, outer: DialectName, inner: DialectName) {
    let call = async |name: &str, arguments: &str| session.call(&shown(outer, name), arguments).await;
    match inner {
        DialectName::Bridge => {
            let arguments = format!(r#"{{"name":"leaf","arguments":{EXACT}}}"#);
            assert_eq!(call("call_tool", &arguments).await, "done", "{outer:?}");
        }
        DialectName::Explicit => {
            let added = call("add_tool", r#"{"tool_names":["leaf"]}"#).await;
            assert!(added.contains("leaf"), "{outer:?}: {added}");
            call_when_listed(session).await;
        }
        DialectName::Gateway => {
            call("search_available_tools", r#"{"query":"leaf"}"#).await;
            call_when_listed(session).await;
        }
        DialectName::Schema => {
            let found = call("ToolSearch", r#"{"query":"leaf"}"#).await;
            assert!(found.contains("leaf"), "{outer:?}: {found}");
            call_when_listed(session).await;
        }
        _ => {
            let found = call("tool_search", r#"{"query":"leaf"}"#).await;
            assert!(found.contains("leaf"), "{outer:?} {inner:?}: {found}");
            call_when_listed(session).await;
        }
    }
}

#[tokio::test]
async fn a_leaf_is_reached_through_every_pair_of_dialects() {
    for inner in DialectName::ALL {
        let others: Vec<String> = (0..60).map(|number| format!("other_{number}")).collect();
        let names: Vec<&str> = others.iter().map(String::as_str).chain(["leaf"]).collect();
        let server = Server::new(&names);
        let inner_world = World::new(vec![server.config("leaves")], settings(Profile::Dialect(inner))).await;
        for outer in DialectName::ALL {
            let config = serve(&inner_world, Some(Era::Legacy)).await;
            let world = World::new(vec![config], settings(Profile::Dialect(outer))).await;
            reach(&world.legacy().await, outer, inner).await;
            let last = server.calls().pop().expect("a call");
            assert_eq!(last, ("leaf".to_owned(), EXACT.to_owned()), "{outer:?} {inner:?}");
        }
    }
}

#[tokio::test]
async fn a_leaf_is_reached_over_a_connection_of_the_newest_version() {
    let server = Server::new(&["leaf"]);
    let inner = World::new(vec![server.config("leaves")], settings(Profile::default())).await;
    for outer in DialectName::ALL {
        let world = World::new(vec![serve(&inner, None).await], settings(Profile::Dialect(outer))).await;
        reach(&world.legacy().await, outer, DialectName::Bridge).await;
        assert_eq!(server.calls().pop(), Some(("leaf".to_owned(), EXACT.to_owned())), "{outer:?}");
    }
}
