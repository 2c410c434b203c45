//! What a server has agreed to tell of without being asked.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use pegboard_core::locks::lock;
use pegboard_mcp::json::Fields;
use tokio::sync::{Notify, watch};

use crate::listing::ListKind;

/// Changes of lists that nobody has looked at yet, and the resources that are watched.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Lists that have changed and were not asked for again yet. Kept apart from other news,
    /// so that no flood of those can wash one away.
    changed: Mutex<BTreeSet<ListKind>>,
    changes: Notify,
    /// How often the server has agreed to be listened to.
    agreements: watch::Sender<u64>,
    /// The resources whose updates the server has agreed to tell of.
    watching: watch::Sender<BTreeSet<String>>,
}

impl News {
    /// Notes that lists have changed.
    pub(crate) fn lists_changed(&self, kinds: &[ListKind]) {
        lock(&self.changed).extend(kinds);
        self.changes.notify_one();
    }

    /// Waits until lists have changed; which.
    pub(crate) async fn changed_lists(&self) -> BTreeSet<ListKind> {
        loop {
            let changed = std::mem::take(&mut *lock(&self.changed));
            if !changed.is_empty() {
                return changed;
            }
            self.changes.notified().await;
        }
    }

    /// Notes what the server has agreed to, once it is listened to.
    pub(super) fn agreed(&self, to: &Fields) {
        self.watching.send_replace(to.read("resourceSubscriptions").unwrap_or_default());
        self.agreements.send_modify(|agreements| *agreements += 1);
    }

    /// Returns a count that grows whenever the server agrees to be listened to.
    pub(crate) fn agreements(&self) -> watch::Receiver<u64> {
        self.agreements.subscribe()
    }

    /// Waits until the server has agreed to tell of these resources, at most `limit`: it need
    /// not agree.
    pub(crate) async fn watching(&self, uris: &[String], limit: Duration) {
        let mut watching = self.watching.subscribe();
        let has_all = |agreed: &BTreeSet<String>| uris.iter().all(|uri| agreed.contains(uri));
        let _ = tokio::time::timeout(limit, watching.wait_for(has_all)).await;
    }
}
