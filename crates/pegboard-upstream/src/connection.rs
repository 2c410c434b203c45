//! One connection to a server: requests and their answers, and what comes in between.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::text;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
    time::Instant,
};
use tracing::Instrument as _;

use crate::{
    auth::NeedsLogin,
    breaker::Tripped,
    era::{Era, MODERN_VERSION, meta},
    json::{Fields, Raw, raw},
    listing::ListKind,
    redact::Redactor,
    rpc::{Id, Message, RpcError},
    talk::TalkNotes,
    trace::{self, TraceContext},
    transport::{Outbound, Outgoing},
    turns::Busy,
};

/// How long a client may take to answer a question of a server.
const ASK_TIMEOUT: Duration = Duration::from_secs(600);

/// Questions of a server at a time; one that asks more is not listened to.
const MAX_QUESTIONS: usize = 256;

/// How long a server may go on with a call that was taken back.
const HAUNTING: Duration = Duration::from_secs(60);

/// Why a call did not get its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server refused it.
    #[error(transparent)]
    Rpc(RpcError),
    /// The server did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The connection is gone.
    #[error("the server is not connected: {0}")]
    Closed(Arc<str>),
    /// The server has forgotten the session; it never saw the call.
    #[error("the server has forgotten the session")]
    SessionExpired,
    /// An HTTP status that says nothing more.
    #[error("the server answered with HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server wants a login, and there is none that it takes.
    #[error(transparent)]
    Login(NeedsLogin),
    /// It could not be sent.
    #[error("cannot reach the server")]
    Unreachable(#[source] reqwest::Error),
    /// It was not sent: too many others are running.
    #[error("it is busy: {0}")]
    Busy(Busy),
    /// It was not sent: there is too much of it.
    #[error("the arguments have {bytes} bytes, and {most} are the most that it is sent")]
    ArgumentsTooLarge {
        /// How much there is.
        bytes: usize,
        /// How much there may be.
        most: usize,
    },
    /// What came back is more than is passed on.
    #[error("its answer has {} bytes, and {most} are the most that is passed on", size(*.bytes, *.most))]
    ResultTooLarge {
        /// How much it is, if it was read at all.
        bytes: Option<usize>,
        /// How much it may be.
        most: usize,
    },
    /// It was not sent: too many before it had no answer.
    #[error(transparent)]
    Tripped(Tripped),
    /// What came back is no answer.
    #[error("the server's answer is unusable: {0}")]
    Garbled(String),
}

fn size(bytes: Option<usize>, most: usize) -> String {
    bytes.map_or_else(|| format!("more than {most}"), |bytes| bytes.to_string())
}

impl CallError {
    /// An address may hold a secret; the error is told without it.
    pub(crate) fn unreachable(error: reqwest::Error) -> Self {
        Self::Unreachable(error.without_url())
    }

    /// What kind of failure it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rpc(_) => "refused",
            Self::Timeout(_) => "timeout",
            Self::Closed(_) => "closed",
            Self::SessionExpired => "expired",
            Self::Status { .. } => "status",
            Self::Login(_) => "login",
            Self::Unreachable(_) => "unreachable",
            Self::Tripped(_) => "tripped",
            Self::Busy(_) => "busy",
            Self::ArgumentsTooLarge { .. } | Self::ResultTooLarge { .. } => "too large",
            Self::Garbled(_) => "garbled",
        }
    }

    /// What is between us and the server, if that is why there is no answer.
    pub fn network_fault(&self) -> Option<NetworkFault> {
        let Self::Unreachable(error) = self else { return None };
        let mut cause = Some(error as &(dyn std::error::Error + 'static));
        let mut found = if error.is_timeout() { NetworkFault::Silent } else { NetworkFault::Other };
        while let Some(error) = cause {
            found = NetworkFault::of(error).unwrap_or(found);
            cause = error.source();
        }
        Some(found)
    }
}

/// Why a server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkFault {
    /// Nobody knows its host.
    UnknownHost,
    /// Nothing listens there.
    Refused,
    /// It does not prove who it is, or speaks no TLS.
    Tls,
    /// Nothing comes back.
    Silent,
    /// Something else.
    Other,
}

