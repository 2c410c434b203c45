//! Requests of versions before 2026-07-28: each belongs to a session.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode},
};
use pegboard_mcp::{
    era::Era,
    rpc::{Id, RpcError},
};
use pegboard_upstream::queue;

use super::{
    OUTLET, RequestClaims, SESSION,
    arrival::{Arrival, PostedMessage},
    body::{self, Disconnect, HttpAnswer, event_response},
    responses::{error_response, not_allowed, status},
    resumable::{ResumableBody, ResumableStream, is_primed},
};
use crate::{
    doors::{
        DoorContext,
        incoming::{Incoming, off_thread},
    },
    exchange::Outlet,
    request::{Client, Failure, Methods, Request, SessionRef},
    sessions::{ClientSession, Resumed, STANDALONE},
    trace,
};

/// The id of the last event that a client got of a stream that it resumes.
const LAST_EVENT: &str = "last-event-id";

pub(super) async fn post(
    entrance: &DoorContext,
    arrival: Arrival,
    posted: PostedMessage,
    kept: RequestClaims,
) -> Response<Body> {
    let incoming = match posted {
        PostedMessage::Request(incoming) => incoming,
        other => return accept_message(entrance, &arrival, other).await,
    };
    let (outlet, messages) = queue::channel(OUTLET);
    let (id, party) = (incoming.id.clone(), arrival.party());
    let messages = arrival.reads_events().then_some(messages);
    let stream = ResumableStream::new(entrance, &arrival);
    let request = off_thread(incoming.is_large, move || read(&arrival, incoming, outlet)).await;
    let pipeline = Arc::clone(&entrance.pipeline);
    let work = body::boxed(async move {
        let _kept = kept;
        let answer = HttpAnswer::new(Era::Legacy, &id, pipeline.answer(request).await);
        answer.counted(&pipeline, party, &id)
    });
    // The request continues when its client disconnects.
    body::respond(messages, work, Disconnect::Resumable(stream)).await
}

pub(super) fn read(arrival: &Arrival, incoming: Incoming, outlet: Outlet) -> Result<Request, RpcError> {
    let session = arrival.header(SESSION).map_or(SessionRef::Once, |id| SessionRef::Named(id.to_owned()));
    let (progress, trace) = (incoming.progress(), incoming.opening.trace.clone());
    let (id, operation) = incoming.into_operation(Methods::OfSessions)?;
    let (address, capabilities, log_level) = (arrival.address, None, None);
    let (name, console) = (String::new(), None);
    let client = Client { name, console, address, pipe: None, capabilities, log_level, progress, outlet, trace };
    Ok(Request { id, caller: arrival.caller, session, operation, client })
}

/// Returns the session that a request names, if it names one.
pub(super) async fn session(entrance: &DoorContext, arrival: &Arrival) -> Result<Option<Arc<ClientSession>>, Failure> {
    let Some(id) = arrival.header(SESSION) else { return Ok(None) };
    let viewer = entrance.setups.viewer(arrival.caller).ok_or(Failure::Unauthenticated)?;
    let found = entrance.sessions.find(id, &viewer, arrival.party()).await.ok_or(Failure::NoSession)?;
    trace::record_session(&found);
    Ok(Some(found))
}

/// Accepts a notification or a response of a client.
async fn accept_message(entrance: &DoorContext, arrival: &Arrival, posted: PostedMessage) -> Response<Body> {
    match session(entrance, arrival).await {
        Ok(Some(session)) => handle_client_message(entrance, &session, posted),
        Ok(None) => {}
        Err(failure) => return HttpAnswer::rejected(None, failure).into_response(),
    }
    status(StatusCode::ACCEPTED)
}

/// Handles a notification or a response of the client of a session.
pub(super) fn handle_client_message(entrance: &DoorContext, session: &ClientSession, posted: PostedMessage) {
    match posted {
        PostedMessage::Notification { method, params } => {
            entrance.sessions.handle_notification(session, &method, params.as_deref());
        }
        PostedMessage::Response { id: Some(id), outcome } => _ = session.answer(&id, outcome),
        PostedMessage::Response { id: None, .. } | PostedMessage::Request(_) => {}
    }
}

/// Returns the id of a message, if it has one.
pub(super) fn id_of(posted: &PostedMessage) -> Option<&Id> {
    match posted {
        PostedMessage::Request(incoming) => Some(&incoming.id),
        _ => None,
    }
}

pub(super) async fn open_stream(entrance: &DoorContext, arrival: &Arrival) -> Response<Body> {
    if arrival.header(SESSION).is_none() {
        return not_allowed();
    }
    if !arrival.reads_events() {
        return status(StatusCode::NOT_ACCEPTABLE);
    }
    let session = match session(entrance, arrival).await {
        Ok(Some(session)) => session,
        Ok(None) | Err(_) => return status(StatusCode::NOT_FOUND),
    };
    let most = entrance.setups.current().streams_per_caller;
    let Some(slot) = entrance.pipeline.limits.open_stream(arrival.party(), most) else {
        return HttpAnswer::rejected(None, Failure::TooManyStreams).into_response();
    };
    let reader = match arrival.header(LAST_EVENT) {
        None => session.replay.attach(STANDALONE),
        Some(event) => match session.replay.resume(event) {
            Resumed::Reader(reader) => reader,
            // By the rules of event streams, this ends the reconnections of a client.
            Resumed::Complete => return status(StatusCode::NO_CONTENT),
            Resumed::Unknown => {
                let message = "the event stream of `Last-Event-ID` has expired; send the request again";
                let error = RpcError::new(RpcError::INVALID_REQUEST, message);
                return error_response(StatusCode::BAD_REQUEST, None, &error);
            }
        },
    };
    session.send_pending_announcements();
    event_response(ResumableBody::new(session, reader, is_primed(arrival), Some(slot)))
}

pub(super) async fn end_session(entrance: &DoorContext, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    match session(entrance, arrival).await {
        Ok(Some(_)) => entrance.sessions.end_named(id).await,
        Ok(None) | Err(_) => return status(StatusCode::NOT_FOUND),
    }
    status(StatusCode::OK)
}
