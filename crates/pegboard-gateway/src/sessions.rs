//! Sessions of clients: how they begin, are found again, follow changes and end.

mod begin;
mod inbox;
mod open;
mod replay;
mod saved;
mod session;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::Catalog;
use pegboard_http::LogBudget;
use pegboard_mcp::{
    era::Era,
    json::Fields,
    rpc::{Id, RpcError},
};
use pegboard_upstream::{ClientOwner, Fleet, State, Upstream};
use serde_json::value::RawValue;

use self::{open::OpenSessions, saved::SavedSessions};
pub(crate) use self::{
    replay::{Reader, Resumed, STANDALONE},
    session::{ClientSession, SessionStart},
};
use crate::{
    bounds::Subscriptions as Uris,
    caller::Viewer,
    catalog::{CatalogView, directory::Difference, own::ClientRef},
    exchange::log_level_rank,
    greetings::Greetings,
    lock,
    request::{Failure, Operation, SessionRef},
    setup::Setups,
    shares::Party,
    startup::Startup,
    subscriptions::{Holder, Subscriber, Subscriptions},
    text::shorten,
};

/// Maximum number of sessions whose beginning or end is logged in ten seconds.
const SESSIONS_LOGGED: u32 = 200;

/// How long a client that sets its log level waits for its own connections.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// All sessions, and the parts that they need.
#[derive(Debug)]
pub(crate) struct Sessions {
    open: OpenSessions,
    /// The store for sessions that outlive a restart, if enabled.
    saved: Option<Arc<SavedSessions>>,
    next_owner: AtomicU64,
    /// Sessions are begun and ended by callers, and must not fill the disk with log lines.
    log: LogBudget,
    fleet: Arc<Fleet>,
    setups: Arc<Setups>,
    catalog: Arc<CatalogView>,
    startup: Arc<Startup>,
    subscriptions: Arc<Subscriptions>,
    greetings: Arc<Greetings>,
}

impl Sessions {
    pub(crate) fn new(
        folder: Option<&Path>,
        setups: Arc<Setups>,
        startup: Arc<Startup>,
        subscriptions: Arc<Subscriptions>,
        greetings: Arc<Greetings>,
    ) -> Self {
        Self {
            open: OpenSessions::default(),
            saved: folder.and_then(SavedSessions::open),
            next_owner: AtomicU64::new(1),
            log: LogBudget::new(SESSIONS_LOGGED),
            fleet: Arc::clone(&greetings.fleet),
            setups,
            catalog: Arc::clone(&greetings.catalog),
            startup,
            subscriptions,
            greetings,
        }
    }

    /// Returns a new number for a session, or for a request without one.
    pub(crate) fn next_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns all sessions in memory, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<ClientSession>> {
        self.open.all()
    }

    /// Returns the number of sessions in memory.
    pub(crate) fn count(&self) -> usize {
        self.open.count()
    }

    /// Returns the session that a request belongs to; `None` for independent requests.
    ///
    /// # Errors
    /// When there is no such session, or it is another caller's.
    pub(crate) async fn find_for_request(
        &self,
        session: SessionRef,
        viewer: &Viewer,
        party: Party,
        operation: &Operation,
    ) -> Result<Option<Arc<ClientSession>>, Failure> {
        match session {
            SessionRef::Stateless => Ok(None),
            // These depend on no session.
            SessionRef::Once if matches!(operation, Operation::Initialize(_) | Operation::Ping) => Ok(None),
            SessionRef::Once => Ok(Some(Box::pin(self.open_for_request(viewer.clone(), party, operation)).await)),
            SessionRef::Named(id) => self.find(&id, viewer, party).await.map(Some).ok_or(Failure::NoSession),
            SessionRef::Open(session) => {
                self.touch(&session);
                Ok(Some(session))
            }
        }
    }

    /// Returns the session with this id, from disk if it is no longer in memory.
    pub(crate) async fn find(&self, id: &str, viewer: &Viewer, party: Party) -> Option<Arc<ClientSession>> {
        let session = match self.open.find(id) {
            Some(session) => session,
            None => Box::pin(self.restore(id, viewer, party)).await?,
        };
        // A session belongs to the caller that began it.
        let is_theirs = session.caller() == viewer.caller;
        self.touch(&session);
        is_theirs.then_some(session)
    }

    /// Ends a session on request of its client. Returns when it cannot be restored from disk any
    /// more.
    pub(crate) async fn end_named(&self, id: &str) {
        if let Some(forgetting) = self.open.remove(id).and_then(|session| self.forget(&session)) {
            let _ = forgetting.await;
        }
    }

