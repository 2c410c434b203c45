//! The tracing spans of a run, its turns and its calls.

use pegboard_discovery::Target;
use pegboard_llm::wire::Turn;
use tracing::{Span, field::Empty};

use crate::{
    agent::{RunAnswer, RunError},
    call_runner::CallOutcome,
};

/// Creates the span of a run.
pub(crate) fn run_span() -> Span {
    tracing::error_span!("run", model = Empty, turns = Empty, outcome = Empty)
}

/// Records the outcome of a run in its span.
pub(crate) fn record_run(span: &Span, ended: &Result<RunAnswer, RunError>) {
    match ended {
        Ok(answer) => {
            span.record("turns", answer.turns);
            span.record("outcome", "ok");
        }
        Err(_) => {
            span.record("outcome", "failed");
        }
    }
}

/// Creates the span of one turn of the model.
pub(crate) fn chat_span(model: &dyn std::fmt::Display) -> Span {
    tracing::error_span!("chat", %model, input_tokens = Empty, output_tokens = Empty, outcome = Empty)
}

/// Records the outcome of a turn in its span.
pub(crate) fn record_turn<E>(span: &Span, turn: &Result<Turn, E>) {
    match turn {
        Ok(turn) => {
            span.record("input_tokens", turn.usage.input);
            span.record("output_tokens", turn.usage.output);
            span.record("outcome", "ok");
        }
        Err(_) => {
            span.record("outcome", "failed");
        }
    }
}

/// Creates the span of a call.
pub(crate) fn call_span(target: &Target) -> Span {
    let span = tracing::error_span!("call", server = Empty, tool = target.name, outcome = Empty, bytes = Empty);
    if let Some(server) = &target.server {
        span.record("server", server);
    }
    span
}

/// Records the outcome of a call in its span.
pub(crate) fn record_call(span: &Span, done: &CallOutcome) {
    span.record("outcome", if done.is_error { "error" } else { "ok" });
    span.record("bytes", done.text.len());
}
