//! Response bodies: a single document, or an event stream if there are messages before the answer.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use http_body::Frame;
use pegboard_mcp::{
    era::Era,
    rpc::{Id, RpcError},
};
use pegboard_upstream::queue;
use tokio::{
    task::JoinHandle,
    time::{Interval, MissedTickBehavior},
};
use tracing::Instrument as _;

use super::{
    SESSION,
    responses::{Document, json_response},
};
use crate::{
    doors::reply_format::{self, error_line},
    pipeline::Pipeline,
    request::{Failure, Outcome, Reply},
    shares::{Claim, Party},
    trace,
};

/// The interval of keep-alive comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The answer to a finished request.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    status: StatusCode,
    /// Empty if there is no client to answer.
    line: Option<Document>,
    /// The session that has begun.
    session: Option<String>,
    /// Whether a later try can succeed.
    is_busy: bool,
}

impl HttpAnswer {
    /// Creates the answer to a request in the format of its era.
    pub(super) fn new(era: Era, id: &Id, mut outcome: Outcome) -> Self {
        let room = outcome.as_mut().ok().and_then(Reply::take_room);
        let session = match &outcome {
            Ok(Reply::Begun(session, _)) => Some(session.id.clone()),
            _ => None,
        };
        let (status, line) = match outcome {
            Ok(reply) => (StatusCode::OK, reply_format::reply_line(era, id, Ok(reply))),
            Err(failure @ (Failure::Rpc(_) | Failure::Resource { .. })) => {
                let error = reply_format::to_rpc_error(era, failure);
                let status = if era == Era::Modern { status_of(&error) } else { StatusCode::OK };
                (status, error_line(Some(id), &error))
            }
            Err(failure) => return Self::rejected(Some(id), failure),
        };
        trace::record_size(line.len());
        let line = Document { text: line, room: room.into_iter().collect() };
        Self { status, line: Some(line), session, is_busy: false }
    }

    /// Counts the answer against its caller's share of memory until it is sent. If there is no
    /// room, the answer becomes an error.
    pub(super) fn counted(mut self, pipeline: &Pipeline, party: Party, id: &Id) -> Self {
        // A server's result is counted from its arrival on.
        let Some(line) = self.line.as_mut().filter(|line| line.room.is_empty()) else { return self };
        match pipeline.open_answer(party, line.text.len()) {
            Ok(room) => line.room.extend(room),
            Err(error) => {
                *line = error_line(Some(id), &RpcError::new(RpcError::INTERNAL, error.to_string())).into();
            }
        }
        self
    }

    /// Creates the error answer to a message that need not be a request.
    pub(super) fn rejected(id: Option<&Id>, failure: Failure) -> Self {
        let status = match &failure {
            Failure::Unauthenticated => return Self::bare(StatusCode::UNAUTHORIZED),
            // By the client, who no longer listens.
            Failure::Cancelled => return Self::bare(StatusCode::NO_CONTENT),
            Failure::NoSession => StatusCode::NOT_FOUND,
            Failure::TooManyStreams | Failure::TooManyBytes => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Rpc(error) | Failure::Resource { error, .. } => status_of(error),
        };
        let line = error_line(id, &reply_format::to_rpc_error(Era::Legacy, failure));
        Self { status, line: Some(line.into()), session: None, is_busy: status == StatusCode::SERVICE_UNAVAILABLE }
    }

