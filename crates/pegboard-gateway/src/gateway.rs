//! The gateway: servers on one side, clients on the other.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::{Catalog, Ranker, vectors::VectorStanding};
use pegboard_discovery::{DialectName, Session};
use pegboard_upstream::{Fleet, FleetOptions, Upstream, config::ServerConfig, era::Era, json::Raw, processes};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use crate::{
    directory::{Difference, Directory},
    exchange::{Caller, Exchange, Viewer},
    kept::KeptSessions,
    limits::Limits,
    listen::Listeners,
    lock,
    metrics::{Metrics, Standing},
    pins::{self, Names},
    record::Recorder,
    sessions::{ClientSession, Sessions},
    settings::{GatewaySettings, Profile},
    setup::Setups,
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
    pub(crate) setups: Setups,
    /// The number of the setup that everything was last made for.
    applied: AtomicU64,
    pub(crate) fleet: Fleet,
    directory: RwLock<Arc<Directory>>,
    /// For which count of the fleet's changes the directory was made.
    built: watch::Sender<u64>,
    views: Mutex<HashMap<(Caller, u64, DialectName), Arc<View>>>,
    pub(crate) sessions: Sessions,
    /// Where conversations are kept, if they are.
    pub(crate) kept: Option<Arc<KeptSessions>>,
    pub(crate) suspended: SuspendedCalls,
    pub(crate) listeners: Listeners,
    pub(crate) watches: Watches,
    pub(crate) metrics: Metrics,
    pub(crate) names: Arc<Names>,
    /// Where it is noted what was searched for and called.
    pub(crate) recorder: OnceLock<Recorder>,
    pub(crate) limits: Limits,
    pub(crate) began: std::time::Instant,
    next_owner: AtomicU64,
    /// How many requests there were; each has its number.
    pub(crate) requests: AtomicU64,
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
        let (manifests, pins, logins) = (settings.manifests.clone(), settings.pins.clone(), settings.logins.clone());
        let options = FleetOptions { supervisor, manifests, pins, logins, is_held: true };
        let (fleet, notices) = Fleet::start_with(servers, options);
        fleet.hide(settings.tokens.iter().map(|token| &token.secret));
        let kept = settings.sessions.as_deref().and_then(KeptSessions::open);
        let gateway = Arc::new(Self {
            setups: Setups::new(settings, rankers),
            applied: AtomicU64::new(0),
            fleet,
            directory: RwLock::default(),
            built: watch::Sender::new(0),
            views: Mutex::default(),
            sessions: Sessions::default(),
            kept,
            suspended: SuspendedCalls::default(),
            listeners: Listeners::default(),
            watches: Watches::default(),
            metrics: Metrics::default(),
            names: Arc::default(),
            recorder: OnceLock::new(),
            limits: Limits::default(),
            began: std::time::Instant::now(),
            next_owner: AtomicU64::new(1),
            requests: AtomicU64::new(0),
            started: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
        });
        gateway.log_fallback();
        tokio::spawn(follow(Arc::downgrade(&gateway), gateway.fleet.changes()));
        tokio::spawn(start_up(Arc::clone(&gateway)));
        tokio::spawn(crate::notices::pump(Arc::downgrade(&gateway), notices));
        tokio::spawn(sweep(Arc::downgrade(&gateway)));
        tokio::spawn(pins::compare_names(Arc::downgrade(&gateway), Arc::clone(&gateway.names)));
        gateway
    }

    /// The servers in the order of the configuration.
    pub fn servers(&self) -> Arc<[Arc<Upstream>]> {
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
        self.wait_ready(self.setup().startup_wait).await;
    }

    /// [`ready`](Self::ready) for a greeting, which must not take long.
    pub(crate) async fn almost_ready(&self) {
        self.wait_ready(self.setup().startup_wait.min(GREETING_WAIT)).await;
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

    /// What has happened so far, in numbers: those of [`METRICS`](crate::METRICS).
    pub fn numbers(&self) -> Vec<crate::metrics::Family> {
        self.metrics.families(&self.standing())
    }

    /// How things stand, in numbers.
    fn standing(&self) -> Standing {
        let mut servers = std::collections::BTreeMap::new();
        for server in self.servers().iter() {
            *servers.entry(server.state().as_str()).or_default() += 1;
        }
        let (sessions, tools) = (self.session_count(), self.catalog().len());
        Standing { sessions, tools, servers, uptime: self.began.elapsed(), vectors: self.vector_standing() }
    }

    /// How somebody else's model is doing, if one is asked.
    pub(crate) fn vector_standing(&self) -> Option<VectorStanding> {
        let profile = self.setup().profile;
        let source = |era| self.ranker(Self::dialect(profile, era)).vector_source();
        let source = [Era::Legacy, Era::Modern].into_iter().find_map(source);
        source.map(|source| source.standing())
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
        (self.setup().rankers)(dialect)
    }

    pub(crate) fn next_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether lists depend on who asks.
    pub(crate) fn is_private(&self) -> bool {
        !self.setup().tokens.is_empty()
    }

    /// What `viewer` sees in a dialect, now.
    pub(crate) fn view(&self, viewer: &Viewer, dialect: DialectName) -> Arc<View> {
        let key = (viewer.caller, viewer.setup, dialect);
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
        let (catalog, setup) = (self.catalog(), self.setup());
        let selection = &*viewer.selection;
        let decision = setup.exposure.decide(&catalog, selection);
        let ranker = self.with_habits((setup.rankers)(dialect), viewer.caller);
        let settings = setup.discovery.clone();
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
                let dialect = Self::dialect(self.setup().profile, Era::Modern);
                let view = self.view(&exchange.viewer, dialect);
                let mut tools = lock(&view.tools);
                work(&mut tools)
            }
        }
    }

    /// Takes in what has changed at the servers, and tells the clients.
    async fn refresh(self: &Arc<Self>, changes: u64) {
        let (gateway, before, setup) = (Arc::clone(self), self.directory(), self.setup());
        let is_new_setup = self.applied.swap(setup.number, Ordering::Relaxed) != setup.number;
        let made = tokio::task::spawn_blocking(move || {
            let directory = Arc::new(Directory::new(&gateway.fleet, &setup, &before));
            let difference = directory.difference(&before);
            (directory, difference)
        });
        let Ok((directory, difference)) = made.await else { return };
        *self.directory.write().unwrap_or_else(std::sync::PoisonError::into_inner) = directory;
        let difference = Arc::new(difference);
        let is_news = difference.has_tools() || is_new_setup;
        if is_news {
            lock(&self.views).clear();
            self.record_tools();
        }
        // Whoever comes from now on sees the new directory. With nobody there yet, the first
        // list need not wait for an index that only searches need.
        let is_awaited = self.sessions.all().is_empty();
        if is_news && !is_awaited {
            self.renew(&difference).await;
        }
        if is_new_setup {
            self.renew_listeners();
        }
        let has_tools = |viewer: &Viewer| is_new_setup || difference.tools_for(&viewer.selection);
        self.listeners.changed("notifications/tools/list_changed", has_tools);
        self.announce("notifications/prompts/list_changed", |viewer| difference.prompts_for(&viewer.selection));
        self.announce("notifications/resources/list_changed", |viewer| difference.resources_for(&viewer.selection));
        // Last: who waits for the directory is not to be told of what is in it already.
        self.built.send_replace(changes);
        self.names.news.notify_one();
        if is_news && is_awaited {
            self.index_apart().await;
            self.renew(&difference).await;
        }
        Watches::renew(self);
    }

    /// Indexes the tools on a thread that lets lists, and servers that start, go first.
    async fn index_apart(self: &Arc<Self>) {
        let (done, indexed) = oneshot::channel::<()>();
        let gateway = Arc::clone(self);
        let thread = std::thread::Builder::new().name("index".to_owned()).spawn(move || {
            processes::stand_back();
            gateway.prepare_rankers();
            drop(done);
        });
        if thread.is_ok() {
            let _ = indexed.await;
        }
    }

    /// Indexes the tools now, rather than in somebody's first search.
    fn prepare_rankers(&self) {
        let (catalog, profile) = (self.catalog(), self.setup().profile);
        for era in [Era::Legacy, Era::Modern] {
            self.ranker(Self::dialect(profile, era)).prepare(&catalog);
        }
    }

    async fn renew(self: &Arc<Self>, difference: &Arc<Difference>) {
        let (gateway, difference) = (Arc::clone(self), Arc::clone(difference));
        let _ = tokio::task::spawn_blocking(move || gateway.renew_sessions(&difference)).await;
    }

    /// Lets all conversations go on with the new catalog; those whose list changed are told.
    fn renew_sessions(self: &Arc<Self>, difference: &Difference) {
        self.prepare_rankers();
        let catalog = self.catalog();
        for session in self.sessions.all() {
            self.renew_session(&session, &catalog, difference);
        }
    }

    /// Lets one conversation go on with the catalog and the settings of now; it ends if its
    /// caller has no business here any more.
    pub(crate) fn renew_session(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        catalog: &Catalog,
        difference: &Difference,
    ) {
        let old = session.viewer();
        let Some(viewer) = self.viewer(old.caller) else {
            tracing::info!(session = session.owner, "a conversation ends: its token is no longer known");
            self.sessions.remove(&session.id);
            return self.forget_session(session);
        };
        let is_new_setup = viewer.setup != old.setup;
        // One that has begun meanwhile has it already.
        if !is_new_setup && lock(&session.tools).catalog().same_snapshot(catalog) {
            return;
        }
        let view = self.view(&viewer, Self::dialect(session.profile, Era::Legacy));
        let shows_everything = session.profile == Profile::Passthrough || !view.is_search_on;
        let may_differ = is_new_setup || difference.tools_for(&viewer.selection);
        if is_new_setup {
            self.drop_subscriptions(session, &viewer);
        }
        session.set_viewer(viewer);
        let is_changed = {
            let mut tools = lock(&session.tools);
            let before = tools.list_changes();
            tools.update_like(&lock(&view.tools));
            tools.list_changes() != before
        };
        // What is shown can also change with the settings alone.
        if is_changed || (may_differ && (shows_everything || is_new_setup)) {
            session.announce("notifications/tools/list_changed");
        }
    }

    /// Whether a resource is one that may be seen, or nobody's.
    pub(crate) fn may_follow(&self, viewer: &Viewer, uri: &str) -> bool {
        let owner = self.directory().resource(uri);
        owner.is_none_or(|(server, _)| viewer.selection.allows_server(&server))
    }

    /// Ends the subscriptions to what may no longer be seen.
    fn drop_subscriptions(self: &Arc<Self>, session: &ClientSession, viewer: &Viewer) {
        let mut gone = Vec::new();
        lock(&session.subscriptions).retain(|uri| {
            let may_stay = self.may_follow(viewer, uri);
            if !may_stay {
                gone.push(uri.clone());
            }
            may_stay
        });
        let gateway = Arc::clone(self);
        if !gone.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                for uri in gone {
                    gateway.watches.remove(&gateway, &uri).await;
                }
            });
        }
    }

    /// Tells the clients of both eras for whom a list has changed.
    fn announce(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let sessions = self.sessions.all();
        let concerned = sessions.iter().filter(|session| has_changed_for(&session.viewer()));
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

    /// Looks now and then for conversations on the disk that nobody came back to.
    fn sweep_kept(&self, rounds: u64) {
        const EVERY: u64 = 20;
        if rounds.is_multiple_of(EVERY)
            && let Some(kept) = self.kept.clone()
        {
            let limit = self.setup().session_keep;
            tokio::task::spawn_blocking(move || kept.sweep(limit));
        }
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
    let limit = gateway.setup().startup_wait;
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
async fn sweep(gateway: std::sync::Weak<Gateway>) {
    let mut rounds = 0_u64;
    loop {
        let Some(limit) = gateway.upgrade().map(|gateway| {
            gateway.sweep_kept(rounds);
            gateway.setup().session_idle
        }) else {
            return;
        };
        rounds += 1;
        tokio::time::sleep(SWEEP.min(limit)).await;
        let Some(gateway) = gateway.upgrade() else { return };
        for session in gateway.sessions.expire(limit) {
            tracing::debug!(session = session.owner, "a conversation is forgotten");
            gateway.end_session(&session);
        }
    }
}