    /// Ends the session of a pipe.
    pub(crate) fn close(&self, session: &ClientSession) {
        self.open.remove(&session.id);
        self.end(session);
    }

    /// Closes the connections to servers that belong to the client on a pipe.
    pub(crate) fn release_pipe(&self, number: u64) {
        self.fleet.release(ClientOwner::Session(number));
        self.catalog.forget_client(ClientOwner::Session(number));
    }

    /// Ends the requests and subscriptions of a session. Must be called inside a runtime.
    fn end(&self, session: &ClientSession) {
        session.set_ended();
        session.close();
        session.close_inbox();
        self.fleet.release(owner_of(session));
        self.catalog.forget_client(owner_of(session));
        *lock(&session.subscriptions) = Uris::default();
        self.subscriptions.forget(subscriber(session).holder);
    }

    /// Drops sessions that were not used for so long, and what was kept for clients that did not reconnect.
    pub(crate) fn expire(&self, limit: Duration) {
        for session in self.open.expire(limit) {
            tracing::debug!(session = session.owner, "idle session dropped from memory");
            self.end(&session);
        }
        self.all().iter().for_each(|session| session.replay.sweep());
    }

    /// Ends the streams of all sessions for messages that belong to no request.
    pub(crate) fn close_streams(&self) {
        self.all().iter().for_each(|session| session.close_stream());
    }

    /// Cancels the requests of all sessions.
    pub(crate) fn cancel_all(&self) {
        self.all().iter().for_each(|session| session.close());
    }

    /// Notifies the clients for whom a list has changed.
    pub(crate) fn announce(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let sessions = self.all();
        let concerned = sessions.iter().filter(|session| has_changed_for(&session.viewer()));
        concerned.for_each(|session| session.announce(method));
    }

    /// Notifies the client of the session of an owner, if it may see what has changed.
    pub(crate) fn announce_to(&self, owner: ClientOwner, method: &'static str, may_see: impl Fn(&Viewer) -> bool) {
        let sessions = self.all();
        let concerned = sessions.iter().filter(|session| owner_of(session) == owner && may_see(&session.viewer()));
        concerned.for_each(|session| session.announce(method));
    }

    /// Updates all sessions to the current catalog and settings; notifies those whose list has
    /// changed.
    pub(crate) fn refresh(&self, difference: &Difference) {
        for session in self.all() {
            self.refresh_session(&session, difference);
        }
    }

    /// Updates the session of an owner to the tools that only its own connections have.
    pub(crate) fn refresh_own_tools(&self, owner: ClientOwner) {
        for session in self.all().into_iter().filter(|session| owner_of(session) == owner) {
            let client = ClientRef::of_session(&session, session.viewer());
            let directory = self.catalog.directory_for(&self.setups.current(), &client);
            let Some(catalog) = &directory.catalog else { continue };
            let difference = Difference::of_tools(catalog, lock(&session.tools).catalog());
            self.refresh_session(&session, &difference);
        }
    }

    /// Updates one session to the current catalog and settings; ends it if its token was removed.
    fn refresh_session(&self, session: &Arc<ClientSession>, difference: &Difference) {
        let (old, setup) = (session.viewer(), self.setups.current());
        let Some(viewer) = setup.viewer(old.caller) else {
            tracing::info!(session = session.owner, "session ended: its token was removed");
            self.open.remove(&session.id);
            self.forget(session);
            return;
        };
        let is_new_setup = viewer.setup != old.setup;
        let client = ClientRef::of_session(session, viewer.clone());
        let catalog = self.catalog.directory_for(&setup, &client).catalog.clone().unwrap_or_else(Catalog::empty);
        // One that has begun meanwhile has it already.
        if !is_new_setup && lock(&session.tools).catalog().same_snapshot(&catalog) {
            return;
        }
        let view = self.catalog.view_for(&setup, &client, session.profile.shape());
        let may_differ = is_new_setup || difference.has_tools_for(&viewer.selection);
        if is_new_setup {
            self.drop_subscriptions(session, &viewer);
        }
        session.set_viewer(viewer);
        let (is_changed, lists_everything) = {
            let mut tools = lock(&session.tools);
            let before = (tools.list_changes(), tools.lists_everything());
            tools.update_like(&lock(&view.tools));
            ((tools.list_changes(), tools.lists_everything()) != before, tools.lists_everything())
        };
        // What is shown can also change with the settings alone.
        if is_changed || (may_differ && (lists_everything || is_new_setup)) {
            session.announce("notifications/tools/list_changed");
        }
    }

