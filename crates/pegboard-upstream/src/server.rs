//! One server, kept running.

mod keeping;
mod life;
mod pinning;
mod report;
mod state;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pegboard_core::text;
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::Instant,
};
use tracing::Instrument as _;

use self::{keeping::Kept, pinning::Pinned, report::Notes};
pub use self::{
    report::{BreakerReport, CallCounts, Report},
    state::State,
};
use pegboard_core::{
    breaker::{Breaker, Transition},
    locks::lock,
};
use pegboard_mcp::{
    headers,
    json::{Fields, Raw},
};

use crate::{
    auth::{Bearer, Logins},
    call_queue::{CallQueue, CallerKey},
    config::{ServerConfig, ServerLimits, TransportConfig},
    connection::{Call, CallError, Link, Notice},
    environment::ReservedVariables,
    handshake::{ConnectError, Hello},
    listing::{Item, Lists},
    pins::Pins,
    redact::{Redactor, SharedSecrets},
    server_output::{OutputLog, ServerOutput},
    trace,
};

/// How long a server may take to agree to a subscription.
const AGREEING: Duration = Duration::from_secs(2);

/// How far a fleet has come with its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    /// What was kept of servers is being read.
    Reading,
    /// It is known; servers of which something was kept wait for a word.
    Recalled,
    /// All of them may start.
    Open,
}

/// What all servers of a fleet share.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) supervisor: Vec<OsString>,
    /// Variables that no server inherits, as the latest configuration says.
    pub(crate) reserved: Mutex<ReservedVariables>,
    pub(crate) logins: Option<Logins>,
    /// Counts changes of lists and state, for whoever watches the whole fleet.
    pub(crate) changes: watch::Sender<u64>,
    /// Where other notifications go.
    pub(crate) told: mpsc::Sender<(Arc<str>, Notice)>,
    pub(crate) gate: watch::Sender<Gate>,
    /// Which tools were approved.
    pub(crate) pins: Option<Arc<Pins>>,
    /// What none of them may tell.
    pub(crate) secrets: SharedSecrets,
    /// Places for child processes that start without a call that waits for them.
    pub(crate) starts: Arc<Semaphore>,
}

impl Crew {
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Goes on with the start, never back.
    pub(crate) fn advance(&self, gate: Gate) {
        self.gate.send_if_modified(|now| {
            let is_new = *now < gate;
            *now = gate.max(*now);
            is_new
        });
    }
}

/// The connection, for whoever waits for it.
type Connection = watch::Receiver<Option<(Arc<Link>, Arc<Hello>)>>;

/// A start that failed.
#[derive(Debug)]
pub struct FailedStart {
    /// Why.
    pub error: ConnectError,
    /// What the server wrote meanwhile.
    pub talk: ServerOutput,
    /// Variables that this process has, that the server does not inherit, and that it may have
    /// failed without; see [`inherit_env`](ServerConfig::inherit_env).
    pub withheld: Vec<String>,
}

/// A configured server.
#[derive(Debug)]
pub struct Upstream {
    config: ServerConfig,
    crew: Arc<Crew>,
    state: watch::Sender<State>,
    connection: watch::Sender<Option<(Arc<Link>, Arc<Hello>)>>,
    lists: RwLock<Arc<Lists>>,
    pinned: Mutex<Pinned>,
    /// One look at what was approved at a time.
    reviewing: tokio::sync::Mutex<()>,
    last_hello: Mutex<Option<Arc<Hello>>>,
    wake: Notify,
    stop: watch::Sender<bool>,
    last_used: Mutex<Instant>,
    notes: Notes,
    talk: Arc<OutputLog>,
    /// How its last start failed; none if it did not.
    failed_start: Mutex<Option<Arc<FailedStart>>>,
    /// Whether it was logged for the present series of failures which variables it may lack.
    has_warned_of_withheld: AtomicBool,
    breaker: Breaker,
    turns: Arc<CallQueue>,
    /// Its login, where it can have one.
    bearer: Option<Arc<Bearer>>,
    /// Where its lists are kept between runs.
    kept: OnceLock<Kept>,
    /// What is not to be told of it.
    redactor: Redactor,
    /// Whether it was started, and what was kept comes too late.
    has_begun: Mutex<bool>,
    /// Resources that clients subscribed to, for modern servers.
    watched: watch::Sender<Vec<String>>,
}

