//! How sessions begin.

use std::sync::Arc;

use pegboard_discovery::{DialectName, GATEWAY_SEARCH};
use pegboard_mcp::{
    era::LEGACY_VERSIONS,
    json::{Raw, raw},
};
use serde_json::json;

use crate::{
    caller::Viewer,
    catalog::directory::Difference,
    lock,
    request::{Greeting, Initialize, Operation},
    sessions::{Beginning, ClientSession, Sessions},
    settings::{Listing, Profile, Shape},
    shares::Party,
    text::shorten,
    trace,
};

/// Whose session it is, and what its client calls itself.
pub(super) struct Owner {
    pub(super) viewer: Viewer,
    pub(super) party: Party,
    pub(super) client: String,
}

/// A token may have one of so many parts of all sessions.
const SHARE_OF_SESSIONS: usize = 4;

impl Sessions {
    /// Begins a session, and returns the greeting for its client.
    pub(crate) async fn initialize(
        &self,
        viewer: Viewer,
        party: Party,
        asked: Initialize,
    ) -> (Arc<ClientSession>, Greeting) {
        let Initialize { version, capabilities, client } = asked;
        let version = if LEGACY_VERSIONS.contains(&version.as_str()) { version } else { LEGACY_VERSIONS[0].to_owned() };
        let setup = self.setups.current();
        let profile = setup.profile_of(&client);
        // The client asks for the tools next, and would wait there.
        self.startup.ready(&setup).await;
        let capabilities = capabilities.unwrap_or_else(|| raw(&json!({})));
        let owner = Owner { viewer, party, client: shorten(&client) };
        let beginning = self.beginning(owner, profile, profile.shape(), capabilities);
        let session = Arc::new(ClientSession::new(self.next_owner(), beginning));
        trace::belongs_to(&session);
        let caller = session.viewer().caller;
        if let Some(unlogged) = self.log.take() {
            tracing::info!(
                session = session.owner,
                client = session.client,
                protocol = version,
                profile = profile.as_str(),
                token = setup.token_name(caller),
                unlogged,
                "session started"
            );
        }
        // For good, also on the disk: others' sessions must not make room for those of one token.
        for old in self.open.surplus_of(caller, setup.max_sessions / SHARE_OF_SESSIONS) {
            self.log_end(&old, "session ended: too many sessions of its token");
            self.forget(&old);
        }
        for old in self.open.add(Arc::clone(&session), setup.max_sessions) {
            self.log_end(&old, "session evicted for a newer one");
            self.end(&old);
        }
        // Catalog and settings may have changed before the session could be told so.
        self.renew_one(&session, &self.catalog.catalog(), &Difference::default());
        self.keep(&session).await;
        let instructions = self.greetings.instructions(&lock(&session.tools));
        tracing::Span::current().record("outcome", "ok");
        (session, Greeting { version: Some(version), instructions })
    }

    /// Logs that a session ends against the will of its client, within the budget for that.
    pub(super) fn log_end(&self, session: &ClientSession, why: &'static str) {
        if let Some(unlogged) = self.log.take() {
            tracing::warn!(session = session.owner, unlogged, "{why}");
        }
    }

    /// What a session begins with that is to last.
    pub(super) fn beginning(&self, owner: Owner, profile: Profile, shape: Shape, capabilities: Raw) -> Beginning {
        let Owner { viewer, party, client } = owner;
        let view = self.catalog.view(&self.setups.current(), &viewer, shape);
        let tools = lock(&view.tools).fork();
        Beginning { viewer, party, profile, capabilities, tools, is_lasting: true, client }
    }

    /// A session of one request, for clients that begin none. The search of the `gateway`
    /// dialect is answered whatever the dialect of others is.
    pub(super) async fn once(&self, viewer: Viewer, party: Party, operation: &Operation) -> Arc<ClientSession> {
        let setup = self.setups.current();
        // It sees the tools of this moment only, so they should be there.
        self.startup.ready(&setup).await;
        let searches = match operation {
            Operation::CallTool(call) => call.name == GATEWAY_SEARCH,
            _ => false,
        };
        let (profile, shape) = match searches {
            true => {
                let dialect = DialectName::Gateway;
                (Profile::Dialect(dialect), Shape::new(dialect, Listing::Searchable))
            }
            false => (setup.profile, setup.profile.shape()),
        };
        let owner = Owner { viewer, party, client: String::new() };
        let beginning = self.beginning(owner, profile, shape, raw(&json!({})));
        Arc::new(ClientSession::new(self.next_owner(), Beginning { is_lasting: false, ..beginning }))
    }
}