impl NetworkFault {
    fn of(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if error.downcast_ref::<rustls::Error>().is_some() {
            return Some(Self::Tls);
        }
        // The resolver's error has no type of its own.
        if error.to_string().starts_with("dns error") {
            return Some(Self::UnknownHost);
        }
        let error = error.downcast_ref::<std::io::Error>()?;
        // Nor has a handshake that the other side breaks off.
        if error.to_string().starts_with("tls handshake") {
            return Some(Self::Tls);
        }
        let mut inner = error.get_ref();
        while let Some(error) = inner {
            if error.downcast_ref::<rustls::Error>().is_some() {
                return Some(Self::Tls);
            }
            inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        }
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Some(Self::Refused),
            std::io::ErrorKind::TimedOut => Some(Self::Silent),
            // While a connection is made nothing else is read than a handshake.
            std::io::ErrorKind::InvalidData => Some(Self::Tls),
            _ => None,
        }
    }
}

/// Something that a server says or asks while a call is running.
#[derive(Debug)]
pub enum Event {
    /// A notification about the call.
    Notification {
        /// What happened.
        method: String,
        /// More about it.
        params: Option<Raw>,
    },
    /// A question to whoever made the call.
    Request {
        /// What is asked.
        method: String,
        /// With what.
        params: Option<Raw>,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Raw, RpcError>>,
    },
}

/// Something that a server says of its own accord.
#[derive(Debug)]
pub struct Notice {
    /// What happened.
    pub method: String,
    /// More about it.
    pub params: Option<Raw>,
}

/// A request to make of a server.
#[derive(Debug)]
pub struct Call {
    /// What is wanted.
    pub method: String,
    /// With what; `_meta` included as far as it is the caller's own.
    pub params: Fields,
    /// The tool, prompt or resource that it names, for transports that say so in a header.
    pub name: Option<String>,
    /// Headers that repeat parameters, by the part of their name behind `Mcp-Param-`.
    pub mirrored: Vec<(String, String)>,
    /// What the client behind the call can be asked for, as JSON.
    pub capabilities: Option<Raw>,
    /// From which level on the client wants log messages.
    pub log_level: Option<String>,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// Who makes the call: calls of one conversation share a number.
    pub owner: u64,
    /// Where to tell of what happens meanwhile.
    pub events: Option<mpsc::Sender<Event>>,
    /// Whose trace it belongs to, in place of what `_meta` says.
    pub trace: TraceContext,
    /// How long to wait, counted anew from each sign of progress. `None`: for ever.
    pub timeout: Option<Duration>,
}

impl Call {
    /// A call of our own, on nobody's behalf.
    pub fn new(method: &str, params: Fields, timeout: Duration) -> Self {
        Self {
            method: method.to_owned(),
            params,
            name: None,
            mirrored: Vec::new(),
            capabilities: None,
            log_level: None,
            wants_progress: false,
            owner: 0,
            events: None,
            trace: TraceContext::default(),
            timeout: Some(timeout),
        }
    }
}

/// A request whose answer is awaited.
#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Result<Raw, CallError>>,
    events: Option<mpsc::Sender<Event>>,
    owner: u64,
    /// When the server last gave a sign of life about it.
    active: Arc<Mutex<Instant>>,
    /// Questions of the server about it that wait for an answer.
    questions: usize,
}

/// What both directions of a connection share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: Arc<str>,
    /// What is not to be told of what the server says.
    pub(crate) redactor: Redactor,
    /// A longer message is not read.
    pub(crate) max_message: usize,
    outbound: Outbound,
    era: OnceLock<Era>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    /// Questions of the server that are being answered.
    asked: Mutex<HashMap<Id, AbortHandle>>,
    notices: mpsc::Sender<Notice>,
    closed: watch::Sender<Option<Arc<str>>>,
    /// What the server writes beside its messages.
    talk: Arc<TalkNotes>,
    /// Lists that have changed and were not asked for again yet. Kept apart from other news,
    /// so that no flood of those can wash one away.
    changed: Mutex<BTreeSet<ListKind>>,
    changes: Notify,
    /// Whether the server has been listened to before.
    has_listened: AtomicBool,
    /// The resources whose updates the server has agreed to tell of.
    watching: watch::Sender<BTreeSet<String>>,
    /// Whether the server has come as far as being used.
    is_ready: AtomicBool,
    /// Calls that were taken back while the server may still be at work on them.
    ghosts: Mutex<HashMap<u64, (u64, Instant)>>,
}

