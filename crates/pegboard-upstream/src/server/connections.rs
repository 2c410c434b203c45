//! Which connection a client's calls use, and the life of connections beside the catalog
//! connection.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pegboard_core::{locks::lock, text};
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::Instrument as _;

use super::{
    CallClient, ClientLife, ClientOwner, StartPhase, State, UpdateSource, Upstream,
    calls::Usable,
    client::ConnectionKey,
    life::LOOK_AGAIN,
    opening::{Listening, OpenConnection, Opening, process_ended},
    pool::{OpenFailure, PoolLimit, Slot, Wanted},
    why_not_connected,
};
use crate::{
    capabilities::Capabilities,
    config::{ConnectionMode, TransportConfig},
    connection::{Call, CallError, Link, Notice, SoleClient},
    handshake::{ConnectError, Hello},
    listing::ListKind,
    trace,
};

/// How long the legacy protocol is not tried again after an attempt that failed for another reason
/// than the protocol.
const RETRY_LEGACY: Duration = Duration::from_secs(300);

/// How long a modern server that needs no start may take to answer the legacy handshake. It has answered the modern one,
/// and a client waits.
const LEGACY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call waits for the end of a connection that is being closed.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the reason that is given for a failure.
const MAX_REASON: usize = 2000;

/// Whether a server whose catalog connection is modern speaks the legacy protocol too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LegacySupport {
    /// It was not tried yet, or it does.
    #[default]
    Possible,
    /// The server has refused it.
    Refused,
    /// An attempt failed; the next one is due then. A server that does not answer to that either does not speak it.
    FailedUntil(Instant),
    /// It does: what fails is a client's connection.
    Confirmed,
}

impl LegacySupport {
    /// Returns what is known after an attempt that failed.
    fn after(self, error: &ConnectError) -> Self {
        let now = Instant::now();
        match self {
            Self::Refused => self,
            _ if error.is_wrong_version() && !error.is_silence() => Self::Refused,
            // An attempt that began together with one that has failed says nothing more.
            Self::FailedUntil(then) if then > now => self,
            Self::FailedUntil(_) if error.is_silence() => Self::Refused,
            // A busy machine can be the reason, too.
            _ => Self::FailedUntil(now + RETRY_LEGACY),
        }
    }
}

/// A connection to be opened.
struct Plan {
    era: Option<Era>,
    capabilities: Raw,
    client: Option<SoleClient>,
    log_level: Option<String>,
    /// What changes while the only client is there.
    life: Option<watch::Receiver<ClientLife>>,
    /// How often its roots had changed when the connection was planned.
    roots_changes: u64,
}

impl Plan {
    /// Waits until the only client of the connection has gone; for ever if that is not known.
    async fn client_ended(&self) {
        match self.life.clone() {
            Some(mut life) => _ = life.wait_for(|life| life.has_ended).await,
            None => std::future::pending().await,
        }
    }

    fn has_new_roots(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.borrow().roots_changes != self.roots_changes)
    }

    fn has_client_ended(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.borrow().has_ended || life.has_changed().is_err())
    }
}