    fn bare(status: StatusCode) -> Self {
        Self { status, line: None, session: None, is_busy: false }
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let Some(line) = self.line else { return super::status(self.status) };
        let mut response = json_response(self.status, line);
        if let Some(session) = self.session.and_then(|id| HeaderValue::try_from(id).ok()) {
            response.headers_mut().insert(SESSION, session);
        }
        if self.is_busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Returns the HTTP status for an error.
fn status_of(error: &RpcError) -> StatusCode {
    match error.code {
        RpcError::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        RpcError::PARSE
        | RpcError::INVALID_REQUEST
        | RpcError::INVALID_PARAMS
        | RpcError::HEADER_MISMATCH
        | RpcError::MISSING_CAPABILITY
        | RpcError::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Aborts a task when it is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The work on a request.
pub(super) type Work = Pin<Box<dyn Future<Output = HttpAnswer> + Send>>;

/// Boxes the work before it is passed on: it has thousands of bytes, which each move would copy.
pub(super) fn boxed(work: impl Future<Output = HttpAnswer> + Send + 'static) -> Work {
    Box::pin(work.in_current_span())
}

/// Waits for the first thing there is to say: if it is the answer, it is the whole response; if
/// it is a message about the request, a stream begins. Without `messages` the client reads no
/// streams. The work is given up with its client if it `ends_with_client`, else it goes on.
pub(super) async fn respond(
    messages: Option<queue::Receiver<String>>,
    mut work: Work,
    ends_with_client: bool,
) -> Response<Body> {
    // Most answers are there at once, and need no task of their own.
    let at_once = std::future::poll_fn(|context| {
        Poll::Ready(match work.as_mut().poll(context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    });
    match (at_once.await, messages) {
        (Some(answer), None) => answer.into_response(),
        (Some(answer), Some(mut messages)) => match messages.try_recv() {
            Ok(first) => event_response(EventBody::answered(first, messages, answer)),
            Err(_) => answer.into_response(),
        },
        (None, messages) => {
            let task = tokio::spawn(work);
            let guard = ends_with_client.then(|| AbortOnDrop(task.abort_handle()));
            respond_later(messages, task, guard).await
        }
    }
}

async fn respond_later(
    messages: Option<queue::Receiver<String>>,
    mut task: JoinHandle<HttpAnswer>,
    guard: Option<AbortOnDrop>,
) -> Response<Body> {
    let gone = || super::status(StatusCode::NO_CONTENT);
    let Some(mut messages) = messages else {
        let answer = task.await;
        drop(guard);
        return answer.map_or_else(|_| gone(), HttpAnswer::into_response);
    };
    tokio::select! {
        biased;
        Some(first) = messages.recv() => event_response(EventBody::answering(first, messages, task, guard)),
        answer = &mut task => answer.map_or_else(|_| gone(), HttpAnswer::into_response),
    }
}

/// A stream of messages, ended by an answer if there is one.
#[derive(Debug)]
pub(super) struct EventBody {
    first: Option<String>,
    /// Whether the request has ended.
    is_answered: bool,
    /// The answer, once it is there; a cancelled request has none.
    last: Option<Document>,
    messages: queue::Receiver<String>,
    task: Option<JoinHandle<HttpAnswer>>,
    is_open: bool,
    alive: Interval,
    _guard: Option<AbortOnDrop>,
    /// The place of a stream without end among those of its caller.
    _slot: Option<Claim>,
}

impl EventBody {
    /// Creates a stream that ends when its sender is dropped.
    pub(super) fn open(messages: queue::Receiver<String>, slot: Claim) -> Self {
        Self { _slot: Some(slot), ..Self::new(None, messages, None, None) }
    }

    /// Creates a stream whose answer is available.
    fn answered(first: String, messages: queue::Receiver<String>, answer: HttpAnswer) -> Self {
        Self { is_answered: true, last: answer.line, ..Self::new(Some(first), messages, None, None) }
    }

    fn answering(
        first: String,
        messages: queue::Receiver<String>,
        task: JoinHandle<HttpAnswer>,
        guard: Option<AbortOnDrop>,
    ) -> Self {
        Self::new(Some(first), messages, Some(task), guard)
    }

    fn new(
        first: Option<String>,
        messages: queue::Receiver<String>,
        task: Option<JoinHandle<HttpAnswer>>,
        guard: Option<AbortOnDrop>,
    ) -> Self {
        let mut alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first, is_answered: false, last: None, messages, task, is_open: true, alive, _guard: guard, _slot: None }
    }
}

/// Returns the response with this stream as its body.
pub(super) fn event_response(body: EventBody) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(line: impl Into<Document>) -> Frame<Bytes> {
    let Document { text, room } = line.into();
    Frame::data(Document { text: format!("event: message\ndata: {text}\n\n"), room }.into())
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(event(first))));
        }
        if !self.is_open {
            return Poll::Ready(None);
        }
        if self.last.is_none()
            && let Some(task) = self.task.as_mut()
            && let Poll::Ready(answer) = Pin::new(task).poll(context)
        {
            self.task = None;
            self.is_answered = true;
            self.last = answer.ok().and_then(|answer| answer.line);
        }
        if self.is_answered {
            // What was said before the answer comes before it; what is said later is too late.
            if let Ok(message) = self.messages.try_recv() {
                return Poll::Ready(Some(Ok(event(message))));
            }
            self.is_open = false;
            return Poll::Ready(self.last.take().map(|answer| Ok(event(answer))));
        }
        match self.messages.poll_recv(context) {
            Poll::Ready(Some(message)) => return Poll::Ready(Some(Ok(event(message)))),
            Poll::Ready(None) if self.task.is_none() => {
                self.is_open = false;
                return Poll::Ready(None);
            }
            _ => {}
        }
        ready!(self.alive.poll_tick(context));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}
