//! Calls of tools by the console, through the same steps as those of clients.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request as HttpRequest, State},
    http::{Response, StatusCode},
    routing::post,
};
use pegboard_http::PeerAddress;
use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::Id,
    trace::TraceContext,
};
use pegboard_upstream::queue;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    CALL, ControlState,
    caller::ControlCaller,
    responses::{answer, error_response, read_body_of},
};
use crate::{
    activity::{EntryListener, Outcome},
    request::{Client, Failure, Methods, Operation, Reply, Request, SessionRef},
    steps::measure,
};

/// The name of the console as a client.
const CLIENT: &str = "Pegboard console";

/// Maximum size of a request.
const MAX_BYTES: usize = 4 << 20;

/// Maximum number of messages of the server about the call; nobody reads them.
const MESSAGES: usize = 64;

/// How long the answer waits for the entry of the call, which may not be kept at all.
const NOTED: Duration = Duration::from_millis(500);

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route(CALL, post(call))
}

#[derive(Debug, Deserialize)]
struct CallRequest {
    name: String,
    /// As they were written: a number keeps its digits.
    arguments: Raw,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    name: String,
    server: Option<String>,
    is_error: bool,
    outcome: Outcome,
    result: Raw,
    duration_us: u64,
    bytes: usize,
    seq: Option<u64>,
}

/// Calls a tool. If the connection is closed, the call is cancelled with this future.
async fn call(State(state): State<ControlState>, asking: ControlCaller, request: HttpRequest) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let wanted: CallRequest = match read_body_of(body, MAX_BYTES).await {
        Ok(wanted) => wanted,
        Err(response) => return response,
    };
    let address = parts.extensions.get::<PeerAddress>().copied();
    let (outlet, mut messages) = queue::channel(MESSAGES);
    let (listener, noted) = EntryListener::new();
    let request = match read(&asking, &wanted, address, outlet, listener) {
        Ok(request) => request,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, &message),
    };
    let began = Instant::now();
    let answering = state.pipeline.answer(Ok(request));
    tokio::pin!(answering);
    // Progress and log messages of the server are for nobody here, and must not keep it waiting.
    let outcome = loop {
        tokio::select! {
            outcome = &mut answering => break outcome,
            Some(_) = messages.recv() => {}
        }
    };
    let duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (outcome, result) = match outcome {
        Ok(Reply::Forwarded(forwarded)) => {
            let is_error = measure::is_error(&forwarded.result);
            (if is_error { Outcome::Error } else { Outcome::Ok }, forwarded.result)
        }
        Ok(Reply::Text(text)) => {
            let result = json!({"content": [{"type": "text", "text": text.text}], "isError": text.is_error});
            (if text.is_error { Outcome::Rejected } else { Outcome::Ok }, raw(&result))
        }
        Ok(_) => (Outcome::Ok, raw(&json!({}))),
        Err(Failure::Unauthenticated) => return super::caller::unknown_caller(),
        Err(failure) => {
            let result = json!({"content": [{"type": "text", "text": failure.to_string()}], "isError": true});
            (Outcome::Failed, raw(&result))
        }
    };
    let server = server_of(&state, &asking, &wanted.name);
    answer(&CallResult {
        name: wanted.name,
        server,
        is_error: outcome != Outcome::Ok,
        outcome,
        bytes: result.get().len(),
        result,
        duration_us,
        seq: tokio::time::timeout(NOTED, noted).await.ok().and_then(Result::ok),
    })
}

/// Returns the server of a tool, if the caller sees the tool: a hidden tool must look like a missing one.
fn server_of(state: &ControlState, asking: &ControlCaller, name: &str) -> Option<String> {
    let catalog = state.control.catalog.catalog();
    let tool = catalog.iter().find(|tool| tool.name() == name)?;
    let is_visible = asking.has_full_access() || asking.selection().allows(tool);
    is_visible.then(|| tool.server_name().map(str::to_owned))?
}

/// Returns the request of a client that calls a tool.
fn read(
    asking: &ControlCaller,
    wanted: &CallRequest,
    address: Option<PeerAddress>,
    outlet: queue::Sender<String>,
    listener: EntryListener,
) -> Result<Request, String> {
    let mut params = Fields::new().with("name", &wanted.name);
    params.set("arguments", wanted.arguments.clone());
    let operation = Operation::parse(Methods::OfRequests, "tools/call", params).map_err(|error| error.message)?;
    let id = Id::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let client = Client {
        name: CLIENT.to_owned(),
        console: Some(listener),
        address,
        pipe: None,
        capabilities: None,
        log_level: None,
        progress: None,
        outlet,
        trace: TraceContext::default(),
    };
    Ok(Request { id, caller: asking.caller(), session: SessionRef::Stateless, operation, client })
}
