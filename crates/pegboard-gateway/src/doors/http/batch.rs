//! Batches of messages, as in version 2025-03-26.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode},
};
use pegboard_mcp::{
    era::Era,
    rpc::{Id, Message, RpcError},
};
use pegboard_upstream::queue;
use tracing::Instrument as _;

use super::{
    OUTLET,
    arrival::{Arrival, PostedMessage},
    body::HttpAnswer,
    legacy,
    responses::{error_response, json_response, status},
};
use crate::{
    doors::{DoorContext, reply_format},
    pipeline::Pipeline,
    request::{Failure, Reply, SessionRef},
    shares::{Claim, Document, Party},
};

/// Maximum number of messages in one batch.
const MOST: usize = 100;

/// Answers all requests of a batch, in its order, in one document. Notifications about a request
/// are dropped, because the document has no place for them.
pub(super) async fn post(entrance: &DoorContext, arrival: &Arrival, messages: Vec<PostedMessage>) -> Response<Body> {
    if messages.is_empty() || messages.len() > MOST {
        let error = RpcError::new(RpcError::INVALID_REQUEST, format!("a batch has 1 to {MOST} messages"));
        return error_response(StatusCode::BAD_REQUEST, None, &error);
    }
    let session = match legacy::session(entrance, arrival).await {
        Ok(session) => session,
        Err(failure) => return HttpAnswer::rejected(legacy::id_of(&messages[0]), failure).into_response(),
    };
    let mut answers = Answers::default();
    for message in messages {
        // Others take their turns between two messages.
        tokio::task::yield_now().await;
        match message {
            PostedMessage::Request(incoming) if incoming.method == "initialize" => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "`initialize` cannot be part of a batch");
                answers.lines.push(Message::response(Some(&incoming.id), Err(&error)));
            }
            PostedMessage::Request(incoming) => {
                let sent = ((Some(&incoming.id), Some(incoming.method.as_str())), Era::Legacy);
                let span = entrance.requests.span(Some(sent), &incoming.opening);
                // There is no outlet for this request: questions fail at once, or go to the stream.
                let (outlet, _) = queue::channel(OUTLET);
                let id = incoming.id.clone();
                let mut request = legacy::read(arrival, incoming, outlet);
                if let (Ok(request), Some(session)) = (&mut request, &session) {
                    request.session = SessionRef::Open(Arc::clone(session));
                }
                let mut outcome = entrance.pipeline.answer(request).instrument(span).await;
                if let Err(Failure::Unauthenticated) = outcome {
                    return status(StatusCode::UNAUTHORIZED);
                }
                let room = outcome.as_mut().ok().and_then(Reply::take_room);
                let line = reply_format::reply_line(Era::Legacy, &id, outcome);
                if let Some(room) = room {
                    // A server's result is counted from its arrival on.
                    answers.room.push(room);
                    answers.lines.push(line);
                    continue;
                }
                answers.add(&entrance.pipeline, arrival.party(), &id, line);
            }
            other => {
                if let Some(session) = &session {
                    legacy::handle_client_message(entrance, session, other);
                }
            }
        }
    }
    match answers.into_document() {
        Some(document) => json_response(StatusCode::OK, document),
        None => status(StatusCode::ACCEPTED),
    }
}

/// The answers to a batch so far.
#[derive(Debug, Default)]
struct Answers {
    lines: Vec<String>,
    /// Their room in their caller's share of memory.
    room: Vec<Claim>,
    /// Bytes that have none yet: small answers are counted together.
    uncounted: usize,
}

impl Answers {
    /// Adds the answer to the request `id`, or an error if there is no room for it.
    fn add(&mut self, pipeline: &Pipeline, party: Party, id: &Id, line: String) {
        match pipeline.open_answer(party, self.uncounted + line.len()) {
            Ok(None) => self.uncounted += line.len(),
            Ok(Some(claim)) => {
                self.room.push(claim);
                self.uncounted = 0;
            }
            Err(error) => {
                let error = RpcError::new(RpcError::INTERNAL, error.to_string());
                self.lines.push(Message::response(Some(id), Err(&error)));
                return;
            }
        }
        self.lines.push(line);
    }

    fn into_document(self) -> Option<Document> {
        let text = (!self.lines.is_empty()).then(|| format!("[{}]", self.lines.join(",")))?;
        Some(Document { text, room: self.room })
    }
}