/// Locks that guard plain data; nobody panics while holding one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(crate) fn new(
        server: Arc<str>,
        redactor: Redactor,
        outbound: Outbound,
        notices: mpsc::Sender<Notice>,
        talk: Arc<TalkNotes>,
        max_message: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            redactor,
            max_message,
            outbound,
            era: OnceLock::new(),
            next: AtomicU64::new(1),
            pending: Mutex::default(),
            asked: Mutex::default(),
            notices,
            closed: watch::Sender::new(None),
            talk,
            changed: Mutex::default(),
            changes: Notify::new(),
            has_listened: AtomicBool::new(false),
            watching: watch::Sender::default(),
            is_ready: AtomicBool::new(false),
            ghosts: Mutex::default(),
        })
    }

    /// Fixes the era; from here on requests follow its rules.
    pub(crate) fn settle_era(&self, era: Era) {
        let _ = self.era.set(era);
    }

    pub(crate) fn era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    /// Notes that lists have changed.
    pub(crate) fn lists_changed(&self, kinds: &[ListKind]) {
        lock(&self.changed).extend(kinds);
        self.changes.notify_one();
    }

    /// Waits until lists have changed; which.
    pub(crate) async fn changed_lists(&self) -> BTreeSet<ListKind> {
        loop {
            let changed = std::mem::take(&mut *lock(&self.changed));
            if !changed.is_empty() {
                return changed;
            }
            self.changes.notified().await;
        }
    }

    /// Waits until the server has agreed to tell of these resources, at most `limit`: it need
    /// not agree.
    pub(crate) async fn watching(&self, uris: &[String], limit: Duration) {
        let mut watching = self.watching.subscribe();
        let has_all = |agreed: &BTreeSet<String>| uris.iter().all(|uri| agreed.contains(uri));
        let _ = tokio::time::timeout(limit, watching.wait_for(has_all)).await;
    }

    /// Notes that the server is used from now on.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Notes what the server writes for people to read.
    pub(crate) fn wrote(&self, line: &str) {
        self.talk.wrote(line);
    }

    /// Notes what the server wrote where only messages belong.
    pub(crate) fn strayed(&self, line: &str) {
        self.talk.strayed(line);
    }

    /// `reason` with what the server last wrote, which most often explains it.
    pub(crate) fn explain(&self, reason: &str) -> String {
        match self.talk.last_word() {
            Some(words) => format!("{reason}; it last wrote: {words}"),
            None => reason.to_owned(),
        }
    }

    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Marks the connection as gone; all that wait for answers are told why.
    pub(crate) fn close(&self, reason: impl Into<Arc<str>>) {
        let reason = reason.into();
        let is_first = self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            if is_first {
                *closed = Some(Arc::clone(&reason));
            }
            is_first
        });
        if !is_first {
            return;
        }
        let pending: Vec<Pending> = lock(&self.pending).drain().map(|(_, pending)| pending).collect();
        for pending in pending {
            let _ = pending.answer.send(Err(CallError::Closed(Arc::clone(&reason))));
        }
        lock(&self.asked).drain().for_each(|(_, task)| task.abort());
        if let Outbound::Http(client) = &self.outbound {
            client.end_session();
        }
    }

    pub(crate) fn close_reason(&self) -> Option<Arc<str>> {
        self.closed.borrow().clone()
    }

    /// Waits until the connection is gone; why.
    pub(crate) async fn closed(&self) -> Arc<str> {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "closed".into())
    }

    /// Makes a request and waits for its answer.
    pub(crate) async fn request(self: &Arc<Self>, call: Call) -> Result<Raw, CallError> {
        if let Some(reason) = self.close_reason() {
            return Err(CallError::Closed(reason));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let active = Arc::new(Mutex::new(Instant::now()));
        let (events, owner) = (call.events.clone(), call.owner);
        let pending = Pending { answer, events, owner, active: Arc::clone(&active), questions: 0 };
        lock(&self.pending).insert(id, pending);
        let timeout = call.timeout;
        // A greeting is never taken back.
        let is_greeting = [crate::handshake::DISCOVER, crate::handshake::INITIALIZE].contains(&call.method.as_str());
        let mut guard = CancelOnDrop { link: self, id, task: None, is_done: false, is_greeting };
        guard.task = self.send(self.outgoing(id, call)).await?;
        let result = match timeout {
            Some(timeout) => wait(answered, timeout, &active, || self.is_asking(id)).await,
            None => answered.await.unwrap_or_else(|_| Err(CallError::Closed("closed".into()))),
        };
        guard.is_done = !matches!(result, Err(CallError::Timeout(_)));
        result
    }

    /// Tells the server something.
    pub(crate) async fn notify(self: &Arc<Self>, method: &str, params: Option<&RawValue>) -> Result<(), CallError> {
        let outgoing = Outgoing {
            line: Message::notification(method, params),
            request: None,
            era: self.era(),
            method: method.to_owned(),
            params: None,
            name: None,
            headers: Vec::new(),
            trace: TraceContext::default(),
        };
        self.send(outgoing).await.map(drop)
    }

    /// The message for `call`, with what the era puts into `_meta`.
    fn outgoing(&self, id: u64, mut call: Call) -> Outgoing {
        let mut own = call.params.object("_meta").unwrap_or_default();
        for key in [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL] {
            own.remove(key);
        }
        for key in trace::KEYS {
            own.remove(key);
        }
        for (key, text) in call.trace.iter() {
            own.set(key, raw(text));
        }
        own.remove("progressToken");
        if call.wants_progress {
            own.set("progressToken", raw(&id));
        }
        let era = if call.method == crate::handshake::DISCOVER { Some(Era::Modern) } else { self.era() };
        if era == Some(Era::Modern) {
            own.set(meta::PROTOCOL_VERSION, raw(MODERN_VERSION));
            own.set(meta::CLIENT_INFO, crate::handshake::client_info());
            own.set(meta::CLIENT_CAPABILITIES, call.capabilities.take().unwrap_or_else(|| raw(&Fields::new())));
            if let Some(level) = &call.log_level {
                own.set(meta::LOG_LEVEL, raw(level));
            }
        }
        call.params.remove("_meta");
        if !own.is_empty() {
            call.params.set("_meta", own.to_raw());
        }
        let params = (!call.params.is_empty()).then(|| call.params.to_raw());
        Outgoing {
            line: Message::request(&Id::from(id), &call.method, params.as_deref()),
            request: Some(id),
            era,
            method: call.method,
            params,
            name: call.name,
            headers: call.mirrored,
            trace: call.trace,
        }
    }

    /// Hands a message to the transport; the task that carries it, where there is one.
    async fn send(self: &Arc<Self>, outgoing: Outgoing) -> Result<Option<AbortHandle>, CallError> {
        match &self.outbound {
            Outbound::Stdio(sender) => {
                let sent = sender.send(outgoing.line).await;
                sent.map(|()| None).map_err(|_| {
                    CallError::Closed(self.close_reason().unwrap_or_else(|| "its standard input is closed".into()))
                })
            }
            // What wants no answer is waited for, so that it arrives before what follows.
            Outbound::Http(client) if outgoing.request.is_none() => {
                client.deliver(self, outgoing).await;
                Ok(None)
            }
            Outbound::Sse(client) if outgoing.request.is_none() => {
                client.deliver(self, outgoing).await;
                Ok(None)
            }
            Outbound::Http(client) => {
                let (link, client) = (Arc::clone(self), Arc::clone(client));
                let carry = async move { client.deliver(&link, outgoing).await };
                let task = tokio::spawn(carry.in_current_span());
                Ok(Some(task.abort_handle()))
            }
            Outbound::Sse(client) => {
                let (link, client) = (Arc::clone(self), Arc::clone(client));
                let carry = async move { client.deliver(&link, outgoing).await };
                let task = tokio::spawn(carry.in_current_span());
                Ok(Some(task.abort_handle()))
            }
            Outbound::Local(server) => {
                let (link, server) = (Arc::clone(self), Arc::clone(server));
                let work = async move {
                    let answer = server.answer(&outgoing.method, outgoing.params).await;
                    if let Some(id) = outgoing.request {
                        link.settle(id, answer.map_err(CallError::Rpc));
                    }
                };
                let task = tokio::spawn(work.in_current_span());
                Ok(Some(task.abort_handle()))
            }
        }
    }

    /// Gives a request its outcome.
    pub(crate) fn settle(&self, id: u64, outcome: Result<Raw, CallError>) {
        let pending = lock(&self.pending).remove(&id);
        match pending {
            Some(pending) => {
                let _ = pending.answer.send(outcome);
            }
            None => {
                lock(&self.ghosts).remove(&id);
                tracing::debug!(server = %self.server, id, "an answer that nobody waits for");
            }
        }
    }

    /// Whether the answer to this request is still awaited.
    pub(crate) fn is_pending(&self, id: u64) -> bool {
        lock(&self.pending).contains_key(&id)
    }

    /// Takes in one message; `related` is the request on whose own stream it came.
    pub(crate) fn incoming(self: &Arc<Self>, message: Message, related: Option<u64>) {
        match message {
            Message::Response { id, outcome } => {
                // A server that cannot tell which request it refuses means the one it got.
                let id = id.and_then(|id| id.as_number()).or(related);
                if let Some(id) = id {
                    self.settle(id, outcome.map_err(|error| CallError::Rpc(self.without_secrets(error))));
                }
            }
            Message::Notification { method, params } => self.notified(method, params, related),
            Message::Request { id, method, params } => self.asked(id, method, params, related),
        }
    }

    /// A refusal that does not repeat what the server was configured with: clients see it.
    fn without_secrets(&self, mut error: RpcError) -> RpcError {
        error.message = self.redactor.redacted(error.message);
        error.data = error.data.filter(|data| matches!(self.redactor.redact(data.get()), Cow::Borrowed(_)));
        error
    }

    fn notified(&self, method: String, params: Option<Raw>, related: Option<u64>) {
        let events = match method.as_str() {
            "notifications/progress" => {
                let token = Fields::of_optional(params.as_deref()).read::<u64>("progressToken");
                let pending = lock(&self.pending);
                let pending = token.or(related).and_then(|id| pending.get(&id));
                if let Some(pending) = pending {
                    *lock(&pending.active) = Instant::now();
                }
                pending.and_then(|pending| pending.events.clone())
            }
            "notifications/cancelled" => {
                let request = Fields::of_optional(params.as_deref()).get("requestId").and_then(Id::of);
                if let Some(task) = request.and_then(|id| lock(&self.asked).remove(&id)) {
                    task.abort();
                }
                return;
            }
            "notifications/message" => match self.caller(related) {
                Some((_, events)) => Some(events),
                // Whose it is cannot be told, and it may hold anything.
                None => {
                    let text = self.redactor.redact(params.as_deref().map(RawValue::get).unwrap_or_default());
                    let text = text::brief(&text, 500);
                    tracing::debug!(target: "pegboard::server", server = &*self.server, "{text}");
                    return;
                }
            },
            // A page that a person was sent to is done with.
            "notifications/elicitation/complete" => self.caller(related).map(|(_, events)| events),
            // The first time nothing can have been missed: the lists were asked for later.
            "notifications/subscriptions/acknowledged" => {
                let agreed = Fields::of_optional(params.as_deref()).object("notifications").unwrap_or_default();
                self.watching.send_replace(agreed.read("resourceSubscriptions").unwrap_or_default());
                if self.has_listened.swap(true, Ordering::Relaxed) {
                    self.lists_changed(&ListKind::ALL);
                }
                return;
            }
            method => {
                let kinds = ListKind::changed_by(method);
                if !kinds.is_empty() {
                    return self.lists_changed(kinds);
                }
                None
            }
        };
        let full = match events {
            Some(events) => events.try_send(Event::Notification { method, params }).is_err(),
            None => self.notices.try_send(Notice { method, params }).is_err(),
        };
        if full {
            tracing::debug!(server = %self.server, "a notification was dropped: too many at once");
        }
    }

    /// The call that a message on a shared pipe is about: the latest of the one conversation
    /// that has calls running, or had until a moment ago. Where it could be another's, it is
    /// nobody's.
    fn caller(&self, related: Option<u64>) -> Option<(u64, mpsc::Sender<Event>)> {
        let pending = lock(&self.pending);
        if let Some(id) = related {
            return pending.get(&id).and_then(|pending| pending.events.clone()).map(|events| (id, events));
        }
        let mut callers = pending.iter().filter(|(_, pending)| pending.events.is_some());
        let (first, one) = callers.next()?;
        let mut latest = *first;
        for (id, other) in callers {
            if other.owner != one.owner {
                return None;
            }
            latest = latest.max(*id);
        }
        let mut ghosts = lock(&self.ghosts);
        ghosts.retain(|_, (_, since)| since.elapsed() < HAUNTING);
        if ghosts.values().any(|(owner, _)| *owner != one.owner) {
            return None;
        }
        Some((latest, pending.get(&latest)?.events.clone()?))
    }

    /// Whether the server waits for an answer to a question about this call.
    fn is_asking(&self, id: u64) -> bool {
        lock(&self.pending).get(&id).is_some_and(|pending| pending.questions > 0)
    }

    fn count_question(&self, call: Option<u64>, change: isize) {
        let mut pending = lock(&self.pending);
        if let Some(pending) = call.and_then(|id| pending.get_mut(&id)) {
            pending.questions = pending.questions.saturating_add_signed(change);
            *lock(&pending.active) = Instant::now();
        }
    }

    fn asked(self: &Arc<Self>, id: Id, method: String, params: Option<Raw>, related: Option<u64>) {
        if lock(&self.asked).len() >= MAX_QUESTIONS {
            return self.close("the server asks too much at once");
        }
        let (call, caller) = self.caller(related).unzip();
        self.count_question(call, 1);
        let link = Arc::clone(self);
        let key = id.clone();
        // Holds the map so that the answer cannot take its entry out before it is in.
        let mut asked = lock(&self.asked);
        let task = tokio::spawn(async move {
            let outcome = link.answer(&method, params, caller).await;
            link.count_question(call, -1);
            let line = Message::response(Some(&id), outcome.as_deref());
            let outgoing = Outgoing {
                line,
                request: None,
                era: link.era(),
                method: String::new(),
                params: None,
                name: None,
                headers: Vec::new(),
                trace: TraceContext::default(),
            };
            if let Err(error) = link.send(outgoing).await {
                tracing::debug!(server = %link.server, %error, "an answer could not be sent");
            }
            lock(&link.asked).remove(&id);
        });
        asked.insert(key, task.abort_handle());
    }

    async fn answer(
        &self,
        method: &str,
        params: Option<Raw>,
        caller: Option<mpsc::Sender<Event>>,
    ) -> Result<Raw, RpcError> {
        match (method, caller) {
            ("ping", _) => Ok(raw(&Fields::new())),
            ("roots/list" | "sampling/createMessage" | "elicitation/create", Some(caller)) => {
                let (reply, replied) = oneshot::channel();
                let event = Event::Request { method: method.to_owned(), params, reply };
                if caller.send(event).await.is_err() {
                    return Err(RpcError::new(RpcError::INTERNAL, "the client is gone"));
                }
                match tokio::time::timeout(ASK_TIMEOUT, replied).await {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(_)) => Err(RpcError::new(RpcError::INTERNAL, "the client is gone")),
                    Err(_) => Err(RpcError::new(RpcError::INTERNAL, "the client did not answer in time")),
                }
            }
            // Servers ask for roots as soon as they run; ours has none of its own.
            ("roots/list", None) => Ok(raw(&serde_json::json!({"roots": []}))),
            ("sampling/createMessage" | "elicitation/create", None) => {
                Err(RpcError::new(RpcError::INTERNAL, "no single client has a call running that this could be for"))
            }
            _ => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("no method `{method}`"))),
        }
    }
}

