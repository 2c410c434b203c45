//! A session of a client.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pegboard_discovery::Session;
use pegboard_mcp::{
    json::{Fields, Raw},
    rpc::{Id, Message, RpcError},
};
use pegboard_upstream::{CallEvent, ClientLife, queue};
use tokio::sync::{Notify, mpsc::error::TrySendError, oneshot, watch};

use crate::{
    bounds::Subscriptions,
    caller::{Caller, Viewer},
    exchange::Outlet,
    ids::random_id,
    lock,
    sessions::replay::{Delivery, Replay},
    settings::Profile,
    shares::Party,
};

/// How long a client may take to answer a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of questions to one client at a time.
const MAX_QUESTIONS: usize = 256;

/// A session of a client.
pub(crate) struct ClientSession {
    pub(crate) id: String,
    /// What its client calls itself, fit to be shown.
    pub(crate) client: String,
    /// When it began, in milliseconds from 1970 on.
    pub(crate) since: u64,
    /// Its number, for calls.
    pub(crate) owner: u64,
    viewer: Mutex<Viewer>,
    /// Whose share of the sessions it counts against.
    pub(crate) party: Party,
    pub(crate) profile: Profile,
    /// What the client can be asked for.
    pub(crate) capabilities: Raw,
    pub(crate) tools: Mutex<Session>,
    /// The pipe of the client, if it has one.
    pipe: Mutex<Option<Outlet>>,
    /// Its event streams over HTTP.
    pub(crate) replay: Replay,
    /// Announcements that could not be sent because there was no stream.
    owed: Mutex<BTreeSet<&'static str>>,
    questions: Mutex<HashMap<Id, oneshot::Sender<Result<Raw, RpcError>>>>,
    next_question: AtomicU64,
    /// The requests in progress, and how they are cancelled.
    running: Mutex<HashMap<Id, Arc<Notify>>>,
    /// The log level that the client has set, and whether the session has ended.
    life: watch::Sender<ClientLife>,
    /// Whether there can be more than one request.
    pub(crate) is_lasting: bool,
    pub(crate) subscriptions: Mutex<Subscriptions>,
    /// Where servers reach the client between its requests.
    pub(super) inbox: Mutex<Option<queue::Sender<CallEvent>>>,
    used: Mutex<Instant>,
    /// When the mark of its last use on the disk was renewed.
    marked: Mutex<Instant>,
    /// For which count of its list's changes it was last saved; the greatest number before that.
    pub(crate) saved: AtomicU64,
    /// Whether it is not to be written any more. Held while it is, by threads that may wait for a disk.
    pub(crate) is_forgotten: Mutex<bool>,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The start values of a session.
#[derive(Debug)]
pub(crate) struct SessionStart {
    pub(crate) viewer: Viewer,
    pub(crate) party: Party,
    pub(crate) profile: Profile,
    pub(crate) capabilities: Raw,
    pub(crate) tools: Session,
    pub(crate) is_lasting: bool,
    pub(crate) client: String,
}

impl ClientSession {
    pub(crate) fn new(owner: u64, beginning: SessionStart) -> Self {
        Self::with_id(&random_id(), owner, beginning)
    }

    /// Creates a session with an existing id.
    pub(crate) fn with_id(id: &str, owner: u64, beginning: SessionStart) -> Self {
        Self {
            id: id.to_owned(),
            client: beginning.client,
            since: crate::activity::now(),
            owner,
            viewer: Mutex::new(beginning.viewer),
            party: beginning.party,
            profile: beginning.profile,
            capabilities: beginning.capabilities,
            tools: Mutex::new(beginning.tools),
            pipe: Mutex::default(),
            replay: Replay::new(),
            owed: Mutex::default(),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            running: Mutex::default(),
            life: watch::Sender::new(ClientLife::default()),
            is_lasting: beginning.is_lasting,
            subscriptions: Mutex::default(),
            inbox: Mutex::default(),
            used: Mutex::new(Instant::now()),
            marked: Mutex::new(Instant::now()),
            saved: AtomicU64::new(u64::MAX),
            is_forgotten: Mutex::default(),
        }
    }

    /// Returns the owner of the session, and what it may see.
    pub(crate) fn viewer(&self) -> Viewer {
        lock(&self.viewer).clone()
    }

    /// Returns the owner of the session.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.viewer).caller
    }

