//! One server, kept running.

use std::{
    ffi::OsString,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::naming::fnv1a;
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    config::{ServerConfig, TransportConfig},
    connection::{Call, CallError, Link, Notice, lock},
    era::Era,
    handshake::{self, ConnectError, Connected, Hello},
    headers,
    json::{Fields, Raw},
    listing::{self, Item, Lists},
    rpc::RpcError,
    transport::stdio::Process,
};

/// How long to wait before the first restart; it doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between restarts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a server may forget us before that counts as a failure.
const MAX_RECONNECTS: u32 = 3;

/// The shortest time between two looks at the same lists.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long a server may take to agree to a subscription.
const AGREEING: Duration = Duration::from_secs(2);

/// Failures in a row that are told loudly.
const LOUD_FAILURES: u32 = 3;

/// A server that ran this long has not failed to start.
const STEADY: Duration = Duration::from_secs(30);

/// Notifications of a server that wait to be looked at.
const NOTICES: usize = 1024;

/// What a server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being started and listed.
    Starting,
    /// It can be called.
    Ready,
    /// It was not used for a while and was stopped; a call starts it.
    Idle,
    /// It does not run, and will be tried again.
    Failed {
        /// What happened.
        reason: String,
        /// How long until the next try.
        retry_in: Duration,
    },
    /// The configuration says not to use it.
    Disabled,
    /// It was ended for good.
    Stopped,
}

impl State {
    /// Whether it is known what the server offers, or known that it offers nothing now.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Starting)
    }
}

/// A configured server.
#[derive(Debug)]
pub struct Upstream {
    config: ServerConfig,
    supervisor: Arc<[OsString]>,
    state: watch::Sender<State>,
    connection: watch::Sender<Option<(Arc<Link>, Arc<Hello>)>>,
    lists: RwLock<Arc<Lists>>,
    last_hello: Mutex<Option<Arc<Hello>>>,
    /// Counts changes of lists and state, for whoever watches the whole fleet.
    changes: Arc<watch::Sender<u64>>,
    /// Where other notifications go.
    told: mpsc::Sender<(Arc<str>, Notice)>,
    wake: Notify,
    stop: watch::Sender<bool>,
    last_used: Mutex<Instant>,
    running: AtomicU64,
    /// Resources that clients subscribed to, for modern servers.
    watched: watch::Sender<Vec<String>>,
}

