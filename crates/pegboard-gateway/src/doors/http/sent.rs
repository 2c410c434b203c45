//! What a client wants with an HTTP request.

use std::time::Duration;

use axum::{
    body::{self, Body, Bytes},
    http::{HeaderMap, Method, Response, StatusCode},
};
use pegboard_http::PeerAddress;
use pegboard_upstream::{
    era::{Era, LEGACY_VERSIONS},
    rpc::{Message, MessageError, RpcError},
};
use tracing::Span;

use super::{
    VERSION,
    responses::{not_allowed, refuse, status},
};
use crate::{
    exchange::Viewer,
    gateway::Gateway,
    shares::{Claim, Party},
    trace::Opening,
};

/// How long a client may take to send a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// One request as it arrived.
pub(super) struct Arrival {
    pub(super) headers: HeaderMap,
    pub(super) viewer: Viewer,
    pub(super) address: Option<PeerAddress>,
}

impl Arrival {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whose shares the request counts against.
    pub(super) fn party(&self) -> Party {
        Party::of(self.viewer.caller, self.address)
    }

    /// Whether the client says that it reads streams of events. `*/*` does not say so: it is
    /// what programs send that know nothing of them.
    pub(super) fn reads_events(&self) -> bool {
        self.header("accept").is_some_and(|accept| accept.contains("text/event-stream"))
    }
}

/// What a client wants with an HTTP request.
pub(super) enum Sent {
    Message {
        message: Message,
        opening: Opening,
        era: Era,
    },
    Batch {
        messages: Vec<Message>,
        opening: Opening,
    },
    OpenStream,
    EndSession,
    /// Nothing that can be done.
    Refused(Response<Body>),
}

impl Sent {
    pub(super) fn span(&self, gateway: &Gateway) -> Span {
        match self {
            Self::Message { message, opening, era } => gateway.request_span(Some((message, *era)), opening),
            Self::Batch { opening, .. } => gateway.request_span(None, opening),
            Self::OpenStream | Self::EndSession | Self::Refused(_) => gateway.request_span(None, &Opening::default()),
        }
    }

    /// Reads a request to its end, of at most `max_body_bytes`; `room` keeps what its body needs.
    pub(super) async fn read(
        arrival: &Arrival,
        method: &Method,
        body: Body,
        max_body_bytes: usize,
        room: &mut Claim,
    ) -> Self {
        match method.as_str() {
            "POST" => match tokio::time::timeout(BODY_TIMEOUT, body::to_bytes(body, max_body_bytes)).await {
                Ok(Ok(body)) => {
                    room.shrink_to(body.len());
                    Self::parse(arrival, &body)
                }
                Err(_) => Self::Refused(status(StatusCode::REQUEST_TIMEOUT)),
                Ok(Err(_)) => {
                    let message = format!("the body is larger than {max_body_bytes} bytes");
                    let error = RpcError::new(RpcError::INVALID_REQUEST, message);
                    Self::Refused(refuse(StatusCode::PAYLOAD_TOO_LARGE, None, &error))
                }
            },
            "GET" => Self::OpenStream,
            "DELETE" => Self::EndSession,
            _ => Self::Refused(not_allowed()),
        }
    }

    fn parse(arrival: &Arrival, body: &Bytes) -> Self {
        let opening = |message: &Message| Opening::of_message(message, Some(&arrival.headers));
        let text = std::str::from_utf8(body).unwrap_or_default();
        if text.trim_start().starts_with('[')
            && let Ok(messages) = Message::parse_all(text)
            && messages.iter().all(|message| era_of(arrival, message, &opening(message)) == Era::Legacy)
        {
            return Self::Batch { messages, opening: Opening::of(None, Some(&arrival.headers)) };
        }
        let error = match std::str::from_utf8(body).map(Message::parse) {
            Ok(Ok(message)) => {
                let opening = opening(&message);
                let era = era_of(arrival, &message, &opening);
                return Self::Message { message, opening, era };
            }
            Ok(Err(error @ MessageError::NotRpc(_))) => RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
            _ => RpcError::new(RpcError::PARSE, "the body is not JSON"),
        };
        Self::Refused(refuse(StatusCode::BAD_REQUEST, None, &error))
    }
}

/// Whose rules a message follows: what it says in `_meta`, else what the header says.
fn era_of(arrival: &Arrival, message: &Message, opening: &Opening) -> Era {
    let says_modern = opening.is_modern();
    let header = arrival.header(VERSION);
    let is_unknown_version = header.is_some_and(|version| !LEGACY_VERSIONS.contains(&version));
    if says_modern || (is_unknown_version && !matches!(message, Message::Response { .. })) {
        Era::Modern
    } else {
        Era::Legacy
    }
}
