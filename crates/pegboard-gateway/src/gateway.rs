//! The gateway: servers on one side, clients on the other.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::{Catalog, Ranker};
use pegboard_discovery::{DialectName, Session};
use pegboard_upstream::{Fleet, FleetOptions, Upstream, config::ServerConfig, era::Era, json::Raw};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    directory::{Difference, Directory},
    exchange::{Exchange, Viewer},
    listen::Listeners,
    lock,
    metrics::{Metrics, Standing},
    sessions::{ClientSession, Sessions},
    settings::{GatewaySettings, Profile},
    suspended::SuspendedCalls,
    watches::Watches,
};

/// Makes the ranker of a dialect; the same one for the same dialect, so that its index is
/// shared.
pub type Rankers = Arc<dyn Fn(DialectName) -> Arc<dyn Ranker> + Send + Sync>;

/// How long a greeting waits for servers, so that it can say what there is.
const GREETING_WAIT: Duration = Duration::from_secs(2);

/// How long servers wait at most for what is known of them from before.
const RECALLING: Duration = Duration::from_secs(2);

/// How much earlier than those servers the first client is served.
const HEAD_START: Duration = Duration::from_millis(250);

/// How often unused conversations are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Servers on one side, clients on the other.
pub struct Gateway {
    pub(crate) settings: GatewaySettings,
    pub(crate) fleet: Fleet,
    rankers: Rankers,
    directory: RwLock<Arc<Directory>>,
    /// For which count of the fleet's changes the directory was made.
    built: watch::Sender<u64>,
    views: Mutex<HashMap<(usize, DialectName), Arc<View>>>,
    pub(crate) sessions: Sessions,
    pub(crate) suspended: SuspendedCalls,
    pub(crate) listeners: Listeners,
    pub(crate) watches: Watches,
    pub(crate) metrics: Metrics,
    began: std::time::Instant,
    next_owner: AtomicU64,
    /// Whether the servers have had their time to start. Later on nobody waits for one.
    started: watch::Sender<bool>,
    pub(crate) stopping: watch::Sender<bool>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}

/// What one kind of caller sees of one directory in one dialect, worked out once.
#[derive(Debug)]
pub(crate) struct View {
    /// A conversation that never begins, from which others are forked.
    pub(crate) tools: Mutex<Session>,
    /// Whether tools are hidden behind a search at all.
    pub(crate) is_search_on: bool,
}

impl Gateway {
    /// Starts the servers. `supervisor` is the command line that keeps their processes from
    /// outliving us; see [`FleetOptions`].
    ///
    /// Must be called inside a runtime.
    pub fn start(
        servers: Vec<ServerConfig>,
        settings: GatewaySettings,
        rankers: Rankers,
        supervisor: Vec<OsString>,
    ) -> Arc<Self> {
        let (manifests, logins) = (settings.manifests.clone(), settings.logins.clone());
        let options = FleetOptions { supervisor, manifests, logins, is_held: true };
        let (fleet, notices) = Fleet::start_with(servers, options);
        let gateway = Arc::new(Self {
            settings,
            fleet,
            rankers,
            directory: RwLock::default(),
            built: watch::Sender::new(0),
            views: Mutex::default(),
            sessions: Sessions::default(),
            suspended: SuspendedCalls::default(),
            listeners: Listeners::default(),
            watches: Watches::default(),
            metrics: Metrics::default(),
            began: std::time::Instant::now(),
            next_owner: AtomicU64::new(1),
            started: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
        });
        gateway.log_fallback();
        tokio::spawn(follow(Arc::downgrade(&gateway), gateway.fleet.changes()));
        tokio::spawn(start_up(Arc::clone(&gateway)));
        tokio::spawn(crate::notices::pump(Arc::downgrade(&gateway), notices));
        tokio::spawn(sweep(Arc::downgrade(&gateway), gateway.settings.session_idle));
        gateway
    }

