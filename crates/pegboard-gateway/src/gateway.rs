//! The gateway: servers on one side, clients on the other.

mod endings;
mod greeting;
mod numbers;
mod refresh;
mod renewal;
mod startup;

use std::{
    ffi::OsString,
    fmt,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use pegboard_core::{Catalog, Ranker};
use pegboard_discovery::DialectName;
use pegboard_upstream::{Fleet, FleetOptions, Upstream, config::ServerConfig};
use tokio::sync::watch;

use self::refresh::Intake;
use crate::{
    catalog::{directory::Directory, views::Views},
    forward::suspended::SuspendedCalls,
    limits::Limits,
    metrics::Metrics,
    pins::{self, Names},
    record::Recorder,
    sessions::Sessions,
    sessions::kept::KeptSessions,
    settings::GatewaySettings,
    setup::Setups,
    shares::{Claim, Party, Shares},
    subscriptions::listeners::Listeners,
    subscriptions::notices,
    subscriptions::watches::Watches,
};

/// The bodies of one caller's requests in progress have at most so many times the bytes of the
/// largest one.
const BODIES_PER_CALLER: usize = 8;

/// Makes the ranker of a dialect; the same one for the same dialect, so that its index is
/// shared.
pub type Rankers = Arc<dyn Fn(DialectName) -> Arc<dyn Ranker> + Send + Sync>;

/// Servers on one side, clients on the other.
pub struct Gateway {
    pub(crate) setups: Setups,
    pub(crate) fleet: Fleet,
    directory: RwLock<Arc<Directory>>,
    /// How far changes were taken in.
    intake: Intake,
    pub(crate) views: Views,
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
    /// Event streams that each caller has open.
    streams: Arc<Shares>,
    /// Bytes of the bodies of each caller's requests in progress.
    body_bytes: Arc<Shares>,
    /// Bytes of the subscriptions of each caller.
    pub(crate) subscription_bytes: Arc<Shares>,
    pub(crate) began: Instant,
    next_owner: AtomicU64,
    /// How many requests there were; each has its number.
    pub(crate) requests: AtomicU64,
    /// Whether the servers have had their time to start. Later on nobody waits for one.
    started: watch::Sender<bool>,
    pub(crate) stopping: watch::Sender<bool>,
    /// Whether calls that are still running end now.
    pub(crate) cutting: watch::Sender<bool>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("fleet", &self.fleet).finish_non_exhaustive()
    }
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
            fleet,
            directory: RwLock::default(),
            intake: Intake::default(),
            views: Views::default(),
            sessions: Sessions::default(),
            kept,
            suspended: SuspendedCalls::default(),
            listeners: Listeners::default(),
            watches: Watches::default(),
            metrics: Metrics::default(),
            names: Arc::default(),
            recorder: OnceLock::new(),
            limits: Limits::default(),
            streams: Arc::default(),
            body_bytes: Arc::default(),
            subscription_bytes: Arc::default(),
            began: Instant::now(),
            next_owner: AtomicU64::new(1),
            requests: AtomicU64::new(0),
            started: watch::Sender::new(false),
            stopping: watch::Sender::new(false),
            cutting: watch::Sender::new(false),
        });
        gateway.log_fallback();
        tokio::spawn(refresh::follow(Arc::downgrade(&gateway), gateway.fleet.changes()));
        tokio::spawn(startup::start_up(Arc::clone(&gateway)));
        tokio::spawn(notices::pump(Arc::downgrade(&gateway), notices));
        tokio::spawn(endings::sweep(Arc::downgrade(&gateway)));
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

    /// A place for an event stream without end; `None` if the caller has as many as it may have.
    pub(crate) fn open_stream(&self, party: Party) -> Option<Claim> {
        self.streams.take(party, 1, self.setup().streams_per_caller)
    }

    /// Room in memory for the body of a request; `None` if the bodies of the caller's requests in
    /// progress are too large altogether.
    pub(crate) fn open_body(&self, party: Party, bytes: usize, max_body_bytes: usize) -> Option<Claim> {
        let most = max_body_bytes.saturating_mul(BODIES_PER_CALLER);
        self.body_bytes.take(party, bytes.min(max_body_bytes), most)
    }

    /// Ends the streams that would go on for ever, so that what is left can finish.
    pub fn close_streams(&self) {
        self.stopping.send_replace(true);
        self.sessions.all().iter().for_each(|session| session.close_stream());
    }

    /// Ends all calls that are still running, now and from now on. Their clients get an error
    /// that says so.
    pub fn cut_calls(&self) {
        self.cutting.send_replace(true);
    }

    /// Ends all conversations and all servers.
    pub async fn stop(&self) {
        self.close_streams();
        self.sessions.all().iter().for_each(|session| session.close());
        self.fleet.stop().await;
    }

    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
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
}