    /// Applies other settings.
    pub(crate) fn set_viewer(&self, viewer: Viewer) {
        *lock(&self.viewer) = viewer;
    }

    /// Sends what is owed on the stream for messages that belong to no request.
    pub(crate) fn send_pending_announcements(&self) {
        for method in self.take_pending_announcements() {
            self.announce(method);
        }
    }

    /// Uses the pipe of the client as the stream for messages that belong to no request.
    pub(crate) fn attach(&self, pipe: Outlet) {
        *lock(&self.pipe) = Some(pipe);
        self.send_pending_announcements();
    }

    fn deliver(&self, line: String, is_kept: bool) -> Delivery {
        let mut pipe = lock(&self.pipe);
        let Some(outlet) = pipe.as_ref() else { return self.replay.send(line, is_kept) };
        match outlet.try_send(line) {
            Ok(()) => Delivery::Sent,
            Err(TrySendError::Full(_)) => Delivery::Full,
            Err(TrySendError::Closed(_)) => {
                *pipe = None;
                Delivery::NoStream
            }
        }
    }

    /// Sends a line on the stream; `false` if there is no stream.
    pub(crate) fn send(&self, line: String) -> bool {
        self.log_dropped(self.deliver(line, false)) != Delivery::NoStream
    }

    /// Sends a line on the stream, or keeps it for a client that reconnects to its stream.
    pub(crate) fn send_or_keep(&self, line: String) {
        self.log_dropped(self.deliver(line, true));
    }

    fn log_dropped(&self, delivery: Delivery) -> Delivery {
        if delivery == Delivery::Full {
            tracing::debug!(session = self.owner, "notification dropped: the client does not read its stream");
        }
        delivery
    }

    /// Announces a change on the stream, or with the next request that has one.
    pub(crate) fn announce(&self, method: &'static str) {
        if self.deliver(Message::notification(method, None), false) != Delivery::Sent {
            lock(&self.owed).insert(method);
        }
    }

    /// Announces a change that a request caused: on the stream, else on that of the request.
    pub(crate) async fn announce_with(&self, method: &'static str, outlet: &Outlet) {
        let line = Message::notification(method, None);
        if !self.send(line.clone()) {
            let _ = outlet.send(line).await;
        }
    }

