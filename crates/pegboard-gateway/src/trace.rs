//! The span of each request, for tracing it from its client to a server.
//!
//! Spans have the highest level, so that every log line carries their fields at any log level. They
//! are not created if neither a log nor a collector uses them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use axum::http::HeaderMap;
use pegboard_discovery::{CallAnswer, Reply};
use pegboard_mcp::{
    era::{Era, meta},
    json::Fields,
    rpc::Id,
    trace::TraceContext,
};
use tracing::{Span, field::Empty};

use crate::{
    request::{Failure, Outcome},
    sessions::ClientSession,
    text::shorten,
};

/// The `_meta` object of a message, and its trace context.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestMeta {
    pub(crate) own: Fields,
    pub(crate) trace: TraceContext,
}

impl RequestMeta {
    /// Reads `_meta`, and the trace context from the headers if `_meta` has none. A message takes
    /// precedence over the request that carries it.
    pub(crate) fn of(params: &Fields, headers: Option<&HeaderMap>) -> Self {
        let own = params.object("_meta").unwrap_or_default();
        let header = |key: &str| headers?.get(key)?.to_str().ok().map(str::to_owned);
        let trace = TraceContext::read(|key| own.text(key)).or(|| TraceContext::read(header));
        Self { own, trace }
    }

    /// Returns whether the message declares a modern version.
    pub(crate) fn is_modern(&self) -> bool {
        self.own.has(meta::PROTOCOL_VERSION)
    }

    /// Returns the name of a modern client.
    fn client(&self) -> Option<String> {
        let info = self.own.object(meta::CLIENT_INFO)?;
        info.text("name").map(|name| shorten(&name))
    }
}

/// The counter of requests.
#[derive(Debug, Default)]
pub(crate) struct Requests(AtomicU64);

impl Requests {
    /// Returns the span of a message of a client, with a number of its own.
    pub(crate) fn span(&self, message: Option<(MessageLabel<'_>, Era)>, opening: &RequestMeta) -> Span {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let ((id, method), era) = message.map_or(((None, None), None), |(sent, era)| (sent, Some(era)));
        let era = era.map(|era| match era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        });
        // All at once: each field that is recorded later costs as much as the span.
        let span = tracing::error_span!(
            "request",
            request = number,
            method = method.map(known_method),
            tool = Empty,
            session = Empty,
            era,
            client = opening.client(),
            trace = Empty,
            outcome = Empty,
            code = Empty,
            bytes = Empty,
            "jsonrpc.request.id" = id.map(shown_id),
        );
        if span.is_disabled() {
            return span;
        }
        opening.trace.adopt(&span);
        if let Some(id) = opening.trace.within(&span).trace_id() {
            span.record("trace", id);
        }
        span
    }
}

/// The id of a request, and the method of a request or notification.
pub(crate) type MessageLabel<'a> = (Option<&'a Id>, Option<&'a str>);

/// Records the session of a request in its span.
pub(crate) fn record_session(session: &ClientSession) {
    let span = Span::current();
    span.record("session", session.owner);
    if !session.client.is_empty() {
        span.record("client", session.client.as_str());
    }
}

/// Records the outcome of a request in its span.
pub(crate) fn record_outcome(outcome: &Outcome, began: Instant) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(_) => {
            span.record("outcome", "ok");
            tracing::debug!(ms = elapsed_millis(began), "request answered");
        }
        Err(failure) => {
            let code = match failure {
                Failure::Rpc(error) | Failure::Resource { error, .. } => error.code,
                _ => 0,
            };
            span.record("outcome", "request rejected");
            span.record("code", code);
            tracing::debug!(
                ms = elapsed_millis(began),
                code,
                error = shorten(&failure.to_string()),
                "request rejected"
            );
        }
    }
}

/// Records the size of the answer to a request in its span.
pub(crate) fn record_size(bytes: usize) {
    Span::current().record("bytes", bytes);
}

/// Returns the span of a search.
pub(crate) fn search_span(tool: &str) -> Span {
    tracing::error_span!("search", tool, tools = Empty, hits = Empty, outcome = Empty, bytes = Empty)
}

/// Records the result of a search in its span.
pub(crate) fn record_search(span: &Span, answer: &CallAnswer) {
    if span.is_disabled() {
        return;
    }
    let hits: usize = answer.searched.iter().map(|searched| searched.hits.len()).sum();
    let outcome = match (answer.is_error, hits) {
        (true, _) => "error",
        (false, 0) => "miss",
        (false, _) => "hit",
    };
    let tools = answer.searched.iter().map(|searched| searched.tools).max().unwrap_or_default();
    let bytes = match &answer.reply {
        Reply::Text(text) => text.len(),
        Reply::Json(value) => value.to_string().len(),
    };
    tracing::record_all!(span, outcome, hits, tools, bytes);
}

/// Returns the span of a call of a server's tool; `sent` is the size of its arguments in bytes.
pub(crate) fn call_span(server: &str, tool: &str, sent: usize) -> Span {
    tracing::error_span!("call", server, tool, sent, outcome = Empty, bytes = Empty)
}

pub(crate) fn elapsed_millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns an id as it is written, of bounded length.
fn shown_id(id: &Id) -> String {
    shorten(id.to_raw().get().trim_matches('"'))
}

/// Returns a method of MCP, or `other`: the number of span names must be bounded.
fn known_method(method: &str) -> &'static str {
    const METHODS: [&str; 21] = [
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "logging/setLevel",
        "subscriptions/listen",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
    ];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const OTHER: &str = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00";

    #[test]
    fn a_message_is_nearer_than_its_carrier() {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", OTHER.parse().expect("a header"));
        let check = |params: &str, expected: &str| {
            let fields: Fields = serde_json::from_str(params).expect("an object");
            let opening = RequestMeta::of(&fields, Some(&headers));
            assert_eq!(opening.trace.trace_id(), expected.get(3..35), "{params}");
        };
        check("{}", OTHER);
        check(&format!(r#"{{"_meta": {{"traceparent": "{ONE}"}}}}"#), ONE);
        check(r#"{"_meta": {"traceparent": "nonsense"}}"#, OTHER);
        check(r#"{"_meta": {"traceparent": 7}}"#, OTHER);
    }

    #[test]
    fn methods_are_known_or_one() {
        for (method, expected) in [("tools/call", "tools/call"), ("tools/\nrun", "other"), ("", "other")] {
            assert_eq!(known_method(method), expected);
        }
    }
}
