//! Resolution of a call, and the answers of meta-tools.

use pegboard_core::{Tool, Vectors, vectors::BoxFuture};
use pegboard_discovery::{CallAnswer, Callee, MetaTool, Session, usage::SearchLead, wrapped_arguments};
use pegboard_mcp::rpc::RpcError;
use serde_json::Value;
use tracing::{Instrument as _, Span};

use crate::{request::ToolCall, trace};

/// A call that the session has answered, or has resolved to a tool.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) answer: CallAnswer,
    /// The search that it may have come from.
    pub(crate) lead: Option<SearchLead>,
    /// The name that no tool has which may be seen.
    pub(crate) unknown: Option<String>,
}

/// The state of a resolution.
pub(crate) enum Resolved {
    Called(Box<Called>),
    /// Vectors of its queries are needed first, and are asked for.
    Vectors(BoxFuture<Vectors>, Span),
}

impl Resolved {
    /// Waits for vectors if they are needed, and repeats the call with them.
    pub(crate) async fn wait_for_vectors(
        self,
        again: impl AsyncFnOnce(Option<&Vectors>) -> Result<Self, RpcError>,
    ) -> Result<Called, RpcError> {
        let (soon, span) = match self {
            Self::Called(called) => return Ok(*called),
            Self::Vectors(soon, span) => (soon, span),
        };
        // The session is not held meanwhile: others may go on with it.
        let vectors = soon.instrument(span.clone()).await;
        match again(Some(&vectors)).instrument(span).await? {
            Self::Called(called) => Ok(*called),
            Self::Vectors(..) => Err(RpcError::new(RpcError::INTERNAL, "a search needs vectors twice")),
        }
    }
}

/// Resolves `call` in a session, after `check` has accepted the tool and its arguments.
///
/// # Errors
/// The error of `check`.
pub(crate) fn call(
    tools: &mut Session,
    call: &ToolCall,
    vectors: Option<&Vectors>,
    check: impl FnOnce(&Tool, &Value, bool) -> Result<(), RpcError>,
) -> Result<Resolved, RpcError> {
    let ToolCall { name, arguments, .. } = call;
    let callee = tools.resolve(name, arguments);
    match &callee {
        Callee::Direct(tool) => check(tool, arguments, false)?,
        Callee::Wrapped(tool) => check(tool, &wrapped_arguments(arguments), true)?,
        Callee::Meta(_) | Callee::Unknown(_) => {}
    }
    let span = match (&callee, vectors) {
        (Callee::Meta(MetaTool::Search), None) => {
            Span::current().record("tool", name);
            let span = trace::search_span(name);
            if let Some(soon) = tools.vectors_for(name, arguments) {
                return Ok(Resolved::Vectors(soon, span));
            }
            span
        }
        (Callee::Meta(MetaTool::Search), Some(_)) => Span::current(),
        (Callee::Unknown(_), _) => Span::none(),
        _ => {
            Span::current().record("tool", name);
            Span::none()
        }
    };
    let none = Vectors::default();
    let answer = span.in_scope(|| tools.call_with(name, arguments, vectors.unwrap_or(&none)));
    if matches!(callee, Callee::Meta(MetaTool::Search)) {
        trace::record_search(&span, &answer);
    }
    let unknown = match callee {
        Callee::Unknown(name) => Some(name),
        _ => None,
    };
    let lead = tools.lead().cloned();
    Ok(Resolved::Called(Box::new(Called { answer, lead, unknown })))
}