impl Upstream {
    /// Returns the connection for a call of this client, opened if necessary.
    pub(super) async fn connection_for(self: &Arc<Self>, client: &CallClient) -> Result<Usable, CallError> {
        let (mut deadline, mut may_be_own) = (None, true);
        loop {
            let key = self.connection_key(client, may_be_own);
            if key == ConnectionKey::Catalog {
                // A server that has only started now may need another connection for this client.
                let is_still = || self.connection_key(client, may_be_own) == ConnectionKey::Catalog;
                match self.catalog_while(is_still).await? {
                    Some(usable) => return Ok(usable),
                    None => continue,
                }
            }
            self.check_not_stopped()?;
            let wanted = self.wanted(key, client);
            let (in_use, is_new) = match self.pool.reserve(wanted) {
                // One that is being closed counts until its process is gone. Another call may take its
                // place meanwhile, and leave another one.
                Err(full) if full.is_making_room || full.is_busy => {
                    let limit = if full.is_busy { self.config.timeouts.call } else { ROOM_TIMEOUT };
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
                    tokio::time::timeout_at(deadline, self.pool.has_room(wanted)).await.map_err(|_| full)?;
                    continue;
                }
                // It can be served, although it cannot be asked for everything.
                Err(_) if may_be_own && self.is_own_by_choice() => {
                    may_be_own = false;
                    continue;
                }
                reserved => reserved?,
            };
            if is_new {
                let plan = self.plan(in_use.slot().key, client);
                // Outside of the span of the call, which ends before the connection.
                tokio::spawn(Arc::clone(self).keep_open(Arc::clone(in_use.slot()), plan));
            }
            match in_use.opened().instrument(trace::start_span(self.name())).await {
                Ok((link, hello)) => return Ok(Usable { link, hello, in_use: Some(in_use) }),
                // It is known now, and leads to another connection.
                Err(OpenFailure::Era) => {}
                Err(OpenFailure::Reason(reason)) => return Err(CallError::NotRunning(reason)),
            }
        }
    }

    /// Returns whether a client gets a connection of its own only because the shared one declares too little.
    fn is_own_by_choice(&self) -> bool {
        self.config.connections.mode == ConnectionMode::Auto && !self.asks.has_asked()
    }

    /// Returns the key of the connection that a client's calls use. `may_be_own` is whether the client gets one of its own
    /// because the shared one declares too little.
    fn connection_key(&self, client: &CallClient, may_be_own: bool) -> ConnectionKey {
        let catalog = self.hello().map(|hello| hello.era);
        let (Some(catalog), true) = (catalog, self.can_connect_again()) else { return ConnectionKey::Catalog };
        let era = self.era_for(client.era, catalog);
        let is_own = match self.config.connections.mode {
            ConnectionMode::Own => true,
            ConnectionMode::Shared => false,
            // A modern server asks by the result of a call, which has one addressee anyway.
            ConnectionMode::Auto => {
                let is_better = || may_be_own && self.is_underdeclared_for(client, catalog);
                era == Era::Legacy && (self.asks.has_asked() || is_better())
            }
        };
        match is_own {
            true => client.own_key(),
            false if era == catalog => ConnectionKey::Catalog,
            false => ConnectionKey::Shared(era),
        }
    }

    /// Returns the era of a connection for a client of the era `client`. A server that was found to
    /// be legacy has refused the modern protocol: that is tried first.
    fn era_for(&self, client: Era, catalog: Era) -> Era {
        let may_be_legacy = self.config.era.is_none() && self.may_speak_legacy();
        if client == Era::Legacy && may_be_legacy { Era::Legacy } else { catalog }
    }

    fn may_speak_legacy(&self) -> bool {
        match *lock(&self.legacy_support) {
            LegacySupport::Possible | LegacySupport::Confirmed => true,
            LegacySupport::Refused => false,
            LegacySupport::FailedUntil(then) => then <= Instant::now(),
        }
    }

    /// Forgets what was found out about the legacy protocol: the server may be another version of
    /// itself.
    pub(super) fn reset_legacy_support(&self) {
        *lock(&self.legacy_support) = LegacySupport::Possible;
    }

    fn can_connect_again(&self) -> bool {
        match &self.config.transport {
            TransportConfig::Local(server) => server.another().is_some(),
            TransportConfig::Stdio { .. } | TransportConfig::Http { .. } => true,
        }
    }

    fn check_not_stopped(&self) -> Result<(), CallError> {
        // A call is served before those that are only started.
        self.context.advance(StartPhase::Started);
        match self.state() {
            State::Disabled => Err(CallError::NotRunning("it is disabled".into())),
            State::Stopped => Err(CallError::NotRunning("it was stopped".into())),
            _ if *self.stop.borrow() => Err(CallError::NotRunning("it was stopped".into())),
            _ => Ok(()),
        }
    }

