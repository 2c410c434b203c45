//! The event streams of a session over HTTP, and the events that a reconnecting client has missed.
//!
//! The id of an event is `LIFE-STREAM-NUMBER`: `LIFE` changes when the session is restored after a
//! restart, `STREAM` is the stream, `NUMBER` the place of the event in it. A client that reconnects
//! with the id of the last event that it got receives the later events of this stream, and of no
//! other one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::Bytes;
use pegboard_upstream::queue;
use tokio::{sync::Notify, time::Instant};

use crate::{
    ids::random_id,
    lock,
    shares::{Claim, Document},
};

/// The stream for messages that belong to no request.
pub(crate) const STANDALONE: u64 = 0;

/// Maximum number of bytes of the events that a session keeps for clients that reconnect. The
/// answer to a request is kept beyond it until it is sent once: it counts against its caller's share
/// of unread bytes.
const REPLAY_BYTES: usize = 512 << 10;

/// Maximum number of these events.
const REPLAY_EVENTS: usize = 1024;

/// How long a stream without a reader can be resumed.
const RESUMABLE_FOR: Duration = Duration::from_secs(600);

/// Maximum number of events that wait for a client that reads.
const UNREAD_EVENTS: usize = 256;

/// The delay before a client reconnects, in milliseconds, as it is told to the client.
const RETRY_MS: u64 = 1000;

/// The event streams of a session over HTTP.
#[derive(Debug)]
pub(crate) struct Replay {
    life: String,
    streams: Mutex<Streams>,
    /// Signals that a reader has read an event or has left.
    progress: Notify,
}

#[derive(Debug, Default)]
struct Streams {
    by_number: BTreeMap<u64, Stream>,
    last: u64,
    /// Number of all events so far, for their order across streams.
    count: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Stream {
    events: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
    /// The number of the first event that no reader got.
    unsent: u64,
    has_ended: bool,
    /// The number of the latest reader; older ones end.
    reader: u64,
    is_read: bool,
    waker: Option<Waker>,
    /// When its reader left or its last event came.
    changed: Instant,
}

#[derive(Debug)]
struct Event {
    number: u64,
    order: u64,
    is_answer: bool,
    /// Whether a reader got it at some time.
    was_sent: bool,
    frame: Bytes,
    /// The event's room in its caller's share of unread bytes, until it is sent.
    room: Vec<Claim>,
}

impl Event {
    /// Returns the bytes to send. The room is given back with the last of them; what is kept for a client
    /// that reconnects is bounded by the limits of the replay.
    fn send(&mut self) -> Bytes {
        self.was_sent = true;
        match std::mem::take(&mut self.room) {
            room if room.is_empty() => self.frame.clone(),
            room => Bytes::from_owner(ClaimedBytes { bytes: self.frame.clone(), _room: room }),
        }
    }
}

/// Bytes on their way to a client, with their claim on its caller's share of memory.
struct ClaimedBytes {
    bytes: Bytes,
    _room: Vec<Claim>,
}

impl AsRef<[u8]> for ClaimedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What became of a message for the stream that belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Sent,
    /// The client does not read what it has.
    Full,
    /// There is no open stream.
    NoStream,
}

/// The place of one response in a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: u64,
    number: u64,
    /// The number of the event to read next.
    next: u64,
}

/// The outcome of resuming a stream.
#[derive(Debug)]
pub(crate) enum Resumed {
    Reader(Reader),
    /// The stream has ended, and the client has got all of it.
    Complete,
    /// The stream is not known any more.
    Unknown,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            next: 1,
            unsent: 1,
            has_ended: false,
            reader: 0,
            is_read: false,
            waker: None,
            changed: Instant::now(),
        }
    }
}

impl Stream {
    fn is_full(&self) -> bool {
        let unread = || self.events.iter().rev().take_while(|event| event.number >= self.unsent);
        let bytes = || unread().map(|event| event.frame.len()).sum::<usize>();
        self.is_read && (unread().count() >= UNREAD_EVENTS || bytes() >= queue::MAX_BYTES)
    }

