//! Parts to test others with.

use std::sync::Arc;

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};
use pegboard_upstream::{json::raw, trace::TraceContext};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    caller::{Caller, Viewer},
    catalog::CatalogView,
    exchange::Exchange,
    lock,
    sessions::{Beginning, ClientSession},
    settings::{GatewaySettings, Profile, Rankers},
    setup::Setups,
    shares::Party,
};

/// A ranker that finds nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Ranker for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        Ok(Ranking::default())
    }
}

/// Settings in use, with a ranker that finds nothing.
pub(crate) fn setups(settings: GatewaySettings) -> Arc<Setups> {
    let rankers: Rankers = Arc::new(|_| Arc::new(Nothing));
    Arc::new(Setups::new(settings, rankers))
}

/// A request of a caller, in a session of this number that lasts or not.
pub(crate) fn exchange(caller: Caller, session: Option<(u64, bool)>) -> Exchange {
    let viewer = Viewer { caller, selection: Arc::default(), setup: 0 };
    let profile = Profile::Passthrough;
    let session = session.map(|(owner, is_lasting)| {
        let setups = setups(GatewaySettings::default());
        let view = CatalogView::default().view(&setups.current(), &viewer, profile.shape());
        let (tools, client) = (lock(&view.tools).fork(), "test".to_owned());
        let capabilities = raw(&json!({}));
        let (viewer, party) = (viewer.clone(), Party::Caller(caller));
        let beginning = Beginning { viewer, party, profile, capabilities, tools, is_lasting, client };
        Arc::new(ClientSession::new(owner, beginning))
    });
    Exchange {
        viewer,
        address: None,
        session,
        shape: profile.shape(),
        capabilities: raw(&json!({})),
        log_level: None,
        progress: None,
        outlet: mpsc::channel(1).0,
        owner: 0,
        trace: TraceContext::default(),
    }
}
