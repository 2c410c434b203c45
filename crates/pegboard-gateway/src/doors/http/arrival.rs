//! HTTP requests, parsed into operations.

use std::time::Duration;

use axum::{
    body::{self, Body, Bytes},
    http::{HeaderMap, Method, Response, StatusCode},
};
use pegboard_http::PeerAddress;
use pegboard_mcp::{
    era::{Era, LEGACY_VERSIONS},
    json::Raw,
    rpc::{Id, Message, MessageError, RpcError},
};
use tracing::Span;

use super::{
    VERSION,
    responses::{error_response, not_allowed, status},
};
use crate::{
    caller::Caller,
    doors::incoming::{Incoming, LARGE, off_thread},
    shares::{Claim, Party},
    trace::{RequestMeta, Requests},
};

/// How long a client may take to send a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The headers and the caller of an HTTP request.
pub(super) struct Arrival {
    pub(super) headers: HeaderMap,
    pub(super) caller: Caller,
    pub(super) address: Option<PeerAddress>,
}

impl Arrival {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the party whose shares the request counts against.
    pub(super) fn party(&self) -> Party {
        Party::of(self.caller, self.address)
    }

    /// Returns whether the client accepts event streams. `*/*` does not count: programs that do not
    /// know them send it too.
    pub(super) fn reads_events(&self) -> bool {
        self.header("accept").is_some_and(|accept| accept.contains("text/event-stream"))
    }

    /// Returns whether the header names a version other than the legacy ones.
    fn has_unknown_version(&self) -> bool {
        self.header(VERSION).is_some_and(|version| !LEGACY_VERSIONS.contains(&version))
    }
}

/// A message of a client.
pub(super) enum PostedMessage {
    Request(Incoming),
    Notification { method: String, params: Option<Raw> },
    Response { id: Option<Id>, outcome: Result<Raw, RpcError> },
}

impl PostedMessage {
    fn of(message: Message, arrival: &Arrival) -> Self {
        match message {
            Message::Request { id, method, params } => {
                Self::Request(Incoming::new(id, method, params.as_ref(), Some(&arrival.headers)))
            }
            Message::Notification { method, params } => Self::Notification { method, params },
            Message::Response { id, outcome } => Self::Response { id, outcome },
        }
    }

    /// Returns the era of the message: from `_meta`, else from the header.
    fn era(&self, arrival: &Arrival) -> Era {
        let is_modern = match self {
            Self::Request(incoming) => incoming.era() == Era::Modern || arrival.has_unknown_version(),
            Self::Notification { params, .. } => {
                let params = pegboard_mcp::json::Fields::of_optional(params.as_deref());
                RequestMeta::of(&params, None).is_modern() || arrival.has_unknown_version()
            }
            Self::Response { .. } => false,
        };
        if is_modern { Era::Modern } else { Era::Legacy }
    }
}

/// The operation that an HTTP request asks for.
pub(super) enum HttpOperation {
    Message(PostedMessage, Era),
    Batch(Vec<PostedMessage>),
    OpenStream,
    EndSession,
    /// An invalid request, with its response.
    Refused(Response<Body>),
}

impl HttpOperation {
    pub(super) fn span(&self, requests: &Requests, arrival: &Arrival) -> Span {
        match self {
            Self::Message(PostedMessage::Request(incoming), era) => {
                requests.span(Some(((Some(&incoming.id), Some(&incoming.method)), *era)), &incoming.opening)
            }
            Self::Message(PostedMessage::Notification { method, .. }, era) => {
                requests.span(Some(((None, Some(method)), *era)), &without_params(arrival))
            }
            Self::Message(PostedMessage::Response { .. }, era) => {
                requests.span(Some(((None, None), *era)), &without_params(arrival))
            }
            Self::Batch(_) => requests.span(None, &without_params(arrival)),
            Self::OpenStream | Self::EndSession | Self::Refused(_) => requests.span(None, &RequestMeta::default()),
        }
    }

    /// Reads the body of a request, of at most `max_body_bytes`; `room` holds the memory for it.
    pub(super) async fn read(
        arrival: Arrival,
        method: &Method,
        body: Body,
        max_body_bytes: usize,
        room: &mut Claim,
    ) -> (Arrival, Self) {
        let sent = match method.as_str() {
            "POST" => match tokio::time::timeout(BODY_TIMEOUT, body::to_bytes(body, max_body_bytes)).await {
                Ok(Ok(body)) => {
                    room.shrink_to(body.len());
                    let parse = move || {
                        let sent = Self::parse(&arrival, &body);
                        (arrival, sent)
                    };
                    return off_thread(room.amount() > LARGE, parse).await;
                }
                Err(_) => Self::Refused(status(StatusCode::REQUEST_TIMEOUT)),
                Ok(Err(_)) => {
                    let message = format!("the body is over the limit of {max_body_bytes} bytes (`maxBodyBytes`)");
                    let error = RpcError::new(RpcError::INVALID_REQUEST, message);
                    Self::Refused(error_response(StatusCode::PAYLOAD_TOO_LARGE, None, &error))
                }
            },
            "GET" => Self::OpenStream,
            "DELETE" => Self::EndSession,
            _ => Self::Refused(not_allowed()),
        };
        (arrival, sent)
    }

    fn parse(arrival: &Arrival, body: &Bytes) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        if text.trim_start().starts_with('[')
            && let Ok(messages) = Message::parse_all(text)
        {
            let messages: Vec<PostedMessage> =
                messages.into_iter().map(|message| PostedMessage::of(message, arrival)).collect();
            if messages.iter().all(|message| message.era(arrival) == Era::Legacy) {
                return Self::Batch(messages);
            }
        }
        let error = match std::str::from_utf8(body).map(Message::parse) {
            Ok(Ok(message)) => {
                let posted = PostedMessage::of(message, arrival);
                let era = posted.era(arrival);
                return Self::Message(posted, era);
            }
            Ok(Err(error @ MessageError::NotRpc(_))) => RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
            _ => RpcError::new(RpcError::PARSE, "the body is not JSON"),
        };
        Self::Refused(error_response(StatusCode::BAD_REQUEST, None, &error))
    }
}

/// Returns the trace context in the headers.
fn without_params(arrival: &Arrival) -> RequestMeta {
    RequestMeta::of(&pegboard_mcp::json::Fields::new(), Some(&arrival.headers))
}
