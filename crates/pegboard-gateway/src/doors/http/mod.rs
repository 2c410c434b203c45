//! The endpoint: Streamable HTTP of both eras on one path.

mod batch;
mod body;
mod legacy;
pub(crate) mod modern;
mod probes;
mod responses;
mod sent;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, Response, StatusCode},
    routing::{any, get},
};
use pegboard_http::{PeerAddress, Principal};
use pegboard_upstream::{era::Era, rpc::Message};
use tracing::{Instrument as _, Span};

use self::{
    responses::{status, too_much_in_progress},
    sent::{Arrival, Sent},
};
use crate::{exchange::Caller, gateway::Gateway, metrics::METRICS, routes::methods::shorten, trace::Opening};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Messages about one request that wait to be read by its client.
const OUTLET: usize = 256;

/// Where clients connect.
pub const ENDPOINT: &str = "/mcp";

/// Where it is asked whether all servers had their time to start; open to everybody.
pub const READY: &str = "/ready";

/// Where it is asked whether we live; open to everybody.
pub const HEALTH: &str = "/health";

impl Gateway {
    /// The routes of the gateway, for requests of at most `max_body_bytes`.
    pub fn router(self: &Arc<Self>, max_body_bytes: usize) -> Router {
        Router::new()
            .route(ENDPOINT, any(endpoint))
            .route("/mcp/", any(endpoint))
            .route(HEALTH, get(probes::health))
            .route(READY, get(probes::ready))
            .route(METRICS, get(probes::numbers))
            .fallback(probes::elsewhere)
            .with_state(Door { gateway: Arc::clone(self), max_body_bytes })
    }
}

#[derive(Clone, Debug)]
struct Door {
    gateway: Arc<Gateway>,
    max_body_bytes: usize,
}

async fn endpoint(State(door): State<Door>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Principal>().map_or(Caller::Anybody, |holder| Caller::Token(*holder));
    // Who may come in may have changed since the door let it pass.
    let Some(viewer) = door.gateway.viewer(caller) else {
        let _span = door.gateway.request_span(None, &Opening::default()).entered();
        tracing::info!(http = %parts.method, status = 401, "a request is refused");
        return status(StatusCode::UNAUTHORIZED);
    };
    let address = parts.extensions.get::<PeerAddress>().copied();
    let (arrival, method) = (Arrival { headers: parts.headers, viewer, address }, parts.method);
    let length = arrival.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(usize::MAX);
    let length = if method == Method::POST { length } else { 0 };
    // Held until the request is answered, because the message is in memory for as long.
    let Some(mut room) = door.gateway.open_body(arrival.party(), length, door.max_body_bytes) else {
        return too_much_in_progress();
    };
    // Read before its span begins: whose trace it belongs to stands in it.
    let sent = Sent::read(&arrival, &method, body, door.max_body_bytes, &mut room).await;
    // A body can take its time; meanwhile somebody may have lost what they could see.
    let Some(viewer) = door.gateway.viewer(caller) else { return status(StatusCode::UNAUTHORIZED) };
    let arrival = Arrival { viewer, ..arrival };
    let span = sent.span(&door.gateway);
    let work = async move {
        let response = dispatch(&door.gateway, arrival, sent).await;
        let status = response.status().as_u16();
        if status >= 400 {
            Span::current().record("outcome", "refused");
            tracing::info!(http = %method, status, "a request is refused");
        } else {
            tracing::debug!(http = %method, status, "a request");
        }
        response
    };
    work.instrument(span).await
}

async fn dispatch(gateway: &Arc<Gateway>, arrival: Arrival, sent: Sent) -> Response<Body> {
    match sent {
        Sent::Message { message, opening, era } => {
            if let Message::Request { method, .. } = &message {
                tracing::debug!(method = shorten(method), "asked");
            }
            match era {
                Era::Modern => modern::post(gateway, &arrival, message, opening).await,
                Era::Legacy => legacy::post(gateway, arrival, message, opening).await,
            }
        }
        Sent::Batch { messages, .. } => batch::post(gateway, &arrival, messages).await,
        Sent::OpenStream => legacy::open_stream(gateway, &arrival).await,
        Sent::EndSession => legacy::end_session(gateway, &arrival).await,
        Sent::Refused(response) => response,
    }
}
