//! The endpoint: Streamable HTTP of both eras on one path.

mod arrival;
mod batch;
mod body;
mod legacy;
mod modern;
mod probes;
mod responses;

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
    arrival::{Arrival, Posted, Sent},
    body::Answer,
    responses::status,
};
use crate::{
    caller::Caller, control::Control, doors::Entrance, metrics::METRICS, shares::Claim, text::shorten, trace::Opening,
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Refused requests that are logged in ten seconds.
const REFUSALS_LOGGED: u32 = 100;

/// Messages about one request that wait to be read by its client.
const OUTLET: usize = 256;

/// Where clients connect.
pub const ENDPOINT: &str = "/mcp";

/// Where it is asked whether all servers had their time to start; open to everybody.
pub const READY: &str = "/ready";

/// Where it is asked whether we live; open to everybody.
pub const HEALTH: &str = "/health";

/// The routes, for requests of at most `max_body_bytes`.
pub(crate) fn router(entrance: Entrance, control: Arc<Control>, max_body_bytes: usize) -> Router {
    Router::new()
        .route(ENDPOINT, any(endpoint))
        .route("/mcp/", any(endpoint))
        .route("/", get(probes::welcome))
        .route(HEALTH, get(probes::health))
        .route(READY, get(probes::ready))
        .route(METRICS, get(probes::numbers))
        .fallback(probes::elsewhere)
        .with_state(Arc::new(Door { entrance, control, max_body_bytes, refusals: LogBudget::new(REFUSALS_LOGGED) }))
}

#[derive(Debug)]
struct Door {
    entrance: Entrance,
    control: Arc<Control>,
    max_body_bytes: usize,
    /// Refusals are a caller's doing, and must not fill the disk.
    refusals: LogBudget,
}

impl Door {
    fn log_refusal(&self, method: &Method, status: StatusCode) {
        if let Some(unlogged) = self.refusals.take() {
            tracing::info!(http = %method, status = status.as_u16(), unlogged, "HTTP request rejected");
        }
    }
}

async fn endpoint(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
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
            let _span = door.entrance.requests.span(None, &Opening::default()).entered();
            let response = Answer::refused(None, failure).into_response();
            door.log_refusal(&method, response.status());
            return response;
        }
    };
    // Read before its span begins, because `_meta` names the trace.
    let (arrival, sent) = Sent::read(arrival, &method, body, door.max_body_bytes, &mut room).await;
    let span = sent.span(&door.entrance.requests, &arrival);
    let work = async move {
        // Kept for as long as the request is worked on: the message is in memory meanwhile.
        let kept = Kept { _room: room, _slot: slot };
        let response = dispatch(&door.entrance, arrival, sent, kept).await;
        if response.status().as_u16() >= 400 {
            Span::current().record("outcome", "refused");
            door.log_refusal(&method, response.status());
        } else {
            tracing::debug!(http = %method, status = response.status().as_u16(), "HTTP request answered");
        }
        response
    };
    work.instrument(span).await
}

/// What a request holds of its caller's shares. Work that goes on without its client keeps it.
#[derive(Debug)]
struct Kept {
    _room: Claim,
    _slot: Option<RequestSlot>,
}

async fn dispatch(entrance: &Entrance, arrival: Arrival, sent: Sent, kept: Kept) -> Response<Body> {
    match sent {
        Sent::Message(posted, era) => {
            if let Posted::Request(incoming) = &posted {
                tracing::debug!(method = shorten(&incoming.method), "request received");
            }
            match (posted, era) {
                (Posted::Request(incoming), Era::Modern) => modern::post(entrance, arrival, incoming, kept).await,
                // This version has no notifications or responses from clients.
                (_, Era::Modern) => status(StatusCode::ACCEPTED),
                (posted, Era::Legacy) => Box::pin(legacy::post(entrance, arrival, posted, kept)).await,
            }
        }
        Sent::Batch(messages) => Box::pin(batch::post(entrance, &arrival, messages)).await,
        Sent::OpenStream => Box::pin(legacy::open_stream(entrance, &arrival)).await,
        Sent::EndSession => Box::pin(legacy::end_session(entrance, &arrival)).await,
        Sent::Refused(response) => response,
    }
}
