//! The `tracing` spans of calls.
//!
//! Spans are `tracing` spans, which cost next to nothing when no layer collects them.

use std::time::Instant;

use pegboard_mcp::{json::Raw, trace::TraceContext};
use tracing::Span;

use crate::{
    connection::{Call, CallError},
    handshake::Hello,
};

/// Creates the span of one call of a server, waiting times included.
pub(crate) fn call_span(server: &str) -> Span {
    use tracing::field::Empty;
    // The highest level, so that every line that is logged within has its fields.
    tracing::error_span!(
        "upstream",
        server,
        method = Empty,
        name = Empty,
        protocol = Empty,
        outcome = Empty,
        code = Empty,
        bytes = Empty
    )
}

/// Creates the span of waiting for a server that is not running.
pub(crate) fn start_span(server: &str) -> Span {
    tracing::error_span!("start", server)
}

/// Records the target of a call in its span, and returns the trace context to send with it.
pub(crate) fn record_target(call: &Call, hello: &Hello) -> TraceContext {
    let span = Span::current();
    if span.is_disabled() {
        return call.trace.clone();
    }
    span.record("method", call.method.as_str());
    span.record("protocol", hello.version.as_str());
    // The URI of a resource is like an argument, which is not recorded.
    if let Some(name) = call.name.as_deref().filter(|_| call.method != "resources/read") {
        span.record("name", name);
    }
    call.trace.within(&span)
}

/// Records the outcome of a call in its span.
pub(crate) fn record_outcome(span: &Span, outcome: &Result<Raw, CallError>, began: Instant) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(result) => {
            span.record("outcome", "ok");
            span.record("bytes", result.get().len());
        }
        Err(error) => {
            span.record("outcome", error.kind());
            if let CallError::Rpc(error) = error {
                span.record("code", error.code);
            }
        }
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    span.in_scope(|| match outcome {
        Ok(result) => tracing::debug!(ms, bytes = result.get().len(), "server answered"),
        Err(error) => tracing::debug!(ms, %error, "server call failed"),
    });
}