    /// Returns whether the oldest event can be dropped: a reader got it, or there is no reader and
    /// it is not an answer. With `is_sent` only the former counts.
    fn can_drop_oldest(&self, is_sent: bool) -> bool {
        let oldest = self.events.front();
        let is_done = |event: &Event| event.was_sent || event.number < self.unsent;
        oldest.is_some_and(|event| is_done(event) || !(is_sent || self.is_read || event.is_answer))
    }

    fn wake(&mut self) {
        self.changed = Instant::now();
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    fn is_expired(&self) -> bool {
        !self.is_read && self.changed.elapsed() > RESUMABLE_FOR
    }
}

impl Streams {
    fn add(&mut self, life: &str, number: u64, message: Document, is_answer: bool) {
        let Some(stream) = self.by_number.get_mut(&number) else { return };
        let Document { text, room } = message;
        let text = format!("id: {life}-{number}-{}\nevent: message\ndata: {text}\n\n", stream.next);
        self.count += 1;
        let (number, frame) = (stream.next, text.into());
        stream.events.push_back(Event { number, order: self.count, is_answer, was_sent: false, frame, room });
        stream.next += 1;
        stream.wake();
        self.evict();
    }

    /// Drops the oldest events that a reader got, then the oldest of streams without a reader, until
    /// the rest is within the bounds.
    fn evict(&mut self) {
        let count = |streams: &BTreeMap<u64, Stream>| {
            let events = streams.values().flat_map(|stream| &stream.events);
            events.fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.frame.len()))
        };
        let (mut events, mut bytes): (usize, usize) = count(&self.by_number);
        while events > REPLAY_EVENTS || bytes > REPLAY_BYTES {
            let oldest = |is_sent: bool| {
                let streams = self.by_number.iter().filter(|(_, stream)| stream.can_drop_oldest(is_sent));
                let oldest = streams.min_by_key(|(_, stream)| stream.events.front().map(|event| event.order));
                oldest.map(|(number, _)| *number)
            };
            let Some(number) = oldest(true).or_else(|| oldest(false)) else { break };
            let Some(stream) = self.by_number.get_mut(&number) else { break };
            if let Some(dropped) = stream.events.pop_front() {
                events -= 1;
                bytes -= dropped.frame.len();
            }
            if stream.has_ended && stream.events.is_empty() && !stream.is_read {
                self.by_number.remove(&number);
            }
        }
    }
}

impl Replay {
    pub(crate) fn new() -> Self {
        let life = random_id().chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        Self { life, streams: Mutex::default(), progress: Notify::new() }
    }

    /// Begins a stream of messages about one request.
    pub(crate) fn begin(&self) -> u64 {
        let mut streams = lock(&self.streams);
        streams.last += 1;
        let number = streams.last;
        if !streams.is_closed {
            streams.by_number.insert(number, Stream::default());
        }
        number
    }

