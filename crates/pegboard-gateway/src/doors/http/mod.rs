//! The MCP endpoint: Streamable HTTP of both eras on one path.

mod arrival;
mod batch;
mod body;
mod legacy;
mod modern;
mod probes;
mod responses;
mod resumable;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, Response, StatusCode},
    routing::{any, get},
};
use pegboard_http::{LogBudget, Owner, PeerAddress, Principal, RequestSlot};
use pegboard_mcp::era::Era;
use tracing::{Instrument as _, Span};

use self::{
    arrival::{Arrival, HttpOperation, PostedMessage},
    body::HttpAnswer,
    responses::status,
};
use crate::{
    caller::Caller, control::Control, doors::DoorContext, metrics::METRICS, shares::Claim, text::shorten,
    trace::RequestMeta,
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Maximum number of rejected requests that are logged in ten seconds.
const REJECTIONS_LOGGED: u32 = 100;

/// Maximum number of messages about one request that wait for its client.
const OUTLET: usize = 256;

/// The path where clients connect.
pub const ENDPOINT: &str = "/mcp";

/// The path of the readiness probe; needs no token.
pub const READY: &str = "/ready";

/// The path of the liveness probe; needs no token.
pub const HEALTH: &str = "/health";

/// Returns the routes, for requests of at most `max_body_bytes`.
pub(crate) fn router(entrance: DoorContext, control: Arc<Control>, max_body_bytes: usize) -> Router {
    Router::new()
        .route(ENDPOINT, any(endpoint))
        .route("/mcp/", any(endpoint))
        .route("/", get(probes::show_welcome))
        .route(HEALTH, get(probes::health))
        .route(READY, get(probes::ready))
        .route(METRICS, get(probes::metrics))
        .fallback(probes::not_found)
        .with_state(Arc::new(EndpointState {
            entrance,
            control,
            max_body_bytes,
            rejections: LogBudget::new(REJECTIONS_LOGGED),
        }))
}

#[derive(Debug)]
struct EndpointState {
    entrance: DoorContext,
    control: Arc<Control>,
    max_body_bytes: usize,
    /// Rejections are caused by callers, and must not fill the disk.
    rejections: LogBudget,
}

impl EndpointState {
    fn log_rejection(&self, method: &Method, status: StatusCode) {
        if let Some(unlogged) = self.rejections.take() {
            tracing::info!(http = %method, status = status.as_u16(), unlogged, "HTTP request rejected");
        }
    }
}

async fn endpoint(State(door): State<Arc<EndpointState>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let caller = match parts.extensions.get::<Principal>() {
        Some(holder) => Caller::Token(*holder),
        // On the control socket, which only the operator can use.
        None if parts.extensions.get::<Owner>().is_some() => Caller::Pipe,
        None => Caller::Anybody,
    };
    let address = parts.extensions.get::<PeerAddress>().copied();
    let slot = parts.extensions.get::<RequestSlot>().cloned();
    let (arrival, method) = (Arrival { headers: parts.headers, caller, address }, parts.method);
    let length = arrival.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(usize::MAX);
    let length = if method == Method::POST { length } else { 0 };
    let mut room = match door.entrance.pipeline.admit(caller, address, length, door.max_body_bytes) {
        Ok(room) => room,
        Err(failure) => {
            let _span = door.entrance.requests.span(None, &RequestMeta::default()).entered();
            let response = HttpAnswer::rejected(None, failure).into_response();
            door.log_rejection(&method, response.status());
            return response;
        }
    };
    // Read before its span begins, because `_meta` names the trace.
    let (arrival, sent) = HttpOperation::read(arrival, &method, body, door.max_body_bytes, &mut room).await;
    let span = sent.span(&door.entrance.requests, &arrival);
    let work = async move {
        // Kept for as long as the request is worked on: the message is in memory meanwhile.
        let kept = RequestClaims { _room: room, _slot: slot };
        let response = dispatch(&door.entrance, arrival, sent, kept).await;
        if response.status().as_u16() >= 400 {
            Span::current().record("outcome", "refused");
            door.log_rejection(&method, response.status());
        } else {
            tracing::debug!(http = %method, status = response.status().as_u16(), "HTTP request answered");
        }
        response
    };
    work.instrument(span).await
}

/// The shares that a request holds. Work that continues without its client keeps them.
#[derive(Debug)]
struct RequestClaims {
    _room: Claim,
    _slot: Option<RequestSlot>,
}

async fn dispatch(
    entrance: &DoorContext,
    arrival: Arrival,
    sent: HttpOperation,
    kept: RequestClaims,
) -> Response<Body> {
    match sent {
        HttpOperation::Message(posted, era) => {
            if let PostedMessage::Request(incoming) = &posted {
                tracing::debug!(method = shorten(&incoming.method), "request received");
            }
            match (posted, era) {
                (PostedMessage::Request(incoming), Era::Modern) => {
                    modern::post(entrance, arrival, incoming, kept).await
                }
                // This version has no notifications or responses from clients.
                (_, Era::Modern) => status(StatusCode::ACCEPTED),
                (posted, Era::Legacy) => Box::pin(legacy::post(entrance, arrival, posted, kept)).await,
            }
        }
        HttpOperation::Batch(messages) => Box::pin(batch::post(entrance, &arrival, messages)).await,
        HttpOperation::OpenStream => Box::pin(legacy::open_stream(entrance, &arrival)).await,
        HttpOperation::EndSession => Box::pin(legacy::end_session(entrance, &arrival)).await,
        HttpOperation::Refused(response) => response,
    }
}
