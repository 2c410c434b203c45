//! Sessions on disk, which survive eviction from memory and restarts.
//!
//! A session is written when its loaded tools change, before its client is notified. So a gateway
//! that is killed at any moment loses nothing that a client knows of.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use pegboard_mcp::json::Raw;
use pegboard_state::{FileKind, LoadError, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{
    caller::{Caller, Viewer},
    catalog::directory::Difference,
    ids::is_id,
    lock,
    sessions::{ClientSession, Sessions, begin::SessionOwner, subscriber},
    settings::Profile,
    setup::Setup,
    shares::Party,
};

const KIND: FileKind = FileKind { name: "session", version: 1, max_bytes: 512 << 10 };

/// Maximum number of saved sessions; the least recently used ones are deleted first.
const MOST: usize = 10_000;

/// The maximum age of the last-used mark on disk before it is renewed, to avoid a write for every
/// request.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);

/// The saved state of a session.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SavedSession {
    /// Whose it is; nobody learns a token from it.
    holder: String,
    client: String,
    profile: String,
    capabilities: Raw,
    log_level: Option<String>,
    subscriptions: Vec<String>,
    tools: Value,
}

/// The sessions on disk.
#[derive(Debug)]
pub(crate) struct SavedSessions {
    store: Store,
    has_warned: AtomicBool,
}

impl SavedSessions {
    /// Opens the folder; `None` if nothing can be saved there, after a warning.
    pub(crate) fn open(folder: &Path) -> Option<Arc<Self>> {
        match Store::open(folder, KIND) {
            Ok(store) => Some(Arc::new(Self { store, has_warned: AtomicBool::new(false) })),
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "cannot save sessions");
                None
            }
        }
    }

    /// Returns the file name of a session. It does not contain the id, because a reader of the
    /// folder could take over the session.
    fn name(&self, id: &str) -> String {
        self.store.keyed_hash("name", id.as_bytes())
    }

    fn save(&self, id: &str, written: &SavedSession) {
        let body = serde_json::to_vec(written).unwrap_or_default();
        if let Err(error) = self.store.save(&self.name(id), &body) {
            self.warn(&error);
        }
    }

    fn load(&self, id: &str) -> Option<SavedSession> {
        let error = match self.store.load(&self.name(id)) {
            Ok(body) => match serde_json::from_slice(&body) {
                Ok(written) => return Some(written),
                Err(error) => error.to_string(),
            },
            Err(LoadError::Missing) => return None,
            Err(error) => error.to_string(),
        };
        tracing::debug!(error, "cannot restore session");
        None
    }

    pub(crate) fn remove(&self, id: &str) {
        let _ = self.store.remove(&self.name(id));
    }

    fn touch(&self, id: &str) {
        if let Err(error) = self.store.touch(&self.name(id)) {
            tracing::debug!(%error, "cannot mark saved session as used");
        }
    }

    /// Returns whether a saved session was used within `limit`.
    fn is_fresh(&self, id: &str, limit: Duration) -> bool {
        let name = self.name(id);
        let names = self.store.modified(&name);
        names.is_ok_and(|used| age(used, SystemTime::now()) <= limit)
    }

    /// Removes sessions that were not used for longer than `limit`, and those above the maximum
    /// number.
    pub(crate) fn sweep(&self, limit: Duration) {
        let (Ok(mut saved), now) = (self.store.names(), SystemTime::now()) else { return };
        saved.sort_by_key(|(name, used)| (std::cmp::Reverse(*used), name.clone()));
        let old = saved.iter().enumerate().filter(|(at, (_, used))| *at >= MOST || age(*used, now) > limit);
        let removed = old.filter(|(_, (name, _))| self.store.remove(name).is_ok()).count();
        if removed > 0 {
            tracing::debug!(removed, "expired sessions deleted");
        }
    }

    fn warn(&self, error: &io::Error) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "cannot save session");
        } else {
            tracing::warn!(%error, "cannot save sessions");
        }
    }

    fn holder(&self, setup: &Setup, caller: Caller) -> Option<String> {
        match caller {
            Caller::Anybody => Some(String::new()),
            Caller::Token(holder) => {
                let token = setup.token(holder)?;
                Some(self.store.keyed_hash("holder", token.secret.expose().as_bytes()))
            }
            // It ends with its pipe.
            Caller::Pipe => None,
        }
    }
}

