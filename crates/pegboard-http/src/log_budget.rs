//! Rate limits for log lines that clients can cause, so that a flood of requests does not fill the
//! disk.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The interval of a budget.
const INTERVAL: Duration = Duration::from_secs(10);

/// A maximum number of log lines per interval; suppressed lines are counted.
#[derive(Debug)]
pub struct LogBudget {
    lines: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    began: Option<Instant>,
    used: u32,
    unlogged: u64,
}

impl LogBudget {
    /// A budget of `lines` in ten seconds.
    pub fn new(lines: u32) -> Self {
        Self { lines, state: Mutex::default() }
    }

    /// Returns the number of suppressed lines since the last one if another line may be logged.
    pub fn take(&self) -> Option<u64> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.began.is_none_or(|began| now.saturating_duration_since(began) >= INTERVAL) {
            (state.began, state.used) = (Some(now), 0);
        }
        if state.used >= self.lines {
            state.unlogged += 1;
            return None;
        }
        state.used += 1;
        Some(std::mem::take(&mut state.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted() {
        let budget = LogBudget::new(2);
        let start = Instant::now();
        let at = |seconds: u64| budget.take_at(start + Duration::from_secs(seconds));
        let found = [at(0), at(1), at(2), at(9), at(10), at(11), at(12), at(20)];
        assert_eq!(found, [Some(0), Some(0), None, None, Some(2), Some(0), None, Some(1)]);
    }
}
