//! Parts to test others with.

use std::sync::Arc;

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};
use pegboard_upstream::{json::raw, trace::TraceContext};
use serde_json::json;

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

/// A session of a caller, of this number, that lasts or not.
pub(crate) fn session(caller: Caller, party: Party, owner: u64, is_lasting: bool) -> Arc<ClientSession> {
    let (profile, capabilities, client) = (Profile::Passthrough, raw(&json!({})), "test".to_owned());
    let viewer = Viewer { caller, selection: Arc::default(), setup: 0 };
    let setups = setups(GatewaySettings::default());
    let view = CatalogView::default().view(&setups.current(), &viewer, profile.shape());
    let tools = lock(&view.tools).fork();
    let beginning = Beginning { viewer, party, profile, capabilities, tools, is_lasting, client };
    Arc::new(ClientSession::new(owner, beginning))
}

/// A request of a caller, in a session of this number that lasts or not.
pub(crate) fn exchange(caller: Caller, in_session: Option<(u64, bool)>) -> Exchange {
    let session = in_session.map(|(owner, is_lasting)| session(caller, Party::Caller(caller), owner, is_lasting));
    Exchange {
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