    fn plan(&self, key: ConnectionKey, client: &CallClient) -> Plan {
        let era = self.hello().map(|hello| self.era_for(client.era, hello.era));
        match key {
            ConnectionKey::Client(_) | ConnectionKey::Lease => Plan {
                era,
                capabilities: client.capabilities.clone(),
                client: Some(SoleClient { opening: client.events.clone(), inbox: client.inbox.clone() }),
                log_level: client.log_level.clone(),
                life: client.life.clone(),
                roots_changes: client.life.as_ref().map_or(0, |life| life.borrow().roots_changes),
            },
            ConnectionKey::Catalog | ConnectionKey::Shared(_) => Plan {
                era,
                capabilities: self.shared_capabilities().to_raw(),
                client: None,
                log_level: lock(&self.shared_log_level).clone(),
                life: None,
                roots_changes: 0,
            },
        }
    }

    /// Returns how long a connection of the pool may take to open.
    fn open_timeout(&self, plan: &Plan) -> Duration {
        let connect = self.config.timeouts.connect;
        let needs_start = matches!(self.config.transport, TransportConfig::Stdio { .. });
        let is_attempt = plan.era == Some(Era::Legacy) && self.hello().is_some_and(|hello| hello.era == Era::Modern);
        if is_attempt && !needs_start { connect.min(LEGACY_TIMEOUT) } else { connect }
    }

