//! How conversations end.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::Gateway;
use crate::{lock, sessions::ClientSession};

/// How often unused conversations are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// After how many such rounds those on the disk are looked at too.
const ROUNDS_PER_SWEEP_OF_DISK: u64 = 20;

impl Gateway {
    /// Forgets a conversation and what it had asked for. Must be called inside a runtime.
    pub(crate) fn end_session(self: &Arc<Self>, session: &ClientSession) {
        session.close();
        self.unwatch(std::mem::take(&mut *lock(&session.subscriptions)));
    }

    /// Looks now and then for conversations on the disk that nobody came back to. Must be called
    /// inside a runtime.
    fn sweep_kept(&self, rounds: u64) {
        if rounds.is_multiple_of(ROUNDS_PER_SWEEP_OF_DISK)
            && let Some(kept) = self.kept.clone()
        {
            let limit = self.setup().session_keep;
            tokio::task::spawn_blocking(move || kept.sweep(limit));
        }
    }
}

/// Forgets conversations that nobody uses.
pub(super) async fn sweep(gateway: Weak<Gateway>) {
    let mut rounds = 0_u64;
    loop {
        let Some(limit) = gateway.upgrade().map(|gateway| {
            gateway.sweep_kept(rounds);
            gateway.setup().session_idle
        }) else {
            return;
        };
        rounds += 1;
        tokio::time::sleep(SWEEP.min(limit)).await;
        let Some(gateway) = gateway.upgrade() else { return };
        for session in gateway.sessions.expire(limit) {
            tracing::debug!(session = session.owner, "a conversation is forgotten");
            gateway.end_session(&session);
        }
    }
}