    /// Adds a message about a request. Waits for a client that reads slowly, and not for one that
    /// is gone.
    pub(crate) async fn add(&self, stream: u64, message: String) {
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            progress.as_mut().enable();
            {
                let mut streams = lock(&self.streams);
                if !streams.by_number.get(&stream).is_some_and(Stream::is_full) {
                    return streams.add(&self.life, stream, message.into(), false);
                }
            }
            progress.await;
        }
    }

    /// Ends the stream of a request, with the answer if there is one.
    pub(crate) fn finish(&self, stream: u64, answer: Option<Document>) {
        let mut streams = lock(&self.streams);
        if let Some(stream) = streams.by_number.get_mut(&stream) {
            stream.has_ended = true;
            stream.wake();
        }
        if let Some(answer) = answer {
            streams.add(&self.life, stream, answer, true);
        }
    }

    /// Sends a message that belongs to no request. One that is `kept` waits for a client that may
    /// reconnect to its stream.
    pub(crate) fn send(&self, message: String, is_kept: bool) -> Delivery {
        let mut streams = lock(&self.streams);
        match streams.by_number.get(&STANDALONE) {
            Some(stream) if stream.is_full() => return Delivery::Full,
            Some(stream) if stream.is_read => {}
            Some(stream) if is_kept && !stream.is_expired() => {}
            _ => return Delivery::NoStream,
        }
        streams.add(&self.life, STANDALONE, message.into(), false);
        Delivery::Sent
    }

    /// Starts to read a stream, from the first event that was not sent yet. An older reader of the
    /// stream ends.
    pub(crate) fn attach(&self, stream: u64) -> Reader {
        self.attach_at(stream, None)
    }

    /// Continues the stream of an event after this event. Events that were dropped since are left
    /// out.
    pub(crate) fn resume(&self, event: &str) -> Resumed {
        let Some((life, stream, number)) = parse_id(event) else { return Resumed::Unknown };
        if life != self.life {
            // The session was restored: its requests have ended, and the stream begins anew.
            return if stream == STANDALONE { Resumed::Reader(self.attach(stream)) } else { Resumed::Unknown };
        }
        match lock(&self.streams).by_number.get(&stream) {
            Some(stream) if number >= stream.next => return Resumed::Unknown,
            Some(stream) if stream.has_ended && number + 1 == stream.next => return Resumed::Complete,
            Some(_) => {}
            None => return Resumed::Unknown,
        }
        Resumed::Reader(self.attach_at(stream, Some(number + 1)))
    }

    fn attach_at(&self, number: u64, next: Option<u64>) -> Reader {
        let mut streams = lock(&self.streams);
        let is_closed = streams.is_closed;
        let stream = match number {
            STANDALONE if !is_closed => Some(streams.by_number.entry(STANDALONE).or_default()),
            number => streams.by_number.get_mut(&number),
        };
        let Some(stream) = stream else { return Reader { stream: number, number: 0, next: 1 } };
        stream.reader += 1;
        stream.is_read = true;
        stream.wake();
        let next = next.unwrap_or(stream.unsent);
        // What the client has got is not sent again, and what it has not got was not sent.
        stream.unsent = next;
        Reader { stream: number, number: stream.reader, next }
    }

    /// Returns an event without data that gives the client its place in the stream, so that it can
    /// resume before the first message.
    pub(crate) fn priming_event(&self, reader: &Reader) -> Bytes {
        let Reader { stream, next, .. } = reader;
        format!("id: {}-{stream}-{}\nretry: {RETRY_MS}\ndata: \n\n", self.life, next - 1).into()
    }

    /// Polls for the next event; `None` at the end of the stream.
    pub(crate) fn poll_next(&self, reader: &mut Reader, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut streams = lock(&self.streams);
        let stream = streams.by_number.get_mut(&reader.stream);
        let Some(stream) = stream.filter(|stream| stream.is_read && stream.reader == reader.number) else {
            return Poll::Ready(None);
        };
        let at = stream.events.partition_point(|event| event.number < reader.next);
        if let Some(event) = stream.events.get_mut(at) {
            reader.next = event.number + 1;
            stream.unsent = stream.unsent.max(reader.next);
            let frame = event.send();
            self.progress.notify_waiters();
            return Poll::Ready(Some(frame));
        }
        if stream.has_ended {
            return Poll::Ready(None);
        }
        stream.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ends a reader; the stream stays.
    pub(crate) fn detach(&self, reader: &Reader) {
        let mut streams = lock(&self.streams);
        if let Some(stream) = streams.by_number.get_mut(&reader.stream)
            && stream.reader == reader.number
        {
            stream.is_read = false;
            stream.changed = Instant::now();
        }
        streams.evict();
        self.progress.notify_waiters();
    }

    /// Returns whether a client reads the stream for messages that belong to no request.
    pub(crate) fn has_reader(&self) -> bool {
        lock(&self.streams).by_number.get(&STANDALONE).is_some_and(|stream| stream.is_read)
    }

    /// Ends the response with the stream for messages that belong to no request.
    pub(crate) fn end_standalone(&self) {
        if let Some(stream) = lock(&self.streams).by_number.get_mut(&STANDALONE) {
            stream.is_read = false;
            stream.wake();
        }
    }

    /// Ends all streams for good, because the session has ended.
    pub(crate) fn close(&self) {
        let mut streams = lock(&self.streams);
        streams.is_closed = true;
        for (_, mut stream) in std::mem::take(&mut streams.by_number) {
            stream.wake();
        }
        self.progress.notify_waiters();
    }

    /// Drops the streams of requests whose clients did not come back, and old events.
    pub(crate) fn sweep(&self) {
        let mut streams = lock(&self.streams);
        streams.by_number.retain(|number, stream| {
            let is_old = stream.is_expired();
            if is_old {
                stream.events.clear();
                stream.unsent = stream.next;
            }
            !is_old || *number == STANDALONE || !stream.has_ended
        });
    }
}

