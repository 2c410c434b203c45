//! Live changes for consoles.
//!
//! Publishing never waits: a listener that reads too slowly misses events and gets their number.
//! Nothing is composed while nobody listens.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::{
    caller::Caller,
    shares::{Claim, Party, Shares},
};

/// Maximum number of events that wait for one listener.
const QUEUE: usize = 512;

/// Maximum number of listeners.
pub(crate) const MAX_LISTENERS: usize = 64;

/// Maximum number of listeners with the same token, so that one token cannot take all places.
pub(crate) const MAX_LISTENERS_OF_TOKEN: usize = 16;

/// Who may see an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All callers.
    Everybody,
    /// Callers without restrictions.
    FullAccess,
    /// This caller, and those without restrictions.
    Caller(Caller),
    /// Callers that see this server or one of its tools.
    Server(String),
}

/// A change. Its text is made once for all listeners.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
    pub(crate) data: String,
    pub(crate) audience: Audience,
}

/// The channel of changes.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
    next: AtomicU64,
    /// The listeners of each token.
    places: Arc<Shares>,
}

/// The receiving end of the channel. It holds the place of its caller until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) receiver: broadcast::Receiver<Arc<Event>>,
    _place: Option<Claim>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(QUEUE), next: AtomicU64::new(1), places: Arc::default() }
    }
}

impl Events {
    /// Returns whether there are listeners.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Publishes a change, which is only composed if there are listeners.
    pub(crate) fn publish(&self, kind: &'static str, audience: Audience, compose: impl FnOnce() -> Value) {
        if !self.has_listeners() {
            return;
        }
        let mut data = compose();
        data["kind"] = kind.into();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(Arc::new(Event { number, kind, data: data.to_string(), audience }));
    }

    /// Returns the events from now on; `None` if there are too many listeners, or too many of this
    /// token.
    pub(crate) fn listen(&self, caller: Caller) -> Option<Listener> {
        if self.sender.receiver_count() >= MAX_LISTENERS {
            return None;
        }
        let place = match caller {
            Caller::Token(_) => Some(self.places.take(Party::Caller(caller), 1, MAX_LISTENERS_OF_TOKEN)?),
            // Without tokens, all consoles are those of the user who runs the gateway.
            Caller::Anybody | Caller::Pipe => None,
        };
        Some(Listener { receiver: self.sender.subscribe(), _place: place })
    }
}

#[cfg(test)]
mod tests {
    use pegboard_http::Principal;
    use serde_json::json;
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    #[test]
    fn without_listeners_nothing_is_composed() {
        let events = Events::default();
        events.publish("server", Audience::FullAccess, || unreachable!("nobody listens"));
        let mut listener = events.listen(Caller::Pipe).expect("room");
        events.publish("server", Audience::FullAccess, || json!({"server": "one"}));
        let event = listener.receiver.try_recv().expect("an event");
        assert_eq!(event.data, r#"{"server":"one","kind":"server"}"#);
    }

    #[test]
    fn a_slow_listener_misses_events_and_nobody_waits() {
        let events = Events::default();
        let mut slow = events.listen(Caller::Pipe).expect("room");
        for number in 0..QUEUE + 10 {
            events.publish("activity", Audience::FullAccess, || json!({"number": number}));
        }
        assert!(matches!(slow.receiver.try_recv(), Err(TryRecvError::Lagged(10))));
        assert!(slow.receiver.try_recv().is_ok_and(|event| event.data.contains("10")));
    }

    #[test]
    fn listeners_are_limited() {
        let events = Events::default();
        let listen = || events.listen(Caller::Anybody);
        let listeners: Vec<_> = std::iter::from_fn(listen).take(MAX_LISTENERS + 1).collect();
        assert_eq!(listeners.len(), MAX_LISTENERS);
        drop(listeners);
        assert!(events.listen(Caller::Anybody).is_some() && !events.has_listeners());
    }

    #[test]
    fn a_token_cannot_take_the_places_of_others() {
        let events = Events::default();
        let (guest, admin) = (Caller::Token(Principal(1)), Caller::Token(Principal(0)));
        let mut of_guest: Vec<_> = std::iter::from_fn(|| events.listen(guest)).take(MAX_LISTENERS).collect();
        assert_eq!(of_guest.len(), MAX_LISTENERS_OF_TOKEN);
        let of_admin = events.listen(admin);
        assert!(of_admin.is_some());
        of_guest.pop();
        assert!(events.listen(guest).is_some(), "a closed console gives its place back");
    }
}