    /// The servers in the order of the configuration.
    pub fn servers(&self) -> &[Arc<Upstream>] {
        self.fleet.servers()
    }

    /// The tools of all servers, as far as they are known.
    pub fn catalog(&self) -> Catalog {
        self.directory().catalog.clone().unwrap_or_else(Catalog::empty)
    }

    /// How many conversations there are.
    pub fn session_count(&self) -> usize {
        self.sessions.all().len()
    }

    /// Waits until every server works or has failed for the first time, at most as long as
    /// the settings say.
    pub async fn ready(&self) {
        self.wait_ready(self.settings.startup_wait).await;
    }

    /// [`ready`](Self::ready) for a greeting, which must not take long.
    pub(crate) async fn almost_ready(&self) {
        self.wait_ready(self.settings.startup_wait.min(GREETING_WAIT)).await;
    }

    async fn wait_ready(&self, limit: Duration) {
        if !self.is_started() {
            let _ = tokio::time::timeout(limit, self.started.subscribe().wait_for(|started| *started)).await;
        }
    }

    /// Waits until everything that the fleet has told of is taken in.
    async fn caught_up(&self) {
        let changes = *self.fleet.changes().borrow();
        let _ = self.built.subscribe().wait_for(|built| *built >= changes).await;
    }

    /// Whether the servers have had their time to start.
    pub(crate) fn is_started(&self) -> bool {
        *self.started.borrow()
    }

    /// How things stand, in numbers.
    pub(crate) fn standing(&self) -> Standing {
        let mut servers = std::collections::BTreeMap::new();
        for server in self.servers() {
            *servers.entry(server.state().as_str()).or_default() += 1;
        }
        let (sessions, tools) = (self.session_count(), self.catalog().len());
        Standing { sessions, tools, servers, uptime: self.began.elapsed() }
    }

    /// How many calls servers are busy with.
    pub fn running_calls(&self) -> u64 {
        self.fleet.servers().iter().map(|server| server.running_calls()).sum()
    }

    /// Ends the streams that would go on for ever, so that what is left can finish.
    pub fn close_streams(&self) {
        self.stopping.send_replace(true);
        self.sessions.all().iter().for_each(|session| session.close_stream());
    }

    /// Ends all conversations and all servers.
    pub async fn stop(&self) {
        self.close_streams();
        self.sessions.all().iter().for_each(|session| session.close());
        self.fleet.stop().await;
    }

    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(crate) fn ranker(&self, dialect: DialectName) -> Arc<dyn Ranker> {
        (self.rankers)(dialect)
    }

    pub(crate) fn next_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// What the holder of a token may see; `None` is whoever comes without one.
    pub(crate) fn viewer(&self, token: Option<usize>) -> Viewer {
        let own = token.and_then(|at| self.settings.tokens.get(at));
        let selection = match own {
            Some(token) => self.settings.selection.narrowed_to(token.selection.clone()),
            None => self.settings.selection.clone(),
        };
        Viewer { token: token.map_or(0, |at| at + 1), selection: Arc::new(selection) }
    }

    /// Whether lists depend on who asks.
    pub(crate) fn is_private(&self) -> bool {
        !self.settings.tokens.is_empty()
    }

    /// What `viewer` sees in a dialect, now.
    pub(crate) fn view(&self, viewer: &Viewer, dialect: DialectName) -> Arc<View> {
        let key = (viewer.token, dialect);
        if let Some(view) = lock(&self.views).get(&key) {
            return Arc::clone(view);
        }
        let view = Arc::new(self.make_view(viewer, dialect));
        let mut views = lock(&self.views);
        // Made for a directory that was replaced meanwhile, it must not stay.
        let is_current = lock(&view.tools).catalog().same_snapshot(&self.catalog());
        if is_current {
            views.insert(key, Arc::clone(&view));
        }
        view
    }