impl Upstream {
    pub(crate) fn new(config: ServerConfig, crew: Arc<Crew>) -> Arc<Self> {
        let state = if config.is_enabled { State::Starting } else { State::Disabled };
        let breaker = Breaker::new(config.breaker.unwrap_or_default());
        let turns = CallQueue::new(config.limits.concurrent);
        let bearer = crew.logins.as_ref().and_then(|logins| Bearer::of(&config, logins, crew.secrets.clone()));
        Arc::new(Self {
            redactor: Redactor::with_shared(&config, crew.secrets.clone()),
            config,
            crew,
            state: watch::Sender::new(state),
            connection: watch::Sender::new(None),
            lists: RwLock::default(),
            pinned: Mutex::default(),
            reviewing: tokio::sync::Mutex::default(),
            last_hello: Mutex::default(),
            wake: Notify::new(),
            stop: watch::Sender::new(false),
            last_used: Mutex::new(Instant::now()),
            notes: Notes::default(),
            talk: Arc::default(),
            failed_start: Mutex::default(),
            has_warned_of_withheld: AtomicBool::new(false),
            breaker,
            turns,
            bearer,
            kept: OnceLock::new(),
            has_begun: Mutex::new(false),
            watched: watch::Sender::new(Vec::new()),
        })
    }

