//! Whose trace a request belongs to, and the spans of calls.
//!
//! A client says so as W3C writes it, in headers or in `_meta`; a server is told the same way.
//! This is the one place that knows of OpenTelemetry: whoever collects spans has installed its
//! layer, and everybody else only writes `tracing` spans, which cost next to nothing when no
//! one listens.

mod context;

use std::time::Instant;

use opentelemetry::{
    Context,
    trace::{SpanContext, TraceContextExt as _},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

pub use self::context::{KEYS, TraceContext};
use crate::{
    connection::{Call, CallError},
    handshake::Hello,
    json::Raw,
};

impl TraceContext {
    /// Makes `span` a part of this trace. It must not have been entered.
    pub fn adopt(&self, span: &Span) {
        if let Some(parent) = self.span_context() {
            // Without anybody who collects spans there is nothing to be done.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    /// What a request made within `span` passes on. Where spans are collected `span` is the
    /// parent of what follows; where they are not, whoever sent this stays it, or the trace
    /// would have a hole.
    #[must_use]
    pub fn within(&self, span: &Span) -> Self {
        let context = span.context();
        let own = context.span().span_context().clone();
        if own.is_valid() { self.below(&own) } else { self.clone() }
    }

    fn span_context(&self) -> Option<SpanContext> {
        let (trace_id, span_id, flags) = self.ids()?;
        Some(SpanContext::new(trace_id, span_id, flags, true, self.state()))
    }
}

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
