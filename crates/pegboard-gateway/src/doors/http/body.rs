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

use super::{SESSION, responses::json_response, resumable::ResumableStream};
use crate::{
    doors::reply_format::{self, error_line},
    pipeline::Pipeline,
    request::{Failure, Outcome, Reply},
    shares::{Document, Party},
    trace,
};

/// The interval of keep-alive comments on a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The answer to a finished request.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    status: StatusCode,
    /// Empty if there is no client to answer.
    pub(super) line: Option<Document>,
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
pub(super) struct AbortOnDrop(Option<tokio::task::AbortHandle>);

impl AbortOnDrop {
    fn new(task: &JoinHandle<HttpAnswer>) -> Self {
        Self(Some(task.abort_handle()))
    }

    /// Lets the task run.
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// The work on a request.
pub(super) type Work = Pin<Box<dyn Future<Output = HttpAnswer> + Send>>;

/// Boxes the work before it is passed on: it has thousands of bytes, which each move would copy.
pub(super) fn boxed(work: impl Future<Output = HttpAnswer> + Send + 'static) -> Work {
    Box::pin(work.in_current_span())
}

/// What becomes of a request whose client disconnects.
#[derive(Debug)]
pub(super) enum Disconnect {
    /// The work is given up.
    Cancels,
    /// The work continues, and the client of a session can resume its stream.
    Resumable(ResumableStream),
}

/// Waits for the first thing there is to say: if it is the answer, it is the whole response; if
/// it is a message about the request, a stream begins. Without `messages` the client reads no
/// streams.
pub(super) async fn respond(
    messages: Option<queue::Receiver<String>>,
    mut work: Work,
    disconnect: Disconnect,
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
            Ok(first) => begin_stream(Some(first), messages, RequestAnswer::Ready(answer), disconnect).await,
            Err(_) => answer.into_response(),
        },
        (None, messages) => respond_later(messages, tokio::spawn(work), disconnect).await,
    }
}

/// The answer to a request, or the task that works on it.
#[derive(Debug)]
pub(super) enum RequestAnswer {
    Ready(HttpAnswer),
    Pending(JoinHandle<HttpAnswer>),
}

async fn begin_stream(
    first: Option<String>,
    messages: queue::Receiver<String>,
    answer: RequestAnswer,
    disconnect: Disconnect,
) -> Response<Body> {
    let guard = match (&answer, disconnect) {
        (_, Disconnect::Resumable(stream)) => match stream.session().await {
            Some(session) => return stream.respond(session, first, messages, answer),
            None => None,
        },
        (RequestAnswer::Pending(task), Disconnect::Cancels) => Some(AbortOnDrop::new(task)),
        (RequestAnswer::Ready(_), Disconnect::Cancels) => None,
    };
    event_response(match answer {
        RequestAnswer::Ready(answer) => EventBody::answered(first, messages, answer),
        RequestAnswer::Pending(task) => EventBody::new(first, messages, Some(task), guard),
    })
}

async fn respond_later(
    messages: Option<queue::Receiver<String>>,
    mut task: JoinHandle<HttpAnswer>,
    disconnect: Disconnect,
) -> Response<Body> {
    let gone = || super::status(StatusCode::NO_CONTENT);
    let guard = matches!(disconnect, Disconnect::Cancels).then(|| AbortOnDrop::new(&task));
    let Some(mut messages) = messages else {
        let answer = task.await;
        return answer.map_or_else(|_| gone(), HttpAnswer::into_response);
    };
    let stream_start = match &disconnect {
        Disconnect::Resumable(stream) => stream.start_after(),
        Disconnect::Cancels => None,
    };
    let first = tokio::select! {
        biased;
        Some(first) = messages.recv() => Some(first),
        answer = &mut task => return answer.map_or_else(|_| gone(), HttpAnswer::into_response),
        () = tokio::time::sleep(stream_start.unwrap_or_default()), if stream_start.is_some() => None,
    };
    guard.into_iter().for_each(AbortOnDrop::defuse);
    begin_stream(first, messages, RequestAnswer::Pending(task), disconnect).await
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
}

impl EventBody {
    /// Creates a stream whose answer is available.
    fn answered(first: Option<String>, messages: queue::Receiver<String>, answer: HttpAnswer) -> Self {
        Self { is_answered: true, last: answer.line, ..Self::new(first, messages, None, None) }
    }

    fn new(
        first: Option<String>,
        messages: queue::Receiver<String>,
        task: Option<JoinHandle<HttpAnswer>>,
        guard: Option<AbortOnDrop>,
    ) -> Self {
        let alive = keep_alive();
        Self { first, is_answered: false, last: None, messages, task, is_open: true, alive, _guard: guard }
    }
}

/// Returns the ticks of keep-alive comments.
pub(super) fn keep_alive() -> Interval {
    let mut alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    alive
}

/// A comment that keeps a silent stream alive.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Returns the response with this stream as its body.
pub(super) fn event_response(
    body: impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> Response<Body> {
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
        Poll::Ready(Some(Ok(Frame::data(COMMENT))))
    }
}