/// Returns the parts of the id of an event.
fn parse_id(id: &str) -> Option<(&str, u64, u64)> {
    let (life, place) = id.split_once('-')?;
    let (stream, number) = place.split_once('-')?;
    Some((life, stream.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        caller::Caller,
        shares::{Party, Shares},
    };

    /// Resumes a stream that is known.
    #[track_caller]
    fn resume(replay: &Replay, event: &str) -> Reader {
        match replay.resume(event) {
            Resumed::Reader(reader) => reader,
            other => panic!("{other:?}"),
        }
    }

    /// Reads what there is, without the lines that every event has.
    fn read(replay: &Replay, reader: &mut Reader) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut found = Vec::new();
        while let Poll::Ready(Some(frame)) = replay.poll_next(reader, &mut context) {
            let text = String::from_utf8(frame.to_vec()).expect("text");
            let text = text.replace(&format!("{}-", replay.life), "").replace("event: message\n", "");
            found.push(text.trim_end().replace('\n', " "));
        }
        found
    }

    fn id(replay: &Replay, rest: &str) -> String {
        format!("{}-{rest}", replay.life)
    }

    #[tokio::test]
    async fn a_stream_goes_on_after_the_last_event_that_arrived() {
        let replay = Replay::new();
        let (one, other) = (replay.begin(), replay.begin());
        let mut reader = replay.attach(one);
        replay.add(one, "a".to_owned()).await;
        replay.add(other, "of another".to_owned()).await;
        replay.add(one, "b".to_owned()).await;
        assert_eq!(read(&replay, &mut reader), ["id: 1-1 data: a", "id: 1-2 data: b"]);
        replay.detach(&reader);
        replay.add(one, "c".to_owned()).await;
        replay.finish(one, Some("answer".to_owned().into()));
        // The second event was lost on its way.
        let mut again = resume(&replay, &id(&replay, "1-1"));
        assert_eq!(replay.priming_event(&again), format!("id: {}-1-1\nretry: 1000\ndata: \n\n", replay.life));
        assert_eq!(read(&replay, &mut again), ["id: 1-2 data: b", "id: 1-3 data: c", "id: 1-4 data: answer"]);
        assert!(read(&replay, &mut reader).is_empty(), "the first response has ended");
        for unknown in ["1-5", "3-1", "1", "1-1-1", "x-1", "-1-1"] {
            assert!(matches!(replay.resume(&id(&replay, unknown)), Resumed::Unknown), "{unknown}");
        }
        assert!(matches!(replay.resume(&id(&replay, "1-4")), Resumed::Complete));
        assert!(matches!(replay.resume(""), Resumed::Unknown));
        assert!(matches!(replay.resume("elsewhere-1-1"), Resumed::Unknown));
        // The session was restored.
        resume(&replay, "elsewhere-0-7");
    }

    #[tokio::test(start_paused = true)]
    async fn messages_between_requests_wait_for_a_client_that_was_there() {
        let replay = Replay::new();
        assert_eq!(replay.send("early".to_owned(), true), Delivery::NoStream);
        let mut reader = replay.attach(STANDALONE);
        assert_eq!(replay.send("a".to_owned(), false), Delivery::Sent);
        assert_eq!(read(&replay, &mut reader), ["id: 0-1 data: a"]);
        replay.detach(&reader);
        assert_eq!(replay.send("b".to_owned(), true), Delivery::Sent);
        assert_eq!(replay.send("announcement".to_owned(), false), Delivery::NoStream);
        let mut fresh = replay.attach(STANDALONE);
        assert_eq!(read(&replay, &mut fresh), ["id: 0-2 data: b"]);
        replay.detach(&fresh);
        replay.send("c".to_owned(), true);
        tokio::time::advance(RESUMABLE_FOR + Duration::from_secs(1)).await;
        assert_eq!(replay.send("d".to_owned(), true), Delivery::NoStream);
        replay.sweep();
        let mut late = resume(&replay, &id(&replay, "0-2"));
        assert!(read(&replay, &mut late).is_empty());
        replay.end_standalone();
        assert!(!replay.has_reader());
        replay.close();
        assert_eq!(replay.send("e".to_owned(), true), Delivery::NoStream);
        assert_eq!(replay.attach(STANDALONE).number, 0);
    }

    #[test]
    fn an_answer_counts_as_unread_until_it_is_sent() {
        let (shares, party) = (Arc::new(Shares::default()), Party::Caller(Caller::Pipe));
        let is_free = || shares.take(party, 10, 10).is_some();
        let replay = Replay::new();
        let stream = replay.begin();
        let room = vec![shares.take(party, 1, 10).expect("room")];
        replay.finish(stream, Some(Document { text: "answer".to_owned(), room }));
        let mut reader = replay.attach(stream);
        assert!(!is_free(), "it was not sent yet");
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(frame)) = replay.poll_next(&mut reader, &mut context) else { panic!("no answer") };
        assert!(!is_free(), "it is on its way");
        drop(frame);
        assert!(is_free());
        // It stays for a client that did not get it.
        let mut again = resume(&replay, &id(&replay, "1-0"));
        assert_eq!(read(&replay, &mut again), ["id: 1-1 data: answer"]);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_an_answer_stays() {
        let replay = Replay::new();
        let (one, other) = (replay.begin(), replay.begin());
        replay.finish(one, Some("x".repeat(REPLAY_BYTES).into()));
        for _ in 0..3 * REPLAY_EVENTS {
            replay.add(other, "y".repeat(1000)).await;
        }
        let kept = |replay: &Replay| lock(&replay.streams).by_number[&2].events.len();
        assert!(kept(&replay) <= 1, "the answer takes all room");
        let mut reader = resume(&replay, &id(&replay, "1-0"));
        assert_eq!(read(&replay, &mut reader).len(), 1);
        replay.detach(&reader);
        for _ in 0..3 * REPLAY_EVENTS {
            replay.add(other, "z".to_owned()).await;
        }
        assert_eq!(kept(&replay), REPLAY_EVENTS, "an answer that was sent makes room");
        assert!(matches!(replay.resume(&id(&replay, "1-0")), Resumed::Unknown));
        // The writer waits for a reader, until it reads or leaves.
        let mut reader = replay.attach(other);
        read(&replay, &mut reader);
        for _ in 0..UNREAD_EVENTS {
            replay.add(other, "a".to_owned()).await;
        }
        let mut waiting = std::pin::pin!(replay.add(other, "b".to_owned()));
        assert!(std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
        replay.detach(&reader);
        waiting.await;
    }
}
