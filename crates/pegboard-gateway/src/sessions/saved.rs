//! Conversations that can be found again: after their place was needed, and after a restart.
//!
//! A conversation is written when what it has loaded changes, before its client hears of
//! that. So a gateway that is killed at any moment has lost nothing that a client knows of.

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
use pegboard_state::{Kind, LoadError, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{
    caller::{Caller, Viewer},
    catalog::directory::Difference,
    ids::is_id,
    lock,
    sessions::{ClientSession, Sessions, begin::Owner},
    settings::Profile,
    setup::Setup,
    shares::Party,
};

const KIND: Kind = Kind { name: "session", version: 1, max_bytes: 512 << 10 };

/// Maximum number of saved sessions; the least recently used ones are deleted first.
const MOST: usize = 10_000;

/// How old the mark of a conversation's last use may get before it is renewed: a write for
/// every request would be one too many.
const MARKED_FOR: Duration = Duration::from_secs(60);

/// What is written of a conversation.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    /// Whose it is; nobody learns a token from it.
    holder: String,
    client: String,
    profile: String,
    capabilities: Raw,
    log_level: Option<String>,
    subscriptions: Vec<String>,
    tools: Value,
}

/// The conversations on the disk.
#[derive(Debug)]
pub(crate) struct KeptSessions {
    store: Store,
    has_warned: AtomicBool,
}

impl KeptSessions {
    /// Opens the folder; `None` when nothing can be kept there, after a warning.
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

    /// Nothing in the folder names a conversation: whoever could read it could go on with it.
    fn name(&self, id: &str) -> String {
        self.store.mark("name", id.as_bytes())
    }

    fn save(&self, id: &str, written: &Written) {
        let body = serde_json::to_vec(written).unwrap_or_default();
        if let Err(error) = self.store.save(&self.name(id), &body) {
            self.warn(&error);
        }
    }

    fn load(&self, id: &str) -> Option<Written> {
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

    /// Whether what was saved under `name` was used within `limit`.
    fn is_fresh(&self, id: &str, limit: Duration) -> bool {
        let name = self.name(id);
        let names = self.store.modified(&name);
        names.is_ok_and(|used| age(used, SystemTime::now()) <= limit)
    }

    /// Removes what nobody has used for longer than `limit`, and what is too much.
    pub(crate) fn sweep(&self, limit: Duration) {
        let (Ok(mut kept), now) = (self.store.names(), SystemTime::now()) else { return };
        kept.sort_by_key(|(name, used)| (std::cmp::Reverse(*used), name.clone()));
        let old = kept.iter().enumerate().filter(|(at, (_, used))| *at >= MOST || age(*used, now) > limit);
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
                Some(self.store.mark("holder", token.secret.expose().as_bytes()))
            }
            // It ends with its pipe.
            Caller::Pipe => None,
        }
    }
}

