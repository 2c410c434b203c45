//! The control of a gateway alone.

use axum::body::Body;
use pegboard_core::{Secret, Selection};
use pegboard_http::Principal;

use super::*;
use crate::{
    GatewaySettings, Token,
    metrics::{self, RejectReason},
    testing::{Server, TestParts},
};

fn token(name: &str, selection: Selection) -> Token {
    Token { name: name.to_owned(), secret: Secret::new(format!("secret-token-of-{name}")), selection, limits: None }
}

/// The asker of a request by the holder of a token.
fn asking(given: &TestParts, holder: Option<usize>) -> Option<ControlCaller> {
    let (mut parts, _) = Request::new(Body::empty()).into_parts();
    if let Some(holder) = holder {
        parts.extensions.insert(Principal(holder));
    }
    ControlCaller::of(&given.setups.current(), &parts)
}

async fn test_parts() -> (TestParts, Control) {
    let guest = Selection::everything().allow_servers(["one"]).deny(["one:secret"]);
    let limited = Selection::everything().allow_tools(["one:echo"]);
    let tokens = vec![token("admin", Selection::everything()), token("guest", guest), token("limited", limited)];
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let parts = TestParts::new(servers, GatewaySettings { tokens, ..GatewaySettings::default() }).await;
    let sessions = parts.sessions(&parts.subscriptions());
    let control = Control::new(Arc::clone(&parts.catalog), sessions, parts.forwarder(), Arc::default());
    (parts, control)
}

#[tokio::test]
async fn the_status_has_what_its_reader_may_see() {
    let (parts, control) = test_parts().await;
    assert!(asking(&parts, None).is_none(), "tokens are required");
    let status = |holder| control.status(&asking(&parts, Some(holder)).expect("a token"), &Options::default());
    let names = |status: &Status| status.servers.iter().map(|one| one.report.name.clone()).collect::<Vec<_>>();
    let whole = status(0);
    assert_eq!((names(&whole), whole.tools), (vec!["one".to_owned(), "two".to_owned()], 3));
    assert!(whole.totals.is_some() && whole.configuration.is_some());
    let part = status(1);
    assert_eq!((names(&part), part.tools, part.servers[0].report.tools), (vec!["one".to_owned()], 1, 1));
    assert!(part.totals.is_none() && part.configuration.is_none());
    let entries = |status: &Status| {
        let report = &status.servers[0].report;
        (report.prompts, report.resources, report.templates)
    };
    assert!(entries(&whole).0 > 0);
    assert_eq!(entries(&part), entries(&whole), "its prompts and resources are visible with the server");
    let limited = status(2);
    assert_eq!((limited.servers[0].report.tools, entries(&limited)), (1, (0, 0, 0)));
    parts.setups.record_rejection(Some("unknown key".to_owned()));
    let refused = status(0).configuration.and_then(|configuration| configuration.refused);
    assert_eq!(refused.as_deref(), Some("unknown key"));
}

#[test]
fn figures_of_a_server_are_hidden_with_its_parts() {
    let mut status = status::ServerStatus::default();
    let report = &mut status.report;
    (report.prompts, report.resources, report.templates, report.breaker.failures) = (1, 2, 3, 4);
    let counts = |sees_entries| {
        let report = status.clone().without_figures(sees_entries).report;
        (report.prompts, report.resources, report.templates, report.breaker.failures)
    };
    assert_eq!((counts(true), counts(false)), ((1, 2, 3, 0), (0, 0, 0, 0)));
}

#[tokio::test]
async fn only_a_whole_server_can_be_restarted() {
    let (parts, control) = test_parts().await;
    let catalog = control.catalog.catalog();
    let sees = |holder, server| asking(&parts, Some(holder)).is_some_and(|one| one.sees_whole_server(&catalog, server));
    assert!(sees(0, "one") && sees(0, "two"));
    assert!(!sees(1, "one") && !sees(1, "two"), "one tool of the first is denied");
}

#[tokio::test]
async fn numbers_are_those_of_its_parts() {
    let (parts, control) = test_parts().await;
    parts.metrics.count_rejection(RejectReason::Rate);
    let page = metrics::render(&control.metric_families());
    for line in ["pegboard_sessions 0", "pegboard_calls_refused_total{reason=\"rate\"} 1"] {
        assert!(page.lines().any(|one| one == line), "no `{line}` in:\n{page}");
    }
    assert_eq!((control.tool_count(), control.pins().len()), (3, 0));
}
