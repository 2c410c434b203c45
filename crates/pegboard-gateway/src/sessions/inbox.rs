//! What servers send to a session between its requests, on connections of its own.

use std::sync::{Arc, Weak};

use pegboard_mcp::{
    json::{Fields, Raw},
    rpc::{Message, RpcError},
};
use pegboard_upstream::{CallEvent, queue};

use crate::{
    exchange::{can_answer, is_logged, unsupported_request_error},
    lock,
    sessions::ClientSession,
};

/// Maximum number of unread events.
const EVENTS: usize = 64;

impl ClientSession {
    /// Returns where servers reach the session between its requests: its stream. Must be called
    /// inside a runtime.
    pub(crate) fn inbox(self: &Arc<Self>) -> queue::Sender<CallEvent> {
        let mut inbox = lock(&self.inbox);
        inbox
            .get_or_insert_with(|| {
                let (events, received) = queue::channel(EVENTS);
                tokio::spawn(deliver(Arc::downgrade(self), received));
                events
            })
            .clone()
    }

    /// Ends the deliveries of servers.
    pub(super) fn close_inbox(&self) {
        *lock(&self.inbox) = None;
    }

    fn receive_notification(&self, method: &str, params: Option<&Raw>) {
        let level = || Fields::of_optional(params.map(|params| &**params)).text("level").unwrap_or_default();
        if method == "notifications/message" && !is_logged(&level(), Some(&self.log_level())) {
            return;
        }
        self.send_or_keep(Message::notification(method, params.map(|params| &**params)));
    }

    async fn answer_request(&self, method: &str, params: Option<Raw>) -> Result<Raw, RpcError> {
        if !can_answer(&self.capabilities, method) {
            return Err(unsupported_request_error(method));
        }
        if !self.has_stream() {
            return Err(RpcError::new(RpcError::INTERNAL, "the client has no open stream to be asked on"));
        }
        self.ask_client(None, method, params).await
    }
}

/// Delivers events for as long as the session exists.
async fn deliver(session: Weak<ClientSession>, mut received: queue::Receiver<CallEvent>) {
    while let Some(event) = received.recv().await {
        let Some(session) = session.upgrade() else { return };
        match event {
            CallEvent::Notification { method, params } => session.receive_notification(&method, params.as_ref()),
            CallEvent::Request { method, params, mut reply } => {
                // The next event must not wait for a person.
                tokio::spawn(async move {
                    let answer = tokio::select! {
                        answer = session.answer_request(&method, params) => answer,
                        () = reply.closed() => return,
                    };
                    let _ = reply.send(answer);
                });
            }
        }
    }
}
