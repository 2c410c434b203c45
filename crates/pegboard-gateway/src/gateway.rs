//! The gateway: servers on one side, clients on the other.
//!
//! It creates its parts and keeps them up to date: changes at the servers reach the catalog, the
//! sessions and the listeners.

mod notices;
mod refresh;
mod startup;

use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

use axum::Router;
use pegboard_core::Catalog;
use pegboard_http::Principal;
use pegboard_upstream::{ClientOwner, Fleet, FleetOptions, PinReport, Upstream, config::ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    activity::Activity,
    caller::Caller,
    catalog::CatalogView,
    control::{self, Control, ControlState},
    doors::{DoorContext, http, stdio},
    forward::calls::Forwarder,
    greetings::Greetings,
    limits::AdmissionControl,
    lookalikes::{self, Lookalike, Lookalikes},
    metrics::{Family, Metrics},
    offload::OffloadedResults,
    pipeline::Pipeline,
    progress::RefreshProgress,
    record::{Record, Recorder},
    routes::entries::Entries,
    savings::SavingsLedger,
    sessions::Sessions,
    settings::{GatewaySettings, Profile, Rankers},
    setup::{Change, GRACE, Setup, Setups},
    startup::{Shutdown, Startup},
    subscriptions::Subscriptions,
    tasks::TaskIds,
    trace::Requests,
};

