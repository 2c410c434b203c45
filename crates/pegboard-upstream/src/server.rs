//! One server, kept running.

mod calls;
mod client;
mod connections;
mod differences;
mod keeping;
mod life;
mod opening;
mod pinning;
mod pool;
mod report;
mod state;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
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

pub use self::{
    client::{CallClient, ClientOwner, UpdateSource},
    report::{BreakerReport, CallCounts, ConnectionCounts, Report},
    state::State,
};
use self::{
    connections::LegacySupport, differences::Difference, keeping::Kept, pinning::Pinned, pool::Pool, report::Notes,
    subscriptions::ClientSubscriptions,
};
use pegboard_core::{breaker::Breaker, locks::lock};
use pegboard_mcp::{
    headers,
    json::{Fields, Raw},
};

use crate::{
    auth::{Bearer, Logins},
    call_queue::CallQueue,
    config::{ServerConfig, TransportConfig},
    connection::{Asks, Link, Notice},
    environment::ReservedVariables,
    handshake::{ConnectError, Hello},
    listing::{Item, Lists},
    pins::Pins,
    redact::{Redactor, SharedSecrets},
    server_output::{OutputLog, ServerOutput},
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
    /// The connections beside the catalog connection.
    pool: Pool,
    /// The subscriptions of clients on connections of their own.
    client_subscriptions: ClientSubscriptions,
    /// Whether it has asked a client anything.
    asks: Arc<Asks>,
    /// Whether it speaks the legacy protocol too, if the catalog connection is modern.
    legacy_support: Mutex<LegacySupport>,
    /// Differences between connections that were logged.
    logged_differences: Mutex<BTreeSet<(String, Difference)>>,
    /// The log level of connections that clients share.
    shared_log_level: Mutex<Option<String>>,
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
            pool: Pool::default(),
            client_subscriptions: ClientSubscriptions::default(),
            asks: Arc::default(),
            legacy_support: Mutex::default(),
            logged_differences: Mutex::default(),
            shared_log_level: Mutex::default(),
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

    /// Takes over what is known of a predecessor.
    pub(crate) fn inherit(&self, old: &Self) {
        lock(&self.last_hello).clone_from(&*lock(&old.last_hello));
        *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = old.lists();
        if old.asks.has_asked() {
            self.asks.record();
        }
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

/// What went wrong, and what can be done about it.
fn why_not_connected(error: &ConnectError) -> String {
    match error.hint() {
        Some(hint) => format!("{} (hint: {hint})", crate::with_causes(error)),
        None => crate::with_causes(error),
    }
}
