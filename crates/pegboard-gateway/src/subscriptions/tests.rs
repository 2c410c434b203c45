//! Subscriptions alone.

use pegboard_upstream::queue;
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::*;
use crate::{
    GatewaySettings,
    caller::Caller,
    testing::{self, PATIENCE, Server, TestParts, wait_until},
};

const URI: &str = "toy://text";

const OTHER: &str = "toy://numbers/5";

/// A client that listens.
fn client(number: u64) -> Subscriber {
    Subscriber { holder: Holder::Listener(number), owner: None, era: Era::Modern }
}

/// The next message of a listener.
async fn next(messages: &mut queue::Receiver<String>) -> Value {
    let line = tokio::time::timeout(PATIENCE, messages.recv()).await.expect("in time").expect("a message");
    serde_json::from_str(&line).expect("JSON")
}

#[tokio::test]
async fn a_resource_is_watched_until_the_last_client_leaves() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::of(era, &[]);
        let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
        let subscriptions = parts.subscriptions();
        let viewer = testing::exchange(Caller::Anybody, None).viewer;
        let subscribe = |number, uri: &str| {
            subscriptions.subscribe(&viewer.selection, client(number), [&uri.to_owned()]).finished()
        };
        let unsubscribe =
            |number, uri: &str| subscriptions.unsubscribe(client(number).holder, [&uri.to_owned()]).finished();
        subscribe(1, URI).await;
        subscribe(2, URI).await;
        assert_eq!(server.watched(), [URI], "{era:?}");
        unsubscribe(1, URI).await;
        assert_eq!(server.watched(), [URI], "{era:?}: another client is left");
        // One that has not subscribed, or not to this, removes nothing of others.
        subscribe(1, OTHER).await;
        unsubscribe(1, URI).await;
        unsubscribe(3, URI).await;
        subscriptions.forget(client(1).holder).finished().await;
        wait_until("another client is left", || server.watched() == [URI]).await;
        subscriptions.forget(client(2).holder);
        wait_until("it is watched no longer", || server.watched().is_empty()).await;
    }
}

#[tokio::test]
async fn a_subscription_that_nobody_waits_for_is_counted_and_removed() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::of(era, &[]);
        let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
        let subscriptions = parts.subscriptions();
        let viewer = testing::exchange(Caller::Anybody, None).viewer;
        let uris = [URI, OTHER].map(str::to_owned);
        subscriptions.subscribe(&viewer.selection, client(1), &uris).finished().await;
        // It leaves before the server was asked: what was counted is removed, and no more.
        subscriptions.subscribe(&viewer.selection, client(2), &uris);
        subscriptions.forget(client(2).holder).finished().await;
        assert_eq!(server.watched(), [OTHER, URI], "{era:?}: another client is left");
        subscriptions.forget(client(1).holder);
        subscriptions.subscribe(&viewer.selection, client(3), &uris[..1]).finished().await;
        wait_until("the last change counts", || server.watched() == [URI]).await;
        assert_eq!(lock(&subscriptions.counted).len(), 1, "nothing is left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_wait_for_a_server_that_never_answers() {
    let (answer, answered) = oneshot::channel::<()>();
    let (done, is_done) = oneshot::channel::<()>();
    let requests = tokio::spawn(async move {
        let _ = answered.await;
        let _ = done.send(());
        None
    });
    let began = Instant::now();
    Announcing(Some(requests)).finished().await;
    let waited = began.elapsed();
    assert!(waited >= ANNOUNCE_WAIT && waited < ANNOUNCE_WAIT * 2, "{waited:?}");
    answer.send(()).expect("the requests go on");
    is_done.await.expect("they end");
}

#[tokio::test]
async fn a_listener_gets_what_it_asked_for() {
    let server = Server::new(&["echo"]);
    let parts = TestParts::new(vec![server.config("one")], GatewaySettings::default()).await;
    let subscriptions = parts.subscriptions();
    let (outlet, mut messages) = queue::channel(8);
    let exchange = Exchange { outlet, ..testing::exchange(Caller::Anybody, None) };
    let wanted = Listen { flags: vec!["toolsListChanged"], uris: Some(vec![URI.to_owned()]), has_tasks: false };
    let listening = Arc::clone(&subscriptions);
    let listening = tokio::spawn(async move { listening.listen(&exchange, &Id::from(7), wanted).await });
    let agreed = json!({"toolsListChanged": true, "resourceSubscriptions": [URI]});
    let first = next(&mut messages).await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], agreed);
    subscriptions.announce_list_change("notifications/prompts/list_changed", |_| true);
    subscriptions.announce_list_change("notifications/tools/list_changed", |_| false);
    subscriptions.announce_list_change("notifications/tools/list_changed", |_| true);
    let resolve = |_: &Viewer, name: &str| Some(name.to_owned());
    for uri in ["toy://other", URI] {
        subscriptions.announce_resource_update(&Updated { uri, resolve: &resolve }, |_, _| true, &Fields::new());
    }
    let (changed, updated) = (next(&mut messages).await, next(&mut messages).await);
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&"notifications/resources/updated".into(), &URI.into())
    );
    for message in [first, changed, updated] {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    }
    wait_until("it is watched", || server.watched() == [URI]).await;
    drop(messages);
    listening.await.expect("it ends").expect("it was served");
    wait_until("it is watched no longer", || server.watched().is_empty()).await;
}

#[tokio::test]
async fn listeners_end_with_the_gateway() {
    let parts = TestParts::new(Vec::new(), GatewaySettings::default()).await;
    let subscriptions = parts.subscriptions();
    let (outlet, _messages) = queue::channel(1);
    let exchange = Exchange { outlet, ..testing::exchange(Caller::Anybody, None) };
    let (id, wanted) = (Id::from(1), Listen { flags: Vec::new(), uris: None, has_tasks: false });
    let listening = subscriptions.listen(&exchange, &id, wanted);
    parts.shutdown.stopping.send_replace(true);
    let ended = tokio::time::timeout(PATIENCE, listening).await.expect("in time");
    assert!(ended.is_ok());
}

#[tokio::test]
async fn an_update_has_the_name_that_its_client_knows() {
    let parts = TestParts::new(Vec::new(), GatewaySettings::default()).await;
    let viewer = parts.viewer(Caller::Anybody);
    let check = |uri: &str, subscribed: &[&str], expected: &[&str]| {
        let resolve = |_: &Viewer, name: &str| name.strip_prefix("one+").map(str::to_owned);
        let names = Updated { uri, resolve: &resolve }.names(&viewer, subscribed.iter().copied());
        assert_eq!(names, expected, "{uri} {subscribed:?}");
    };
    check("toy://a", &["one+toy://a", "two+toy://a", "one+toy://b"], &["one+toy://a"]);
    check("toy://a/b/c", &["one+toy://a", "one+toy://a/b", "one+toy://x"], &["one+toy://a/b/c"]);
    check("toy://a/b", &["one+toy://a", "one+toy://a/b"], &["one+toy://a/b"]);
    check("toy://a/b", &["one+toy://a/"], &["one+toy://a/b"]);
    check("toy://ab", &["one+toy://a"], &[]);
    check("toy://a", &["one+toy://a/b"], &[]);
}
