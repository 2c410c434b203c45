//! Legacy requests: each belongs to a conversation.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode},
};
use pegboard_discovery::DialectName;
use pegboard_upstream::{
    json::{Fields, Raw},
    rpc::{Id, Message, RpcError},
};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{
    OUTLET, SESSION,
    body::{self, Answer, EventBody, event_response},
    responses::{json_response, not_allowed, refuse, status, too_many_streams},
    sent::Arrival,
};
use crate::{
    exchange::{Exchange, Viewer},
    gateway::Gateway,
    sessions::ClientSession,
    settings::Profile,
    trace::{self, Opening},
};

pub(super) async fn post(
    gateway: &Arc<Gateway>,
    arrival: Arrival,
    message: Message,
    opening: Opening,
) -> Response<Body> {
    let session = match arrival.header(SESSION) {
        Some(id) => match find_session(gateway, &arrival, id).await {
            Some(session) => {
                trace::belongs_to(&session);
                Some(session)
            }
            None => return forgotten(&message),
        },
        None => None,
    };
    match message {
        Message::Request { id, method, params } if method == "initialize" => {
            initialize(gateway, &arrival, &id, params).await
        }
        Message::Request { id, method, params } => {
            let session = match session {
                Some(session) => session,
                None => gateway.one_request_session(arrival.viewer.clone(), &method, params.as_deref()).await,
            };
            answer(gateway, &arrival, session, opening, Asked { id, method, params }).await
        }
        Message::Notification { method, params } => {
            if let Some(session) = session {
                gateway.notified(&session, &method, params.as_deref());
            }
            status(StatusCode::ACCEPTED)
        }
        Message::Response { id, outcome } => {
            if let (Some(session), Some(id)) = (session, id) {
                session.answer(&id, outcome);
            }
            status(StatusCode::ACCEPTED)
        }
    }
}

pub(super) async fn find_session(gateway: &Arc<Gateway>, arrival: &Arrival, id: &str) -> Option<Arc<ClientSession>> {
    let session = match gateway.sessions.find(id) {
        Some(session) => session,
        None => gateway.recall_session(id, &arrival.viewer, arrival.party()).await?,
    };
    // A session belongs to whoever began it.
    let is_theirs = session.viewer().caller == arrival.viewer.caller;
    gateway.touch(&session);
    is_theirs.then_some(session)
}

pub(super) fn forgotten(message: &Message) -> Response<Body> {
    let id = match message {
        Message::Request { id, .. } => Some(id),
        _ => None,
    };
    let error = RpcError::new(RpcError::INVALID_REQUEST, "no such session; initialize again");
    refuse(StatusCode::NOT_FOUND, id, &error)
}

async fn initialize(gateway: &Arc<Gateway>, arrival: &Arrival, id: &Id, params: Option<Raw>) -> Response<Body> {
    match gateway.initialize(arrival.viewer.clone(), params).await {
        Ok((session, result)) => {
            let mut response = json_response(StatusCode::OK, Message::response(Some(id), Ok(&result)));
            if let Ok(value) = HeaderValue::try_from(session.id.as_str()) {
                response.headers_mut().insert(SESSION, value);
            }
            response
        }
        Err(error) => json_response(StatusCode::OK, Message::response(Some(id), Err(&error))),
    }
}

/// A request of a client.
struct Asked {
    id: Id,
    method: String,
    params: Option<Raw>,
}

/// Answers a legacy request. It goes on when its client goes away: that is no cancellation.
async fn answer(
    gateway: &Arc<Gateway>,
    arrival: &Arrival,
    session: Arc<ClientSession>,
    opening: Opening,
    Asked { id, method, params }: Asked,
) -> Response<Body> {
    let (outlet, messages) = mpsc::channel(OUTLET);
    let exchange = Exchange::legacy(&session, arrival.address, params.as_deref(), opening.trace, outlet);
    let gateway = Arc::clone(gateway);
    let (running, request) = (Arc::clone(&session), id.clone());
    let work = async move {
        for method in running.take_owed() {
            exchange.tell(method, None).await;
        }
        let outcome = gateway.answer(&exchange, &request, &method, params).await;
        running.end(&request);
        Answer { status: 200, line: Message::response(Some(&request), outcome.as_deref()) }
    };
    let task = tokio::spawn(work.in_current_span());
    session.begin(&id, task.abort_handle());
    if task.is_finished() {
        session.end(&id);
    }
    body::respond(messages, task, arrival.reads_events(), None).await
}

pub(super) async fn open_stream(gateway: &Arc<Gateway>, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    if !arrival.reads_events() {
        return status(StatusCode::NOT_ACCEPTABLE);
    }
    let Some(session) = find_session(gateway, arrival, id).await else { return status(StatusCode::NOT_FOUND) };
    match gateway.open_stream(arrival.party()) {
        Some(slot) => event_response(EventBody::open(session.open_stream(), slot)),
        None => too_many_streams(None),
    }
}

pub(super) async fn end_session(gateway: &Arc<Gateway>, arrival: &Arrival) -> Response<Body> {
    let Some(id) = arrival.header(SESSION) else { return not_allowed() };
    if find_session(gateway, arrival, id).await.is_none() {
        return status(StatusCode::NOT_FOUND);
    }
    if let Some(session) = gateway.sessions.remove(id) {
        gateway.forget_session(&session);
    }
    status(StatusCode::OK)
}

impl Gateway {
    /// A conversation of one request, for clients that begin none. The search of the
    /// `gateway` dialect is answered whatever the dialect of others is.
    pub(super) async fn one_request_session(
        &self,
        viewer: Viewer,
        method: &str,
        params: Option<&RawValue>,
    ) -> Arc<ClientSession> {
        // It sees the tools of this moment only, so they should be there.
        self.ready().await;
        let name = Fields::of_optional(params).text("name").filter(|_| method == "tools/call");
        let searches = name.is_some_and(|name| DialectName::Gateway.meta_names().contains(&name.as_str()));
        let profile = if searches { Profile::Dialect(DialectName::Gateway) } else { self.setup().profile };
        Arc::new(self.begin_once(viewer, profile, searches))
    }
}