    /// Ends the subscriptions to resources that may no longer be seen.
    fn drop_subscriptions(&self, session: &ClientSession, viewer: &Viewer) {
        let mut gone = Vec::new();
        let mut followed = lock(&session.subscriptions);
        followed.retain(|uri| {
            let may_stay = self.catalog.may_subscribe(viewer, uri);
            if !may_stay {
                gone.push(uri.to_owned());
            }
            may_stay
        });
        self.subscriptions.unsubscribe(subscriber(session).holder, &gone);
    }

    /// Subscribes a session to a resource.
    ///
    /// # Errors
    /// When it follows too many already, or the server rejects the subscription.
    pub(crate) async fn subscribe(
        &self,
        session: &Arc<ClientSession>,
        uri: &str,
        party: Party,
    ) -> Result<(), RpcError> {
        let announcing = {
            let mut followed = lock(&session.subscriptions);
            // A session that has ended meanwhile leaves nothing behind.
            if session.has_ended() || !self.subscriptions.add_uri(&mut followed, uri, party)? {
                return Ok(());
            }
            self.subscriptions.subscribe(&session.viewer().selection, subscriber(session), [&uri.to_owned()])
        };
        if let Some(error) = announcing.finished().await {
            self.unsubscribe(session, uri).await;
            return Err(error);
        }
        self.save(session).await;
        Ok(())
    }

    /// Ends the subscription of a session to a resource; returns whether there was one.
    pub(crate) async fn unsubscribe(&self, session: &Arc<ClientSession>, uri: &str) -> bool {
        let announcing = {
            let mut followed = lock(&session.subscriptions);
            if !followed.remove(uri) {
                return false;
            }
            self.subscriptions.unsubscribe(subscriber(session).holder, [&uri.to_owned()])
        };
        announcing.finished().await;
        self.save(session).await;
        true
    }

    /// Sets the log level of a session.
    pub(crate) async fn set_level(&self, session: Option<&Arc<ClientSession>>, wanted: &str) {
        if let Some(session) = session {
            session.set_log_level(wanted);
            self.save(session).await;
            let all = async {
                for upstream in self.fleet.servers().iter() {
                    upstream.set_log_level_for(owner_of(session), wanted).await;
                }
            };
            // The next call should be logged accordingly, but need not wait for a server that hangs.
            let _ = tokio::time::timeout(SET_LEVEL_TIMEOUT, all).await;
        }
        self.fleet.servers().iter().for_each(|upstream| self.set_server_log_level(upstream));
    }

    /// Sets the log level of the connections to a server that clients share to the most verbose one
    /// that any client has set; each client gets its own level.
    pub(crate) fn set_server_log_level(&self, upstream: &Arc<Upstream>) {
        let levels = self.all().into_iter().filter_map(|session| session.chosen_log_level());
        let Some(lowest) = levels.min_by_key(|one| log_level_rank(one)) else { return };
        if upstream.state() == State::Ready {
            let upstream = Arc::clone(upstream);
            tokio::spawn(async move { upstream.set_shared_log_level(&lowest).await });
        }
    }

    /// Handles a notification of the client of a session. Must be called inside a runtime.
    pub(crate) fn handle_notification(&self, session: &ClientSession, method: &str, params: Option<&RawValue>) {
        const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
        match method {
            "notifications/cancelled" => {
                let id = Fields::of_optional(params).get("requestId").and_then(Id::of);
                if let Some(id) = id {
                    session.cancel(&id);
                }
            }
            // Roots belong to one client: on connections that clients share, there are none.
            ROOTS_CHANGED => {
                session.record_roots_change();
                self.fleet.notify_for(owner_of(session), ROOTS_CHANGED, None);
            }
            "notifications/initialized" | "notifications/progress" => {}
            method => {
                tracing::debug!(session = session.owner, method = shorten(method), "unknown notification ignored");
            }
        }
    }
}

/// Returns a session as servers know it.
fn subscriber(session: &ClientSession) -> Subscriber {
    Subscriber { holder: Holder::Session(session.owner), owner: Some(owner_of(session)), era: Era::Legacy }
}

/// Returns the owner of the connections to servers that belong to a session.
fn owner_of(session: &ClientSession) -> ClientOwner {
    ClientOwner::Session(session.owner)
}

#[cfg(test)]
mod tests;
