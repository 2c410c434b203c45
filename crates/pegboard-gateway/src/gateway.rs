//! The gateway: servers on one side, clients on the other.
//!
//! It makes its parts, which know each other as far as they need to, and keeps them going: what
//! changes at the servers reaches the catalog, the sessions and those who listen.

mod notices;
mod refresh;
mod startup;

use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

use axum::Router;
use pegboard_core::Catalog;
use pegboard_http::Principal;
use pegboard_upstream::{Fleet, FleetOptions, PinReport, Upstream, config::ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

use self::refresh::Intake;
use crate::{
    catalog::CatalogView,
    control::{self, Control},
    doors::{Entrance, http, stdio},
    forward::calls::Forwarder,
    greetings::Greetings,
    limits::Limits,
    lookalikes::{self, Lookalike, Lookalikes},
    metrics::{Family, Metrics},
    pipeline::Pipeline,
    record::{Record, Recorder},
    routes::entries::Entries,
    sessions::Sessions,
    settings::{GatewaySettings, Profile, Rankers, has_constant_form},
    setup::{Change, GRACE, Setup, Setups},
    startup::{Shutdown, Startup},
    subscriptions::Subscriptions,
    trace::Requests,
};

/// How long the end waits for what is still to be written.
const LAST_LESSONS: Duration = Duration::from_secs(2);

/// Servers on one side, clients on the other.
pub struct Gateway {
    setups: Arc<Setups>,
    fleet: Arc<Fleet>,
    catalog: Arc<CatalogView>,
    sessions: Arc<Sessions>,
    subscriptions: Arc<Subscriptions>,
    record: Arc<Record>,
    lookalikes: Arc<Lookalikes>,
    startup: Arc<Startup>,
    shutdown: Arc<Shutdown>,
    control: Arc<Control>,
    entrance: Entrance,
    /// How far changes were taken in.
    intake: Intake,
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
        let gateway = Arc::new(Self::assemble(fleet, settings, rankers));
        gateway.log_fallback();
        tokio::spawn(refresh::follow(Arc::downgrade(&gateway), gateway.fleet.changes()));
        tokio::spawn(startup::start_up(Arc::clone(&gateway)));
        tokio::spawn(notices::pump(Arc::downgrade(&gateway), notices));
        tokio::spawn(startup::sweep(Arc::downgrade(&gateway)));
        let names = Arc::clone(&gateway.lookalikes);
        tokio::spawn(lookalikes::compare_names(Arc::downgrade(&gateway.catalog), names));
        gateway
    }

    /// Makes all parts, each with those that it needs.
    fn assemble(fleet: Fleet, settings: GatewaySettings, rankers: Rankers) -> Self {
        let folder = settings.sessions.clone();
        let (fleet, setups) = (Arc::new(fleet), Arc::new(Setups::new(settings, rankers)));
        let (catalog, limits, metrics) =
            (Arc::<CatalogView>::default(), Arc::<Limits>::default(), Arc::<Metrics>::default());
        let (startup, shutdown) = (Arc::<Startup>::default(), Arc::<Shutdown>::default());
        let (record, lookalikes) = (Arc::<Record>::default(), Arc::<Lookalikes>::default());
        let greetings = Arc::new(Greetings { fleet: Arc::clone(&fleet), catalog: Arc::clone(&catalog) });
        let subscriptions = Arc::new(Subscriptions::new(
            Arc::clone(&fleet),
            Arc::clone(&setups),
            Arc::clone(&catalog),
            Arc::clone(&shutdown),
        ));
        let sessions = Arc::new(Sessions::new(
            folder.as_deref(),
            Arc::clone(&setups),
            Arc::clone(&startup),
            Arc::clone(&subscriptions),
            Arc::clone(&greetings),
        ));
        let forwarder = Arc::new(Forwarder::new(
            Arc::clone(&fleet),
            Arc::clone(&setups),
            Arc::clone(&limits),
            Arc::clone(&metrics),
            Arc::clone(&shutdown),
        ));
        let control = Arc::new(Control::new(
            Arc::clone(&catalog),
            Arc::clone(&sessions),
            Arc::clone(&forwarder),
            Arc::clone(&lookalikes),
        ));
        let pipeline = Arc::new(Pipeline {
            setups: Arc::clone(&setups),
            startup: Arc::clone(&startup),
            limits,
            sessions: Arc::clone(&sessions),
            subscriptions: Arc::clone(&subscriptions),
            greetings,
            entries: Entries { catalog: Arc::clone(&catalog), forwarder: Arc::clone(&forwarder) },
            forwarder,
            metrics,
            record: Arc::clone(&record),
        });
        let entrance = Entrance {
            pipeline,
            sessions: Arc::clone(&sessions),
            setups: Arc::clone(&setups),
            shutdown: Arc::clone(&shutdown),
            requests: Arc::<Requests>::default(),
        };
        let intake = Intake::default();
        Self {
            setups,
            fleet,
            catalog,
            sessions,
            subscriptions,
            record,
            lookalikes,
            startup,
            shutdown,
            control,
            entrance,
            intake,
        }
    }

    /// Says once that modern clients get something else than what is configured.
    fn log_fallback(&self) {
        if let Profile::Dialect(dialect) = self.setup().profile
            && !has_constant_form(dialect)
        {
            tracing::info!(
                dialect = dialect.as_str(),
                "dialect replaced by `bridge` for clients of 2026-07-28: their tool list must not change after a search"
            );
        }
    }

    fn setup(&self) -> Arc<Setup> {
        self.setups.current()
    }

    /// The routes of the gateway, for requests of at most `max_body_bytes`.
    pub fn router(&self, max_body_bytes: usize) -> Router {
        http::router(self.entrance.clone(), Arc::clone(&self.control), max_body_bytes)
    }

    /// The routes of the control API, to be merged with those of [`router`](Self::router) or
    /// served alone.
    pub fn control_router(&self, options: control::Options) -> Router {
        control::router(Arc::clone(&self.control), options)
    }

    /// Serves one client until it closes its end, or the gateway is told to
    /// [close its streams](Self::close_streams).
    ///
    /// # Errors
    /// When the pipes break.
    pub async fn serve_pipe(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> std::io::Result<()> {
        stdio::serve(self.entrance.clone(), input, output).await
    }

    /// Waits until every server works or has failed for the first time, at most as long as
    /// the settings say.
    pub async fn ready(&self) {
        self.startup.ready(&self.setup()).await;
    }

    /// The servers in the order of the configuration.
    pub fn servers(&self) -> Arc<[Arc<Upstream>]> {
        self.fleet.servers()
    }

    /// The tools of all servers, as far as they are known.
    pub fn catalog(&self) -> Catalog {
        self.catalog.catalog()
    }

    /// What waits for approval: tools that are new, that have changed or that are gone since
    /// somebody looked at them.
    pub fn pins(&self) -> Vec<PinReport> {
        self.control.pins()
    }

    /// Tools of different servers whose names are alike, as of a moment ago.
    pub fn lookalikes(&self) -> Arc<Vec<Lookalike>> {
        self.lookalikes.found()
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// How many calls servers are busy with.
    pub fn running_calls(&self) -> u64 {
        self.fleet.servers().iter().map(|server| server.running_calls()).sum()
    }

    /// What has happened so far, in numbers: those of [`METRICS`](crate::METRICS).
    pub fn numbers(&self) -> Vec<Family> {
        self.control.numbers()
    }

    /// Notes searches and calls from now on, at most once.
    pub fn record_to(&self, recorder: Recorder) {
        if self.record.begin(recorder) {
            self.record.tools(self.catalog(), &self.setup().selection);
        }
    }

    /// Notes nothing more.
    pub fn stop_recording(&self) {
        self.record.end();
    }

    /// Goes over to another configuration. Sessions go on: they are told where their lists
    /// change, and only those whose token is gone end. Servers that are as they were are not
    /// disturbed. `rankers` are those that are in use unless others are given.
    pub async fn reconfigure(
        &self,
        servers: Vec<ServerConfig>,
        settings: GatewaySettings,
        rankers: Option<Rankers>,
    ) -> Change {
        self.fleet.hide(settings.tokens.iter().map(|token| &token.secret));
        let has_settings = self.setups.replace(settings, rankers);
        self.setups.refuse(None);
        // It tells of a change in any case, whereupon the settings are looked at too.
        Change { servers: self.fleet.reconfigure(servers, GRACE).await, has_settings }
    }

    /// Takes note that a new configuration was not taken over, and why.
    pub fn refuse_configuration(&self, reason: String) {
        self.setups.refuse(Some(reason));
    }

    /// The tokens that open the door, and whose they are.
    pub fn tokens(&self) -> Vec<(Principal, String)> {
        self.setup().holders()
    }

    /// Ends the streams that would go on for ever, so that what is left can finish.
    pub fn close_streams(&self) {
        self.shutdown.stopping.send_replace(true);
        self.sessions.close_streams();
    }

    /// Ends all calls that are still running, now and from now on. Their clients get an error
    /// that says so.
    pub fn cut_calls(&self) {
        self.shutdown.cutting.send_replace(true);
    }

    /// Ends all sessions and all servers.
    pub async fn stop(&self) {
        self.close_streams();
        self.sessions.cancel_all();
        self.fleet.stop().await;
    }

    /// Brings to the disk what was learned, as far as that goes quickly.
    pub async fn finish_learning(&self) {
        if let Some(learner) = self.setup().learner.clone() {
            let finished = tokio::task::spawn_blocking(move || learner.finish());
            let _ = tokio::time::timeout(LAST_LESSONS, finished).await;
        }
    }
}