/// How long the shutdown waits for learned usage to be written.
const LEARNING_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Servers on one side, clients on the other.
pub struct Gateway {
    setups: Arc<Setups>,
    fleet: Arc<Fleet>,
    catalog: Arc<CatalogView>,
    sessions: Arc<Sessions>,
    subscriptions: Arc<Subscriptions>,
    record: Arc<Record>,
    lookalikes: Arc<Lookalikes>,
    results: Arc<OffloadedResults>,
    startup: Arc<Startup>,
    shutdown: Arc<Shutdown>,
    control: Arc<Control>,
    entrance: DoorContext,
    /// How far changes of the servers are in the lists.
    progress: Arc<RefreshProgress>,
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
        let max_starts = settings.max_starts;
        let (clients, first_client_wait) = (manifests.clone(), settings.first_client_wait);
        let options =
            FleetOptions { supervisor, manifests, pins, logins, is_held: true, clients, first_client_wait, max_starts };
        let (fleet, notices) = Fleet::start_with(servers, options);
        fleet.hide(settings.tokens.iter().map(|token| &token.secret));
        let gateway = Arc::new(Self::assemble(fleet, settings, rankers));
        gateway.log_fallback();
        tokio::spawn(refresh::follow_fleet_changes(Arc::downgrade(&gateway), gateway.fleet.changes()));
        tokio::spawn(startup::wait_for_startup(Arc::clone(&gateway)));
        tokio::spawn(notices::forward_notices(Arc::downgrade(&gateway), notices));
        tokio::spawn(startup::sweep_sessions(Arc::downgrade(&gateway)));
        let names = Arc::clone(&gateway.lookalikes);
        tokio::spawn(lookalikes::compare_names(Arc::downgrade(&gateway.catalog), names));
        let activity = &gateway.entrance.pipeline.activity;
        activity.start(&gateway.setup().console.activity);
        let events = Arc::clone(activity.events());
        tokio::spawn(control::publish_changes(Arc::downgrade(&gateway.control), events));
        gateway
    }

    /// Creates all parts, each with those that it needs.
    fn assemble(fleet: Fleet, settings: GatewaySettings, rankers: Rankers) -> Self {
        let folder = settings.sessions.clone();
        let console = settings.console.folder.clone();
        let tasks = TaskIds::open(folder.as_deref());
        let (fleet, setups) = (Arc::new(fleet), Arc::new(Setups::new(settings, rankers)));
        let (catalog, limits, metrics) =
            (Arc::<CatalogView>::default(), Arc::<AdmissionControl>::default(), Arc::<Metrics>::default());
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
        let (results, progress) = (Arc::<OffloadedResults>::default(), Arc::<RefreshProgress>::default());
        let savings = Arc::new(SavingsLedger::new(console.clone()));
        let activity = Arc::new(Activity::new(&fleet, Arc::clone(&catalog), Arc::clone(&savings), console));
        let pipeline = Arc::new(Pipeline {
            setups: Arc::clone(&setups),
            startup: Arc::clone(&startup),
            limits,
            sessions: Arc::clone(&sessions),
            subscriptions: Arc::clone(&subscriptions),
            greetings,
            entries: Entries { catalog: Arc::clone(&catalog), forwarder: Arc::clone(&forwarder) },
            forwarder,
            results: Arc::clone(&results),
            tasks,
            metrics,
            record: Arc::clone(&record),
            activity,
            savings,
            progress: Arc::clone(&progress),
        });
        let entrance = DoorContext {
            pipeline,
            sessions: Arc::clone(&sessions),
            setups: Arc::clone(&setups),
            shutdown: Arc::clone(&shutdown),
            requests: Arc::<Requests>::default(),
        };
        Self {
            setups,
            fleet,
            catalog,
            sessions,
            subscriptions,
            record,
            lookalikes,
            results,
            startup,
            shutdown,
            control,
            entrance,
            progress,
        }
    }

    /// Logs once that modern clients get another dialect than the configured one.
    fn log_fallback(&self) {
        if let Profile::Dialect(dialect) = self.setup().profile
            && !dialect.dialect().has_constant_form()
        {
            let reason = "the tool list of a 2026-07-28 client must not change after a search";
            tracing::info!(dialect = dialect.as_str(), replacement = "bridge", reason, "dialect replaced");
        }
    }

    fn setup(&self) -> Arc<Setup> {
        self.setups.current()
    }

    /// Returns the routes of the gateway, for requests of at most `max_body_bytes`.
    pub fn router(&self, max_body_bytes: usize) -> Router {
        http::router(self.entrance.clone(), Arc::clone(&self.control), max_body_bytes)
    }

    /// Returns the routes of the control API, to be merged with those of [`router`](Self::router)
    /// or served alone.
    pub fn control_router(&self, options: control::Options) -> Router {
        let pipeline = Arc::clone(&self.entrance.pipeline);
        control::router(ControlState::new(Arc::clone(&self.control), pipeline, options))
    }

    /// Serves one client until it closes its end, or the gateway [closes its
    /// streams](Self::close_streams).
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

    /// Waits until every server is ready or has failed for the first time, at most for the
    /// configured time.
    pub async fn wait_until_ready(&self) {
        self.startup.wait_until_ready(&self.setup()).await;
    }

    /// Returns the servers in the order of the configuration.
    pub fn servers(&self) -> Arc<[Arc<Upstream>]> {
        self.fleet.servers()
    }

    /// Returns the known tools of all servers.
    pub fn catalog(&self) -> Catalog {
        self.catalog.catalog()
    }

    /// Returns the tools that wait for approval: those that are new, have changed or are gone since
    /// the user approved them.
    pub fn pins(&self) -> Vec<PinReport> {
        self.control.pins()
    }

    /// Returns the pairs of tools of different servers with similar names, as of a moment ago.
    pub fn lookalikes(&self) -> Arc<Vec<Lookalike>> {
        self.lookalikes.pairs()
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Returns the number of running calls.
    pub fn running_calls(&self) -> u64 {
        self.fleet.servers().iter().map(|server| server.running_calls()).sum()
    }

    /// Returns all metrics: those of [`METRICS`](crate::METRICS).
    pub fn metric_families(&self) -> Vec<Family> {
        self.control.metric_families()
    }

    /// Records searches and calls from now on, at most once.
    pub fn record_to(&self, recorder: Recorder) {
        if self.record.begin(recorder) {
            self.record.record_tools(self.catalog(), &self.setup().selection);
        }
    }

    /// Stops recording.
    pub fn stop_recording(&self) {
        self.record.end();
    }

    /// Switches to another configuration. Sessions continue: their clients are notified of changed
    /// lists, and only those whose token was removed end. Unchanged servers keep running. `rankers`
    /// replace the current ones if given.
    pub async fn reconfigure(
        &self,
        servers: Vec<ServerConfig>,
        settings: GatewaySettings,
        rankers: Option<Rankers>,
    ) -> Change {
        self.fleet.hide(settings.tokens.iter().map(|token| &token.secret));
        let before = self.tokens();
        let has_settings = self.setups.replace(settings, rankers);
        let now = self.tokens();
        // A token that was removed leaves nothing behind.
        for (gone, _) in before.iter().filter(|(holder, _)| !now.iter().any(|(one, _)| one == holder)) {
            let owner = ClientOwner::Caller(gone.0 as u64);
            self.entrance.pipeline.forwarder.suspended().forget(Caller::Token(*gone));
            self.fleet.release(owner);
            self.catalog.forget_client(owner);
        }
        self.setups.record_rejection(None);
        // It tells of a change in any case, whereupon the settings are looked at too.
        Change { servers: self.fleet.reconfigure(servers, GRACE).await, has_settings }
    }

    /// Records that a new configuration was rejected, and why.
    pub fn refuse_configuration(&self, reason: String) {
        self.setups.record_rejection(Some(reason));
    }

    /// Returns the accepted tokens and their principals.
    pub fn tokens(&self) -> Vec<(Principal, String)> {
        self.setup().holders()
    }

    /// Ends the streams that would not end, so that other requests can finish.
    pub fn close_streams(&self) {
        self.shutdown.stopping.send_replace(true);
        self.sessions.close_streams();
    }

    /// Interrupts all running calls, now and from now on. Their clients get an error.
    pub fn cut_calls(&self) {
        self.shutdown.cutting.send_replace(true);
    }

    /// Ends all sessions and all servers.
    pub async fn stop(&self) {
        self.close_streams();
        self.sessions.cancel_all();
        self.fleet.stop().await;
    }

    /// Writes what was learned, the activity and the savings to disk, within a short time.
    pub async fn finish_writing(&self) {
        let activity = Arc::clone(&self.entrance.pipeline.activity);
        let finished = tokio::task::spawn_blocking(move || activity.finish());
        let _ = tokio::time::timeout(LEARNING_FLUSH_TIMEOUT, finished).await;
        if let Some(learner) = self.setup().learner.clone() {
            let finished = tokio::task::spawn_blocking(move || learner.finish());
            let _ = tokio::time::timeout(LEARNING_FLUSH_TIMEOUT, finished).await;
        }
    }
}
