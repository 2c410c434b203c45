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
    Kept, OUTLET, SESSION,
    arrival::{Arrival, Posted},
    body::{self, Answer, EventBody, event_response},
    responses::{not_allowed, status},
};
use crate::{
    doors::{
        Entrance,
        incoming::{Incoming, off_thread},
    },
    exchange::Outlet,
    request::{Client, Failure, Methods, Request, SessionRef},
    sessions::ClientSession,
    trace,
};

pub(super) async fn post(entrance: &Entrance, arrival: Arrival, posted: Posted, kept: Kept) -> Response<Body> {
    let incoming = match posted {
        Posted::Request(incoming) => incoming,
        other => return tell(entrance, &arrival, other).await,
    };
    let (outlet, messages) = queue::channel(OUTLET);
    let (id, party) = (incoming.id.clone(), arrival.party());
    let messages = arrival.reads_events().then_some(messages);
    let request = off_thread(incoming.is_large, move || read(&arrival, incoming, outlet)).await;
    let pipeline = Arc::clone(&entrance.pipeline);
    let work = body::boxed(async move {
        let _kept = kept;
        let answer = Answer::new(Era::Legacy, &id, pipeline.answer(request).await);
        answer.counted(&pipeline, party, &id)
    });
    // The request continues when its client disconnects.
    body::respond(messages, work, false).await
}

pub(super) fn read(arrival: &Arrival, incoming: Incoming, outlet: Outlet) -> Result<Request, RpcError> {
    let session = arrival.header(SESSION).map_or(SessionRef::Once, |id| SessionRef::Named(id.to_owned()));
    let (progress, trace) = (incoming.progress(), incoming.opening.trace.clone());
    let (id, operation) = incoming.into_operation(Methods::OfSessions)?;
    let (address, capabilities, log_level) = (arrival.address, None, None);
    let client = Client { address, capabilities, log_level, progress, outlet, trace };
    Ok(Request { id, caller: arrival.caller, session, operation, client })
}

/// The session that a request names, if it names one.
pub(super) async fn session(entrance: &Entrance, arrival: &Arrival) -> Result<Option<Arc<ClientSession>>, Failure> {
    let Some(id) = arrival.header(SESSION) else { return Ok(None) };
    let viewer = entrance.setups.viewer(arrival.caller).ok_or(Failure::Unauthenticated)?;
    let found = entrance.sessions.find(id, &viewer, arrival.party()).await.ok_or(Failure::NoSession)?;
    trace::belongs_to(&found);
    Ok(Some(found))
}

/// Takes in what a client says of its own accord.
async fn tell(entrance: &Entrance, arrival: &Arrival, posted: Posted) -> Response<Body> {
    match session(entrance, arrival).await {
        Ok(Some(session)) => hear(&session, posted),
        Ok(None) => {}
        Err(failure) => return Answer::refused(None, failure).into_response(),
    }
    status(StatusCode::ACCEPTED)
}

/// Takes in what the client of a session says of its own accord.
pub(super) fn hear(session: &ClientSession, posted: Posted) {
    match posted {
        Posted::Notification { method, params } => session.notified(&method, params.as_deref()),
        Posted::Response { id: Some(id), outcome } => _ = session.answer(&id, outcome),
        Posted::Response { id: None, .. } | Posted::Request(_) => {}
    }
}

/// The identity of what was posted, if it has one.
pub(super) fn identity(posted: &Posted) -> Option<&Id> {
    match posted {
        Posted::Request(incoming) => Some(&incoming.id),
        _ => None,
    }
}

pub(super) async fn open_stream(entrance: &Entrance, arrival: &Arrival) -> Response<Body> {
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
    match entrance.pipeline.limits.open_stream(arrival.party(), most) {
        Some(slot) => event_response(EventBody::open(session.open_stream(), slot)),
        None => Answer::refused(None, Failure::TooManyStreams).into_response(),
    }
}

pub(super) async fn end_session(entrance: &Entrance, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    match session(entrance, arrival).await {
        Ok(Some(_)) => entrance.sessions.end_named(id).await,
        Ok(None) | Err(_) => return status(StatusCode::NOT_FOUND),
    }
    status(StatusCode::OK)
}
