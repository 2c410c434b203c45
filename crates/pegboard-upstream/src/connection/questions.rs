//! Requests of a server: about a call, or independent of calls, such as `ping` and `roots/list`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::{Id, Message, RpcError},
};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{
    CallEvent, Link,
    client::{SoleClient, is_question},
};
use crate::{queue, transport::Outgoing};

/// The timeout of a client's answer to a question.
const ASK_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of open questions of a server; further ones are rejected.
const MAX_QUESTIONS: usize = 256;

/// Maximum size of a question in bytes; sampling requests can contain images.
const MAX_QUESTION_BYTES: usize = 4 << 20;

/// The open questions of the server. This lock is taken before that of `Calls`,
/// never after it.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<HashMap<Id, AbortHandle>>);

/// Why a question is rejected.
enum RejectedQuestion {
    /// Too many questions are open.
    TooMany,
    /// A question with this id is open.
    Again,
}

impl Questions {
    /// Starts answering a question.
    fn begin(&self, id: &Id, start: impl FnOnce() -> AbortHandle) -> Result<(), RejectedQuestion> {
        // Holds the map so that the answer cannot take its entry out before it is in.
        let mut asked = lock(&self.0);
        if asked.len() >= MAX_QUESTIONS {
            return Err(RejectedQuestion::TooMany);
        }
        if asked.contains_key(id) {
            return Err(RejectedQuestion::Again);
        }
        asked.insert(id.clone(), start());
        Ok(())
    }

    fn end(&self, id: &Id) {
        lock(&self.0).remove(id);
    }

    /// Drops a question that the server has cancelled.
    pub(super) fn take_back(&self, id: &Id) {
        if let Some(task) = lock(&self.0).remove(id) {
            task.abort();
        }
    }

    /// Drops all questions.
    pub(super) fn close(&self) {
        lock(&self.0).drain().for_each(|(_, task)| task.abort());
    }
}

/// Pauses the timeout of the call that a question is about, until the question is answered or
/// cancelled.
struct Asking {
    link: Arc<Link>,
    call: Option<u64>,
}

impl Asking {
    fn new(link: &Arc<Link>, call: Option<u64>) -> Self {
        call.inspect(|call| link.calls.asked(*call));
        link.open_questions.send_modify(|count| *count += 1);
        Self { link: Arc::clone(link), call }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.link.calls.replied(call);
        }
        self.link.open_questions.send_modify(|count| *count -= 1);
    }
}

impl Link {
    /// Returns whether a question of the server waits for its answer.
    pub(crate) fn has_open_question(&self) -> bool {
        *self.open_questions.borrow() > 0
    }

