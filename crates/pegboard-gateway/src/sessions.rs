//! Sessions of clients: how they begin, are found again, follow changes and end.

mod begin;
mod open;
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
use pegboard_upstream::{Call, Fleet, State, Upstream};
use serde_json::value::RawValue;

pub(crate) use self::session::{Beginning, ClientSession};
use self::{open::OpenSessions, saved::KeptSessions};
use crate::{
    caller::Viewer,
    catalog::{CatalogView, directory::Difference},
    exchange::level,
    greetings::Greetings,
    lock,
    request::{Failure, Operation, SessionRef},
    setup::Setups,
    shares::Party,
    startup::Startup,
    subscriptions::Subscriptions,
    text::shorten,
};

/// Sessions whose beginning or end is logged in ten seconds.
const SESSIONS_LOGGED: u32 = 200;

/// All sessions, and what they need to go on.
#[derive(Debug)]
pub(crate) struct Sessions {
    open: OpenSessions,
    /// Where sessions are kept for the next start, if they are.
    kept: Option<Arc<KeptSessions>>,
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
            kept: folder.and_then(KeptSessions::open),
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

    /// A number for a session, or for a request without one.
    pub(crate) fn next_owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// All that are in memory, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<ClientSession>> {
        self.open.all()
    }

    /// How many are in memory.
    pub(crate) fn count(&self) -> usize {
        self.open.count()
    }

    /// The session that a request belongs to; `None` for requests that stand alone.
    ///
    /// # Errors
    /// When there is no such session, or it is another caller's.
    pub(crate) async fn of(
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
            SessionRef::Once => Ok(Some(Box::pin(self.once(viewer.clone(), party, operation)).await)),
            SessionRef::Named(id) => self.find(&id, viewer, party).await.map(Some).ok_or(Failure::NoSession),
            SessionRef::Open(session) => {
                self.touch(&session);
                Ok(Some(session))
            }
        }
    }

    /// The session with this name, from the disk if it is no longer in memory.
    pub(crate) async fn find(&self, id: &str, viewer: &Viewer, party: Party) -> Option<Arc<ClientSession>> {
        let session = match self.open.find(id) {
            Some(session) => session,
            None => Box::pin(self.recall(id, viewer, party)).await?,
        };
        // A session belongs to the caller that began it.
        let is_theirs = session.caller() == viewer.caller;
        self.touch(&session);
        is_theirs.then_some(session)
    }

    /// Forgets a session that its client ends. Returns when it cannot come back from the disk.
    pub(crate) async fn end_named(&self, id: &str) {
        if let Some(forgetting) = self.open.remove(id).and_then(|session| self.forget(&session)) {
            let _ = forgetting.await;
        }
    }

    /// Forgets a session of a pipe, which ends with it.
    pub(crate) fn close(&self, session: &ClientSession) {
        self.open.remove(&session.id);
        self.end(session);
    }

    /// Ends the requests of a session and what it had asked for. Must be called inside a runtime.
    fn end(&self, session: &ClientSession) {
        session.close();
        let subscribed = std::mem::take(&mut *lock(&session.subscriptions));
        self.subscriptions.unfollow_all(&session.viewer(), subscribed);
    }

    /// Forgets those that nobody has used for so long.
    pub(crate) fn expire(&self, limit: Duration) {
        for session in self.open.expire(limit) {
            tracing::debug!(session = session.owner, "idle session dropped from memory");
            self.end(&session);
        }
    }

    /// Ends the streams of all sessions for what belongs to no request.
    pub(crate) fn close_streams(&self) {
        self.all().iter().for_each(|session| session.close_stream());
    }

    /// Cancels everything that sessions are busy with.
    pub(crate) fn cancel_all(&self) {
        self.all().iter().for_each(|session| session.close());
    }

    /// Tells the clients for whom a list has changed.
    pub(crate) fn announce(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let sessions = self.all();
        let concerned = sessions.iter().filter(|session| has_changed_for(&session.viewer()));
        concerned.for_each(|session| session.announce(method));
    }

    /// Lets all sessions go on with the catalog and the settings of now; those whose list has
    /// changed are told.
    pub(crate) fn renew(&self, difference: &Difference) {
        let catalog = self.catalog.catalog();
        for session in self.all() {
            self.renew_one(&session, &catalog, difference);
        }
    }

    /// Lets one session go on with the catalog and the settings of now; it ends if its caller has
    /// no business here any more.
    fn renew_one(&self, session: &Arc<ClientSession>, catalog: &Catalog, difference: &Difference) {
        let (old, setup) = (session.viewer(), self.setups.current());
        let Some(viewer) = setup.viewer(old.caller) else {
            tracing::info!(session = session.owner, "session ended: its token was removed");
            self.open.remove(&session.id);
            self.forget(session);
            return;
        };
        let is_new_setup = viewer.setup != old.setup;
        // One that has begun meanwhile has it already.
        if !is_new_setup && lock(&session.tools).catalog().same_snapshot(catalog) {
            return;
        }
        let view = self.catalog.view(&setup, &viewer, session.profile.shape());
        let may_differ = is_new_setup || difference.tools_for(&viewer.selection);
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

    /// Ends the subscriptions to what may no longer be seen.
    fn drop_subscriptions(&self, session: &ClientSession, viewer: &Viewer) {
        let mut gone = Vec::new();
        lock(&session.subscriptions).retain(|uri| {
            let may_stay = self.catalog.may_follow(viewer, uri);
            if !may_stay {
                gone.push(uri.to_owned());
            }
            may_stay
        });
        self.subscriptions.unfollow_all(&session.viewer(), gone);
    }

    /// Lets a session follow a resource.
    ///
    /// # Errors
    /// When it follows too many already.
    pub(crate) async fn subscribe(
        &self,
        session: &Arc<ClientSession>,
        uri: &str,
        party: Party,
    ) -> Result<(), RpcError> {
        let is_new = self.subscriptions.admit(&mut lock(&session.subscriptions), uri, party)?;
        if is_new {
            self.subscriptions.follow(&session.viewer().selection, uri).await;
            self.keep(session).await;
        }
        Ok(())
    }

    /// Lets a session follow a resource no longer.
    pub(crate) async fn unsubscribe(&self, session: &Arc<ClientSession>, uri: &str) {
        let was_followed = lock(&session.subscriptions).remove(uri);
        if was_followed {
            self.subscriptions.unfollow(&session.viewer().selection, uri).await;
            self.keep(session).await;
        }
    }

    /// Sets the level of log messages that a session wants.
    pub(crate) async fn set_level(&self, session: Option<&Arc<ClientSession>>, wanted: &str) {
        if let Some(session) = session {
            session.set_log_level(wanted);
            self.keep(session).await;
        }
        self.fleet.servers().iter().for_each(|upstream| self.tell_level(upstream));
    }

    /// Tells a legacy server the most talkative level that any client has set; each client hears
    /// its own.
    pub(crate) fn tell_level(&self, upstream: &Arc<Upstream>) {
        let levels = self.all().into_iter().filter_map(|session| session.chosen_log_level());
        let Some(lowest) = levels.min_by_key(|one| level(one)) else { return };
        let is_told =
            upstream.hello().is_some_and(|hello| hello.era == Era::Legacy && hello.capabilities.has("logging"));
        if is_told && upstream.state() == State::Ready {
            let upstream = Arc::clone(upstream);
            tokio::spawn(async move {
                let timeout = upstream.config().timeouts.call;
                let params = || Fields::new().with("level", &lowest);
                let _ = upstream.call(|_| Call::new("logging/setLevel", params(), timeout)).await;
            });
        }
    }
}

impl ClientSession {
    /// Takes in what the client says of its own accord.
    pub(crate) fn notified(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let id = Fields::of_optional(params).get("requestId").and_then(Id::of);
                if let Some(id) = id {
                    self.cancel(&id);
                }
            }
            // Roots belong to one client, and servers are shared; they ask when they need them.
            "notifications/initialized" | "notifications/progress" | "notifications/roots/list_changed" => {}
            method => tracing::debug!(session = self.owner, method = shorten(method), "unknown notification ignored"),
        }
    }
}

#[cfg(test)]
mod tests;
