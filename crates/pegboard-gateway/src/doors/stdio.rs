//! One client on standard input and output, in either era.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_mcp::{
    era::Era,
    json::Fields,
    lines::{Line, LineReader},
    rpc::{Id, Message, MessageError, RpcError},
};
use pegboard_upstream::queue;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    task::{AbortHandle, JoinSet},
};
use tracing::{Instrument as _, Span};

use crate::{
    caller::Caller,
    doors::{DoorContext, incoming::Incoming, reply_format},
    exchange::Outlet,
    lock,
    request::{Client, Failure, Methods, Reply, Request, SessionRef},
    sessions::ClientSession,
    trace,
};

/// Maximum number of bytes of a line; a longer one is not a message.
const MAX_LINE: usize = 64 << 20;

/// Maximum number of messages that wait to be written.
const QUEUE: usize = 256;

/// How long answers may take after the client has closed its input.
const FINAL_ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Maximum number of messages in one batch.
const MAX_BATCH: usize = 100;

/// The one session of a pipe, once it has begun.
type Slot = Arc<Mutex<Option<Arc<ClientSession>>>>;

/// Serves one client until it closes its end, or the gateway closes its streams.
///
/// # Errors
/// When the pipes break.
pub(crate) async fn serve(
    entrance: DoorContext,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (outlet, queue) = queue::channel(QUEUE);
    let writer = tokio::spawn(write_lines(queue, output));
    let mut stopping = entrance.shutdown.stopping.subscribe();
    let number = entrance.sessions.next_owner();
    let pipe = Pipe { entrance, number, slot: Slot::default(), outlet, modern: Arc::default() };
    let mut lines = LineReader::new(input, MAX_LINE);
    let mut tasks = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => None,
        };
        let Some(line) = line else { break };
        while tasks.try_join_next().is_some() {}
        match parse_line(&line) {
            Ok(Some(PipeLine::Message(message))) => pipe.handle_message(message, &mut tasks).await,
            Ok(Some(PipeLine::Batch(messages))) => pipe.handle_batch(messages, &mut tasks).await,
            Ok(None) => {}
            Err(error) => send_error(&pipe.outlet, &error).await,
        }
    }
    pipe.finish(tasks).await;
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), writer).await;
    Ok(())
}

/// What a line holds.
enum PipeLine {
    Message(Message),
    /// A batch, as in version 2025-03-26.
    Batch(Vec<Message>),
}

/// Returns what is on a line; `None` for blank lines.
fn parse_line(line: &Line<'_>) -> Result<Option<PipeLine>, RpcError> {
    let Line::Whole(bytes) = line else { return Err(RpcError::new(RpcError::PARSE, "the line is too long")) };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| RpcError::new(RpcError::PARSE, "the line is not UTF-8"))?;
    let parsed = match text.trim_start().starts_with('[') {
        true => Message::parse_all(text).map(PipeLine::Batch),
        false => Message::parse(text).map(PipeLine::Message),
    };
    parsed.map(Some).map_err(|error| {
        let code = if matches!(error, MessageError::NotJson(_)) { RpcError::PARSE } else { RpcError::INVALID_REQUEST };
        RpcError::new(code, error.to_string())
    })
}

/// One client on a pipe, and what its requests need for their answers.
#[derive(Clone)]
struct Pipe {
    entrance: DoorContext,
    /// The number of the pipe, which no session has.
    number: u64,
    slot: Slot,
    outlet: Outlet,
    /// Requests without a session, which can be cancelled by their number alone.
    modern: Arc<Mutex<HashMap<Id, AbortHandle>>>,
}

