//! A configured server: its state, its lists and its connections.

mod calls;
mod client;
mod connections;
mod declaring;
mod differences;
mod keeping;
mod life;
mod opening;
mod own_tools;
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

pub(crate) use self::subscriptions::ClientSubscriptions;
pub use self::subscriptions::Rejected;
pub use self::{
    client::{CallClient, ClientLife, ClientOwner, UpdateSource},
    own_tools::OwnTools,
    report::{BreakerReport, CallCounts, ConnectionCounts, Report},
    state::State,
};
use self::{
    connections::LegacySupport,
    declaring::{CatalogUse, DeclaredLimit},
    differences::Difference,
    keeping::ManifestState,
    own_tools::OwnToolLists,
    pinning::Pinned,
    pool::Pool,
    report::ServerStats,
    subscriptions::CatalogSubscriptions,
};
use pegboard_core::{breaker::Breaker, locks::lock};
use pegboard_mcp::{
    headers,
    json::{Fields, Raw},
};

use crate::{
    auth::{Bearer, Logins},
    call_queue::CallQueue,
    capabilities::{Capabilities, ClientCapabilities},
    config::{ServerConfig, TransportConfig},
    connection::{Asks, CallError, Link, Notice},
    environment::ReservedVariables,
    handshake::{ConnectError, Hello},
    listing::{Item, Lists},
    pins::{self, Pins},
    redact::{Redactor, SharedSecrets},
    server_output::{OutputLog, ServerOutput},
};

/// How long a server may take to agree to a subscription.
const AGREEING: Duration = Duration::from_secs(2);

/// The progress of the start of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartPhase {
    /// Cached lists of servers are being read.
    Loading,
    /// Cached lists are read; servers that have one may be held back.
    Loaded,
    /// All servers may start.
    Started,
}

/// What the servers of a fleet have in common.
#[derive(Debug)]
pub(crate) struct FleetContext {
    pub(crate) supervisor: Vec<OsString>,
    /// Variables that no server inherits, as the latest configuration says.
    pub(crate) reserved: Mutex<ReservedVariables>,
    pub(crate) logins: Option<Logins>,
    /// Number of changes of lists and states.
    pub(crate) changes: watch::Sender<u64>,
    /// The channel for notifications other than list changes.
    pub(crate) notices: mpsc::Sender<(Arc<str>, Notice)>,
    pub(crate) phase: watch::Sender<StartPhase>,
    /// Which tools were approved.
    pub(crate) pins: Option<Arc<Pins>>,
    /// Secrets that are redacted for all servers.
    pub(crate) secrets: SharedSecrets,
    /// Places for child processes that start without a call that waits for them.
    pub(crate) starts: Arc<Semaphore>,
    /// The subscriptions of clients on the connections beside the catalog connections.
    pub(crate) subscriptions: ClientSubscriptions,
    /// What the clients can be asked for.
    pub(crate) clients: ClientCapabilities,
    /// How long servers without cached lists wait for the first client, if none is known.
    pub(crate) first_client_wait: Duration,
    /// The number of changes of what servers are told of their clients that are not in the lists yet.
    pub(crate) declaring: watch::Sender<usize>,
}

impl FleetContext {
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Advances the start; it never goes back.
    pub(crate) fn advance(&self, phase: StartPhase) {
        self.phase.send_if_modified(|now| {
            let is_new = *now < phase;
            *now = phase.max(*now);
            is_new
        });
    }
}

/// A failed start of a server.
#[derive(Debug)]
pub struct FailedStart {
    /// Why.
    pub error: ConnectError,
    /// What the server wrote meanwhile.
    pub output: ServerOutput,
    /// Variables that this process has, that the server does not inherit, and that it may have
    /// failed without; see [`inherit_env`](ServerConfig::inherit_env).
    pub withheld: Vec<String>,
}

