//! Sessions alone.

use pegboard_core::{Secret, Selection};
use pegboard_http::Principal;

use super::*;
use crate::{
    GatewaySettings, Token,
    caller::Caller,
    request::Initialize,
    testing::{Server, TestParts, wait_until},
};

const ANN: Caller = Caller::Token(Principal(0));
const BOB: Caller = Caller::Token(Principal(1));

fn settings(names: &[&str]) -> GatewaySettings {
    let token = |name: &&str| Token {
        name: (*name).to_owned(),
        secret: Secret::new(format!("secret-token-of-{name}")),
        selection: Selection::everything(),
        limits: None,
    };
    GatewaySettings { tokens: names.iter().map(token).collect(), ..GatewaySettings::default() }
}

async fn begin(sessions: &Sessions, parts: &TestParts, caller: Caller) -> Arc<ClientSession> {
    let asked = Initialize { version: "2025-06-18".to_owned(), capabilities: None, client: "test".to_owned() };
    let (session, greeting) = sessions.initialize(parts.viewer(caller), Party::Caller(caller), asked).await;
    assert_eq!(greeting.version.as_deref(), Some("2025-06-18"));
    session
}

#[tokio::test]
async fn a_session_is_found_by_its_caller_until_it_ends() {
    let parts = TestParts::new(Vec::new(), settings(&["ann", "bob"])).await;
    let sessions = parts.sessions(&parts.subscriptions());
    let session = begin(&sessions, &parts, ANN).await;
    let find = async |caller| {
        let found = sessions.find(&session.id, &parts.viewer(caller), Party::Caller(caller)).await;
        found.is_some_and(|found| Arc::ptr_eq(&found, &session))
    };
    assert!(find(ANN).await && !find(BOB).await);
    assert_eq!(sessions.count(), 1);
    sessions.end_named(&session.id).await;
    assert!(!find(ANN).await);
    assert_eq!(sessions.count(), 0);
}

#[tokio::test]
async fn a_new_session_takes_the_place_of_the_oldest() {
    let one = GatewaySettings { max_sessions: 1, ..GatewaySettings::default() };
    let parts = TestParts::new(Vec::new(), one).await;
    let sessions = parts.sessions(&parts.subscriptions());
    let (first, second) =
        (begin(&sessions, &parts, Caller::Anybody).await, begin(&sessions, &parts, Caller::Anybody).await);
    let left: Vec<u64> = sessions.all().iter().map(|session| session.owner).collect();
    assert_eq!(left, [second.owner]);
    assert!(first.owner < second.owner);
}

#[tokio::test]
async fn sessions_follow_the_catalog_and_end_with_their_tokens() {
    let server = Server::new(&["echo"]);
    let parts = TestParts::new(vec![server.config("one")], settings(&["ann", "bob"])).await;
    let sessions = parts.sessions(&parts.subscriptions());
    let (ann, bob) = (begin(&sessions, &parts, ANN).await, begin(&sessions, &parts, BOB).await);
    sessions.refresh(&Difference::default());
    assert!(ann.take_pending_announcements().is_empty(), "nothing has changed");
    server.add_tool("more");
    wait_until("it is listed", || parts.fleet.servers()[0].lists().tools.len() == 2).await;
    sessions.refresh(&parts.refresh_directory());
    assert_eq!(ann.take_pending_announcements().into_iter().collect::<Vec<_>>(), ["notifications/tools/list_changed"]);
    assert_eq!(lock(&ann.tools).catalog().len(), 2);
    parts.setups.replace(settings(&["bob"]), None);
    sessions.refresh(&Difference::default());
    assert_eq!(sessions.all().iter().map(|session| session.owner).collect::<Vec<_>>(), [bob.owner]);
}

#[tokio::test]
async fn subscriptions_end_with_their_session() {
    let server = Server::new(&[]);
    let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
    let sessions = parts.sessions(&parts.subscriptions());
    let session = begin(&sessions, &parts, Caller::Anybody).await;
    let subscribe = sessions.subscribe(&session, "toy://text", session.party);
    subscribe.await.expect("a subscription");
    assert_eq!(server.watched(), ["toy://text"]);
    sessions.unsubscribe(&session, "toy://text").await;
    wait_until("it is watched no longer", || server.watched().is_empty()).await;
    sessions.subscribe(&session, "toy://text", session.party).await.expect("a subscription");
    sessions.end_named(&session.id).await;
    wait_until("it is watched no longer", || server.watched().is_empty()).await;
}