impl Pipe {
    async fn handle_message(&self, message: Message, tasks: &mut JoinSet<()>) {
        match message {
            Message::Request { id, method, params } => {
                let incoming = Incoming::new(id, method, params.as_ref(), None);
                let sent = (Some(&incoming.id), Some(incoming.method.as_str()));
                let span = self.entrance.requests.span(Some((sent, incoming.era())), &incoming.opening);
                if incoming.method == "initialize" && incoming.era() == Era::Legacy {
                    // What follows depends on it, also when it was sent without waiting.
                    let (id, era) = (incoming.id.clone(), incoming.era());
                    let answer = self.answer(id, era, self.to_request(incoming));
                    if let Some(line) = Box::pin(answer).instrument(span).await {
                        let _ = self.outlet.send(line).await;
                    }
                } else {
                    self.spawn_request(incoming, span, tasks);
                }
            }
            Message::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    let id = Fields::of_optional(params.as_deref()).get("requestId").and_then(Id::of);
                    if let Some(task) = id.and_then(|id| lock(&self.modern).remove(&id)) {
                        task.abort();
                    }
                }
                if let Some(session) = lock(&self.slot).as_ref() {
                    self.entrance.sessions.handle_notification(session, &method, params.as_deref());
                }
            }
            Message::Response { id, outcome } => {
                if let (Some(session), Some(id)) = (lock(&self.slot).as_ref(), id) {
                    session.answer(&id, outcome);
                }
            }
        }
    }

    /// Answers the requests of a batch in its order, on one line.
    async fn handle_batch(&self, messages: Vec<Message>, tasks: &mut JoinSet<()>) {
        if messages.is_empty() || messages.len() > MAX_BATCH {
            let message = format!("a batch has 1 to {MAX_BATCH} messages");
            return send_error(&self.outlet, &RpcError::new(RpcError::INVALID_REQUEST, message)).await;
        }
        let mut requests = Vec::new();
        for message in messages {
            match message {
                Message::Request { id, method, params } => {
                    let incoming = Incoming::new(id, method, params.as_ref(), None);
                    let sent = (Some(&incoming.id), Some(incoming.method.as_str()));
                    let span = self.entrance.requests.span(Some((sent, Era::Legacy)), &incoming.opening);
                    let (id, is_first) = (incoming.id.clone(), incoming.method == "initialize");
                    let refusal = "`initialize` and requests of 2026-07-28 cannot be part of a batch";
                    let request = match incoming.era() {
                        Era::Legacy if !is_first => self.to_request(incoming),
                        _ => Err(RpcError::new(RpcError::INVALID_REQUEST, refusal)),
                    };
                    requests.push((id, request, span));
                }
                other => Box::pin(self.handle_message(other, tasks)).await,
            }
        }
        if requests.is_empty() {
            return;
        }
        let pipe = self.clone();
        tasks.spawn(async move {
            let mut lines = Vec::new();
            for (id, request, span) in requests {
                lines.extend(pipe.answer(id, Era::Legacy, request).instrument(span).await);
            }
            let _ = pipe.outlet.send(format!("[{}]", lines.join(","))).await;
        });
    }

    /// Answers a request concurrently with the others.
    fn spawn_request(&self, incoming: Incoming, span: Span, tasks: &mut JoinSet<()>) {
        let (id, era) = (incoming.id.clone(), incoming.era());
        // Read before it runs: what it sees depends on the lines before it, and the next one may
        // cancel it.
        let request = self.to_request(incoming);
        let pipe = self.clone();
        let in_progress = match era {
            Era::Legacy => lock(&self.slot).as_ref().map(|session| session.begin(&id)),
            Era::Modern => None,
        };
        let known = id.clone();
        let work = async move {
            let line = match &in_progress {
                Some(in_progress) => tokio::select! {
                    biased;
                    line = pipe.answer(id.clone(), era, request) => line,
                    () = in_progress.cancelled() => None,
                },
                None => pipe.answer(id.clone(), era, request).await,
            };
            lock(&pipe.modern).remove(&id);
            if let Some(line) = line {
                let _ = pipe.outlet.send(line).await;
            }
        };
        let task = tasks.spawn(work.instrument(span));
        if era == Era::Modern {
            let mut running = lock(&self.modern);
            running.retain(|_, task| !task.is_finished());
            running.insert(known, task);
        }
    }

    /// Answers the requests that were read, and ends streams that would not end.
    async fn finish(self, mut tasks: JoinSet<()>) {
        self.entrance.shutdown.stopping.send_replace(true);
        self.entrance.sessions.close_streams();
        if let Some(session) = lock(&self.slot).as_ref() {
            session.drop_questions();
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.entrance.setups.current().startup_wait + FINAL_ANSWER_TIMEOUT, all).await;
        tasks.shutdown().await;
        if let Some(session) = lock(&self.slot).take() {
            self.entrance.sessions.close(&session);
        }
        self.entrance.sessions.release_pipe(self.number);
    }

    /// Returns the answer to a request; `None` if it was cancelled.
    async fn answer(&self, id: Id, era: Era, request: Result<Request, RpcError>) -> Option<String> {
        let outcome = self.entrance.pipeline.answer(request).await;
        match &outcome {
            Err(Failure::Cancelled) => return None,
            Ok(Reply::Begun(session, _)) => {
                session.attach(self.outlet.clone());
                let old = lock(&self.slot).replace(Arc::clone(session));
                if let Some(old) = old {
                    self.entrance.sessions.close(&old);
                }
            }
            _ => {}
        }
        let line = reply_format::reply_line(era, &id, outcome);
        trace::record_size(line.len());
        Some(line)
    }

    fn to_request(&self, incoming: Incoming) -> Result<Request, RpcError> {
        let (progress, trace, outlet) = (incoming.progress(), incoming.opening.trace.clone(), self.outlet.clone());
        let caller = Caller::Pipe;
        if incoming.era() == Era::Modern {
            let client = incoming.modern_client()?;
            client.check_version()?;
            let (id, operation) = incoming.into_operation(Methods::OfRequests)?;
            let (capabilities, log_level) = (Some(client.capabilities), client.log_level);
            let client = Client {
                name: client.name,
                console: None,
                address: None,
                pipe: Some(self.number),
                capabilities,
                log_level,
                progress,
                outlet,
                trace,
            };
            return Ok(Request { id, caller, session: SessionRef::Stateless, operation, client });
        }
        let session = match (lock(&self.slot).clone(), incoming.method.as_str()) {
            (_, "initialize") | (None, "ping") => SessionRef::Once,
            (Some(session), _) => SessionRef::Open(session),
            (None, _) => {
                let message = "send `initialize` first, or name the protocol version in `_meta`";
                return Err(RpcError::new(RpcError::INVALID_REQUEST, message));
            }
        };
        let (id, operation) = incoming.into_operation(Methods::OfSessions)?;
        let pipe = Some(self.number);
        let (name, console) = (String::new(), None);
        let client =
            Client { name, console, address: None, pipe, capabilities: None, log_level: None, progress, outlet, trace };
        Ok(Request { id, caller, session, operation, client })
    }
}

async fn send_error(outlet: &Outlet, error: &RpcError) {
    let _ = outlet.send(reply_format::error_line(None, error)).await;
}

async fn write_lines(mut queue: queue::Receiver<String>, mut output: impl AsyncWrite + Unpin) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