/// A configured server.
#[derive(Debug)]
pub struct Upstream {
    config: ServerConfig,
    context: Arc<FleetContext>,
    state: watch::Sender<State>,
    connection: watch::Sender<Option<(Arc<Link>, Arc<Hello>)>>,
    lists: RwLock<Arc<Lists>>,
    pinned: Mutex<Pinned>,
    /// Number of changes of what is approved, for connections beside the catalog connection.
    approvals_changed: watch::Sender<u64>,
    /// Serializes comparisons with the approved tools.
    reviewing: tokio::sync::Mutex<()>,
    last_hello: Mutex<Option<Arc<Hello>>>,
    wake: Notify,
    stop: watch::Sender<bool>,
    last_used: Mutex<Instant>,
    stats: ServerStats,
    output: Arc<OutputLog>,
    /// The error of the last start, if it failed.
    failed_start: Mutex<Option<Arc<FailedStart>>>,
    /// Whether the variables that it may lack were logged in the current series of failures.
    has_warned_of_withheld: AtomicBool,
    breaker: Breaker,
    turns: Arc<CallQueue>,
    /// The connections beside the catalog connection.
    pool: Pool,
    /// What the catalog connection declares, and whether clients have used it.
    catalog_use: Mutex<CatalogUse>,
    /// What the connections that clients share declare at most.
    declared_limit: Mutex<DeclaredLimit>,
    /// Serializes fetches of lists, so that an older answer does not replace a newer one.
    fetching: tokio::sync::Mutex<()>,
    /// The capabilities of clients that the known lists take into account; `None` if that is not known.
    listed_capabilities: Mutex<Option<Capabilities>>,
    /// The same, with those that the lists will not take into account before the next start.
    applied_capabilities: watch::Sender<Option<Capabilities>>,
    /// What was sent on the catalog connection, if it is legacy.
    catalog_subscriptions: tokio::sync::Mutex<CatalogSubscriptions>,
    /// Whether it has asked a client anything.
    asks: Arc<Asks>,
    /// Whether it speaks the legacy protocol too, if the catalog connection is modern.
    legacy_support: Mutex<LegacySupport>,
    /// Differences between connections that were logged.
    logged_differences: Mutex<BTreeSet<(String, Difference)>>,
    /// Tools that only the connections of single clients have.
    own_tool_lists: OwnToolLists,
    /// The log level of connections that clients share.
    shared_log_level: Mutex<Option<String>>,
    /// The OAuth login, if the server can have one.
    bearer: Option<Arc<Bearer>>,
    /// The lists on disk.
    kept: OnceLock<ManifestState>,
    /// Redacts its secrets.
    redactor: Redactor,
    /// Whether it was started; cached lists come too late then.
    has_begun: Mutex<bool>,
    /// Resources that clients subscribed to, for modern servers.
    watched: watch::Sender<BTreeSet<String>>,
}

impl Upstream {
    pub(crate) fn new(config: ServerConfig, context: Arc<FleetContext>) -> Arc<Self> {
        let state = if config.is_enabled { State::Starting } else { State::Disabled };
        let breaker = Breaker::new(config.breaker.unwrap_or_default());
        let turns = CallQueue::new(config.limits.concurrent);
        let bearer = context.logins.as_ref().and_then(|logins| Bearer::of(&config, logins, context.secrets.clone()));
        Arc::new(Self {
            redactor: Redactor::with_shared(&config, context.secrets.clone()),
            config,
            context,
            state: watch::Sender::new(state),
            connection: watch::Sender::new(None),
            lists: RwLock::default(),
            pinned: Mutex::default(),
            approvals_changed: watch::Sender::new(0),
            reviewing: tokio::sync::Mutex::default(),
            last_hello: Mutex::default(),
            wake: Notify::new(),
            stop: watch::Sender::new(false),
            last_used: Mutex::new(Instant::now()),
            stats: ServerStats::default(),
            output: Arc::default(),
            failed_start: Mutex::default(),
            has_warned_of_withheld: AtomicBool::new(false),
            breaker,
            turns,
            pool: Pool::default(),
            catalog_use: Mutex::default(),
            declared_limit: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            listed_capabilities: Mutex::default(),
            applied_capabilities: watch::Sender::default(),
            catalog_subscriptions: tokio::sync::Mutex::default(),
            asks: Arc::default(),
            legacy_support: Mutex::default(),
            logged_differences: Mutex::default(),
            own_tool_lists: OwnToolLists::default(),
            shared_log_level: Mutex::default(),
            bearer,
            kept: OnceLock::new(),
            has_begun: Mutex::new(false),
            watched: watch::Sender::default(),
        })
    }

