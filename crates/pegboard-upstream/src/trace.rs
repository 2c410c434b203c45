//! The spans of calls.
//!
//! Spans are `tracing` spans, which cost next to nothing when no layer collects them.

use std::time::Instant;

use pegboard_mcp::{json::Raw, trace::TraceContext};
use tracing::Span;

use crate::{
    connection::{Call, CallError},
    handshake::Hello,
};

/// The span of one call of a server, with all the waiting for it.
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

/// The span of waiting for a server that does not run.
pub(crate) fn start_span(server: &str) -> Span {
    tracing::error_span!("start", server)
}

/// What a call that is made now passes on; its span learns what is called.
pub(crate) fn passing(call: &Call, hello: &Hello) -> TraceContext {
    let span = Span::current();
    if span.is_disabled() {
        return call.trace.clone();
    }
    span.record("method", call.method.as_str());
    span.record("protocol", hello.version.as_str());
    // The address of a resource is as good as an argument.
    if let Some(name) = call.name.as_deref().filter(|_| call.method != "resources/read") {
        span.record("name", name);
    }
    call.trace.within(&span)
}

/// Notes in its span how a call ended.
pub(crate) fn called(span: &Span, outcome: &Result<Raw, CallError>, began: Instant) {
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
