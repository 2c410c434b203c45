//! Parts for unit tests.

/// The server of the integration tests.
#[allow(dead_code, reason = "integration tests need more of it")]
#[path = "../tests/it/server.rs"]
mod server;

use std::{sync::Arc, time::Duration};

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};
use pegboard_mcp::{json::raw, trace::TraceContext};
use pegboard_upstream::{Fleet, config::ServerConfig};
use serde_json::json;

pub(crate) use self::server::Server;
use crate::{
    caller::{Caller, Viewer},
    catalog::{CatalogView, directory::Directory},
    exchange::Exchange,
    forward::calls::Forwarder,
    greetings::Greetings,
    limits::AdmissionControl,
    lock,
    metrics::Metrics,
    sessions::{ClientSession, SessionStart, Sessions},
    settings::{GatewaySettings, Profile, Rankers},
    setup::Setups,
    shares::Party,
    startup::{Shutdown, Startup},
    subscriptions::Subscriptions,
};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub(crate) async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let polled = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, polled).await.is_ok(), "{what}: not in time");
}

/// The parts for unit tests: running servers, their directory, and settings.
#[derive(Debug)]
pub(crate) struct TestParts {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setups: Arc<Setups>,
    pub(crate) catalog: Arc<CatalogView>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Arc<AdmissionControl>,
    pub(crate) startup: Arc<Startup>,
    pub(crate) shutdown: Arc<Shutdown>,
}

impl TestParts {
    /// Starts these servers, and waits until they are listed.
    pub(crate) async fn new(servers: Vec<ServerConfig>, settings: GatewaySettings) -> Self {
        let (fleet, _notices) = Fleet::start(servers, Vec::new());
        fleet.wait_until_listed(PATIENCE).await;
        let parts = Self {
            fleet: Arc::new(fleet),
            setups: setups(settings),
            catalog: Arc::default(),
            metrics: Arc::default(),
            limits: Arc::default(),
            startup: Arc::default(),
            shutdown: Arc::default(),
        };
        parts.startup.end();
        parts.refresh_directory();
        parts
    }

    /// Rebuilds the directory; returns the difference.
    pub(crate) fn refresh_directory(&self) -> crate::catalog::directory::Difference {
        let before = self.catalog.directory();
        let directory = Directory::new(&self.fleet, &self.setups.current(), &before);
        let difference = directory.difference(&before);
        self.catalog.replace(Arc::new(directory));
        self.catalog.forget_views();
        difference
    }

    pub(crate) fn subscriptions(&self) -> Arc<Subscriptions> {
        let (fleet, setups) = (Arc::clone(&self.fleet), Arc::clone(&self.setups));
        Arc::new(Subscriptions::new(fleet, setups, Arc::clone(&self.catalog), Arc::clone(&self.shutdown)))
    }

    pub(crate) fn greetings(&self) -> Arc<Greetings> {
        Arc::new(Greetings { fleet: Arc::clone(&self.fleet), catalog: Arc::clone(&self.catalog) })
    }

    pub(crate) fn sessions(&self, subscriptions: &Arc<Subscriptions>) -> Arc<Sessions> {
        let (setups, startup) = (Arc::clone(&self.setups), Arc::clone(&self.startup));
        Arc::new(Sessions::new(None, setups, startup, Arc::clone(subscriptions), self.greetings()))
    }

    pub(crate) fn forwarder(&self) -> Arc<Forwarder> {
        Arc::new(Forwarder::new(
            Arc::clone(&self.fleet),
            Arc::clone(&self.setups),
            Arc::clone(&self.limits),
            Arc::clone(&self.metrics),
            Arc::clone(&self.shutdown),
        ))
    }

    /// Returns what a caller may see.
    pub(crate) fn viewer(&self, caller: Caller) -> Viewer {
        self.setups.viewer(caller).expect("a caller")
    }
}

/// A ranker without hits.
#[derive(Debug)]
pub(crate) struct EmptyRanker;

impl Ranker for EmptyRanker {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        Ok(Ranking::default())
    }
}

/// Returns settings with a ranker without hits.
pub(crate) fn setups(settings: GatewaySettings) -> Arc<Setups> {
    let rankers: Rankers = Arc::new(|_| Arc::new(EmptyRanker));
    Arc::new(Setups::new(settings, rankers))
}

/// Returns a session of a caller, with this number, that lasts or not.
pub(crate) fn session(caller: Caller, party: Party, owner: u64, is_lasting: bool) -> Arc<ClientSession> {
    let (profile, capabilities, client) = (Profile::Passthrough, raw(&json!({})), "test".to_owned());
    let viewer = Viewer { caller, selection: Arc::default(), setup: 0 };
    let setups = setups(GatewaySettings::default());
    let view = CatalogView::default().view(&setups.current(), &viewer, profile.shape());
    let tools = lock(&view.tools).fork();
    let beginning = SessionStart { viewer, party, profile, capabilities, tools, is_lasting, client };
    Arc::new(ClientSession::new(owner, beginning))
}

/// Returns a request of a caller, in a session with this number that lasts or not.
pub(crate) fn exchange(caller: Caller, in_session: Option<(u64, bool)>) -> Exchange {
    let session = in_session.map(|(owner, is_lasting)| session(caller, Party::Caller(caller), owner, is_lasting));
    Exchange {
        client: String::new(),
        console: None,
        pipe: None,
        viewer: Viewer { caller, selection: Arc::default(), setup: 0 },
        address: None,
        session,
        shape: Profile::Passthrough.shape(),
        capabilities: raw(&json!({})),
        log_level: None,
        progress: None,
        outlet: pegboard_upstream::queue::channel(1).0,
        owner: 0,
        trace: TraceContext::default(),
    }
}