    /// Waits until a question of the server waits for its answer.
    pub(crate) async fn wait_for_question(&self) {
        let _ = self.open_questions.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Handles a question; `related` is the call on whose own stream it came.
    pub(super) fn asked(self: &Arc<Self>, id: &Id, method: String, params: Option<Raw>, related: Option<u64>) {
        let start = || {
            let reply = self.reply(method, params, related);
            let (link, id) = (Arc::clone(self), id.clone());
            let task = tokio::spawn(async move {
                let outcome = reply.await;
                let line = Message::response(Some(&id), outcome.as_deref());
                if let Err(error) = link.send(Outgoing::without_answer(line, "", link.era())).await {
                    tracing::debug!(server = %link.server, %error, "cannot send the response");
                }
                link.questions.end(&id);
            });
            task.abort_handle()
        };
        match self.questions.begin(id, start) {
            Ok(()) => {}
            Err(RejectedQuestion::TooMany) => self.close("the server sent too many concurrent requests"),
            Err(RejectedQuestion::Again) => {
                tracing::warn!(server = %self.server, "duplicate request id from the server ignored");
            }
        }
    }

    /// Returns the answer to a question; `related` is the call on whose own stream it came.
    pub(crate) fn reply(
        self: &Arc<Self>,
        method: String,
        params: Option<Raw>,
        related: Option<u64>,
    ) -> impl Future<Output = Result<Raw, RpcError>> + Send + use<> {
        if is_question(&method) && self.asks.record() {
            tracing::debug!(server = %self.server, method, "first request of the server to a client");
        }
        let (call, caller) = match self.calls.addressee(related) {
            Some((call, events)) => (Some(call), Some(events)),
            None => (None, self.client.as_ref().and_then(SoleClient::events)),
        };
        let (asking, is_shared) = (Asking::new(self, call), self.client.is_none());
        async move {
            let outcome = answer(&method, params, caller, is_shared).await;
            drop(asking);
            outcome
        }
    }
}

/// Returns the answer of the caller, or our own.
async fn answer(
    method: &str,
    params: Option<Raw>,
    caller: Option<queue::Sender<CallEvent>>,
    is_shared: bool,
) -> Result<Raw, RpcError> {
    match (method, caller) {
        ("ping", _) => Ok(raw(&Fields::new())),
        // Servers keep the roots of a connection, and one that clients share would keep those of one
        // client for all of them.
        ("roots/list", _) if is_shared => Ok(raw(&serde_json::json!({"roots": []}))),
        ("roots/list" | "sampling/createMessage" | "elicitation/create", Some(caller)) => {
            let bytes = params.as_ref().map_or(0, |params| params.get().len());
            if bytes > MAX_QUESTION_BYTES {
                let message = format!("the request is {bytes} bytes, over the limit of {MAX_QUESTION_BYTES}");
                return Err(RpcError::new(RpcError::INVALID_REQUEST, message));
            }
            let gone = || RpcError::new(RpcError::INTERNAL, "the client disconnected");
            let (reply, replied) = oneshot::channel();
            let event = CallEvent::Request { method: method.to_owned(), params, reply };
            caller.send(event).await.map_err(|_| gone())?;
            match tokio::time::timeout(ASK_TIMEOUT, replied).await {
                Ok(outcome) => outcome.map_err(|_| gone())?,
                Err(_) => Err(RpcError::new(RpcError::INTERNAL, "the client did not respond in time")),
            }
        }
        (_, None) if !is_shared && is_question(method) => {
            Err(RpcError::new(RpcError::INTERNAL, "the client cannot be asked now"))
        }
        (_, None) if is_question(method) => {
            Err(RpcError::new(RpcError::INTERNAL, "cannot tell which client this request is for"))
        }
        _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::{Call, CallError, LinkSettings},
        transport::{
            Outbound,
            local::{AnswerFuture, LocalServer},
        },
    };

    #[derive(Debug)]
    struct Silent;

    impl LocalServer for Silent {
        fn answer<'a>(&'a self, _: &'a str, _: Option<Raw>) -> AnswerFuture<'a> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_taken_back_does_not_keep_its_call_waiting() {
        let (notices, _) = tokio::sync::mpsc::channel(1);
        let outbound = Outbound::Local(Arc::new(Silent));
        let link = Link::new(LinkSettings::test(notices), outbound);
        let (events, mut heard) = queue::channel(1);
        let limit = Duration::from_secs(10);
        let call = Call { events: Some(events), ..Call::new("tools/call", Fields::new(), limit) };
        let calling = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.call(call).await }
        });
        tokio::task::yield_now().await;
        let id = Id::from(7);
        link.incoming(Message::Request { id, method: "elicitation/create".to_owned(), params: None }, None);
        assert!(heard.recv().await.is_some(), "the caller is asked");
        let params = Some(Fields::new().with("requestId", &7).to_raw());
        link.incoming(Message::Notification { method: "notifications/cancelled".to_owned(), params }, None);
        let ended = tokio::time::timeout(limit * 3, calling).await.expect("it does not wait for ever");
        assert!(matches!(ended.expect("no panic"), Err(CallError::Timeout(_))));
    }
}
