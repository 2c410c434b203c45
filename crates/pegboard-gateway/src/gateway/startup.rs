//! How the servers start, and how long clients wait for them.

use std::{sync::Arc, time::Duration};

use super::Gateway;

/// How long a greeting waits for servers, so that it can say what there is.
const GREETING_WAIT: Duration = Duration::from_secs(2);

/// How long servers wait at most for what is known of them from before.
const RECALLING: Duration = Duration::from_secs(2);

/// How much earlier than those servers the first client is served.
const HEAD_START: Duration = Duration::from_millis(250);

impl Gateway {
    /// Waits until every server works or has failed for the first time, at most as long as
    /// the settings say.
    pub async fn ready(&self) {
        self.wait_ready(self.setup().startup_wait).await;
    }

    /// [`ready`](Self::ready) for a greeting, which must not take long.
    pub(crate) async fn almost_ready(&self) {
        self.wait_ready(self.setup().startup_wait.min(GREETING_WAIT)).await;
    }

    async fn wait_ready(&self, limit: Duration) {
        if !self.is_started() {
            let _ = tokio::time::timeout(limit, self.started.subscribe().wait_for(|started| *started)).await;
        }
    }

    /// Whether the servers have had their time to start.
    pub(crate) fn is_started(&self) -> bool {
        *self.started.borrow()
    }

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
    gateway.started.send_replace(true);
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