/// How long ago something was. What is from the future says that a clock was wrong, and
/// nothing of its age.
fn age(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

impl Sessions {
    /// Writes a session if something of it has changed that is to be found again. Returns when
    /// that is done.
    pub(crate) async fn keep(&self, session: &Arc<ClientSession>) {
        let Some(kept) = self.kept.clone().filter(|_| session.is_lasting) else { return };
        let viewer = session.viewer();
        let Some(holder) = kept.holder(&self.setups.current(), viewer.caller) else { return };
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
            let written = Written {
                holder,
                client: session.client.clone(),
                profile: session.profile.as_str().to_owned(),
                capabilities: session.capabilities.clone(),
                log_level: session.chosen_log_level(),
                subscriptions: lock(&session.subscriptions).iter().cloned().collect(),
                tools,
            };
            kept.save(&session.id, &written);
            session.saved.store(changes, Ordering::Relaxed);
        };
        let _ = tokio::task::spawn_blocking(save).await;
    }

    /// [`keep`](Self::keep) if the tools of the session are others than those on the disk.
    pub(crate) async fn keep_if_changed(&self, session: &Arc<ClientSession>) {
        let changes = lock(&session.tools).list_changes();
        if self.kept.is_some() && session.saved.load(Ordering::Relaxed) != changes {
            self.keep(session).await;
        }
    }

    /// The session with this name from the disk, if it is there.
    pub(super) async fn recall(&self, id: &str, viewer: &Viewer, party: Party) -> Option<Arc<ClientSession>> {
        let kept = self.kept.clone().filter(|_| is_id(id))?;
        let limit = self.setups.current().session_keep;
        let name = id.to_owned();
        let load = move || kept.is_fresh(&name, limit).then(|| kept.load(&name)).flatten();
        let written = tokio::task::spawn_blocking(load).await.ok()??;
        let kept = self.kept.as_ref()?;
        // Whose it was; the token may have another number now.
        if kept.holder(&self.setups.current(), viewer.caller)? != written.holder {
            return None;
        }
        let profile = Profile::named(&written.profile)?;
        // The client will ask for the tools, and would wait there.
        self.startup.ready(&self.setups.current()).await;
        let owner = Owner { viewer: viewer.clone(), party, client: written.client };
        let mut beginning = self.beginning(owner, profile, profile.shape(), written.capabilities);
        if let Err(error) = beginning.tools.restore(&written.tools) {
            tracing::debug!(%error, "cannot restore the session's loaded tools");
        }
        let session = ClientSession::again(id, self.next_owner(), beginning);
        if let Some(level) = written.log_level {
            session.set_log_level(&level);
        }
        // Before it is there: it is the one that was used longest ago.
        for old in self.open.surplus(self.setups.current().max_sessions.saturating_sub(1)) {
            self.log_end(&old, "session evicted for a newer one");
            self.end(&old);
        }
        let (session, is_new) = self.open.readmit(Arc::new(session));
        if is_new {
            self.welcome_back(&session, written.subscriptions, party).await;
        }
        Some(session)
    }

    async fn welcome_back(&self, session: &Arc<ClientSession>, followed: Vec<String>, party: Party) {
        tracing::info!(session = session.owner, client = session.client, "session resumed");
        let viewer = session.viewer();
        for uri in followed.into_iter().filter(|uri| self.catalog.may_follow(&viewer, uri)) {
            let is_admitted = self.subscriptions.admit(&mut lock(&session.subscriptions), &uri, party).is_ok();
            if is_admitted {
                self.subscriptions.follow(&viewer.selection, &uri).await;
            }
        }
        self.renew_one(session, &self.catalog.catalog(), &Difference::default());
        // Whatever happened to the lists meanwhile, nobody has told the client.
        for method in [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
        ] {
            session.announce(method);
        }
    }

    /// Marks a session as used, in memory and now and then on the disk.
    pub(crate) fn touch(&self, session: &Arc<ClientSession>) {
        if session.touch(MARKED_FOR)
            && session.is_lasting
            && let Some(kept) = self.kept.clone()
        {
            let id = session.id.clone();
            tokio::task::spawn_blocking(move || kept.touch(&id));
        }
    }

    /// Forgets a session for good, also on the disk; the task, if there is one, ends when that is
    /// done. Must be called inside a runtime.
    pub(crate) fn forget(&self, session: &Arc<ClientSession>) -> Option<JoinHandle<()>> {
        self.end(session);
        let kept = self.kept.clone().filter(|_| session.is_lasting)?;
        let session = Arc::clone(session);
        Some(tokio::task::spawn_blocking(move || {
            let mut is_forgotten = lock(&session.is_forgotten);
            *is_forgotten = true;
            kept.remove(&session.id);
        }))
    }

    /// Looks for sessions on the disk that nobody came back to. Must be called inside a runtime.
    pub(crate) fn sweep_kept(&self) {
        if let Some(kept) = self.kept.clone() {
            let limit = self.setups.current().session_keep;
            tokio::task::spawn_blocking(move || kept.sweep(limit));
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
