//! Event streams of a session, which a client that was disconnected can resume.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::Response,
};
use http_body::Frame;
use pegboard_upstream::queue;
use tokio::time::Interval;

use super::{
    SESSION, VERSION,
    arrival::Arrival,
    body::{COMMENT, RequestAnswer, event_response, keep_alive},
};
use crate::{
    caller::Caller,
    doors::DoorContext,
    sessions::{ClientSession, Reader},
    shares::{Claim, Party},
};

/// The first version whose clients understand an event without data, which gives them their place in
/// a stream before its first message.
const PRIMED_SINCE: &str = "2025-11-25";

/// How long the answer to a request of such a client may take before a stream begins: without one,
/// an answer is lost with the connection.
const STREAM_AFTER: Duration = Duration::from_secs(1);

/// Returns whether the client of a request understands an event without data.
pub(super) fn is_primed(arrival: &Arrival) -> bool {
    arrival.header(VERSION).is_some_and(|version| version >= PRIMED_SINCE)
}

/// What the answer to a request of a session needs to become a stream.
#[derive(Debug)]
pub(super) struct ResumableStream {
    entrance: DoorContext,
    /// The id of the session; a request without a session has none.
    session: Option<String>,
    caller: Caller,
    party: Party,
    is_primed: bool,
}

impl ResumableStream {
    pub(super) fn new(entrance: &DoorContext, arrival: &Arrival) -> Self {
        Self {
            entrance: entrance.clone(),
            session: arrival.header(SESSION).map(str::to_owned),
            caller: arrival.caller,
            party: arrival.party(),
            is_primed: is_primed(arrival),
        }
    }

    /// Returns how long the answer may take before a stream begins without a message.
    pub(super) fn start_after(&self) -> Option<Duration> {
        (self.is_primed && self.session.is_some()).then_some(STREAM_AFTER)
    }

    /// Returns the session, if the request belongs to one.
    pub(super) async fn session(&self) -> Option<Arc<ClientSession>> {
        let viewer = self.entrance.setups.viewer(self.caller)?;
        self.entrance.sessions.find(self.session.as_deref()?, &viewer, self.party).await
    }

    /// Returns the stream of a request. Its messages and its answer are kept while the client is
    /// disconnected.
    pub(super) fn respond(
        &self,
        session: Arc<ClientSession>,
        first: Option<String>,
        messages: queue::Receiver<String>,
        answer: RequestAnswer,
    ) -> Response<Body> {
        let stream = session.replay.begin();
        let reader = session.replay.attach(stream);
        tokio::spawn(write_stream(Arc::clone(&session), stream, first, messages, answer));
        event_response(ResumableBody::new(session, reader, self.is_primed, None))
    }
}

/// Writes the messages and the answer of a request to its stream, whether or not its client reads it.
async fn write_stream(
    session: Arc<ClientSession>,
    stream: u64,
    first: Option<String>,
    mut messages: queue::Receiver<String>,
    answer: RequestAnswer,
) {
    if let Some(first) = first {
        session.replay.add(stream, first).await;
    }
    let answer = match answer {
        RequestAnswer::Ready(answer) => Some(answer),
        RequestAnswer::Pending(mut task) => loop {
            tokio::select! {
                // What was said before the answer comes before it.
                biased;
                Some(message) = messages.recv() => session.replay.add(stream, message).await,
                answer = &mut task => break answer.ok(),
            }
        },
    };
    while let Ok(message) = messages.try_recv() {
        session.replay.add(stream, message).await;
    }
    session.replay.finish(stream, answer.and_then(|answer| answer.line));
}

/// A response with the events of a stream from some event on.
#[derive(Debug)]
pub(super) struct ResumableBody {
    session: Arc<ClientSession>,
    reader: Reader,
    first: Option<Bytes>,
    alive: Interval,
    /// The place of a stream without end among those of its caller.
    _slot: Option<Claim>,
}

impl ResumableBody {
    pub(super) fn new(session: Arc<ClientSession>, reader: Reader, is_primed: bool, slot: Option<Claim>) -> Self {
        let first = is_primed.then(|| session.replay.priming_event(&reader));
        Self { session, reader, first, alive: keep_alive(), _slot: slot }
    }
}

impl http_body::Body for ResumableBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Poll::Ready(event) = this.session.replay.poll_next(&mut this.reader, context) {
            return Poll::Ready(event.map(|event| Ok(Frame::data(event))));
        }
        ready!(this.alive.poll_tick(context));
        Poll::Ready(Some(Ok(Frame::data(COMMENT))))
    }
}

impl Drop for ResumableBody {
    fn drop(&mut self) {
        self.session.replay.detach(&self.reader);
    }
}