    /// Takes the announcements that could not be sent.
    pub(crate) fn take_pending_announcements(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut *lock(&self.owed))
    }

    /// Asks the client a question, on the stream of the request that it is about, if there is one.
    pub(crate) async fn ask_client(
        &self,
        outlet: Option<&Outlet>,
        method: &str,
        params: Option<Raw>,
    ) -> Result<Raw, RpcError> {
        let id = Id::from(self.next_question.fetch_add(1, Ordering::Relaxed));
        let (reply, replied) = oneshot::channel();
        let mut asking = PendingQuestion { session: self, outlet, id: id.clone(), is_open: false };
        {
            let mut questions = lock(&self.questions);
            if questions.len() >= MAX_QUESTIONS {
                return Err(RpcError::new(RpcError::INTERNAL, "too many concurrent requests to this client"));
            }
            questions.insert(id.clone(), reply);
        }
        let line = Message::request(&id, method, params.as_deref());
        let is_sent = match outlet {
            Some(outlet) => match outlet.send(line).await {
                Ok(()) => true,
                Err(unsent) => self.send(unsent.0),
            },
            None => self.send(line),
        };
        asking.is_open = is_sent;
        let outcome = if is_sent { tokio::time::timeout(ANSWER_TIMEOUT, replied).await.ok() } else { None };
        asking.is_open &= outcome.is_none();
        match outcome {
            Some(Ok(outcome)) => outcome,
            _ => Err(RpcError::new(RpcError::INTERNAL, "the client did not respond")),
        }
    }

    /// Accepts the client's answer to a question; `false` if there is no such question.
    pub(crate) fn answer(&self, id: &Id, outcome: Result<Raw, RpcError>) -> bool {
        let question = lock(&self.questions).remove(id);
        question.is_some_and(|question| question.send(outcome).is_ok())
    }

    /// Registers a request in progress, so that it can be cancelled.
    pub(crate) fn begin(self: &Arc<Self>, id: &Id) -> InProgress {
        let cancelled = Arc::new(Notify::new());
        lock(&self.running).insert(id.clone(), Arc::clone(&cancelled));
        InProgress { session: Arc::clone(self), id: id.clone(), cancelled }
    }

    /// Cancels a request in progress.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(cancelled) = lock(&self.running).remove(id) {
            cancelled.notify_one();
        }
    }

    /// Returns whether the client speaks on a pipe.
    pub(crate) fn has_pipe(&self) -> bool {
        lock(&self.pipe).is_some()
    }

    /// Returns whether the stream for messages that belong to no request is open.
    pub(super) fn has_stream(&self) -> bool {
        lock(&self.pipe).as_ref().is_some_and(|outlet| !outlet.is_closed()) || self.replay.has_reader()
    }

    /// Ends the stream for messages that belong to no request.
    pub(crate) fn close_stream(&self) {
        *lock(&self.pipe) = None;
        self.replay.end_standalone();
    }

    /// Drops all questions, because the client is gone.
    pub(crate) fn drop_questions(&self) {
        lock(&self.questions).clear();
    }

    /// Cancels all requests.
    pub(crate) fn close(&self) {
        lock(&self.running).drain().for_each(|(_, cancelled)| cancelled.notify_one());
        self.close_stream();
        self.replay.close();
        self.drop_questions();
    }

    /// Returns the minimum level of log messages for the client.
    pub(crate) fn log_level(&self) -> String {
        self.chosen_log_level().unwrap_or_else(|| "info".to_owned())
    }

    /// Returns the level that the client has set.
    pub(crate) fn chosen_log_level(&self) -> Option<String> {
        self.life.borrow().log_level.clone()
    }

    pub(crate) fn set_log_level(&self, level: &str) {
        self.life.send_modify(|life| life.log_level = Some(level.to_owned()));
    }

    /// Records that the client's roots have changed, for connections that are being opened.
    pub(super) fn record_roots_change(&self) {
        self.life.send_modify(|life| life.roots_changes += 1);
    }

    /// Returns what the connections to servers follow.
    pub(crate) fn life(&self) -> watch::Receiver<ClientLife> {
        self.life.subscribe()
    }

    /// Marks the session as ended: from now on nothing is opened for it.
    pub(super) fn set_ended(&self) {
        self.life.send_modify(|life| life.has_ended = true);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.life.borrow().has_ended
    }

    /// Marks the session as used; `true` if it is time to do so on disk.
    pub(crate) fn touch(&self, marked_for: Duration) -> bool {
        let now = Instant::now();
        *lock(&self.used) = now;
        let mut marked = lock(&self.marked);
        let is_old = now.duration_since(*marked) >= marked_for;
        if is_old {
            *marked = now;
        }
        is_old
    }

    /// Returns whether the client listens or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.has_stream() || !lock(&self.running).is_empty()
    }

    /// Returns the eviction order: the least recently used session first, and one that is in use
    /// last.
    pub(super) fn age_order(&self) -> (bool, Instant, u64) {
        (self.is_busy(), *lock(&self.used), self.owner)
    }

    /// Returns the time since the last request; zero while one is in progress.
    pub(crate) fn idle_time(&self) -> Duration {
        if lock(&self.running).is_empty() { lock(&self.used).elapsed() } else { Duration::ZERO }
    }

    pub(super) fn is_unused_since(&self, limit: Duration) -> bool {
        !self.is_busy() && lock(&self.used).elapsed() > limit
    }
}

/// A request in progress; dropping it ends it.
#[derive(Debug)]
pub(crate) struct InProgress {
    session: Arc<ClientSession>,
    id: Id,
    cancelled: Arc<Notify>,
}

impl InProgress {
    /// Waits until the client cancels the request, or the session ends.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut running = lock(&self.session.running);
        // A client may have used the same identity again.
        if running.get(&self.id).is_some_and(|cancelled| Arc::ptr_eq(cancelled, &self.cancelled)) {
            running.remove(&self.id);
        }
    }
}

/// A question to a client. If the answer is no longer needed, the client is notified.
struct PendingQuestion<'a> {
    session: &'a ClientSession,
    outlet: Option<&'a Outlet>,
    id: Id,
    is_open: bool,
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        let was_waiting = lock(&self.session.questions).remove(&self.id).is_some();
        if self.is_open && was_waiting {
            let params = Fields::new().with("requestId", &self.id.to_raw()).with("reason", "no longer needed");
            let line = Message::notification("notifications/cancelled", Some(&params.to_raw()));
            match self.outlet {
                Some(outlet) => _ = outlet.try_send(line),
                None => _ = self.session.send(line),
            }
        }
    }
}
