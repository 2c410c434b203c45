//! Changes that a server announces: lists and watched resources.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use pegboard_core::locks::lock;
use pegboard_mcp::json::Fields;
use tokio::sync::{Notify, watch};

use crate::listing::ListKind;

/// List changes that were not handled yet, and the watched resources.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Lists that have changed and were not read again yet. Kept apart from other notifications, so
    /// that a flood of those cannot displace one.
    changed: Mutex<BTreeSet<ListKind>>,
    changes: Notify,
    /// Signals that updates of resources were missed.
    missed: Notify,
    /// How often the server has accepted a subscription.
    agreements: watch::Sender<u64>,
    /// The resources for which the server has accepted a subscription.
    watching: watch::Sender<BTreeSet<String>>,
}

impl News {
    /// Records changed lists.
    pub(crate) fn lists_changed(&self, kinds: &[ListKind]) {
        lock(&self.changed).extend(kinds);
        self.changes.notify_one();
    }

    /// Records that the server could not announce anything for a while.
    pub(crate) fn missed(&self) {
        self.lists_changed(&ListKind::ALL);
        self.missed.notify_one();
    }

    /// Waits until updates of resources were missed.
    pub(crate) async fn missed_updates(&self) {
        self.missed.notified().await;
    }

    /// Waits until lists have changed, and returns their kinds.
    pub(crate) async fn changed_lists(&self) -> BTreeSet<ListKind> {
        loop {
            let changed = std::mem::take(&mut *lock(&self.changed));
            if !changed.is_empty() {
                return changed;
            }
            self.changes.notified().await;
        }
    }

    /// Records the subscription that the server has accepted.
    pub(super) fn agreed(&self, to: &Fields) {
        self.watching.send_replace(to.read("resourceSubscriptions").unwrap_or_default());
        self.agreements.send_modify(|agreements| *agreements += 1);
    }

    /// Returns a count that grows with each accepted subscription.
    pub(crate) fn agreements(&self) -> watch::Receiver<u64> {
        self.agreements.subscribe()
    }

    /// Waits until the server has accepted a subscription to these resources, at most `limit`, since a
    /// server may decline.
    pub(crate) async fn watching(&self, uris: &BTreeSet<String>, limit: Duration) {
        let mut watching = self.watching.subscribe();
        let has_all = |agreed: &BTreeSet<String>| uris.is_subset(agreed);
        let _ = tokio::time::timeout(limit, watching.wait_for(has_all)).await;
    }
}
