//! A server that does not run: its lists are handed to it.

use std::{fs, path::PathBuf};

use pegboard_mcp::json::Raw;
use tokio::sync::{Semaphore, mpsc, watch};

use super::*;
use crate::{
    config::ServerConfig,
    server::{ClientSubscriptions, FleetContext, StartPhase},
};

/// A folder for one test, gone afterwards.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-pinning-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn server(&self, change: impl FnOnce(&mut ServerConfig)) -> Arc<Upstream> {
        let transport =
            TransportConfig::Stdio { command: "server".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
        let mut config = ServerConfig { pinning: Some(Pinning::Hold), ..ServerConfig::new("s", transport) };
        change(&mut config);
        let context = FleetContext {
            supervisor: Vec::new(),
            logins: None,
            changes: watch::Sender::new(0),
            notices: mpsc::channel(1).0,
            phase: watch::Sender::new(StartPhase::Started),
            pins: Some(Arc::new(Pins::at(self.0.clone()))),
            secrets: crate::redact::SharedSecrets::default(),
            reserved: std::sync::Mutex::default(),
            starts: Arc::new(Semaphore::new(1)),
            subscriptions: ClientSubscriptions::default(),
            clients: crate::capabilities::ClientCapabilities::default(),
            first_client_wait: std::time::Duration::ZERO,
            declaring: watch::Sender::new(0),
        };
        Upstream::new(config, Arc::new(context))
    }

    /// The tools that wait for approval, as they are on disk.
    fn waiting(&self) -> Vec<String> {
        let waiting = Pins::at(self.0.clone()).waiting().expect("a folder");
        waiting.into_iter().map(|pin| pin.report.tool).collect()
    }

    fn approve_all(&self) {
        let pins = Pins::at(self.0.clone());
        let waiting = pins.waiting().expect("a folder");
        pins.approve(&waiting.iter().collect::<Vec<_>>()).expect("written");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lists with tools given as `name` or `name: description`.
fn lists(tools: &[&str]) -> Lists {
    let item = |text: &&str| {
        let (name, description) = text.split_once(": ").unwrap_or((text, ""));
        let raw = serde_json::json!({"name": name, "description": description}).to_string();
        let raw: Raw = serde_json::from_str(&raw).expect("JSON");
        Item { key: name.to_owned(), raw: raw.into() }
    };
    let offered = Arc::new(tools.iter().map(item).collect::<Vec<_>>());
    Lists { tools: Arc::clone(&offered), offered, ..Lists::default() }
}

/// The tools that may be used, and those that are held back.
fn seen(server: &Upstream) -> (Vec<String>, Vec<String>) {
    let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect();
    let lists = server.lists();
    (keys(&lists.tools), keys(&lists.held))
}

#[track_caller]
fn check(server: &Upstream, used: &[&str], held: &[&str]) {
    let (found, found_held) = seen(server);
    assert_eq!((found, found_held), (to_strings(used), to_strings(held)));
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_has_changed_is_held_until_it_is_approved() {
    let place = Place::new("held");
    let server = place.server(|_| {});
    server.accept_lists(lists(&["a", "b"])).await;
    check(&server, &["a", "b"], &[]);
    assert!(server.pins().is_empty());
    tokio::time::advance(REVIEW_INTERVAL).await;
    server.accept_lists(lists(&["a: other", "b", "c"])).await;
    check(&server, &["b"], &["a", "c"]);
    let pins = server.pins();
    let told: Vec<(&str, PinKind, bool)> = pins.iter().map(|pin| (&*pin.tool, pin.kind, pin.is_held)).collect();
    assert_eq!(told, [("a", PinKind::Changed, true), ("c", PinKind::New, true)]);
    // Nothing is different as long as nobody approves.
    let before = server.lists();
    assert!(!server.review_pins().await);
    assert!(Arc::ptr_eq(&before.tools, &server.lists().tools), "the same in memory");
    assert!(Arc::ptr_eq(&before.held, &server.lists().held));
    place.approve_all();
    assert!(server.review_pins().await);
    check(&server, &["a", "b", "c"], &[]);
    assert!(server.pins().is_empty());
    assert!(!server.review_pins().await);
}

#[tokio::test]
async fn who_is_not_held() {
    let place = Place::new("others");
    let none = |_: &mut ServerConfig| {};
    assert!(place.server(none).holds_unseen());
    for (pinning, has_reports) in [(Pinning::Warn, true), (Pinning::Off, false)] {
        let place = Place::new(&format!("others-{has_reports}"));
        let server = place.server(|config| config.pinning = Some(pinning));
        assert!(!server.holds_unseen());
        server.accept_lists(lists(&["a"])).await;
        server.accept_lists(lists(&["a: other", "b"])).await;
        check(&server, &["a", "b"], &[]);
        assert_eq!(server.pins().len(), if has_reports { 2 } else { 0 });
        assert!(server.review_failed(&lists(&["a"])).held.is_empty());
    }
    assert!(place.server(|config| config.is_enabled = false).approvals().is_none());
    let held = place.server(none).review_failed(&lists(&["a", "b"])).held;
    assert_eq!(held.len(), 2, "what nobody could look at is held back");
}

#[tokio::test]
async fn a_server_that_is_part_of_this_program_is_pinned_only_where_that_is_set() {
    #[derive(Debug)]
    struct Own;
    impl crate::transport::local::LocalServer for Own {
        fn answer<'a>(&'a self, _: &'a str, _: Option<Raw>) -> crate::transport::local::AnswerFuture<'a> {
            Box::pin(std::future::pending())
        }
    }
    let place = Place::new("own");
    let server = |pinning| {
        place.server(|config| {
            (config.transport, config.pinning) = (TransportConfig::Local(Arc::new(Own)), pinning);
        })
    };
    let usual = server(None);
    assert!(usual.approvals().is_none() && !usual.holds_unseen());
    assert!(server(Some(Pinning::Hold)).holds_unseen());
}

#[tokio::test]
async fn what_is_known_from_before_is_reviewed_before_it_is_used() {
    let place = Place::new("known");
    place.server(|_| {}).accept_lists(lists(&["a", "b"])).await;
    let server = place.server(|_| {});
    server.review_known();
    assert!(place.waiting().is_empty(), "nothing is known: nothing is gone");
    server.replace_lists(lists(&["a: other", "b"]));
    check(&server, &["a", "b"], &[]);
    let reviewing = server.reviewing.lock().await;
    server.review_known();
    check(&server, &["a", "b"], &[]);
    drop(reviewing);
    server.review_known();
    check(&server, &["b"], &["a"]);
    assert_eq!(place.waiting(), ["a"]);
    let off = place.server(|config| config.pinning = Some(Pinning::Off));
    off.replace_lists(lists(&["a: other", "b"]));
    off.review_known();
    check(&off, &["a", "b"], &[]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_written_once_a_second() {
    let place = Place::new("written");
    let server = place.server(|_| {});
    server.accept_lists(lists(&["a"])).await;
    server.accept_lists(lists(&["a: other"])).await;
    check(&server, &[], &["a"]);
    assert!(place.waiting().is_empty(), "it was written a moment ago");
    assert!(lock(&server.pinned).is_unwritten);
    server.write_waiting().await;
    assert_eq!(place.waiting(), ["a"], "at the end it is written in any case");
    assert!(!lock(&server.pinned).is_unwritten);
    server.accept_lists(lists(&["a: other", "b"])).await;
    assert_eq!(place.waiting(), ["a"]);
    tokio::time::advance(REVIEW_INTERVAL).await;
    server.accept_lists(lists(&["a: other", "b"])).await;
    assert_eq!(place.waiting(), ["a", "b"]);
    // Nothing is left to be written, and the time of the last write is known.
    server.write_waiting().await;
    assert!(lock(&server.pinned).written.is_some());
}

#[tokio::test(start_paused = true)]
async fn approvals_of_others_are_taken_over() {
    let place = Place::new("watched");
    let server = place.server(|_| {});
    server.accept_lists(lists(&["a"])).await;
    tokio::time::advance(REVIEW_INTERVAL).await;
    server.accept_lists(lists(&["a: other"])).await;
    check(&server, &[], &["a"]);
    let mut changes = server.context.changes.subscribe();
    let approved = async {
        // Several looks that find nothing.
        tokio::time::sleep(REVIEW_INTERVAL * 5).await;
        assert!(!changes.has_changed().expect("it is there"), "nobody has approved anything");
        place.approve_all();
        changes.changed().await.expect("it is there");
    };
    tokio::select! {
        () = server.watch_approvals() => panic!("it watches for ever"),
        () = approved => {}
    }
    check(&server, &["a"], &[]);
}

#[tokio::test(start_paused = true)]
async fn a_review_that_sees_an_approval_first_tells_the_connections_of_clients() {
    let place = Place::new("signalled");
    let server = place.server(|_| {});
    server.accept_lists(lists(&["a"])).await;
    tokio::time::advance(REVIEW_INTERVAL).await;
    server.accept_lists(lists(&["a: other"])).await;
    let mut approvals = server.approvals_changed.subscribe();
    server.review_pins().await;
    assert!(!approvals.has_changed().expect("it is there"), "nobody has approved anything");
    place.approve_all();
    server.accept_lists(lists(&["a: other"])).await;
    assert!(approvals.has_changed().expect("it is there"));
    approvals.mark_unchanged();
    let watched = tokio::time::timeout(REVIEW_INTERVAL * 5, server.watch_approvals()).await;
    assert!(watched.is_err() && !approvals.has_changed().expect("it is there"), "once is enough");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_written_later() {
    let place = Place::new("later");
    let server = place.server(|_| {});
    server.accept_lists(lists(&["a"])).await;
    server.accept_lists(lists(&["a: other"])).await;
    assert!(place.waiting().is_empty());
    let written = async {
        while place.waiting().is_empty() {
            tokio::time::sleep(REVIEW_INTERVAL).await;
        }
    };
    tokio::select! {
        () = server.watch_approvals() => panic!("it watches for ever"),
        () = written => {}
    }
    assert_eq!(place.waiting(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_pinned_is_not_watched() {
    let place = Place::new("unwatched");
    let server = place.server(|config| config.pinning = Some(Pinning::Off));
    server.accept_lists(lists(&["a"])).await;
    assert!(tokio::time::timeout(REVIEW_INTERVAL * 10, server.watch_approvals()).await.is_err());
    assert!(!place.0.exists(), "nothing is kept of it");
}
