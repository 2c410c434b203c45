//! The only client of a connection, and whether a server asks its clients anything.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::CallEvent;
use crate::queue;

/// The client that a connection belongs to. Requests of the server that belong to no running call
/// go to it.
#[derive(Clone, Debug)]
pub(crate) struct SoleClient {
    /// Events of the call that the connection was opened for; servers ask for roots as soon as they
    /// are initialized.
    pub(crate) opening: Option<queue::Sender<CallEvent>>,
    /// Events of the client at any time, where it can be reached between calls.
    pub(crate) inbox: Option<queue::Sender<CallEvent>>,
}

impl SoleClient {
    /// Returns where the client can be reached now; `None` if it cannot.
    pub(super) fn events(&self) -> Option<queue::Sender<CallEvent>> {
        let is_open = |events: &&queue::Sender<CallEvent>| !events.is_closed();
        self.opening.as_ref().filter(is_open).or(self.inbox.as_ref().filter(is_open)).cloned()
    }
}

/// Whether a server has asked a client for sampling, elicitation or roots.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    has_asked: AtomicBool,
    first: Notify,
}

impl Asks {
    /// Returns whether the server has asked.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Records that the server has asked; returns whether that is new.
    pub(crate) fn record(&self) -> bool {
        let is_new = !self.has_asked.swap(true, Ordering::Relaxed);
        if is_new {
            self.first.notify_one();
        }
        is_new
    }

    /// Waits until the server asks for the first time.
    pub(crate) async fn asked_first(&self) {
        self.first.notified().await;
    }
}

/// Returns whether a method is a question for a client.
pub(super) fn is_question(method: &str) -> bool {
    matches!(method, "roots/list" | "sampling/createMessage" | "elicitation/create")
}
