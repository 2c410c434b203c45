//! Measurement of calls: metrics, spans and logs.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use pegboard_discovery::{
    CallAnswer, Target,
    policy::{CallLevel, Middleware},
};
use pegboard_mcp::json::Fields;
use serde_json::{Value, value::RawValue};
use tracing::{Instrument as _, Span};

use crate::{
    forward::calls::{Forward, ForwardError},
    metrics::{Metrics, RejectReason},
    request::Forwarded,
    setup::Setup,
    steps::resolve::Called,
    trace,
};

/// Records the answer of a session.
pub(crate) fn record_answer(metrics: &Metrics, called: &Called, time: Duration) {
    if called.answer.is_misfit {
        metrics.count_rejection(RejectReason::Arguments);
    }
    for searched in &called.answer.searched {
        metrics.count_search(!searched.hits.is_empty(), time);
    }
}

/// Makes a call of a server's tool, and records its outcome.
pub(crate) async fn measure_call<F>(
    metrics: &Metrics,
    setup: &Setup,
    target: &Target,
    forward: Forward,
    make: impl FnOnce(Forward) -> F,
) -> Result<Forwarded, ForwardError>
where
    F: Future<Output = Result<Forwarded, ForwardError>>,
{
    let began = Instant::now();
    let server = std::sync::Arc::clone(&forward.server);
    let sent = forward.params.get("arguments").map_or(0, |arguments| arguments.get().len());
    let span = trace::call_span(&server, &target.name, sent);
    let result = make(forward).instrument(span.clone()).await;
    count_call(metrics, &server, began, &result);
    span.in_scope(|| {
        record_result(&span, &result);
        let steps = setup.policies.of(&server);
        log_call(steps, &server, &target.name, &target.arguments, began, result.as_ref().err());
    });
    result
}

fn count_call(metrics: &Metrics, server: &str, began: Instant, result: &Result<Forwarded, ForwardError>) {
    if matches!(result, Err(ForwardError::LimitExceeded(_))) {
        return;
    }
    let calls = metrics.server_calls(server);
    calls.times.add(began.elapsed());
    match result {
        Ok(forwarded) if is_error(&forwarded.result) => calls.errors.fetch_add(1, Ordering::Relaxed),
        Ok(_) => 0,
        Err(_) => calls.failed.fetch_add(1, Ordering::Relaxed),
    };
}

fn record_result(span: &Span, result: &Result<Forwarded, ForwardError>) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok(Forwarded { result, .. }) => {
            span.record("outcome", if is_error(result) { "error" } else { "ok" });
            span.record("bytes", result.get().len());
        }
        Err(_) => {
            span.record("outcome", "failed");
        }
    }
}

/// Returns whether a result reports a failure of the tool. Large results are not parsed for that.
pub(crate) fn is_error(result: &RawValue) -> bool {
    const LARGE: usize = 64 << 10;
    let text = result.get();
    text.len() < LARGE
        && text.contains("\"isError\"")
        && Fields::of(result).and_then(|fields| fields.read("isError")) == Some(true)
}

/// Returns whether a tool has succeeded, and neither failed nor asks for input.
pub(crate) fn is_success(result: &RawValue) -> bool {
    !is_error(result) && !result.get().contains("\"input_required\"")
}

/// Logs the searches of a call.
pub(crate) fn log_searches(answer: &CallAnswer, began: Instant) {
    for searched in &answer.searched {
        tracing::info!(
            target: "pegboard::search",
            "🔍 Tool search query: {:?}\n   Index size: {} tools\n   Matches before threshold: {}\n   \
             Matches after threshold: {}\n   Tools shown: {}\n   Search time: {}ms",
            searched.query, searched.tools, searched.matches, searched.passing, searched.hits.len(),
            began.elapsed().as_millis()
        );
    }
}

fn log_call(
    steps: &[Middleware],
    server: &str,
    tool: &str,
    arguments: &Value,
    began: Instant,
    error: Option<&ForwardError>,
) {
    for step in steps {
        let Middleware::Logging { has_arguments, level } = step else { continue };
        let ms = began.elapsed().as_millis();
        let arguments = if *has_arguments { arguments.to_string() } else { String::new() };
        match (error, level) {
            (Some(error), CallLevel::Error) => tracing::error!(server, tool, ms, arguments, %error, "call failed"),
            (Some(error), _) => tracing::warn!(server, tool, ms, arguments, %error, "call failed"),
            (None, CallLevel::Trace) => tracing::trace!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Debug) => tracing::debug!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Info) => tracing::info!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Warn) => tracing::warn!(server, tool, ms, arguments, "call"),
            (None, CallLevel::Error) => tracing::error!(server, tool, ms, arguments, "call"),
        }
    }
}
