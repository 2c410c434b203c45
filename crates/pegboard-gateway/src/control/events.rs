//! The stream of live changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, StatusCode},
    routing::get,
};
use http_body::Frame;
use pegboard_upstream::PinReport;
use serde_json::{Value, json};
use tokio::sync::{
    broadcast::error::{RecvError, TryRecvError},
    mpsc, watch,
};

use super::{
    Control, ControlState, EVENTS,
    access::ControlAccess,
    caller::ControlCaller,
    responses::{error_response, typed_response},
};
use crate::{
    caller::Caller,
    events::{Audience, Event, Events, Listener, MAX_LISTENERS, MAX_LISTENERS_OF_TOKEN},
    lock,
};

/// Events that come within this time are sent together, so that many changes cost few writes.
const GATHER: Duration = Duration::from_millis(50);

/// How often a comment keeps a silent stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of gathered messages that wait for the connection of a listener.
const WAITING: usize = 4;

/// How often sessions and settings are compared while consoles listen.
const COMPARE: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route(EVENTS, get(events))
}

async fn events(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    let Some(listener) = state.events.listen(asking.caller()) else {
        let limits = format!("{MAX_LISTENERS}, and {MAX_LISTENERS_OF_TOKEN} for each token");
        let message = format!("too many consoles are open: the limit is {limits}");
        return error_response(StatusCode::SERVICE_UNAVAILABLE, &message);
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let hello = json!({
        "kind": "hello",
        "newest": state.activity.newest_for(&state.control.setups.current(), &asking.viewer, asking.has_full_access()),
        "version": env!("CARGO_PKG_VERSION"),
        "started": started(&state.control),
    });
    let stop = state.control.forwarder.shutdown.stopping.subscribe();
    let (control, access) = (Arc::clone(&state.control), state.options.access.clone());
    let servers = control.servers().iter().map(|server| server.name().to_owned()).collect::<Vec<_>>();
    let catalog = control.catalog.catalog();
    let shown = servers.into_iter().filter(|server| asking.sees_server(&catalog, server)).collect();
    let stream = Stream { control, access, asking, shown, listener, sender, stop };
    tokio::spawn(stream.run(frame(0, "hello", &hello.to_string())));
    typed_response(StatusCode::OK, Body::new(EventBody(receiver)), "text/event-stream")
}

/// Returns when the gateway started, in milliseconds from 1970 on.
fn started(control: &Control) -> u64 {
    let since = SystemTime::now().checked_sub(control.began.elapsed()).unwrap_or(UNIX_EPOCH);
    u64::try_from(since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns an event as it is sent. Its data is JSON, which has no line breaks.
fn frame(number: u64, kind: &str, data: &str) -> String {
    format!("id: {number}\nevent: {kind}\ndata: {data}\n\n")
}

/// The stream of one listener.
struct Stream {
    control: Arc<Control>,
    access: Option<Arc<ControlAccess>>,
    /// The listener, with what it may see now.
    asking: ControlCaller,
    /// The servers that the listener knows of. Of one that was removed, or lost its last tool that
    /// the listener sees, it is told once more.
    shown: BTreeSet<String>,
    listener: Listener,
    sender: mpsc::Sender<Bytes>,
    stop: watch::Receiver<bool>,
}

impl Stream {
    async fn run(mut self, hello: String) {
        let mut stop = self.stop.clone();
        let stopping = stop.wait_for(|is_stopping| *is_stopping);
        tokio::pin!(stopping);
        if self.sender.send(hello.into()).await.is_err() {
            return;
        }
        loop {
            let closed = self.sender.clone();
            let next = tokio::select! {
                _ = &mut stopping => return,
                () = closed.closed() => return,
                next = self.next() => next,
            };
            let Some(text) = next else { return };
            // A listener that does not read keeps only its own stream waiting.
            if self.sender.send(text.into()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for events and returns them together; a comment if there are none for long. `None`
    /// at the end of the gateway, or of the caller's access.
    async fn next(&mut self) -> Option<String> {
        let first = match tokio::time::timeout(KEEP_ALIVE, self.listener.receiver.recv()).await {
            Err(_) => return self.renew().map(|()| ": \n\n".to_owned()),
            Ok(Err(RecvError::Closed)) => return None,
            Ok(Err(RecvError::Lagged(missed))) => Err(missed),
            Ok(Ok(event)) => Ok(event),
        };
        tokio::time::sleep(GATHER).await;
        self.renew()?;
        let mut text = self.text_of(&first);
        loop {
            text += &match self.listener.receiver.try_recv() {
                Ok(event) => self.text_of(&Ok(event)),
                Err(TryRecvError::Lagged(missed)) => self.text_of(&Err(missed)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(text),
            };
        }
    }

    /// Takes over what the listener may see now; `None` if it may see nothing any more.
    fn renew(&mut self) -> Option<()> {
        let setup = self.control.setups.current();
        self.asking = self.asking.renewed(&setup, self.access.as_deref())?;
        Some(())
    }

    /// Returns an event, or the number of missed ones, for this listener; nothing if it is for others.
    fn text_of(&mut self, received: &Result<Arc<Event>, u64>) -> String {
        let event = match received {
            Ok(event) => event,
            Err(missed) => return frame(0, "lagged", &json!({"kind": "lagged", "missed": missed}).to_string()),
        };
        let may_see = self.asking.has_full_access()
            || match &event.audience {
                Audience::Everybody => true,
                Audience::FullAccess => false,
                Audience::Caller(caller) => *caller == self.asking.caller(),
                Audience::Server(server) => self.sees_or_saw(server),
            };
        if may_see { frame(event.number, event.kind, &event.data) } else { String::new() }
    }

    fn sees_or_saw(&mut self, server: &str) -> bool {
        match self.asking.sees_server(&self.control.catalog.catalog(), server) {
            true => {
                self.shown.insert(server.to_owned());
                true
            }
            false => self.shown.remove(server),
        }
    }
}

/// A body of events that does not end.
struct EventBody(mpsc::Receiver<Bytes>);

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// What consoles show of a gateway, to find out what has changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// State and number of tools of each server, and since when it is in this state: it may have left it and come
    /// back.
    servers: BTreeMap<String, (String, usize, u64)>,
    /// The owner of each session, and how often its tools changed.
    sessions: BTreeMap<u64, (u64, Option<Caller>)>,
    /// Tools that wait for approval. Their number may be the same although they are others.
    pins: Vec<PinReport>,
    /// The number of the settings, and why later ones were rejected.
    settings: (u64, Option<String>),
}

impl Seen {
    fn of(control: &Control) -> Self {
        let reports = control
            .servers()
            .iter()
            .map(|server| {
                let report = server.report();
                (report.name, (report.state, report.tools, report.since))
            })
            .collect();
        let session = |session: &Arc<crate::sessions::ClientSession>| {
            (session.owner, (lock(&session.tools).list_changes(), Some(session.caller())))
        };
        Self {
            servers: reports,
            sessions: control.sessions.all().iter().map(session).collect(),
            pins: control.pins(),
            settings: (control.setups.current().number, control.setups.rejection()),
        }
    }

    /// Returns the events that lead from `before` to this.
    fn changes_since(&self, before: &Self) -> Vec<(&'static str, Audience, Value)> {
        let mut changes = Vec::new();
        for (name, (state, ..)) in self.servers.iter().filter(|(name, now)| before.servers.get(*name) != Some(now)) {
            let data = json!({"server": name, "state": state, "isGone": false});
            changes.push(("server", Audience::Server(name.clone()), data));
        }
        for name in before.servers.keys().filter(|name| !self.servers.contains_key(*name)) {
            let data = json!({"server": name, "state": "stopped", "isGone": true});
            changes.push(("server", Audience::Server(name.clone()), data));
        }
        let session = |owner: u64, caller: Option<Caller>, change: &str| {
            let audience = caller.map_or(Audience::FullAccess, Audience::Caller);
            ("session", audience, json!({"handle": super::sessions::handle(owner), "change": change}))
        };
        for (owner, (list, caller)) in &self.sessions {
            match before.sessions.get(owner) {
                None => changes.push(session(*owner, *caller, "begun")),
                Some((old, _)) if old != list => changes.push(session(*owner, *caller, "tools")),
                Some(_) => {}
            }
        }
        for (owner, (_, caller)) in before.sessions.iter().filter(|(owner, _)| !self.sessions.contains_key(owner)) {
            changes.push(session(*owner, *caller, "ended"));
        }
        if self.pins != before.pins {
            let held = self.pins.iter().filter(|pin| pin.is_held).count();
            let data = json!({"waiting": self.pins.len(), "held": held});
            changes.push(("approvals", Audience::FullAccess, data));
        }
        if self.settings != before.settings {
            changes.push(("configuration", Audience::FullAccess, json!({"refused": self.settings.1})));
        }
        changes
    }
}

/// Publishes changes for as long as the gateway exists. Nothing is compared while nobody listens.
pub(crate) async fn publish_changes(control: Weak<Control>, events: Arc<Events>) {
    let mut before: Option<Seen> = None;
    loop {
        tokio::time::sleep(COMPARE).await;
        let Some(control) = control.upgrade() else { return };
        if !events.has_listeners() {
            before = None;
            continue;
        }
        let now = Seen::of(&control);
        match &before {
            Some(before) => {
                for (kind, audience, data) in now.changes_since(before) {
                    events.publish(kind, audience, || data);
                }
            }
            // What has changed since the first listener came is not known.
            None => events.publish("lagged", Audience::Everybody, || json!({"missed": 0})),
        }
        before = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_between_two_moments() {
        let pin = |tool: &str| -> PinReport {
            let report = json!({"server": "a", "tool": tool, "kind": "new", "isHeld": true, "since": 0, "diff": []});
            serde_json::from_value(report).expect("a report")
        };
        let seen = |servers: &[(&str, &str, u64)], sessions: &[(u64, u64)], pins: &[&str], settings| Seen {
            servers: servers
                .iter()
                .map(|(name, state, since)| ((*name).into(), ((*state).into(), 2, *since)))
                .collect(),
            sessions: sessions.iter().map(|(owner, list)| (*owner, (*list, Some(Caller::Pipe)))).collect(),
            pins: pins.iter().map(|tool| pin(tool)).collect(),
            settings,
        };
        let before = seen(&[("a", "starting", 0), ("b", "ready", 2)], &[(1, 0), (2, 5)], &["x"], (0, None));
        let after = seen(&[("a", "ready", 3)], &[(2, 6), (3, 0)], &["y"], (1, None));
        let found: Vec<String> =
            after.changes_since(&before).iter().map(|(kind, _, data)| format!("{kind} {data}")).collect();
        assert_eq!(
            found,
            [
                r#"server {"server":"a","state":"ready","isGone":false}"#,
                r#"server {"server":"b","state":"stopped","isGone":true}"#,
                r#"session {"handle":"s2","change":"tools"}"#,
                r#"session {"handle":"s3","change":"begun"}"#,
                r#"session {"handle":"s1","change":"ended"}"#,
                r#"approvals {"waiting":1,"held":1}"#,
                r#"configuration {"refused":null}"#,
            ]
        );
        assert!(after.changes_since(&after).is_empty());
        let restarted = seen(&[("a", "ready", 9)], &[(2, 6), (3, 0)], &["y"], (1, None));
        assert_eq!(restarted.changes_since(&after).len(), 1, "it was not ready meanwhile");
    }
}