    fn make_view(&self, viewer: &Viewer, dialect: DialectName) -> View {
        let catalog = self.catalog();
        let selection = &*viewer.selection;
        let decision = self.settings.exposure.decide(&catalog, selection);
        let ranker = (self.rankers)(dialect);
        let settings = self.settings.discovery.clone();
        let tools = Session::expecting(dialect, settings, catalog, selection.clone(), ranker);
        View { tools: Mutex::new(tools), is_search_on: decision.is_on }
    }

    /// The dialect in which a client is answered.
    pub(crate) fn dialect(profile: Profile, era: Era) -> DialectName {
        match profile {
            Profile::Passthrough => DialectName::Bridge,
            Profile::Dialect(dialect) if era == Era::Modern && is_stateful(dialect) => DialectName::Bridge,
            Profile::Dialect(dialect) => dialect,
        }
    }

    /// Who we are.
    pub(crate) fn server_info() -> serde_json::Value {
        json!({"name": "pegboard", "title": "Pegboard", "version": env!("CARGO_PKG_VERSION")})
    }

    /// The conversation that a request belongs to, for its tools.
    pub(crate) fn with_tools<T>(&self, exchange: &Exchange, work: impl FnOnce(&mut Session) -> T) -> T {
        match &exchange.session {
            Some(session) => work(&mut lock(&session.tools)),
            None => {
                let dialect = Self::dialect(self.settings.profile, Era::Modern);
                let view = self.view(&exchange.viewer, dialect);
                let mut tools = lock(&view.tools);
                work(&mut tools)
            }
        }
    }

    /// Takes in what has changed at the servers, and tells the clients.
    async fn refresh(self: &Arc<Self>, changes: u64) {
        let gateway = Arc::clone(self);
        let before = self.directory();
        let made = tokio::task::spawn_blocking(move || {
            let directory = Arc::new(Directory::new(&gateway.fleet, &gateway.settings, &before));
            let difference = directory.difference(&before);
            (directory, difference)
        });
        let Ok((directory, difference)) = made.await else { return };
        *self.directory.write().unwrap_or_else(std::sync::PoisonError::into_inner) = directory;
        let difference = Arc::new(difference);
        if difference.has_tools() {
            lock(&self.views).clear();
        }
        // Whoever comes from now on sees the new directory. With nobody there yet, the first
        // list need not wait for an index that only searches need.
        let is_awaited = self.sessions.all().is_empty();
        if !is_awaited {
            self.renew(&difference).await;
        }
        self.listeners.changed("notifications/tools/list_changed", |viewer| difference.tools_for(&viewer.selection));
        self.announce("notifications/prompts/list_changed", |viewer| difference.prompts_for(&viewer.selection));
        self.announce("notifications/resources/list_changed", |viewer| difference.resources_for(&viewer.selection));
        // Last: who waits for the directory is not to be told of what is in it already.
        self.built.send_replace(changes);
        if is_awaited {
            self.renew(&difference).await;
        }
        Watches::renew(self);
    }

    async fn renew(self: &Arc<Self>, difference: &Arc<Difference>) {
        if difference.has_tools() {
            let (gateway, difference) = (Arc::clone(self), Arc::clone(difference));
            let _ = tokio::task::spawn_blocking(move || gateway.renew_sessions(&difference)).await;
        }
    }

    /// Lets all conversations go on with the new catalog; those whose list changed are told.
    fn renew_sessions(&self, difference: &Difference) {
        // Indexes the new tools now, rather than in somebody's first search.
        let catalog = self.catalog();
        for era in [Era::Legacy, Era::Modern] {
            self.ranker(Self::dialect(self.settings.profile, era)).prepare(&catalog);
        }
        for session in self.sessions.all() {
            // One that has begun meanwhile has it already.
            if lock(&session.tools).catalog().same_snapshot(&catalog) {
                continue;
            }
            let view = self.view(&session.viewer, Self::dialect(session.profile, Era::Legacy));
            let shows_everything = session.profile == Profile::Passthrough || !view.is_search_on;
            let is_changed = {
                let mut tools = lock(&session.tools);
                let before = tools.list_changes();
                tools.update_like(&lock(&view.tools));
                tools.list_changes() != before
            };
            if is_changed || (shows_everything && difference.tools_for(&session.viewer.selection)) {
                session.announce("notifications/tools/list_changed");
            }
        }
    }

