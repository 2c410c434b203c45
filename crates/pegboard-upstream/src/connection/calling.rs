//! The life of one call, from sending to outcome.

use std::{sync::Arc, time::Duration};

use pegboard_mcp::{era::Era, json::Fields};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{Call, CallError, Link, calls::Outcome};
use crate::transport::Outbound;

impl Link {
    /// Makes a call and waits for its outcome.
    pub(crate) async fn call(self: &Arc<Self>, call: Call) -> Outcome {
        let (id, answered) = self.calls.begin(call.owner, call.events.clone())?;
        let timeout = call.timeout;
        // A handshake is never cancelled.
        let is_greeting = call.is_greeting();
        let mut guard = CancelOnDrop { link: self, id, task: None, is_done: false, is_greeting };
        let sending = self.send(call.into_message(id, self.era(), || self.capabilities()));
        // A server that reads nothing must not keep its callers for ever.
        guard.task = match timeout {
            Some(limit) => tokio::time::timeout(limit, sending).await.map_err(|_| CallError::Timeout(limit))??,
            None => sending.await?,
        };
        let result = match timeout {
            Some(timeout) => self.wait(id, answered, timeout).await,
            None => outcome(answered.await),
        };
        guard.is_done = !matches!(result, Err(CallError::Timeout(_)));
        result
    }

    /// Waits for the answer; progress and open questions of the server extend the timeout.
    async fn wait(&self, id: u64, mut answered: oneshot::Receiver<Outcome>, timeout: Duration) -> Outcome {
        while let Some(deadline) = self.calls.deadline(id, timeout) {
            match tokio::time::timeout_at(deadline, &mut answered).await {
                Ok(answer) => return outcome(answer),
                Err(_) if self.calls.deadline(id, timeout) == Some(deadline) => {
                    return Err(CallError::Timeout(timeout));
                }
                Err(_) => {}
            }
        }
        outcome(answered.await)
    }
}

fn outcome(answer: Result<Outcome, oneshot::error::RecvError>) -> Outcome {
    answer.unwrap_or_else(|_| Err(CallError::Closed("closed".into())))
}

/// Cancels a call when its future is dropped.
struct CancelOnDrop<'a> {
    link: &'a Arc<Link>,
    id: u64,
    task: Option<AbortHandle>,
    is_done: bool,
    is_greeting: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.is_done || (self.is_greeting && self.task.is_none()) {
            return self.link.calls.forget(self.id);
        }
        self.link.calls.cancel(self.id);
        if let Some(task) = &self.task {
            // Ends the call's own stream, which is how modern HTTP says it.
            task.abort();
        }
        let cancels_by_closing_stream = matches!(self.link.outbound, Outbound::Http(_) | Outbound::Local(_))
            && self.link.era() == Some(Era::Modern);
        if cancels_by_closing_stream || self.link.close_reason().is_some() {
            return;
        }
        let (link, id) = (Arc::clone(self.link), self.id);
        // Outside the runtime, nothing can be sent any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = Fields::new().with("requestId", &id).with("reason", "the call was cancelled");
            let _ = link.notify("notifications/cancelled", Some(&params.to_raw())).await;
        });
    }
}
