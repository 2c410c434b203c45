//! Dispatches incoming messages: answers, progress, questions and changes of lists.

use std::{borrow::Cow, sync::Arc};

use pegboard_core::text;
use pegboard_mcp::{
    json::{Fields, Raw},
    rpc::{Id, Message, RpcError},
};
use serde_json::value::RawValue;

use super::{CallError, CallEvent, Link, Notice, SoleClient, calls::Outcome};
use crate::{listing::ListKind, server::UpdateSource};

/// Maximum length of a logged message in bytes.
const MAX_LOGGED: usize = 500;

impl Link {
    /// Handles one message; `related` is the call on whose own stream it came.
    pub(crate) fn incoming(self: &Arc<Self>, message: Message, related: Option<u64>) {
        match message {
            Message::Response { id, outcome } => {
                // A server that cannot tell which request it refuses means the one it got.
                let id = id.and_then(|id| id.as_number()).or(related);
                if let Some(id) = id {
                    self.settle(id, outcome.map_err(|error| CallError::Rpc(self.without_secrets(error))));
                }
            }
            Message::Notification { method, params } => self.notified(method, params, related),
            Message::Request { id, method, params } => self.asked(&id, method, params, related),
        }
    }

    /// Completes a call.
    pub(crate) fn settle(&self, id: u64, outcome: Outcome) {
        if !self.calls.settle(id, outcome) {
            tracing::debug!(server = %self.server, id, "response without a pending request");
        }
    }

    /// Removes secrets of the configuration from an error, because clients see it.
    fn without_secrets(&self, mut error: RpcError) -> RpcError {
        error.message = self.redactor.redact_owned(error.message);
        error.data = error.data.filter(|data| matches!(self.redactor.redact(data.get()), Cow::Borrowed(_)));
        error
    }

    fn notified(&self, method: String, params: Option<Raw>, related: Option<u64>) {
        let fields = || Fields::of_optional(params.as_deref());
        let caller = || {
            let of_call = self.calls.caller(related).map(|(_, events)| events);
            of_call.or_else(|| self.client.as_ref().and_then(SoleClient::events))
        };
        let events = match method.as_str() {
            "notifications/progress" => {
                let call = fields().read::<u64>("progressToken").or(related);
                call.and_then(|call| self.calls.progressed(call))
            }
            "notifications/cancelled" => {
                if let Some(id) = fields().get("requestId").and_then(Id::of) {
                    self.questions.take_back(&id);
                }
                return;
            }
            "notifications/message" => match caller() {
                Some(events) => Some(events),
                None => return self.log(params.as_deref()),
            },
            // A page that a person was sent to is done with.
            "notifications/elicitation/complete" => caller(),
            "notifications/subscriptions/acknowledged" => {
                return self.news.agreed(&fields().object("notifications").unwrap_or_default());
            }
            method => match ListKind::changed_by(method) {
                [] => None,
                kinds => return self.news.lists_changed(kinds),
            },
        };
        let is_full = match events {
            Some(events) => events.try_send(CallEvent::Notification { method, params }).is_err(),
            None => self.notices.try_send(Notice { method, params, source: UpdateSource::Catalog }).is_err(),
        };
        if is_full {
            tracing::debug!(server = %self.server, "notification dropped: queue full");
        }
    }

    /// Logs a log message of the server that belongs to no known call.
    fn log(&self, params: Option<&RawValue>) {
        let text = self.redactor.redact(params.map(RawValue::get).unwrap_or_default());
        let text = text::brief(&text, MAX_LOGGED);
        tracing::debug!(target: "pegboard::server", server = &*self.server, "{text}");
    }
}
