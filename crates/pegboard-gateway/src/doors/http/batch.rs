//! Several messages at once, as 2025-03-26 has it.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode},
};
use pegboard_upstream::{
    era::Era,
    rpc::{Message, RpcError},
};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{
    OUTLET,
    body::Answer,
    legacy,
    responses::{json_response, refuse, status},
    sent::{Arrival, Posted},
};
use crate::{
    doors::{Entrance, dress},
    request::{Failure, SessionRef},
};

/// Messages in one batch.
const MOST: usize = 100;

/// Bytes of all answers to a batch; later requests of it are refused. As many as one result may
/// have.
const MAX_ANSWERS: usize = 64 << 20;

/// Answers all requests of a batch, in its order, in one document. What is said about a
/// request meanwhile has no place in it.
pub(super) async fn post(entrance: &Entrance, arrival: &Arrival, messages: Vec<Posted>) -> Response<Body> {
    if messages.is_empty() || messages.len() > MOST {
        let error = RpcError::new(RpcError::INVALID_REQUEST, format!("a batch has 1 to {MOST} messages"));
        return refuse(StatusCode::BAD_REQUEST, None, &error);
    }
    let session = match legacy::session(entrance, arrival).await {
        Ok(session) => session,
        Err(failure) => return Answer::refused(legacy::identity(&messages[0]), failure).into_response(),
    };
    let mut answers = Vec::new();
    let mut bytes = 0;
    for message in messages {
        // Others take their turns between two messages.
        tokio::task::yield_now().await;
        match message {
            Posted::Request(incoming) if bytes > MAX_ANSWERS => {
                let message = format!("the answers to this batch exceed {MAX_ANSWERS} bytes");
                let error = RpcError::new(RpcError::INTERNAL, message);
                answers.push(Message::response(Some(&incoming.id), Err(&error)));
            }
            Posted::Request(incoming) if incoming.method == "initialize" => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "`initialize` cannot be part of a batch");
                answers.push(Message::response(Some(&incoming.id), Err(&error)));
            }
            Posted::Request(incoming) => {
                let sent = ((Some(&incoming.id), Some(incoming.method.as_str())), Era::Legacy);
                let span = entrance.requests.span(Some(sent), &incoming.opening);
                // Nobody hears it: a question is told so at once, or goes to the stream.
                let (outlet, _) = mpsc::channel(OUTLET);
                let id = incoming.id.clone();
                let mut request = legacy::read(arrival, incoming, outlet);
                if let (Ok(request), Some(session)) = (&mut request, &session) {
                    request.session = SessionRef::Open(Arc::clone(session));
                }
                let outcome = entrance.pipeline.answer(request).instrument(span).await;
                if let Err(Failure::Unauthenticated) = outcome {
                    return status(StatusCode::UNAUTHORIZED);
                }
                let line = dress::line(Era::Legacy, &id, outcome);
                bytes += line.len();
                answers.push(line);
            }
            other => {
                if let Some(session) = &session {
                    legacy::hear(session, other);
                }
            }
        }
    }
    if answers.is_empty() {
        return status(StatusCode::ACCEPTED);
    }
    json_response(StatusCode::OK, format!("[{}]", answers.join(",")))
}