    /// Tells the clients of both eras for whom a list has changed.
    fn announce(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let sessions = self.sessions.all();
        let concerned = sessions.iter().filter(|session| has_changed_for(&session.viewer));
        concerned.for_each(|session| session.announce(method));
        self.listeners.changed(method, has_changed_for);
    }

    /// Forgets a conversation and what it had asked for.
    pub(crate) fn end_session(self: &Arc<Self>, session: &ClientSession) {
        session.close();
        let uris = std::mem::take(&mut *lock(&session.subscriptions));
        let gateway = Arc::clone(self);
        tokio::spawn(async move {
            for uri in uris {
                gateway.watches.remove(&gateway, &uri).await;
            }
        });
    }

    /// What a client can do here. Servers come and go, so everything is offered.
    pub(crate) fn capabilities() -> Raw {
        let capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "completions": {},
            "logging": {},
        });
        pegboard_upstream::json::raw(&capabilities)
    }

    /// How clients should use what is here.
    pub(crate) fn instructions(&self, exchange_view: &View, profile: Profile) -> Option<String> {
        const MOST: usize = 8 << 10;
        let mut text = String::new();
        if exchange_view.is_search_on && profile != Profile::Passthrough {
            text = lock(&exchange_view.tools).prompt();
        } else {
            let selection = lock(&exchange_view.tools).selection().clone();
            for (server, instructions) in &self.directory().instructions {
                if !selection.allows_server(server) {
                    continue;
                }
                let heading = if self.fleet.servers().len() > 1 { format!("## {server}\n") } else { String::new() };
                if text.len() + instructions.len() < MOST {
                    text.push_str(&format!("{heading}{instructions}\n"));
                }
            }
        }
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// Whether a dialect's list depends on what happened before.
pub(crate) fn is_stateful(dialect: DialectName) -> bool {
    !matches!(dialect, DialectName::Bridge | DialectName::Ranked)
}

/// Gives the servers their time to start.
async fn start_up(gateway: Arc<Gateway>) {
    let limit = gateway.settings.startup_wait;
    tokio::spawn(hold_back(Arc::clone(&gateway)));
    let all = async {
        gateway.fleet.listed(limit).await;
        gateway.caught_up().await;
    };
    // Listing what there is takes a moment as well.
    let _ = tokio::time::timeout(limit + Duration::from_secs(1), all).await;
    gateway.started.send_replace(true);
}

/// Lets servers that are known from before start a little later: programs that start all at
/// once leave the first client little of the processor.
async fn hold_back(gateway: Arc<Gateway>) {
    let known = async {
        gateway.fleet.recalled(RECALLING).await;
        gateway.caught_up().await;
    };
    let _ = tokio::time::timeout(RECALLING, known).await;
    tokio::time::sleep(HEAD_START).await;
    gateway.fleet.begin();
}

/// Follows the changes of the fleet for as long as the gateway lives.
async fn follow(gateway: std::sync::Weak<Gateway>, mut changes: watch::Receiver<u64>) {
    loop {
        let count = *changes.borrow_and_update();
        match gateway.upgrade() {
            Some(gateway) => gateway.refresh(count).await,
            None => return,
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Forgets conversations that nobody uses.
async fn sweep(gateway: std::sync::Weak<Gateway>, limit: Duration) {
    loop {
        tokio::time::sleep(SWEEP.min(limit)).await;
        let Some(gateway) = gateway.upgrade() else { return };
        for session in gateway.sessions.expire(limit) {
            tracing::debug!(session = session.owner, "a conversation is forgotten");
            gateway.end_session(&session);
        }
    }
}
