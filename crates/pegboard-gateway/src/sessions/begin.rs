//! The beginning of sessions.

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
    sessions::{ClientSession, SessionStart, Sessions},
    settings::{Listing, Profile, Shape},
    shares::Party,
    text::shorten,
    trace,
};

/// The owner of a session, and the name of its client.
pub(super) struct SessionOwner {
    pub(super) viewer: Viewer,
    pub(super) party: Party,
    pub(super) client: String,
}

/// The divisor of the maximum number of sessions that one token may have.
const MAX_SHARE_OF_SESSIONS: usize = 4;

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
        self.startup.wait_until_ready(&setup).await;
        let capabilities = capabilities.unwrap_or_else(|| raw(&json!({})));
        let owner = SessionOwner { viewer, party, client: shorten(&client) };
        let beginning = self.session_start(owner, profile, profile.shape(), capabilities);
        let session = Arc::new(ClientSession::new(self.next_owner(), beginning));
        trace::record_session(&session);
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
        for old in self.open.remove_surplus_of(caller, setup.max_sessions / MAX_SHARE_OF_SESSIONS) {
            self.log_end(&old, "session ended: too many sessions of its token");
            self.forget(&old);
        }
        for old in self.open.add(Arc::clone(&session), setup.max_sessions) {
            self.log_end(&old, "session evicted for a newer one");
            self.end(&old);
        }
        // Catalog and settings may have changed before the session could be told so.
        self.refresh_session(&session, &Difference::default());
        self.save(&session).await;
        let instructions = self.greetings.instructions(&lock(&session.tools));
        tracing::Span::current().record("outcome", "ok");
        let extensions = self.greetings.extensions(&session.viewer().selection);
        (session, Greeting { version: Some(version), instructions, extensions })
    }

    /// Logs that a session is ended by the gateway, within the log budget.
    pub(super) fn log_end(&self, session: &ClientSession, why: &'static str) {
        if let Some(unlogged) = self.log.take() {
            tracing::warn!(session = session.owner, unlogged, "{why}");
        }
    }

    /// Returns the start values of a session that lasts.
    pub(super) fn session_start(
        &self,
        owner: SessionOwner,
        profile: Profile,
        shape: Shape,
        capabilities: Raw,
    ) -> SessionStart {
        let SessionOwner { viewer, party, client } = owner;
        let view = self.catalog.view(&self.setups.current(), &viewer, shape);
        let tools = lock(&view.tools).fork();
        SessionStart { viewer, party, profile, capabilities, tools, is_lasting: true, client }
    }

    /// Creates a session for one request, for clients that begin none. The search of the `gateway`
    /// dialect is answered in any dialect.
    pub(super) async fn open_for_request(
        &self,
        viewer: Viewer,
        party: Party,
        operation: &Operation,
    ) -> Arc<ClientSession> {
        let setup = self.setups.current();
        // It sees the tools of this moment only, so they should be there.
        self.startup.wait_until_ready(&setup).await;
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
        let owner = SessionOwner { viewer, party, client: String::new() };
        let beginning = self.session_start(owner, profile, shape, raw(&json!({})));
        Arc::new(ClientSession::new(self.next_owner(), SessionStart { is_lasting: false, ..beginning }))
    }
}