    /// The name that it is configured under.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What is configured of it.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// What hides its secrets.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What it offers, as far as is known.
    pub fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// What it said of itself when it was last connected.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        lock(&self.last_hello).clone()
    }

    /// What it wrote beside its messages since it was last started.
    pub fn talk(&self) -> ServerOutput {
        self.talk.snapshot()
    }

    /// How its last start failed; `None` if it did not.
    pub fn failed_start(&self) -> Option<Arc<FailedStart>> {
        lock(&self.failed_start).clone()
    }

    /// What it is for: as the configuration says, else as the server says itself.
    pub fn description(&self) -> String {
        const MOST: usize = 4096;
        let own = || {
            let hello = self.hello()?;
            hello.instructions.clone().filter(|text| !text.trim().is_empty()).or_else(|| {
                let info = Fields::of(hello.server_info.as_deref()?)?;
                info.text("description").or_else(|| info.text("title"))
            })
        };
        let text = self.config.description.clone().or_else(own).unwrap_or_default();
        text::bounded(&text::clean(&text), MOST).into_owned()
    }

    /// Whether a tool can be called: over HTTP one whose headers cannot be sent must not be.
    pub fn can_call(&self, item: &Item) -> bool {
        let is_remote = matches!(self.config.transport, TransportConfig::Http { .. });
        if !is_remote || !item.raw.get().contains("x-mcp-header") {
            return true;
        }
        let schema = Fields::of(&item.raw).and_then(|fields| fields.read("inputSchema"));
        match schema.as_ref().map(headers::mirrored_parameters) {
            Some(Err(reason)) => {
                tracing::warn!(server = self.name(), tool = &*text::line(&item.key), reason, "tool skipped");
                false
            }
            _ => true,
        }
    }

    /// How many calls it is busy with.
    pub fn running_calls(&self) -> u64 {
        self.notes.running.load(Ordering::Relaxed)
    }

    /// Waits until it is known whether the server works.
    pub async fn settled(&self) {
        let _ = self.state.subscribe().wait_for(State::is_settled).await;
    }

    /// Waits until it is known what the server offers, from what was kept of it or from
    /// itself, or that it does not work. One that did not answer when it was last started is
    /// not waited for.
    pub async fn listed(&self) {
        let _ = self.crew.gate.subscribe().wait_for(|gate| *gate >= Gate::Recalled).await;
        if self.is_worth_waiting() {
            self.settled().await;
        }
    }

    /// Makes a call. A server that is stopped is started first, and one that has forgotten
    /// us is connected again. One that did not answer several times in a row is not asked.
    ///
    /// # Errors
    /// When the server refuses, is not there, or does not answer in time.
    pub async fn call(&self, make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        self.call_for(CallerKey::default(), make).await
    }

    /// [`call`](Self::call) on behalf of a party, which takes turns with others when there are
    /// more calls than the server may have at a time.
    ///
    /// # Errors
    /// As for [`call`](Self::call); and when it was not the call's turn in time.
    pub async fn call_for(&self, whose: CallerKey, make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        let _using = Using::new(self);
        let (span, began) = (trace::call_span(self.name()), std::time::Instant::now());
        let work = async {
            match self.turns.acquire(whose, self.config.timeouts.call).await {
                Ok(_turn) => self.try_call(make).await,
                Err(busy) => Err(CallError::Busy(busy)),
            }
        };
        let outcome = work.instrument(span.clone()).await;
        trace::record_outcome(&span, &outcome, began);
        self.notes.called(&outcome, &self.redactor);
        outcome
    }

    async fn try_call(&self, mut make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        let pass = self.breaker.admit(Instant::now().into_std()).map_err(CallError::Tripped)?;
        let mut has_retried = false;
        loop {
            let (link, hello) = self.connected().await?;
            let mut call = make(&hello);
            // The caller may have decided by a list of an earlier run; the server has told its own since.
            if self.is_held(&call) {
                return Err(CallError::Held);
            }
            let bytes = call.params.get("arguments").map_or(0, |arguments| arguments.get().len());
            let ServerLimits { argument_bytes, result_bytes, .. } = self.config.limits;
            if bytes > argument_bytes {
                return Err(CallError::ArgumentsTooLarge { bytes, most: argument_bytes });
            }
            call.trace = trace::record_target(&call, &hello);
            match link.call(call).await {
                Err(CallError::SessionExpired) if !has_retried => {
                    has_retried = true;
                    self.gone(&link).await;
                }
                outcome => {
                    let failure = outcome.as_ref().err().filter(|error| error.is_server_failure());
                    match pass.record(failure.map(|error| error.to_string().into()), Instant::now().into_std()) {
                        Transition::None => {}
                        Transition::Opened => tracing::warn!(server = self.name(), "circuit breaker opened"),
                        Transition::Closed => tracing::info!(server = self.name(), "circuit breaker closed"),
                    }
                    return outcome.and_then(|result| match result.get().len() {
                        bytes if bytes > result_bytes => {
                            Err(CallError::ResultTooLarge { bytes: Some(bytes), most: result_bytes })
                        }
                        _ => Ok(result),
                    });
                }
            }
        }
    }

    /// Whether the call is of a tool that must be approved first.
    fn is_held(&self, call: &Call) -> bool {
        let lists = self.lists();
        if lists.held.is_empty() || call.method != "tools/call" {
            return false;
        }
        let name = call.params.text("name").or_else(|| call.name.clone());
        name.is_some_and(|name| lists.held.iter().any(|item| item.key == name))
    }

    /// Tells the server something, if it is connected.
    pub async fn notify(&self, method: &str, params: Option<&Raw>) {
        let connection = self.connection.borrow().clone();
        if let Some((link, _)) = connection {
            let _ = link.notify(method, params.map(|params| &**params)).await;
        }
    }

    /// The resources whose updates a modern server should tell of. Returns when it has agreed:
    /// what is updated before that is told to nobody.
    pub async fn watch_resources(&self, uris: Vec<String>) {
        self.watched.send_if_modified(|watched| {
            let is_new = *watched != uris;
            watched.clone_from(&uris);
            is_new
        });
        let connection = self.connection.borrow().clone();
        if let Some((link, _)) = connection {
            link.news.watching(&uris, AGREEING).await;
        }
    }

    /// A usable connection, waited for as long as a start may take.
    async fn connected(&self) -> Result<(Arc<Link>, Arc<Hello>), CallError> {
        let mut connection = self.connection.subscribe();
        if let Some(ready) = connection.borrow_and_update().clone().filter(|(link, _)| link.close_reason().is_none()) {
            return Ok(ready);
        }
        self.started(connection).instrument(trace::start_span(self.name())).await
    }

    /// Waits until the server has started, and starts it if need be.
    async fn started(&self, mut connection: Connection) -> Result<(Arc<Link>, Arc<Hello>), CallError> {
        let failures = self.notes.failures();
        // Whoever is called has waited long enough for others to be served.
        self.crew.advance(Gate::Open);
        let refuse = |reason: &str| Err(CallError::NotRunning(reason.into()));
        match self.state() {
            State::Disabled => return refuse("it is disabled"),
            State::Stopped => return refuse("it was stopped"),
            State::Failed { reason, .. } => return refuse(&reason),
            // One that is about to start need not wait for its turn.
            State::Lazy | State::Idle | State::Starting => self.wake.notify_one(),
            State::Ready => {}
        }
        let ready = async {
            let mut state = self.state.subscribe();
            loop {
                let usable = connection.borrow_and_update().clone();
                if let Some(usable) = usable.filter(|(link, _)| link.close_reason().is_none()) {
                    return Ok(usable);
                }
                match &*state.borrow_and_update() {
                    State::Failed { reason, .. } => return refuse(reason),
                    State::Disabled | State::Stopped => return refuse("it was stopped"),
                    // What woke it was one try; the next call may make another.
                    State::Lazy if self.notes.failures() > failures => {
                        return refuse(&self.notes.last_failure());
                    }
                    // It may have gone to sleep after we looked.
                    State::Lazy | State::Idle => self.wake.notify_one(),
                    State::Starting | State::Ready => {}
                }
                tokio::select! {
                    _ = connection.changed() => {}
                    _ = state.changed() => {}
                }
            }
        };
        match tokio::time::timeout(self.config.timeouts.connect, ready).await {
            Ok(ready) => ready,
            Err(_) => refuse("it is still starting"),
        }
    }

    /// Waits until a dead connection is no longer offered.
    async fn gone(&self, link: &Arc<Link>) {
        let mut connection = self.connection.subscribe();
        let is_other =
            |now: &Option<(Arc<Link>, Arc<Hello>)>| now.as_ref().is_none_or(|(now, _)| !Arc::ptr_eq(now, link));
        let _ = tokio::time::timeout(self.config.timeouts.connect, connection.wait_for(is_other)).await;
    }

    /// Takes over what is known of a predecessor.
    pub(crate) fn inherit(&self, old: &Self) {
        lock(&self.last_hello).clone_from(&*lock(&old.last_hello));
        *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = old.lists();
    }

    /// Goes on with the counters of a predecessor.
    pub(crate) fn continue_counting(&self, old: &Self) {
        self.notes.continue_from(&old.notes);
    }

    /// Ends it when it has answered the calls that it is busy with, or after `grace`.
    pub(crate) async fn retire(&self, grace: Duration) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            _ = tokio::time::timeout(grace, self.notes.quiet()) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        self.stop();
        self.stopped().await;
    }

    /// Whether nothing of it runs any more, for good.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Stopped | State::Disabled)
    }

    /// Ends it for good.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until it has ended.
    pub(crate) async fn stopped(&self) {
        let is_over = |state: &State| matches!(state, State::Stopped | State::Disabled);
        let _ = self.state.subscribe().wait_for(is_over).await;
    }
}

/// Counts a call while it runs.
struct Using<'a>(&'a Upstream);

impl<'a> Using<'a> {
    fn new(upstream: &'a Upstream) -> Self {
        upstream.notes.calling();
        Self(upstream)
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.notes.finished();
        *lock(&self.0.last_used) = Instant::now();
    }
}

/// What went wrong, and what can be done about it.
fn why_not_connected(error: &ConnectError) -> String {
    match error.hint() {
        Some(hint) => format!("{} (hint: {hint})", crate::with_causes(error)),
        None => crate::with_causes(error),
    }
}
