//! The spans of a run: what was asked of the model, what of tools, and how it went.

use pegboard_discovery::Target;
use pegboard_llm::wire::Turn;
use tracing::{Span, field::Empty};

use crate::{
    agent::{Answer, RunError},
    call_runner::Done,
};

/// The span of a run.
pub(crate) fn run_span() -> Span {
    tracing::error_span!("run", model = Empty, turns = Empty, outcome = Empty)
}

/// Notes in its span how a run ended.
pub(crate) fn ran(span: &Span, ended: &Result<Answer, RunError>) {
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

/// The span of one turn of the model.
pub(crate) fn chat_span(model: &dyn std::fmt::Display) -> Span {
    tracing::error_span!("chat", %model, input_tokens = Empty, output_tokens = Empty, outcome = Empty)
}

/// Notes in its span what a turn came to.
pub(crate) fn chatted<E>(span: &Span, turn: &Result<Turn, E>) {
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

/// The span of a call of a tool.
pub(crate) fn call_span(target: &Target) -> Span {
    let span = tracing::error_span!("call", server = Empty, tool = target.name, outcome = Empty, bytes = Empty);
    if let Some(server) = &target.server {
        span.record("server", server);
    }
    span
}

/// Notes in its span what a call came to.
pub(crate) fn called(span: &Span, done: &Done) {
    span.record("outcome", if done.is_error { "error" } else { "ok" });
    span.record("bytes", done.text.len());
}