/// Returns the time since `then`. A time in the future means that a clock was wrong, and counts as
/// no age.
fn age(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

impl Sessions {
    /// Saves a session if its saved state has changed. Returns when that is done.
    pub(crate) async fn save(&self, session: &Arc<ClientSession>) {
        let Some(saved) = self.saved.clone().filter(|_| session.is_lasting) else { return };
        let viewer = session.viewer();
        let Some(holder) = saved.holder(&self.setups.current(), viewer.caller) else { return };
        let session = Arc::clone(session);
        let save = move || {
            // One at a time, so that an older state does not replace a newer one.
            let is_forgotten = lock(&session.is_forgotten);
            // What was forgotten for good must not come back.
            if *is_forgotten {
                return;
            }
            let (tools, changes) = {
                let tools = lock(&session.tools);
                (tools.to_json(), tools.list_changes())
            };
            let written = SavedSession {
                holder,
                client: session.client.clone(),
                profile: session.profile.as_str().to_owned(),
                capabilities: session.capabilities.clone(),
                log_level: session.chosen_log_level(),
                subscriptions: lock(&session.subscriptions).iter().cloned().collect(),
                tools,
            };
            saved.save(&session.id, &written);
            session.saved.store(changes, Ordering::Relaxed);
        };
        let _ = tokio::task::spawn_blocking(save).await;
    }

    /// Saves a session, like [`save`](Self::save), if its tools differ from those on disk.
    pub(crate) async fn save_if_changed(&self, session: &Arc<ClientSession>) {
        let changes = lock(&session.tools).list_changes();
        if self.saved.is_some() && session.saved.load(Ordering::Relaxed) != changes {
            self.save(session).await;
        }
    }

    /// Restores the session with this id from disk, if it is there.
    pub(super) async fn restore(&self, id: &str, viewer: &Viewer, party: Party) -> Option<Arc<ClientSession>> {
        let saved = self.saved.clone().filter(|_| is_id(id))?;
        let limit = self.setups.current().session_keep;
        let name = id.to_owned();
        let load = move || saved.is_fresh(&name, limit).then(|| saved.load(&name)).flatten();
        let written = tokio::task::spawn_blocking(load).await.ok()??;
        let saved = self.saved.as_ref()?;
        // Whose it was; the token may have another number now.
        if saved.holder(&self.setups.current(), viewer.caller)? != written.holder {
            return None;
        }
        let profile = Profile::named(&written.profile)?;
        // The client will ask for the tools, and would wait there.
        self.startup.wait_until_ready(&self.setups.current()).await;
        let owner = SessionOwner { viewer: viewer.clone(), party, client: written.client };
        let mut beginning = self.session_start(owner, profile, profile.shape(), written.capabilities);
        if let Err(error) = beginning.tools.restore(&written.tools) {
            tracing::debug!(%error, "cannot restore the session's loaded tools");
        }
        let session = ClientSession::with_id(id, self.next_owner(), beginning);
        if let Some(level) = written.log_level {
            session.set_log_level(&level);
        }
        // Before it is there: it is the one that was used longest ago.
        for old in self.open.remove_surplus(self.setups.current().max_sessions.saturating_sub(1)) {
            self.log_end(&old, "session evicted for a newer one");
            self.end(&old);
        }
        let (session, is_new) = self.open.readmit(Arc::new(session));
        if is_new {
            self.resume_subscriptions(&session, written.subscriptions, party).await;
        }
        Some(session)
    }

    async fn resume_subscriptions(&self, session: &Arc<ClientSession>, followed: Vec<String>, party: Party) {
        tracing::info!(session = session.owner, client = session.client, "session resumed");
        let viewer = session.viewer();
        let announcing = {
            let mut uris = lock(&session.subscriptions);
            if session.has_ended() {
                return;
            }
            let is_admitted = |uri: &&String| {
                self.catalog.may_subscribe(&viewer, uri) && self.subscriptions.add_uri(&mut uris, uri, party).is_ok()
            };
            let admitted: Vec<&String> = followed.iter().filter(is_admitted).collect();
            self.subscriptions.subscribe(&viewer.selection, subscriber(session), admitted)
        };
        announcing.finished().await;
        self.refresh_session(session, &Difference::default());
        // The lists may have changed meanwhile without a notification to the client.
        for method in [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
        ] {
            session.announce(method);
        }
    }

    /// Marks a session as used, in memory and from time to time on disk.
    pub(crate) fn touch(&self, session: &Arc<ClientSession>) {
        if session.touch(TOUCH_INTERVAL)
            && session.is_lasting
            && let Some(saved) = self.saved.clone()
        {
            let id = session.id.clone();
            tokio::task::spawn_blocking(move || saved.touch(&id));
        }
    }

    /// Removes a session permanently, also from disk; the returned task, if any, ends when that is
    /// done. Must be called inside a runtime.
    pub(crate) fn forget(&self, session: &Arc<ClientSession>) -> Option<JoinHandle<()>> {
        self.end(session);
        let saved = self.saved.clone().filter(|_| session.is_lasting)?;
        let session = Arc::clone(session);
        Some(tokio::task::spawn_blocking(move || {
            let mut is_forgotten = lock(&session.is_forgotten);
            *is_forgotten = true;
            saved.remove(&session.id);
        }))
    }

    /// Removes unused sessions from disk. Must be called inside a runtime.
    pub(crate) fn sweep_saved(&self) {
        if let Some(saved) = self.saved.clone() {
            let limit = self.setups.current().session_keep;
            tokio::task::spawn_blocking(move || saved.sweep(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_makes_nothing_old() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(age(now - Duration::from_secs(5), now), Duration::from_secs(5));
        assert_eq!(age(now + Duration::from_secs(86_400), now), Duration::ZERO);
        assert_eq!(age(SystemTime::UNIX_EPOCH, now), Duration::from_secs(1_000_000));
    }
}
