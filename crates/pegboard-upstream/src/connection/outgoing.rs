//! Sends messages through the transport.

use std::sync::Arc;

use pegboard_mcp::rpc::Message;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;
use tracing::Instrument as _;

use super::{CallError, Link};
use crate::transport::{Outbound, Outgoing};

impl Link {
    /// Sends a notification.
    pub(crate) async fn notify(self: &Arc<Self>, method: &str, params: Option<&RawValue>) -> Result<(), CallError> {
        let line = Message::notification(method, params);
        self.send(Outgoing::without_answer(line, method, self.era())).await.map(drop)
    }

    /// Sends a message; returns the task that waits for the answer, if there is one.
    pub(super) async fn send(self: &Arc<Self>, outgoing: Outgoing) -> Result<Option<AbortHandle>, CallError> {
        let is_request = outgoing.request.is_some();
        match &self.outbound {
            Outbound::Stdio(sender) => {
                let sent = sender.send(outgoing.line).await;
                sent.map(|()| None).map_err(|_| {
                    CallError::Closed(
                        self.close_reason().unwrap_or_else(|| "the server closed its standard input".into()),
                    )
                })
            }
            Outbound::Http(client) => {
                let (link, client) = (Arc::clone(self), Arc::clone(client));
                Ok(carry(is_request, async move { client.deliver(&link, outgoing).await }).await)
            }
            Outbound::Sse(client) => {
                let (link, client) = (Arc::clone(self), Arc::clone(client));
                Ok(carry(is_request, async move { client.deliver(&link, outgoing).await }).await)
            }
            Outbound::Local(server) => {
                let (link, server) = (Arc::clone(self), Arc::clone(server));
                let work = async move {
                    let answer = server.answer(&outgoing.method, outgoing.params).await;
                    if let Some(id) = outgoing.request {
                        link.settle(id, answer.map_err(CallError::Rpc));
                    }
                };
                Ok(Some(spawn(work)))
            }
        }
    }
}

/// Delivers a message. A message without an answer is awaited, so that it arrives before the next
/// one.
async fn carry(is_request: bool, delivery: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
    if is_request {
        return Some(spawn(delivery));
    }
    delivery.await;
    None
}

fn spawn(work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(work.in_current_span()).abort_handle()
}
