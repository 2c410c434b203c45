//! How legacy conversations begin, and what their clients say of their own accord.

use std::sync::Arc;

use pegboard_discovery::{DialectName, Session};
use pegboard_upstream::{
    era::{Era, LEGACY_VERSIONS},
    json::{Fields, Raw, raw},
    rpc::{Id, RpcError},
};
use serde_json::json;

use crate::{
    bounds::{self, required},
    catalog::directory::Difference,
    catalog::views::is_stateful,
    exchange::{Caller, Viewer},
    gateway::Gateway,
    lock,
    routes::methods::shorten,
    sessions::{Beginning, ClientSession, client_name},
    settings::Profile,
    trace,
};

/// A token may have one of so many parts of all sessions.
const SHARE_OF_SESSIONS: usize = 4;

impl Gateway {
    /// Begins a conversation; what the client is told.
    ///
    /// # Errors
    /// When the client does not say what it must.
    pub(crate) async fn initialize(
        self: &Arc<Self>,
        viewer: Viewer,
        params: Option<Raw>,
    ) -> Result<(Arc<ClientSession>, Raw), RpcError> {
        let params = Fields::of_optional(params.as_deref());
        let asked = required(&params, "protocolVersion")?;
        let version = if LEGACY_VERSIONS.contains(&asked.as_str()) { asked } else { LEGACY_VERSIONS[0].to_owned() };
        let capabilities = params.get("capabilities").map_or_else(|| raw(&json!({})), ToOwned::to_owned);
        bounds::check_capabilities(&capabilities)?;
        let client = client_name(&params);
        let setup = self.setup();
        let profile = setup.profile_of(&client);
        // The client asks for the tools next, and would wait there.
        self.ready().await;
        let session = Arc::new(ClientSession::new(
            self.next_owner(),
            self.beginning(viewer, profile, capabilities, shorten(&client)),
        ));
        trace::belongs_to(&session);
        tracing::info!(
            session = session.owner,
            client = session.client,
            protocol = version,
            profile = profile.as_str(),
            token = self.token_name(&session.viewer()),
            "a conversation begins"
        );
        // For good, also on the disk: others' sessions must not make room for those of one token.
        for old in self.sessions.surplus_of(session.viewer().caller, setup.max_sessions / SHARE_OF_SESSIONS) {
            tracing::warn!(session = old.owner, "session ended: its token has too many");
            self.forget_session(&old);
        }
        for old in self.sessions.add(Arc::clone(&session), setup.max_sessions) {
            tracing::warn!(session = old.owner, "a conversation makes room for a newer one");
            self.end_session(&old);
        }
        // Catalog and settings may have changed before the conversation could be told so.
        self.renew_session(&session, &self.catalog(), &Difference::default());
        let view = self.view(&session.viewer(), Self::dialect(profile, Era::Legacy));
        self.keep(&session).await;
        let mut result = Fields::new().with("protocolVersion", &version);
        result.set("capabilities", Self::capabilities());
        result.set("serverInfo", raw(&Self::server_info()));
        if let Some(instructions) = self.instructions(&view, profile) {
            result.set("instructions", raw(&instructions));
        }
        tracing::Span::current().record("outcome", "ok");
        Ok((session, result.to_raw()))
    }

    /// What logs call the holder of a token.
    fn token_name(&self, viewer: &Viewer) -> String {
        let Caller::Token(holder) = viewer.caller else { return String::new() };
        self.setup().token(holder).map_or_else(String::new, |token| token.name.clone())
    }

    /// What a conversation begins with that is to last.
    pub(crate) fn beginning(&self, viewer: Viewer, profile: Profile, capabilities: Raw, client: String) -> Beginning {
        let view = self.view(&viewer, Self::dialect(profile, Era::Legacy));
        let tools = lock(&view.tools).fork();
        Beginning { viewer, profile, capabilities, tools, is_lasting: true, client }
    }

    /// A conversation of one request. One that `only_searches` may search even where
    /// everything is shown.
    pub(crate) fn begin_once(&self, viewer: Viewer, profile: Profile, only_searches: bool) -> ClientSession {
        let mut beginning = self.beginning(viewer, profile, raw(&json!({})), String::new());
        if only_searches {
            beginning.tools = self.searching(&beginning.viewer);
        }
        beginning.is_lasting = false;
        ClientSession::new(self.next_owner(), beginning)
    }

    fn searching(&self, viewer: &Viewer) -> Session {
        let mut settings = self.setup().discovery.clone();
        settings.always_searchable = true;
        let dialect = DialectName::Gateway;
        Session::expecting(dialect, settings, self.catalog(), (*viewer.selection).clone(), self.ranker(dialect))
    }

    /// Says once that modern clients get something else than what is configured.
    pub(crate) fn log_fallback(&self) {
        if let Profile::Dialect(dialect) = self.setup().profile
            && is_stateful(dialect)
        {
            tracing::info!(
                dialect = dialect.as_str(),
                "clients of 2026-07-28 get `bridge` instead: their list must not change with what was searched for"
            );
        }
    }

    /// Takes in what a client says of its own accord.
    pub(crate) fn notified(&self, session: &ClientSession, method: &str, params: Option<&serde_json::value::RawValue>) {
        match method {
            "notifications/cancelled" => {
                let id = Fields::of_optional(params).get("requestId").and_then(Id::of);
                if let Some(id) = id {
                    session.cancel(&id);
                }
            }
            "notifications/initialized" | "notifications/progress" => {}
            "notifications/roots/list_changed" => {
                // Roots belong to one client, and servers are shared; they ask when they need them.
            }
            method => tracing::debug!(session = session.owner, method = shorten(method), "an unknown notification"),
        }
    }
}
