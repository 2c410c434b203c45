//! The start of the servers, and periodic tasks.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::Gateway;

/// How long servers wait at most for cached tool lists.
const RECALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long servers with cached tool lists are delayed for the first client.
const HEAD_START: Duration = Duration::from_millis(250);

/// The interval of the search for unused sessions.
const SWEEP: Duration = Duration::from_secs(30);

/// Number of rounds after which saved sessions are searched too.
const ROUNDS_PER_SWEEP_OF_DISK: u64 = 20;

impl Gateway {
    /// Waits until all changes of the fleet are applied.
    async fn wait_until_caught_up(&self) {
        let changes = *self.fleet.changes().borrow();
        self.progress.wait_until_reached(changes).await;
    }
}

/// Waits for the servers to start.
pub(super) async fn wait_for_startup(gateway: Arc<Gateway>) {
    let limit = gateway.setup().startup_wait;
    tokio::spawn(delay_known_servers(Arc::clone(&gateway)));
    let all = async {
        gateway.fleet.wait_until_listed(limit).await;
        gateway.wait_until_caught_up().await;
    };
    // Listing what there is takes a moment as well.
    let _ = tokio::time::timeout(limit + Duration::from_secs(1), all).await;
    gateway.startup.end();
    log_unmatched(&gateway);
}

/// Logs the patterns of selections that match nothing.
fn log_unmatched(gateway: &Gateway) {
    let (setup, catalog) = (gateway.setup(), gateway.catalog.catalog());
    let of_tokens = setup.tokens.iter().map(|token| (token.name.as_str(), &token.selection));
    for (token, selection) in of_tokens.chain([("", &setup.selection)]) {
        for unmatched in selection.unmatched(&catalog) {
            tracing::warn!(token, "selection entry without effect: {unmatched}");
        }
    }
}

/// Starts servers with cached tool lists a little later: programs that start all at once leave the
/// first client little processor time.
async fn delay_known_servers(gateway: Arc<Gateway>) {
    let known = async {
        gateway.fleet.recalled(RECALL_TIMEOUT).await;
        gateway.wait_until_caught_up().await;
    };
    let _ = tokio::time::timeout(RECALL_TIMEOUT, known).await;
    tokio::time::sleep(HEAD_START).await;
    gateway.fleet.begin();
}

/// Drops unused sessions, and results that were kept long enough.
pub(super) async fn sweep_sessions(gateway: Weak<Gateway>) {
    let mut rounds = 0_u64;
    loop {
        let Some(limit) = gateway.upgrade().map(|gateway| {
            if rounds.is_multiple_of(ROUNDS_PER_SWEEP_OF_DISK) {
                gateway.sessions.sweep_saved();
            }
            gateway.setup().session_idle
        }) else {
            return;
        };
        rounds += 1;
        tokio::time::sleep(SWEEP.min(limit)).await;
        let Some(gateway) = gateway.upgrade() else { return };
        gateway.sessions.expire(limit);
        gateway.entrance.pipeline.forwarder.suspended().sweep();
        gateway.results.sweep(gateway.setup().offload.as_ref());
    }
}