    /// Creates a server that was stopped and is not to be run.
    pub(crate) fn paused(config: ServerConfig, context: Arc<FleetContext>) -> Arc<Self> {
        let server = Self::new(config, context);
        server.state.send_replace(State::Stopped);
        server
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Returns what redacts its secrets.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the current state.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Returns the known lists.
    pub fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns the handshake of the last catalog connection.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        lock(&self.last_hello).clone()
    }

    /// Returns the output beside its messages since the last start.
    pub fn output(&self) -> ServerOutput {
        self.output.snapshot()
    }

    /// Returns the error of the last start; `None` if it succeeded.
    pub fn failed_start(&self) -> Option<Arc<FailedStart>> {
        lock(&self.failed_start).clone()
    }

    /// Returns its program or URL, without secrets; nothing for a server inside this process.
    pub fn source(&self) -> String {
        pins::describe_source(&self.config)
    }

    /// Returns whether its login was sent since it was last connected; `None` if it can have none.
    pub fn has_login(&self) -> Option<bool> {
        self.bearer.as_ref().map(|bearer| bearer.has_sent_token())
    }

    /// Returns whether it does not run because it wants a login or other credentials.
    pub fn needs_credentials(&self) -> bool {
        let failed = self.failed_start();
        let is_rejected = |failed: &FailedStart| {
            let ConnectError::Refused(error) = &failed.error else { return false };
            matches!(error, CallError::Status { status: 401 | 403 } | CallError::Login(_))
        };
        matches!(*self.state.borrow(), State::Failed { .. }) && failed.as_deref().is_some_and(is_rejected)
    }

    /// Returns the description in the configuration, else that of the server.
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

    /// Returns whether a tool can be called. Over HTTP, a tool is skipped if its `x-mcp-header` is invalid.
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

    /// Returns the number of running calls.
    pub fn running_calls(&self) -> u64 {
        self.stats.running.load(Ordering::Relaxed)
    }

    /// Waits until the server is ready, rests or has failed.
    pub async fn settled(&self) {
        let _ = self.state.subscribe().wait_for(State::is_settled).await;
    }

    /// Waits until it is known what the server offers, from what was kept of it or from
    /// itself, or that it does not work. One that did not answer when it was last started is
    /// not waited for.
    pub async fn wait_until_listed(&self) {
        let _ = self.context.phase.subscribe().wait_for(|phase| *phase >= StartPhase::Loaded).await;
        if self.is_worth_waiting() {
            self.settled().await;
        }
    }

    /// Sends a notification over the catalog connection, if it is open.
    pub async fn notify(&self, method: &str, params: Option<&Raw>) {
        let connection = self.connection.borrow().clone();
        if let Some((link, _)) = connection {
            let _ = link.notify(method, params.map(|params| &**params)).await;
        }
    }

    /// Takes over the lists of a predecessor.
    pub(crate) fn inherit(&self, old: &Self) {
        lock(&self.last_hello).clone_from(&*lock(&old.last_hello));
        *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = old.lists();
        self.set_listed_capabilities(*lock(&old.listed_capabilities));
        if old.asks.has_asked() {
            self.asks.record();
        }
    }

    /// Continues the counters of a predecessor.
    pub(crate) fn continue_counting(&self, old: &Self) {
        self.stats.continue_from(&old.stats);
    }

    /// Stops the server when its running calls have ended, at the latest after `grace`.
    pub(crate) async fn retire(&self, grace: Duration) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            _ = tokio::time::timeout(grace, self.stats.wait_until_idle()) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        self.stop();
        self.stopped().await;
    }

    /// Returns whether the server has stopped permanently.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.state.borrow(), State::Stopped | State::Disabled)
    }

    /// Stops the server permanently.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(&self) {
        let is_over = |state: &State| matches!(state, State::Stopped | State::Disabled);
        let _ = self.state.subscribe().wait_for(is_over).await;
    }
}

/// Returns the error with its causes and a hint.
fn why_not_connected(error: &ConnectError) -> String {
    match error.hint() {
        Some(hint) => format!("{} (hint: {hint})", crate::with_causes(error)),
        None => crate::with_causes(error),
    }
}
