//! The catalog connection of a server: it is opened, followed, and opened again after a pause that
//! grows.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pegboard_core::{locks::lock, text};
use pegboard_mcp::era::Era;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    FailedStart, StartPhase, State, UpdateSource, Upstream,
    opening::{Listening, OpenConnection, Opening, STEADY, pause, process_ended},
    why_not_connected,
};
use crate::{
    capabilities::Capabilities,
    config::TransportConfig,
    connection::{Link, Notice},
    environment,
    handshake::{self, ConnectError},
    listing::{self, ListKind, Lists},
    transport::stdio::Process,
};

/// Maximum number of expired sessions in a row before they count as a failure.
const MAX_RECONNECTS: u32 = 3;

/// The shortest time between two refreshes of lists.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long a starting server with a cached list keeps others waiting.
const TURN: Duration = Duration::from_secs(3);

/// How long a starting server that was never listed keeps others waiting.
const FIRST_TURN: Duration = Duration::from_secs(10);

/// Maximum number of different reasons in a series of failures that are logged as warnings.
const MAX_WARNINGS: usize = 3;

/// Maximum number of bytes of the reason of a failure.
const MAX_REASON: usize = 2000;

impl Upstream {
    /// Keeps the server running until it is stopped.
    pub(crate) async fn run(self: Arc<Self>) {
        if !self.config.is_enabled {
            return;
        }
        if let Some(reason) = self.config.missing.clone() {
            tracing::warn!(server = self.name(), reason, "server not started");
            self.set_state(State::Failed { reason, retry_in: None });
            let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
            return self.set_state(State::Stopped);
        }
        tokio::select! {
            () = self.keep_running() => {}
            () = self.save_changes() => {}
            () = self.watch_approvals() => {}
        }
        self.pool.emptied().await;
        self.write_waiting().await;
        self.save().await;
        self.set_state(State::Stopped);
    }

