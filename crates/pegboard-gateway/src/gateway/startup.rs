//! How the servers start, and what is done now and then while the gateway lives.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::Gateway;

/// How long servers wait at most for what is known of them from before.
const RECALLING: Duration = Duration::from_secs(2);

/// How much earlier than those servers the first client is served.
const HEAD_START: Duration = Duration::from_millis(250);

/// How often unused sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// After how many such rounds those on the disk are looked at too.
const ROUNDS_PER_SWEEP_OF_DISK: u64 = 20;

impl Gateway {
    /// Waits until everything that the fleet has told of is taken in.
    async fn caught_up(&self) {
        let changes = *self.fleet.changes().borrow();
        self.intake.reached(changes).await;
    }
}

/// Gives the servers their time to start.
pub(super) async fn start_up(gateway: Arc<Gateway>) {
    let limit = gateway.setup().startup_wait;
    tokio::spawn(hold_back(Arc::clone(&gateway)));
    let all = async {
        gateway.fleet.listed(limit).await;
        gateway.caught_up().await;
    };
    // Listing what there is takes a moment as well.
    let _ = tokio::time::timeout(limit + Duration::from_secs(1), all).await;
    gateway.startup.end();
    log_unmatched(&gateway);
}

/// Names the patterns of selections that allow nothing: what they were meant for is hidden.
fn log_unmatched(gateway: &Gateway) {
    let (setup, catalog) = (gateway.setup(), gateway.catalog.catalog());
    let of_tokens = setup.tokens.iter().map(|token| (token.name.as_str(), &token.selection));
    for (token, selection) in of_tokens.chain([("", &setup.selection)]) {
        for unmatched in selection.unmatched(&catalog) {
            tracing::warn!(token, "selection entry without effect: {unmatched}");
        }
    }
}

/// Lets servers that are known from before start a little later: programs that start all at
/// once leave the first client little of the processor.
async fn hold_back(gateway: Arc<Gateway>) {
    let known = async {
        gateway.fleet.recalled(RECALLING).await;
        gateway.caught_up().await;
    };
    let _ = tokio::time::timeout(RECALLING, known).await;
    tokio::time::sleep(HEAD_START).await;
    gateway.fleet.begin();
}

/// Forgets sessions that nobody uses.
pub(super) async fn sweep(gateway: Weak<Gateway>) {
    let mut rounds = 0_u64;
    loop {
        let Some(limit) = gateway.upgrade().map(|gateway| {
            if rounds.is_multiple_of(ROUNDS_PER_SWEEP_OF_DISK) {
                gateway.sessions.sweep_kept();
            }
            gateway.setup().session_idle
        }) else {
            return;
        };
        rounds += 1;
        tokio::time::sleep(SWEEP.min(limit)).await;
        let Some(gateway) = gateway.upgrade() else { return };
        gateway.sessions.expire(limit);
    }
}