/// Waits for an answer, and longer as long as there is progress or the server waits itself.
async fn wait(
    mut answered: oneshot::Receiver<Result<Raw, CallError>>,
    timeout: Duration,
    active: &Mutex<Instant>,
    is_asking: impl Fn() -> bool,
) -> Result<Raw, CallError> {
    loop {
        let deadline = *lock(active) + timeout;
        match tokio::time::timeout_at(deadline, &mut answered).await {
            Ok(answer) => return answer.unwrap_or_else(|_| Err(CallError::Closed("closed".into()))),
            Err(_) if is_asking() => *lock(active) = Instant::now(),
            Err(_) if *lock(active) + timeout > deadline => {}
            Err(_) => return Err(CallError::Timeout(timeout)),
        }
    }
}

/// Takes back a request that nobody waits for any more.
struct CancelOnDrop<'a> {
    link: &'a Arc<Link>,
    id: u64,
    task: Option<AbortHandle>,
    is_done: bool,
    is_greeting: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let pending = lock(&self.link.pending).remove(&self.id);
        if self.is_done || (self.is_greeting && self.task.is_none()) {
            return;
        }
        if let Some(pending) = pending {
            lock(&self.link.ghosts).insert(self.id, (pending.owner, Instant::now()));
        }
        if let Some(task) = &self.task {
            // Ends the request's own stream, which is how modern HTTP says it.
            task.abort();
        }
        let is_told_by_stream = matches!(self.link.outbound, Outbound::Http(_) | Outbound::Local(_))
            && self.link.era() == Some(Era::Modern);
        if is_told_by_stream || self.link.close_reason().is_some() {
            return;
        }
        let (link, id) = (Arc::clone(self.link), self.id);
        // Dropped outside the runtime there is nobody left to tell.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = Fields::new().with("requestId", &id).with("reason", "the caller no longer waits");
            let _ = link.notify("notifications/cancelled", Some(&params.to_raw())).await;
        });
    }
}
