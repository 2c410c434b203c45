//! Rate limits for restarts on request.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use tokio::time::Instant;

use crate::lock;

/// The minimum time between two restarts of a server.
const INTERVAL: Duration = Duration::from_secs(1);

/// The times of the last restarts on request. There are never more than configured servers.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    last: Mutex<HashMap<String, Instant>>,
}

impl Restarts {
    /// Returns whether a server may be restarted now, and records the restart.
    pub(super) fn admit(&self, server: &str, now: Instant) -> bool {
        let mut last = lock(&self.last);
        last.retain(|_, then| now.saturating_duration_since(*then) < INTERVAL);
        match last.contains_key(server) {
            true => false,
            false => last.insert(server.to_owned(), now).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_in_a_while() {
        let restarts = Restarts::default();
        let start = Instant::now();
        let at = |server: &str, ms: u64| restarts.admit(server, start + Duration::from_millis(ms));
        let found = [at("a", 0), at("a", 1), at("b", 1), at("a", 999), at("a", 1000), at("a", 1500), at("b", 1500)];
        assert_eq!(found, [true, false, true, false, true, false, true]);
        assert_eq!(lock(&restarts.last).len(), 2);
    }
}
