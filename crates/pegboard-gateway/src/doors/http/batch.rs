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
    OUTLET, SESSION,
    legacy::{find_session, forgotten},
    responses::{json_response, refuse, status},
    sent::Arrival,
};
use crate::{
    exchange::Exchange,
    gateway::Gateway,
    trace::{self, Opening},
};

/// Messages in one batch.
const MOST: usize = 100;

/// Answers all requests of a batch, in its order, in one document. What is said about a
/// request meanwhile has no place in it.
pub(super) async fn post(gateway: &Arc<Gateway>, arrival: &Arrival, messages: Vec<Message>) -> Response<Body> {
    if messages.is_empty() || messages.len() > MOST {
        let error = RpcError::new(RpcError::INVALID_REQUEST, format!("a batch has 1 to {MOST} messages"));
        return refuse(StatusCode::BAD_REQUEST, None, &error);
    }
    let session = match arrival.header(SESSION) {
        Some(id) => match find_session(gateway, arrival, id).await {
            Some(session) => Some(session),
            None => return forgotten(&messages[0]),
        },
        None => None,
    };
    let mut answers = Vec::new();
    for message in messages {
        if gateway.viewer(arrival.viewer.caller).is_none() {
            return status(StatusCode::UNAUTHORIZED);
        }
        match message {
            Message::Request { id, method, .. } if method == "initialize" => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "`initialize` cannot be part of a batch");
                answers.push(Message::response(Some(&id), Err(&error)));
            }
            Message::Request { id, method, params } => {
                let session = match &session {
                    Some(session) => Arc::clone(session),
                    None => gateway.one_request_session(arrival.viewer.clone(), &method, params.as_deref()).await,
                };
                // Nobody hears it: a question is told so at once, or goes to the stream.
                let (outlet, _) = mpsc::channel(OUTLET);
                let opening = Opening::of(params.as_deref(), Some(&arrival.headers));
                let exchange =
                    Exchange::legacy(&session, arrival.address, params.as_deref(), opening.trace.clone(), outlet);
                let asked = Message::Request { id: id.clone(), method: method.clone(), params: None };
                let span = gateway.request_span(Some((&asked, Era::Legacy)), &opening);
                let work = async {
                    trace::belongs_to(&session);
                    gateway.answer(&exchange, &id, &method, params).await
                };
                let outcome = work.instrument(span).await;
                answers.push(Message::response(Some(&id), outcome.as_deref()));
            }
            Message::Notification { method, params } => {
                if let Some(session) = &session {
                    gateway.notified(session, &method, params.as_deref());
                }
            }
            Message::Response { id, outcome } => {
                if let (Some(session), Some(id)) = (&session, id) {
                    session.answer(&id, outcome);
                }
            }
        }
    }
    if answers.is_empty() {
        return status(StatusCode::ACCEPTED);
    }
    json_response(StatusCode::OK, format!("[{}]", answers.join(",")))
}
