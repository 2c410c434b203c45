//! One client on standard input and output, either era.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_upstream::{
    era::Era,
    json::{Fields, Raw},
    lines::{Line, Lines},
    rpc::{Id, Message, MessageError, RpcError},
    trace::TraceContext,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use tracing::{Instrument as _, Span};

use crate::{
    doors::http::modern,
    exchange::{Exchange, Outlet},
    gateway::Gateway,
    lock,
    sessions::ClientSession,
    trace::{self, Opening},
};

/// A longer line is no message.
const MAX_LINE: usize = 64 << 20;

/// Messages that wait to be written.
const QUEUE: usize = 256;

/// How long answers may take once the client has nothing more to say.
const LAST_ANSWERS: std::time::Duration = std::time::Duration::from_secs(30);

/// The one conversation of a pipe, once it has begun.
type Slot = Arc<Mutex<Option<Arc<ClientSession>>>>;

impl Gateway {
    /// Serves one client until it closes its end, or the gateway is told to
    /// [close its streams](Self::close_streams).
    ///
    /// # Errors
    /// When the pipes break.
    pub async fn serve_pipe(
        self: &Arc<Self>,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> std::io::Result<()> {
        let (outlet, queue) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(queue, output));
        let pipe = Pipe { gateway: Arc::clone(self), slot: Slot::default(), outlet, modern: Arc::default() };
        let mut lines = Lines::new(input, MAX_LINE);
        let mut tasks = JoinSet::new();
        let mut stopping = self.stopping.subscribe();
        loop {
            let line = tokio::select! {
                line = lines.next() => line?,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => None,
            };
            let Some(line) = line else { break };
            while tasks.try_join_next().is_some() {}
            match read(&line) {
                Ok(Some(message)) => pipe.take(message, &mut tasks).await,
                Ok(None) => {}
                Err(error) => refuse(&pipe.outlet, &error).await,
            }
        }
        pipe.end(tasks).await;
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), writer).await;
        Ok(())
    }
}

/// The message on a line; blank lines have none.
fn read(line: &Line<'_>) -> Result<Option<Message>, RpcError> {
    let Line::Whole(bytes) = line else { return Err(RpcError::new(RpcError::PARSE, "the line is too long")) };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| RpcError::new(RpcError::PARSE, "the line is not UTF-8"))?;
    Message::parse(text).map(Some).map_err(|error| {
        let code = if matches!(error, MessageError::NotJson(_)) { RpcError::PARSE } else { RpcError::INVALID_REQUEST };
        RpcError::new(code, error.to_string())
    })
}

/// One client on a pipe, and what its requests need for their answers.
#[derive(Clone)]
struct Pipe {
    gateway: Arc<Gateway>,
    slot: Slot,
    outlet: Outlet,
    /// Modern requests, which can be cancelled by their number alone.
    modern: Arc<Mutex<HashMap<Id, AbortHandle>>>,
}

/// A request of the client.
struct Asked {
    id: Id,
    method: String,
    params: Option<Raw>,
    era: Era,
    trace: TraceContext,
}

impl Pipe {
    async fn take(&self, message: Message, tasks: &mut JoinSet<()>) {
        match message {
            Message::Request { .. } => {
                let opening = Opening::of_message(&message, None);
                let era = if opening.is_modern() { Era::Modern } else { Era::Legacy };
                let span = self.gateway.request_span(Some((&message, era)), &opening);
                let Message::Request { id, method, params } = message else { return };
                let asked = Asked { id, method, params, era, trace: opening.trace };
                if asked.method == "initialize" && era == Era::Legacy {
                    // What follows depends on it, also when it was sent without waiting.
                    let line = self.answer(asked).instrument(span).await;
                    let _ = self.outlet.send(line).await;
                } else {
                    self.begin(asked, span, tasks);
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
                    self.gateway.notified(session, &method, params.as_deref());
                }
            }
            Message::Response { id, outcome } => {
                if let (Some(session), Some(id)) = (lock(&self.slot).as_ref(), id) {
                    session.answer(&id, outcome);
                }
            }
        }
    }

    /// Works on a request beside the others.
    fn begin(&self, asked: Asked, span: Span, tasks: &mut JoinSet<()>) {
        let (id, era) = (asked.id.clone(), asked.era);
        let (pipe, request) = (self.clone(), id.clone());
        let work = async move {
            let line = pipe.answer(asked).await;
            lock(&pipe.modern).remove(&request);
            let _ = pipe.outlet.send(line).await;
        };
        let task = tasks.spawn(work.instrument(span));
        if era == Era::Modern {
            let mut running = lock(&self.modern);
            running.retain(|_, task| !task.is_finished());
            running.insert(id, task);
        } else if let Some(session) = lock(&self.slot).as_ref() {
            session.begin(&id, task);
        }
    }

    /// Answers what was read, and ends what would go on for ever.
    async fn end(self, mut tasks: JoinSet<()>) {
        self.gateway.close_streams();
        if let Some(session) = lock(&self.slot).as_ref() {
            session.drop_questions();
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.gateway.setup().startup_wait + LAST_ANSWERS, all).await;
        tasks.shutdown().await;
        if let Some(session) = lock(&self.slot).take() {
            self.gateway.sessions.remove(&session.id);
            self.gateway.end_session(&session);
        }
    }

    async fn answer(&self, asked: Asked) -> String {
        let Asked { id, method, params, era, trace } = asked;
        if era == Era::Modern {
            let checked = modern::check(&method, params.as_deref());
            let checked = checked.and_then(|checked| modern::check_version(&checked).map(|()| checked));
            let outcome = match checked {
                Ok(checked) => {
                    let viewer = self.gateway.pipe_viewer();
                    let exchange = self.gateway.modern_exchange(viewer, None, &checked, trace, self.outlet.clone());
                    self.gateway.answer(&exchange, &id, &method, params).await
                }
                Err(error) => Err(error),
            };
            return Message::response(Some(&id), outcome.as_deref());
        }
        if method == "initialize" {
            let begun = self.gateway.initialize(self.gateway.pipe_viewer(), params).await;
            return match begun {
                Ok((session, result)) => {
                    session.attach(self.outlet.clone());
                    let old = lock(&self.slot).replace(session);
                    if let Some(old) = old {
                        self.gateway.sessions.remove(&old.id);
                        self.gateway.end_session(&old);
                    }
                    Message::response(Some(&id), Ok(&result))
                }
                Err(error) => Message::response(Some(&id), Err(&error)),
            };
        }
        let session = lock(&self.slot).clone();
        let outcome = match session {
            Some(session) => {
                trace::belongs_to(&session);
                let outlet = self.outlet.clone();
                let exchange = Exchange::legacy(&session, None, params.as_deref(), trace, outlet);
                self.gateway.touch(&session);
                let outcome = self.gateway.answer(&exchange, &id, &method, params).await;
                session.end(&id);
                outcome
            }
            None if method == "ping" => Ok(pegboard_upstream::json::raw(&Fields::new())),
            None => {
                let message = "nothing was initialized, and `_meta` names no protocol version";
                Err(RpcError::new(RpcError::INVALID_REQUEST, message))
            }
        };
        Message::response(Some(&id), outcome.as_deref())
    }
}

async fn refuse(outlet: &Outlet, error: &RpcError) {
    let line = Fields::new().with("jsonrpc", "2.0").with("error", error).to_raw().get().to_owned();
    let _ = outlet.send(line).await;
}

async fn write(mut queue: mpsc::Receiver<String>, mut output: impl AsyncWrite + Unpin) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
