//! The control of a gateway alone.

use pegboard_core::Secret;

use super::*;
use crate::{
    GatewaySettings, Token,
    metrics::{self, Refused},
    testing::{Ground, Server},
};

fn token(name: &str, selection: Selection) -> Token {
    Token { name: name.to_owned(), secret: Secret::new(format!("secret-token-of-{name}")), selection, limits: None }
}

/// The asker of a request by the holder of a token.
fn asking(ground: &Ground, holder: Option<usize>) -> Option<Asking> {
    let (mut parts, _) = Request::new(Body::empty()).into_parts();
    if let Some(holder) = holder {
        parts.extensions.insert(Principal(holder));
    }
    Asking::of(&ground.setups.current(), &parts)
}

async fn ground() -> (Ground, Control) {
    let guest = Selection::everything().allow_servers(["one"]).deny(["one:secret"]);
    let tokens = vec![token("admin", Selection::everything()), token("guest", guest)];
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let ground = Ground::new(servers, GatewaySettings { tokens, ..GatewaySettings::default() }).await;
    let sessions = ground.sessions(&ground.subscriptions());
    let control = Control::new(Arc::clone(&ground.catalog), sessions, ground.forwarder(), Arc::default());
    (ground, control)
}

#[tokio::test]
async fn the_status_has_what_its_reader_may_see() {
    let (ground, control) = ground().await;
    assert!(asking(&ground, None).is_none(), "tokens are required");
    let status = |holder| control.status(&asking(&ground, Some(holder)).expect("a token"), &Options::default());
    let names = |status: &Status| status.servers.iter().map(|one| one.report.name.clone()).collect::<Vec<_>>();
    let whole = status(0);
    assert_eq!((names(&whole), whole.tools), (vec!["one".to_owned(), "two".to_owned()], 3));
    assert!(whole.totals.is_some() && whole.configuration.is_some());
    let part = status(1);
    assert_eq!((names(&part), part.tools, part.servers[0].report.tools), (vec!["one".to_owned()], 1, 1));
    assert!(part.totals.is_none() && part.configuration.is_none());
    ground.setups.refuse(Some("unknown key".to_owned()));
    let refused = status(0).configuration.and_then(|configuration| configuration.refused);
    assert_eq!(refused.as_deref(), Some("unknown key"));
}

#[tokio::test]
async fn only_a_whole_server_can_be_restarted() {
    let (ground, control) = ground().await;
    let catalog = control.catalog.catalog();
    let sees =
        |holder, server| asking(&ground, Some(holder)).is_some_and(|one| one.sees_whole_server(&catalog, server));
    assert!(sees(0, "one") && sees(0, "two"));
    assert!(!sees(1, "one") && !sees(1, "two"), "one tool of the first is denied");
}

#[tokio::test]
async fn numbers_are_those_of_its_parts() {
    let (ground, control) = ground().await;
    ground.metrics.refused(Refused::Rate);
    let page = metrics::render(&control.numbers());
    for line in ["pegboard_sessions 0", "pegboard_calls_refused_total{reason=\"rate\"} 1"] {
        assert!(page.lines().any(|one| one == line), "no `{line}` in:\n{page}");
    }
    assert_eq!((control.tool_count(), control.pins().len()), (3, 0));
}
