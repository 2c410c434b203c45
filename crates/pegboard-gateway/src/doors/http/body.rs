//! Answers that are one document, or a stream when there is more to say.

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
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Interval, MissedTickBehavior},
};

use super::responses::json_response;
use crate::shares::Claim;

/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A finished request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) line: String,
}

/// Ends a task when its request is given up.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the first thing there is to say: if it is the answer, it is the whole
/// response; if it is a message about the request, a stream begins.
pub(super) async fn respond(
    mut messages: mpsc::Receiver<String>,
    mut task: JoinHandle<Answer>,
    reads_events: bool,
    guard: Option<AbortOnDrop>,
) -> Response<Body> {
    if !reads_events {
        // Nobody hears it: a question is told so at once, or goes to the stream.
        drop(messages);
        let answer = task.await;
        drop(guard);
        return answer.map_or_else(|_| super::status(StatusCode::NO_CONTENT), whole);
    }
    loop {
        let first = tokio::select! {
            biased;
            Some(message) = messages.recv() => Some(message),
            answer = &mut task => {
                return match answer {
                    Ok(answer) => whole(answer),
                    // Cancelled by its own client, who no longer listens.
                    Err(_) => super::status(StatusCode::NO_CONTENT),
                };
            }
        };
        if let Some(first) = first {
            return event_response(EventBody::answering(first, messages, task, guard));
        }
    }
}

fn whole(answer: Answer) -> Response<Body> {
    json_response(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK), answer.line)
}

/// A stream of messages, ended by an answer where there is one.
#[derive(Debug)]
pub(super) struct EventBody {
    first: Option<String>,
    /// Whether the request has ended.
    is_answered: bool,
    /// The answer, once it is there; a cancelled request has none.
    last: Option<String>,
    messages: mpsc::Receiver<String>,
    task: Option<JoinHandle<Answer>>,
    is_open: bool,
    alive: Interval,
    _guard: Option<AbortOnDrop>,
    /// The place of a stream without end among those of its caller.
    _slot: Option<Claim>,
}

impl EventBody {
    /// A stream that goes on until its sender is gone.
    pub(super) fn open(messages: mpsc::Receiver<String>, slot: Claim) -> Self {
        Self { _slot: Some(slot), ..Self::new(None, messages, None, None) }
    }

    fn answering(
        first: String,
        messages: mpsc::Receiver<String>,
        task: JoinHandle<Answer>,
        guard: Option<AbortOnDrop>,
    ) -> Self {
        Self::new(Some(first), messages, Some(task), guard)
    }

    fn new(
        first: Option<String>,
        messages: mpsc::Receiver<String>,
        task: Option<JoinHandle<Answer>>,
        guard: Option<AbortOnDrop>,
    ) -> Self {
        let mut alive = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first, is_answered: false, last: None, messages, task, is_open: true, alive, _guard: guard, _slot: None }
    }
}

/// The response that such a stream is the body of.
pub(super) fn event_response(body: EventBody) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(line: &str) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("event: message\ndata: {line}\n\n")))
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(event(&first))));
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
            self.last = answer.ok().map(|answer| answer.line);
        }
        if self.is_answered {
            // What was said before the answer comes before it; what is said later is too late.
            if let Ok(message) = self.messages.try_recv() {
                return Poll::Ready(Some(Ok(event(&message))));
            }
            self.is_open = false;
            return Poll::Ready(self.last.take().map(|answer| Ok(event(&answer))));
        }
        match self.messages.poll_recv(context) {
            Poll::Ready(Some(message)) => return Poll::Ready(Some(Ok(event(&message)))),
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