impl Upstream {
    pub(crate) fn new(
        config: ServerConfig,
        supervisor: Arc<[OsString]>,
        changes: Arc<watch::Sender<u64>>,
        told: mpsc::Sender<(Arc<str>, Notice)>,
    ) -> Arc<Self> {
        let state = if config.is_enabled { State::Starting } else { State::Disabled };
        Arc::new(Self {
            config,
            supervisor,
            state: watch::Sender::new(state),
            connection: watch::Sender::new(None),
            lists: RwLock::default(),
            last_hello: Mutex::default(),
            changes,
            told,
            wake: Notify::new(),
            stop: watch::Sender::new(false),
            last_used: Mutex::new(Instant::now()),
            running: AtomicU64::new(0),
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
        let mut text = self.config.description.clone().or_else(own).unwrap_or_default();
        text.truncate(text.floor_char_boundary(MOST));
        text
    }

    /// Whether a tool can be called: over HTTP one whose headers cannot be sent must not be.
    pub fn can_call(&self, item: &Item) -> bool {
        let is_remote = matches!(self.config.transport, TransportConfig::Http { .. });
        if !is_remote || !item.raw.get().contains("x-mcp-header") {
            return true;
        }
        let schema = Fields::of(&item.raw).and_then(|fields| fields.read("inputSchema"));
        match schema.as_ref().map(headers::mirrored) {
            Some(Err(reason)) => {
                tracing::warn!(server = self.name(), tool = item.key, reason, "a tool is left out");
                false
            }
            _ => true,
        }
    }

    /// How many calls it is busy with.
    pub fn running_calls(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    /// Waits until it is known whether the server works.
    pub async fn settled(&self) {
        let _ = self.state.subscribe().wait_for(State::is_settled).await;
    }

    /// Makes a call. A server that is stopped is started first, and one that has forgotten
    /// us is connected again.
    ///
    /// # Errors
    /// When the server refuses, is not there, or does not answer in time.
    pub async fn call(&self, mut make: impl FnMut(&Hello) -> Call) -> Result<Raw, CallError> {
        let _using = Using::new(self);
        let mut has_retried = false;
        loop {
            let (link, hello) = self.connected().await?;
            match link.request(make(&hello)).await {
                Err(CallError::SessionExpired) if !has_retried => {
                    has_retried = true;
                    self.gone(&link).await;
                }
                other => return other,
            }
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
            link.watching(&uris, AGREEING).await;
        }
    }

    /// A usable connection, waited for as long as a start may take.
    async fn connected(&self) -> Result<(Arc<Link>, Arc<Hello>), CallError> {
        let mut connection = self.connection.subscribe();
        if let Some(ready) = connection.borrow_and_update().clone().filter(|(link, _)| link.close_reason().is_none()) {
            return Ok(ready);
        }
        let refuse = |reason: &str| Err(CallError::Closed(reason.into()));
        match self.state() {
            State::Disabled => return refuse("it is disabled"),
            State::Stopped => return refuse("it was stopped"),
            State::Failed { reason, .. } => return refuse(&reason),
            State::Idle => self.wake.notify_one(),
            State::Starting | State::Ready => {}
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
                    // It may have gone to sleep after we looked.
                    State::Idle => self.wake.notify_one(),
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

    /// Ends it for good.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until it has ended.
    pub(crate) async fn stopped(&self) {
        let is_over = |state: &State| matches!(state, State::Stopped | State::Disabled);
        let _ = self.state.subscribe().wait_for(is_over).await;
    }

    /// Keeps the server running until it is stopped.
    pub(crate) async fn run(self: Arc<Self>) {
        if !self.config.is_enabled {
            return;
        }
        let mut stop = self.stop.subscribe();
        let mut failures = 0;
        let mut reconnects = 0;
        let mut era = self.config.era;
        loop {
            self.enter(State::Starting);
            let began = Instant::now();
            let ended = self.live(&mut era).await;
            if *stop.borrow() {
                break;
            }
            if began.elapsed() > STEADY {
                failures = 0;
                reconnects = 0;
            }
            match ended {
                Ended::Idle => {
                    tracing::info!(server = self.name(), "a server that nobody uses is stopped");
                    self.enter(State::Idle);
                    tokio::select! {
                        () = self.wake.notified() => {}
                        _ = stop.wait_for(|stop| *stop) => break,
                    }
                }
                Ended::Reconnect if reconnects < MAX_RECONNECTS => reconnects += 1,
                Ended::Reconnect | Ended::Failed(_) => {
                    let reason = match ended {
                        Ended::Failed(reason) => reason,
                        _ => "the server keeps forgetting the session".to_owned(),
                    };
                    reconnects = 0;
                    let retry_in = pause(self.name(), failures);
                    failures += 1;
                    let seconds = (retry_in.as_secs_f32() * 10.0).round() / 10.0;
                    // The same again every minute is no news.
                    if failures <= LOUD_FAILURES {
                        tracing::warn!(server = self.name(), reason, retry_in_s = seconds, "a server failed");
                    } else {
                        tracing::debug!(
                            server = self.name(),
                            reason,
                            retry_in_s = seconds,
                            failures,
                            "a server failed again"
                        );
                    }
                    self.enter(State::Failed { reason, retry_in });
                    tokio::select! {
                        () = tokio::time::sleep(retry_in) => {}
                        _ = stop.wait_for(|stop| *stop) => break,
                    }
                }
            }
        }
        self.enter(State::Stopped);
    }

    fn enter(&self, state: State) {
        // In this order: whoever sees the state must be able to wait for what comes with it.
        self.changes.send_modify(|changes| *changes += 1);
        self.state.send_replace(state);
    }

    /// One life of the server, from its start to its end.
    async fn live(&self, era: &mut Option<Era>) -> Ended {
        let (notices, mut noticed) = mpsc::channel(NOTICES);
        let limit = self.config.timeouts.connect;
        let mut stop = self.stop.subscribe();
        let connecting = tokio::time::timeout(limit, self.connect(*era, notices));
        let connected = tokio::select! {
            connected = connecting => connected,
            _ = stop.wait_for(|stop| *stop) => return Ended::Failed("stopped".to_owned()),
        };
        let connected = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => {
                // A server that dies of the modern question is asked the legacy one alone.
                if matches!(error, ConnectError::Closed(_)) && self.is_child() && era.is_none() {
                    *era = Some(Era::Legacy);
                    return Ended::Reconnect;
                }
                *era = self.config.era;
                return Ended::Failed(with_causes(&error));
            }
            Err(_) => return Ended::Failed(with_causes(&ConnectError::Timeout(limit))),
        };
        let (Connected { link, hello, mut process, closing }, _listening) = connected;
        closing.disarm();
        let tools = self.lists().tools.len();
        tracing::info!(server = self.name(), protocol = hello.version, tools, "a server is ready");
        link.set_ready();
        *lock(&self.last_hello) = Some(Arc::clone(&hello));
        self.connection.send_replace(Some((Arc::clone(&link), Arc::clone(&hello))));
        self.enter(State::Ready);
        let ended = tokio::select! {
            reason = link.closed() => reason.to_string(),
            reason = child_ended(&mut process) => reason,
            () = self.attend(&link, &mut noticed) => "closed".to_owned(),
            () = self.unused() => String::new(),
            _ = stop.wait_for(|stop| *stop) => "stopped".to_owned(),
        };
        let ended = match &mut process {
            Some(process) if !ended.is_empty() && !*stop.borrow() => {
                let reason = handshake::ended_because(process, ended).await;
                link.explain(&reason)
            }
            _ => ended,
        };
        let is_expired = link.close_reason().is_some_and(|reason| reason.contains("forgotten the session"));
        link.close(if ended.is_empty() { "not used".to_owned() } else { ended.clone() });
        self.connection.send_replace(None);
        if let Some(process) = process {
            process.stop().await;
        }
        match (ended.is_empty(), is_expired) {
            (true, _) => Ended::Idle,
            (false, true) => Ended::Reconnect,
            (false, false) => Ended::Failed(ended),
        }
    }

    fn is_child(&self) -> bool {
        matches!(self.config.transport, TransportConfig::Stdio { .. })
    }

    /// Connects, listens and lists, in this order, so that no change is missed.
    async fn connect(
        &self,
        era: Option<Era>,
        notices: mpsc::Sender<Notice>,
    ) -> Result<(Connected, Listening), ConnectError> {
        let connected = handshake::connect(&self.config, era, &self.supervisor, notices).await?;
        let (link, hello) = (Arc::clone(&connected.link), Arc::clone(&connected.hello));
        let listening = Listening(tokio::spawn(listen(link, hello, self.watched.subscribe())).abort_handle());
        let listed = listing::list_all(&connected.link, &connected.hello, self.config.timeouts.connect).await;
        match listed {
            Ok(lists) => {
                self.publish(lists);
                Ok((connected, listening))
            }
            Err(error) => {
                connected.link.close("its tools cannot be listed");
                if let Some(process) = connected.process {
                    process.stop().await;
                }
                Err(ConnectError::Refused(error))
            }
        }
    }

    fn publish(&self, lists: Lists) {
        for warning in &lists.warnings {
            tracing::warn!(server = self.name(), "{warning}");
        }
        *self.lists.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(lists);
    }

    /// Follows what the server says of its own accord.
    async fn attend(&self, link: &Arc<Link>, noticed: &mut mpsc::Receiver<Notice>) {
        let name: Arc<str> = self.name().into();
        loop {
            let kinds = tokio::select! {
                notice = noticed.recv() => {
                    let Some(notice) = notice else { return };
                    let _ = self.told.try_send((Arc::clone(&name), notice));
                    continue;
                }
                kinds = link.changed_lists() => kinds,
            };
            let mut lists = Lists::clone(&self.lists());
            for kind in kinds {
                if let Err(error) = listing::refresh(link, kind, &mut lists, self.config.timeouts.connect).await {
                    tracing::warn!(server = self.name(), %error, "`{}` failed; the old list stays", kind.method());
                }
            }
            self.publish(lists);
            self.changes.send_modify(|changes| *changes += 1);
            // Several changes at once are one, and a server that changes all the time is
            // looked at now and then.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns when the server was not used for as long as the configuration allows.
    async fn unused(&self) {
        let Some(limit) = self.config.timeouts.idle else { return std::future::pending().await };
        loop {
            let until = *lock(&self.last_used) + limit;
            tokio::time::sleep_until(until).await;
            let is_running = self.running.load(Ordering::Relaxed) > 0;
            if !is_running && *lock(&self.last_used) + limit <= Instant::now() {
                return;
            }
            if is_running {
                *lock(&self.last_used) = Instant::now();
            }
        }
    }
}

/// A server's notification stream, ended when dropped.
struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a life of a server ended.
enum Ended {
    Idle,
    Reconnect,
    Failed(String),
}

async fn child_ended(process: &mut Option<Process>) -> String {
    match process {
        Some(process) => process.wait().await,
        None => std::future::pending().await,
    }
}

/// Counts a call while it runs.
struct Using<'a>(&'a Upstream);

impl<'a> Using<'a> {
    fn new(upstream: &'a Upstream) -> Self {
        upstream.running.fetch_add(1, Ordering::Relaxed);
        Self(upstream)
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.0.last_used) = Instant::now();
    }
}

/// Doubles with every failure; a little different for every server, so that they do not
/// all come back at once.
fn pause(server: &str, failures: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    let share = fnv1a(server.bytes(), u64::from(failures)) % 256;
    pause.mul_f64(0.75 + share as f64 / 512.0)
}

fn with_causes(error: &ConnectError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!(" (hint: {hint})"));
    }
    text
}

/// Keeps a modern server's notification stream open.
async fn listen(link: Arc<Link>, hello: Arc<Hello>, mut watched: watch::Receiver<Vec<String>>) {
    if hello.era != Era::Modern {
        return;
    }
    let mut failures = 0;
    loop {
        let uris = watched.borrow_and_update().clone();
        let filter = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
            "resourceSubscriptions": uris,
        });
        let params = Fields::new().with("notifications", &filter);
        let call = Call { timeout: None, ..Call::new("subscriptions/listen", params, Duration::MAX) };
        let began = Instant::now();
        let ended = tokio::select! {
            ended = link.request(call) => ended,
            _ = watched.changed() => continue,
        };
        match ended {
            Err(CallError::Rpc(error)) if error.code == RpcError::METHOD_NOT_FOUND => return,
            Err(CallError::Closed(_)) => return,
            _ => {}
        }
        failures = if began.elapsed() > STEADY { 0 } else { (failures + 1).min(6) };
        tokio::time::sleep(pause(&link.server, failures)).await;
    }
}