    /// Opens the catalog connection again and again, until the server is stopped.
    async fn keep_running(&self) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            () = self.wait_for_admission() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        // A server without cached lists is started once to get them.
        let is_resting = self.config.is_lazy() && self.has_manifest();
        let may_start = match is_resting {
            true => self.rest(&mut stop).await,
            false => self.take_turn(&mut stop).await,
        };
        if !may_start {
            return;
        }
        let mut failures = 0;
        let mut reconnects = 0;
        let mut warned = Vec::new();
        let mut era = self.config.era;
        loop {
            if *stop.borrow() {
                return;
            }
            self.set_state(State::Starting);
            let began = Instant::now();
            let ended = self.run_once(&mut era).await;
            if *stop.borrow() {
                return;
            }
            if began.elapsed() > STEADY {
                failures = 0;
                reconnects = 0;
                warned.clear();
                self.has_warned_of_withheld.store(false, Ordering::Relaxed);
            }
            match ended {
                Ended::Idle => {
                    tracing::info!(server = self.name(), "idle server stopped");
                    if !self.rest(&mut stop).await {
                        return;
                    }
                }
                Ended::Outgrown => {
                    tracing::debug!(server = self.name(), "reconnecting to declare client capabilities");
                    self.set_state(State::Starting);
                    if !self.take_turn(&mut stop).await {
                        return;
                    }
                }
                Ended::Reconnect if reconnects < MAX_RECONNECTS => reconnects += 1,
                Ended::Reconnect | Ended::Failed(_) => {
                    let reason = match ended {
                        Ended::Failed(reason) => text::brief(&self.redactor.redact(&reason), MAX_REASON),
                        _ => "the session keeps expiring on the server".to_owned(),
                    };
                    reconnects = 0;
                    self.give_up_on_capabilities();
                    // Its lists are known, so it is not needed before the next call.
                    if self.config.is_lazy() && self.hello().is_some() {
                        tracing::warn!(server = self.name(), reason, "server failed; the next call restarts it");
                        self.stats.record_failure(&reason);
                        // The call that woke it gets the error, and does not wake it again.
                        tokio::select! {
                            biased;
                            () = self.wake.notified() => {}
                            () = std::future::ready(()) => {}
                        }
                        if !self.rest(&mut stop).await {
                            return;
                        }
                        continue;
                    }
                    let retry_in = pause(self.name(), failures);
                    failures += 1;
                    self.log_failure(&reason, retry_in, failures, &mut warned);
                    self.set_state(State::Failed { reason, retry_in: Some(retry_in) });
                    tokio::select! {
                        () = tokio::time::sleep(retry_in) => {}
                        () = self.wait_for_login() => {
                            failures = 0;
                            warned.clear();
                        }
                        _ = stop.wait_for(|stop| *stop) => return,
                    }
                    // Servers that have failed together must not start all at once either.
                    if !self.take_turn(&mut stop).await {
                        return;
                    }
                }
            }
        }
    }

    /// Logs a failure: a reason that is new in this series as a warning, the same again as a detail.
    fn log_failure(&self, reason: &str, retry_in: Duration, failures: u32, warned: &mut Vec<String>) {
        let server = self.name();
        let shown = Duration::from_millis(u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX) / 100 * 100);
        if warned.len() < MAX_WARNINGS && warned.iter().all(|known| known != reason) {
            warned.push(reason.to_owned());
            tracing::warn!(server, reason, retry_in = ?shown, "server failed");
        } else {
            tracing::debug!(server, reason, retry_in = ?shown, failures, "server failed again");
        }
    }

    /// Waits for a login to a server that needs one.
    async fn wait_for_login(&self) {
        match &self.bearer {
            Some(bearer) => bearer.wait_until_changed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the server may start. Only a server with cached lists can be held back: clients wait
    /// for the others.
    async fn wait_for_admission(&self) {
        let mut phase = self.context.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase >= StartPhase::Loaded).await;
        if self.has_manifest() {
            let _ = phase.wait_for(|phase| *phase == StartPhase::Started).await;
        } else {
            // What the first client can be asked for need not be declared by a second start.
            let mut clients = self.context.clients.subscribe();
            let _ = tokio::time::timeout(self.context.first_client_wait, clients.wait_for(Option::is_some)).await;
        }
        *lock(&self.has_begun) = true;
    }

    /// Waits for a place among the servers that start at a time. Programs that start all at once keep
    /// each other from getting ready in time, which is counted from the start of each. A server that is
    /// called starts at once.
    async fn wait_for_start_slot(&self) {
        let is_known = self.has_manifest();
        // A remote server takes nothing from the others.
        if !is_known && matches!(self.config.transport, TransportConfig::Http { .. }) {
            return;
        }
        let place = tokio::select! {
            place = Arc::clone(&self.context.starts).acquire_owned() => place.ok(),
            () = self.wait_until_called() => return,
        };
        self.set_state(State::Starting);
        // A server that hangs must not prevent others from starting.
        let mut state = self.state.subscribe();
        let limit = if is_known { TURN } else { FIRST_TURN };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(limit, state.wait_for(State::is_settled)).await;
            drop(place);
        });
    }

    /// Waits until the server is called.
    async fn wait_until_called(&self) {
        loop {
            self.wake.notified().await;
            // The call may be over already.
            if self.running_calls() > 0 {
                return;
            }
        }
    }

    /// Waits for a place among the servers that start; `false` if the server was stopped instead.
    async fn take_turn(&self, stop: &mut watch::Receiver<bool>) -> bool {
        tokio::select! {
            () = self.wait_for_start_slot() => true,
            _ = stop.wait_for(|stop| *stop) => false,
        }
    }

    /// Waits for the next call, or until its lists are out of date; `false` if the server was stopped instead.
    async fn rest(&self, stop: &mut watch::Receiver<bool>) -> bool {
        self.set_state(if self.config.is_lazy() { State::Lazy } else { State::Idle });
        tokio::select! {
            () = self.wait_until_called() => return true,
            () = self.wait_until_lists_outgrown() => {}
            _ = stop.wait_for(|stop| *stop) => return false,
        }
        self.take_turn(stop).await
    }

    fn set_state(&self, state: State) {
        self.stats.record_state(&state);
        // In this order: an observer of the state must see the change that comes with it.
        self.context.changed();
        self.state.send_replace(state);
    }

    /// Opens the catalog connection and follows it until it ends.
    async fn run_once(&self, era: &mut Option<Era>) -> Ended {
        let limit = self.config.timeouts.connect;
        let mut stop = self.stop.subscribe();
        let declared = self.shared_capabilities();
        let connecting = tokio::time::timeout(limit, self.open_catalog(*era, declared));
        let connected = tokio::select! {
            connected = connecting => connected,
            _ = stop.wait_for(|stop| *stop) => return Ended::Failed("stopped".to_owned()),
        };
        let connected = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => {
                if error.may_be_for_capabilities() && self.limit_declared(declared) {
                    return Ended::Reconnect;
                }
                // A server that exits at `server/discover` is only sent `initialize`.
                if matches!(error, ConnectError::Closed(_)) && self.is_child() && era.is_none() {
                    *era = Some(Era::Legacy);
                    return Ended::Reconnect;
                }
                *era = self.config.era;
                return self.record_failed_start(error);
            }
            Err(_) => {
                self.record_no_answer().await;
                return self.record_failed_start(ConnectError::Timeout(limit));
            }
        };
        let (connection, _listening) = connected;
        if !declared.covers(self.shared_capabilities()) {
            connection.close("outdated capabilities".to_owned()).await;
            return Ended::Outgrown;
        }
        let OpenConnection { link, hello, mut process, mut notices, closing: _closing } = connection;
        let tools = self.lists().tools.len();
        tracing::info!(server = self.name(), protocol = hello.version, tools, "server ready");
        link.set_ready();
        *lock(&self.failed_start) = None;
        *lock(&self.last_hello) = Some(Arc::clone(&hello));
        self.reset_legacy_support();
        *lock(&self.last_used) = Instant::now();
        self.stats.set_pid(process.as_ref().and_then(Process::pid));
        self.begin_catalog_use(declared);
        self.mark_lists_changed();
        self.connection.send_replace(Some((Arc::clone(&link), Arc::clone(&hello))));
        self.set_state(State::Ready);
        // After the state: who waits for the lists must see the change that comes with them.
        self.set_listed_capabilities(Some(declared));
        let mut is_outgrown = false;
        let ended = tokio::select! {
            reason = link.closed() => reason.to_string(),
            reason = process_ended(&mut process) => reason,
            () = self.follow_changes(&link, &mut notices) => "closed".to_owned(),
            () = self.wait_until_unused() => String::new(),
            () = self.wait_until_outgrown(&link, &hello) => {
                is_outgrown = true;
                "outdated capabilities".to_owned()
            }
            _ = stop.wait_for(|stop| *stop) => "stopped".to_owned(),
        };
        let ended = match &mut process {
            Some(process) if !ended.is_empty() && !is_outgrown && !*stop.borrow() => {
                let reason = handshake::ended_because(process, ended).await;
                link.explain(&reason)
            }
            _ => ended,
        };
        let is_expired = link.close_reason().is_some_and(|reason| reason.contains("session expired on the server"));
        link.close(if ended.is_empty() { "idle".to_owned() } else { ended.clone() });
        self.connection.send_replace(None);
        self.end_catalog_use();
        self.stats.set_pid(None);
        if let Some(process) = process {
            process.stop().await;
        }
        match (ended.is_empty(), is_expired) {
            _ if is_outgrown => Ended::Outgrown,
            (true, _) => Ended::Idle,
            (false, true) => Ended::Reconnect,
            (false, false) => {
                self.warn_of_withheld(true);
                Ended::Failed(ended)
            }
        }
    }

    fn record_failed_start(&self, error: ConnectError) -> Ended {
        let reason = why_not_connected(&error);
        // No variable helps if the program cannot be started.
        let withheld = match &error {
            ConnectError::Start { .. } | ConnectError::Config(_) => Vec::new(),
            _ => self.warn_of_withheld(false),
        };
        *lock(&self.failed_start) = Some(Arc::new(FailedStart { error, output: self.output(), withheld }));
        Ended::Failed(reason)
    }

    /// Returns the withheld variables that the server may lack; they are logged once in a series of
    /// failures.
    fn warn_of_withheld(&self, has_started: bool) -> Vec<String> {
        if !self.is_child() {
            return Vec::new();
        }
        let environment = self.environment();
        let names =
            environment::find_suspects(&self.config, environment.withheld(), &self.output.excerpt(), has_started);
        if !names.is_empty() && !self.has_warned_of_withheld.swap(true, Ordering::Relaxed) {
            let variables = names.join(", ");
            let setting = format!("mcpServers.{}.pegboard.inheritEnv", self.name());
            tracing::warn!(
                server = self.name(),
                variables,
                setting,
                "failed server may lack variables that it does not inherit"
            );
        }
        names
    }

    fn is_child(&self) -> bool {
        matches!(self.config.transport, TransportConfig::Stdio { .. })
    }

    /// Connects, listens and lists, in this order, so that no change is missed.
    async fn open_catalog(
        &self,
        era: Option<Era>,
        declared: Capabilities,
    ) -> Result<(OpenConnection, Listening), ConnectError> {
        self.output.clear();
        let opening = Opening {
            era,
            transport: &self.config.transport,
            capabilities: declared.to_raw(),
            client: None,
            output: Arc::clone(&self.output),
        };
        let connection = self.open(opening).await?;
        let listening = Listening::start(&connection, self.watched.subscribe());
        let listed = listing::list_all(&connection.link, &connection.hello, self.config.timeouts.connect).await;
        match listed {
            Ok(lists) => {
                self.publish(lists).await;
                Ok((connection, listening))
            }
            Err(error) => {
                connection.close("cannot list the server's tools".to_owned()).await;
                Err(ConnectError::Refused(error))
            }
        }
    }

    /// Accepts lists of the server. Unchanged entries stay the same in memory, so that they do not count
    /// as new.
    pub(super) async fn publish(&self, mut lists: Lists) {
        for warning in &lists.warnings {
            tracing::warn!(server = self.name(), "{warning}");
        }
        let before = self.lists();
        listing::share_unchanged(&mut lists.offered, &before.offered);
        lists.tools = Arc::clone(&lists.offered);
        listing::share_unchanged(&mut lists.prompts, &before.prompts);
        listing::share_unchanged(&mut lists.resources, &before.resources);
        listing::share_unchanged(&mut lists.templates, &before.templates);
        self.accept_lists(lists).await;
    }

    /// Follows notifications of the server that belong to no call.
    async fn follow_changes(&self, link: &Arc<Link>, noticed: &mut mpsc::Receiver<Notice>) {
        let name: Arc<str> = self.name().into();
        loop {
            let kinds = tokio::select! {
                notice = noticed.recv() => {
                    let Some(notice) = notice else { return };
                    let _ = self.context.notices.try_send((Arc::clone(&name), notice));
                    continue;
                }
                () = link.news.missed_updates() => {
                    let uris = self.watched.borrow().clone();
                    self.report_missed_updates(UpdateSource::Catalog, uris).await;
                    continue;
                }
                kinds = link.news.changed_lists() => kinds,
            };
            self.refresh_lists(link, kinds).await;
        }
    }

    /// Asks for lists that have changed, and accepts them.
    pub(super) async fn refresh_lists(&self, link: &Arc<Link>, kinds: BTreeSet<ListKind>) {
        self.fetch_lists(link, kinds).await;
        self.mark_lists_changed();
        self.context.changed();
        // Several changes at once are one, and a server that changes all the time is listed now and
        // then.
        tokio::time::sleep(LOOK_AGAIN).await;
    }

    /// Asks for lists and accepts them; returns whether the server has sent all of them.
    pub(super) async fn fetch_lists(&self, link: &Arc<Link>, kinds: BTreeSet<ListKind>) -> bool {
        let _fetching = self.fetching.lock().await;
        let wanted = kinds.len();
        let mut fetched = Lists::clone(&self.lists());
        let mut is_fetched = BTreeSet::new();
        for kind in kinds {
            match listing::refresh_list(link, kind, &mut fetched, self.config.timeouts.connect).await {
                Ok(()) => _ = is_fetched.insert(kind),
                Err(error) => {
                    tracing::warn!(server = self.name(), %error, "`{}` failed; previous list kept", kind.method());
                }
            }
        }
        // Another connection may have brought other lists meanwhile.
        let mut lists = Lists::clone(&self.lists());
        let has_all = is_fetched.len() == wanted;
        is_fetched.into_iter().for_each(|kind| lists.take_from(&fetched, kind));
        self.publish(lists).await;
        has_all
    }

    /// Waits until the server was not called for the configured time.
    async fn wait_until_unused(&self) {
        let Some(limit) = self.config.idle_limit() else { return std::future::pending().await };
        loop {
            let until = *lock(&self.last_used) + limit;
            tokio::time::sleep_until(until).await;
            let is_running = self.running_calls() > 0;
            if !is_running && *lock(&self.last_used) + limit <= Instant::now() {
                return;
            }
            if is_running {
                *lock(&self.last_used) = Instant::now();
            }
        }
    }
}

/// The reason why the catalog connection ended.
enum Ended {
    Idle,
    /// Clients can be asked for more than it declares.
    Outgrown,
    Reconnect,
    Failed(String),
}
