//! Trace contexts and the spans of the OpenTelemetry layer.

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::TraceContext;

impl TraceContext {
    /// Makes `span` a part of this trace. It must not have been entered.
    pub fn adopt(&self, span: &Span) {
        if let Some(parent) = self.span_context() {
            // Fails when no layer collects spans; then there is nothing to join.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    /// Returns the context for a request that is made within `span`. Where spans are collected, `span` is the parent of
    /// the request; where they are not, the parent stays as it is, or the trace would have a hole.
    #[must_use]
    pub fn within(&self, span: &Span) -> Self {
        let context = span.context();
        let own = context.span().span_context().clone();
        if own.is_valid() { self.with_parent(&own) } else { self.clone() }
    }

    /// Returns this context with the span `own` as the parent.
    fn with_parent(&self, own: &SpanContext) -> Self {
        let flags = own.trace_flags().to_u8();
        let parent = format!("00-{}-{}-{flags:02x}", own.trace_id(), own.span_id());
        let state = Some(own.trace_state().header()).filter(|state| !state.is_empty());
        Self { parent: Some(parent), state, baggage: self.baggage.clone() }
    }

    fn span_context(&self) -> Option<SpanContext> {
        let (trace_id, span_id, flags) = self.ids()?;
        let state: TraceState = self.state.as_deref().and_then(|state| state.parse().ok()).unwrap_or_default();
        Some(SpanContext::new(trace_id, span_id, flags, true, state))
    }

    fn ids(&self) -> Option<(TraceId, SpanId, TraceFlags)> {
        let parent = self.parent.as_deref()?;
        let trace = TraceId::from_hex(parent.get(3..35)?).ok()?;
        let span = SpanId::from_hex(parent.get(36..52)?).ok()?;
        let flags = u8::from_str_radix(parent.get(53..55)?, 16).ok()?;
        Some((trace, span, TraceFlags::new(flags)))
    }
}