    /// Opens a connection of the pool and keeps it open until it ends, is not used any more or is
    /// to be ended.
    async fn keep_open(self: Arc<Self>, slot: Arc<Slot>, plan: Plan) {
        let _leaving = Leaving { upstream: &self, slot: &slot, plan: &plan };
        slot.set_declared(Capabilities::of(&plan.capabilities));
        let (mut stop, limit) = (self.stop.subscribe(), self.open_timeout(&plan));
        let opened = tokio::select! {
            opened = tokio::time::timeout(limit, self.open_further(&slot, &plan)) => opened,
            () = slot.ending() => return,
            () = plan.client_ended() => return,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (mut connection, _listening) = match opened.unwrap_or(Err(ConnectError::Timeout(limit))) {
            Ok(connection) => connection,
            Err(error) => {
                let failure = tokio::select! {
                    failure = self.open_failure(&plan, error) => failure,
                    () = slot.ending() => return,
                    () = plan.client_ended() => return,
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                return slot.set_failed(failure);
            }
        };
        let (server, kind, protocol) = (self.name(), slot.key.kind(), connection.hello.version.clone());
        tracing::debug!(server, kind, protocol, "connection opened");
        connection.link.set_ready();
        let set_up = async {
            self.set_open_when_subscribed(&slot, &connection.link, &connection.hello).await;
            self.renew_log_level(&slot, &plan, &connection.link, &connection.hello).await;
            // A change while it was opened. Later ones find it open.
            if plan.has_new_roots() {
                let _ = connection.link.notify("notifications/roots/list_changed", None).await;
            }
        };
        // The server may take long to answer. Where the connection is to end, it is closed below.
        tokio::select! {
            () = set_up => {}
            () = slot.ending() => {}
            () = plan.client_ended() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let OpenConnection { link, hello, process, notices, .. } = &mut connection;
        let reason = tokio::select! {
            reason = link.closed() => self.lost(kind, &reason),
            reason = process_ended(process) => self.lost(kind, &reason),
            () = self.follow(&slot, link, hello, notices) => "closed".to_owned(),
            () = self.pool.unused(&slot, self.config.connection_idle_limit()) => "idle".to_owned(),
            () = slot.ending() => "no longer needed".to_owned(),
            () = plan.client_ended() => "its client has gone".to_owned(),
            _ = stop.wait_for(|stop| *stop) => "stopped".to_owned(),
        };
        // No call must find it any more.
        slot.end();
        tracing::debug!(server, kind, reason = &*self.redactor.redact(&reason), "connection closed");
        connection.close(reason).await;
    }

    /// Sets the log level that was set while the connection was opened. One that is set from now on
    /// finds it open.
    async fn renew_log_level(&self, slot: &Slot, plan: &Plan, link: &Arc<Link>, hello: &Hello) {
        let mut sent = plan.log_level.clone();
        loop {
            let wanted = match (&plan.life, slot.key) {
                (Some(life), _) => life.borrow().log_level.clone(),
                (None, ConnectionKey::Shared(_)) => lock(&self.shared_log_level).clone(),
                (None, _) => return,
            };
            match wanted.filter(|level| sent.as_ref() != Some(level)) {
                Some(level) => {
                    set_log_level(link, hello, &level, self.config.timeouts.call).await;
                    sent = Some(level);
                }
                None => return,
            }
        }
    }

    /// Logs that the server has ended a connection of the pool; returns why.
    fn lost(&self, kind: &str, reason: &str) -> String {
        let reason = text::brief(&self.redactor.redact(reason), MAX_REASON);
        tracing::info!(server = self.name(), kind, reason, "connection ended by the server");
        reason
    }

    /// Follows what the server sends of its own accord on a connection of the pool.
    async fn follow(&self, slot: &Slot, link: &Arc<Link>, hello: &Hello, notices: &mut mpsc::Receiver<Notice>) {
        let mut is_due = !self.is_holding() && slot.key != ConnectionKey::Lease;
        let mut approvals = self.approvals_changed.subscribe();
        if matches!(slot.key, ConnectionKey::Shared(_)) && self.connection.borrow().is_none() {
            // The catalog connection is not open, and cached lists can be old.
            self.refresh_lists(link, ListKind::ALL.into()).await;
        }
        loop {
            if std::mem::take(&mut is_due)
                && let Err(error) = self.review_tools(slot, link, hello).await
            {
                tracing::debug!(server = self.name(), %error, "cannot list the tools on the connection of a client");
            }
            tokio::select! {
                // What was held back here may be used now, and the other way round.
                Ok(()) = approvals.changed() => is_due = self.is_holding(),
                notice = notices.recv() => match notice {
                    Some(notice) => self.pass_on(slot, notice),
                    None => return,
                },
                () = link.news.missed_updates() => {
                    if let Some(source) = slot.key.source() {
                        self.report_missed_updates(source, self.subscriptions_on(source)).await;
                    }
                }
                kinds = link.news.changed_lists() => match slot.key {
                    // What calls of its clients have changed, the catalog connection may not know.
                    ConnectionKey::Shared(_) => {
                        is_due = kinds.contains(&ListKind::Tools);
                        let catalog = self.connection.borrow().clone();
                        match catalog.filter(|_| !slot.declared().covers(self.shared_capabilities())) {
                            // This one does not list everything.
                            Some((catalog, _)) => catalog.news.lists_changed(&kinds.into_iter().collect::<Vec<_>>()),
                            None => self.refresh_lists(link, kinds).await,
                        }
                    }
                    // A list may hold what its client has told the server: it is not shown to others.
                    _ => {
                        is_due = kinds.contains(&ListKind::Tools);
                        self.pass_on_list_changes(slot, &kinds);
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                },
            }
        }
    }

    /// Passes a notification on, for those that get updates from this connection.
    fn pass_on(&self, slot: &Slot, notice: Notice) {
        if let Some(source) = slot.key.source() {
            let _ = self.context.notices.try_send((self.name().into(), Notice { source, ..notice }));
        }
    }

    /// Passes changes of the lists of prompts and resources on to the client of a connection. The entries
    /// that it gets are those of the catalog connection, but it may read one of them again.
    fn pass_on_list_changes(&self, slot: &Slot, kinds: &BTreeSet<ListKind>) {
        let others = kinds.iter().filter(|kind| **kind != ListKind::Tools);
        let methods: BTreeSet<&str> = others.map(|kind| kind.change_notification()).collect();
        for method in methods {
            self.pass_on(slot, Notice { method: method.to_owned(), params: None, source: UpdateSource::default() });
        }
    }

    /// Opens a connection of the pool, with the log level and the subscriptions of its clients. Where
    /// tools are held back until they are approved, those on this connection are compared first.
    async fn open_further(
        &self,
        slot: &Slot,
        plan: &Plan,
    ) -> Result<(OpenConnection, Option<Listening>), ConnectError> {
        let another = self.another_local();
        let opening = Opening {
            era: plan.era,
            transport: another.as_ref().unwrap_or(&self.config.transport),
            capabilities: plan.capabilities.clone(),
            client: plan.client.clone(),
            output: Arc::default(),
        };
        let connection = self.open(opening).await?;
        let (link, hello) = (&connection.link, &connection.hello);
        if let Some(level) = &plan.log_level {
            set_log_level(link, hello, level, self.config.timeouts.connect).await;
        }
        let watched = self.resubscribe(slot, link, hello).await;
        let listening = watched.map(|watched| Listening::start(&connection, watched));
        if self.is_holding() {
            let review = self.review_tools(slot, link, hello).await;
            review.map_err(|error| ConnectError::Config(format!("cannot list the tools: {error}")))?;
        }
        Ok((connection, listening))
    }

    /// Returns the transport of one more connection to a server inside this process.
    fn another_local(&self) -> Option<TransportConfig> {
        match &self.config.transport {
            TransportConfig::Local(server) => server.another().map(TransportConfig::Local),
            TransportConfig::Stdio { .. } | TransportConfig::Http { .. } => None,
        }
    }

    /// Returns why a connection was not opened, and remembers that a server does not speak the
    /// legacy protocol.
    async fn open_failure(&self, plan: &Plan, error: ConnectError) -> OpenFailure {
        let reason = text::brief(&self.redactor.redact(&why_not_connected(&error)), MAX_REASON);
        let is_other_era = plan.era == Some(Era::Legacy) && self.hello().is_some_and(|hello| hello.era == Era::Modern);
        let server = self.name();
        let error = match &plan.client {
            _ if !is_other_era => None,
            // What a client has declared may be the reason: its error must not decide for the others.
            Some(_) if !error.is_unknown_protocol() => None,
            Some(_) if *lock(&self.legacy_support) == LegacySupport::Confirmed => None,
            Some(_) if error.is_silence() => self.probe_legacy(plan).await,
            _ => Some(error),
        };
        let Some(error) = error else {
            tracing::warn!(server, reason, "connection for a client failed");
            return OpenFailure::Reason(reason.into());
        };
        let mut support = lock(&self.legacy_support);
        *support = support.after(&error);
        match *support {
            LegacySupport::Refused => tracing::debug!(server, reason, "server does not speak the legacy protocol"),
            _ => {
                tracing::warn!(server, reason, retry_in = ?RETRY_LEGACY, "legacy connection failed; using the modern one");
            }
        }
        OpenFailure::Era
    }

    /// Tries the legacy protocol for a client that can be asked for nothing; returns the error if that fails.
    async fn probe_legacy(&self, plan: &Plan) -> Option<ConnectError> {
        let another = self.another_local();
        let opening = Opening {
            era: Some(Era::Legacy),
            transport: another.as_ref().unwrap_or(&self.config.transport),
            capabilities: Capabilities::default().to_raw(),
            client: None,
            output: Arc::default(),
        };
        let limit = self.open_timeout(plan);
        match tokio::time::timeout(limit, self.open(opening)).await {
            Ok(Ok(connection)) => {
                *lock(&self.legacy_support) = LegacySupport::Confirmed;
                connection.close("no longer needed".to_owned()).await;
                None
            }
            Ok(Err(error)) => Some(error),
            Err(_) => Some(ConnectError::Timeout(limit)),
        }
    }

    /// Waits a while until a client can have the connection of its calls. One that was given up counts
    /// until its process is gone.
    pub async fn wait_for_room(&self, client: &CallClient) {
        let wanted = self.wanted(self.connection_key(client, true), client);
        let _ = tokio::time::timeout(ROOM_TIMEOUT, self.pool.has_room(wanted)).await;
    }

    fn wanted(&self, key: ConnectionKey, client: &CallClient) -> Wanted {
        let limit = PoolLimit { most: self.config.connections.max, party: client.party };
        Wanted { key, is_exclusive: self.is_exclusive(client), limit }
    }

    /// Returns whether a connection serves one call of the client at a time. A question on a legacy connection does not say
    /// which call it is about, and a modern client gets it as the result of that call.
    fn is_exclusive(&self, client: &CallClient) -> bool {
        let is_legacy = || self.hello().is_some_and(|hello| self.era_for(client.era, hello.era) == Era::Legacy);
        client.is_asked_by_result() && self.asks.has_asked() && is_legacy()
    }

    /// Closes the connections that belong to a client which has gone.
    pub(crate) fn release(&self, owner: ClientOwner) {
        self.own_tool_lists.forget(owner);
        self.pool.release(owner);
    }

    /// Sends a notification on the connections of a client, without waiting.
    pub(crate) fn notify_for(&self, owner: ClientOwner, method: &'static str, params: Option<&Raw>) {
        for (link, _) in self.pool.open(|key| key.belongs_to(owner)) {
            let params = params.cloned();
            tokio::spawn(async move { link.notify(method, params.as_deref()).await });
        }
    }

    /// Sets the log level of the connections that clients share, as far as they are legacy.
    pub async fn set_shared_log_level(&self, level: &str) {
        *lock(&self.shared_log_level) = Some(level.to_owned());
        let catalog = self.connection.borrow().clone();
        let further = self.pool.open(|key| matches!(key, ConnectionKey::Shared(_)));
        for (link, hello) in catalog.into_iter().chain(further) {
            set_log_level(&link, &hello, level, self.config.timeouts.call).await;
        }
    }

    /// Sets the log level of a client's own connections.
    pub async fn set_log_level_for(&self, owner: ClientOwner, level: &str) {
        for (link, hello) in self.pool.open(|key| key.belongs_to(owner)) {
            set_log_level(&link, &hello, level, self.config.timeouts.call).await;
        }
    }
}

async fn set_log_level(link: &Arc<Link>, hello: &Hello, level: &str, timeout: Duration) {
    if hello.era == Era::Legacy && hello.capabilities.has("logging") {
        let call = Call::new("logging/setLevel", Fields::new().with("level", level), timeout);
        if let Err(error) = link.call(call).await {
            tracing::debug!(server = %link.server, %error, "log level rejected by the server");
        }
    }
}

/// Takes a connection out of the pool when it is closed, however that comes.
struct Leaving<'a> {
    upstream: &'a Upstream,
    slot: &'a Arc<Slot>,
    plan: &'a Plan,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.slot.end();
        self.slot.set_closed();
        self.upstream.pool.remove(self.slot);
        // What was listed on it after its client had gone.
        if let Some(UpdateSource::Client(owner)) = self.slot.key.source()
            && (self.slot.is_released() || self.plan.has_client_ended())
        {
            self.upstream.own_tool_lists.forget(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_once_is_tried_again() {
        let later = LegacySupport::FailedUntil(Instant::now() + RETRY_LEGACY);
        let due = LegacySupport::FailedUntil(Instant::now());
        let (closed, timeout) = (|| ConnectError::Closed("ended".into()), || ConnectError::Timeout(RETRY_LEGACY));
        let check = |before: LegacySupport, error: ConnectError, expected: LegacySupport| {
            assert_eq!(before.after(&error), expected, "{before:?} {error}");
        };
        check(LegacySupport::Possible, closed(), later);
        check(LegacySupport::Possible, timeout(), later);
        check(due, closed(), LegacySupport::Refused);
        check(due, timeout(), LegacySupport::Refused);
        check(later, timeout(), later);
        check(LegacySupport::Confirmed, timeout(), later);
        check(LegacySupport::Refused, timeout(), LegacySupport::Refused);
        check(LegacySupport::Possible, ConnectError::Version("9".to_owned()), LegacySupport::Refused);
        let unavailable = || ConnectError::Refused(CallError::Status { status: 503 });
        check(LegacySupport::Possible, unavailable(), later);
        check(due, unavailable(), later);
    }
}
