//! How far changes at the servers and in the settings were taken in.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The changes that were applied so far.
#[derive(Debug, Default)]
pub(crate) struct RefreshProgress {
    /// The number of the setup that was applied last.
    applied: AtomicU64,
    /// The count of fleet changes that the directory includes.
    built: watch::Sender<u64>,
}

impl RefreshProgress {
    /// Records that this setup is applied; `false` if it already was.
    pub(crate) fn switch_setup(&self, setup: u64) -> bool {
        self.applied.swap(setup, Ordering::Relaxed) != setup
    }

    /// Records that the directory includes this count of changes.
    pub(crate) fn mark_done(&self, changes: u64) {
        self.built.send_replace(changes);
    }

    /// Waits until the directory includes this count of changes.
    pub(crate) async fn wait_until_reached(&self, changes: u64) {
        let _ = self.built.subscribe().wait_for(|built| *built >= changes).await;
    }
}
