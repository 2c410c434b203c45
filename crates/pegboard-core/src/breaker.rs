//! A circuit breaker for calls of a server.
//!
//! A server that fails every call costs each caller the whole time limit. After a few
//! failures in a row its calls are rejected at once, and after a pause one call may test
//! whether the server is back. An error that the server answers with is not a failure. The
//! caller passes the time, so that this needs no clock.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::locks::lock;

/// The thresholds of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row after which calls are refused; 0: never.
    pub failures: u32,
    /// How long after a failure another call may begin for its failure to count with it.
    pub window: Duration,
    /// How long calls are refused before one may try again.
    pub pause: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, window: Duration::from_secs(60), pause: Duration::from_secs(30) }
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls pass.
    #[default]
    Closed,
    /// Calls are rejected.
    Open,
    /// One call tests whether the server is back.
    HalfOpen,
}

impl BreakerState {
    /// Returns the name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// The error of a call that was not made because too many calls before it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Tripped {
    /// How many.
    pub failures: u32,
    /// What the last of them met with.
    pub reason: Arc<str>,
    /// How long until one may try again; `None` while one is trying.
    pub retry_in: Option<Duration>,
}

impl fmt::Display for Tripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failures, reason, retry_in } = self;
        let calls = if *failures == 1 { "call" } else { "calls" };
        write!(f, "circuit breaker open: the last {failures} {calls} failed ({reason})")?;
        match retry_in {
            Some(time) => write!(f, "; try again in {} s", time.as_secs_f32().ceil()),
            None => f.write_str("; a test call is running, try again later"),
        }
    }
}

/// Counts the failures of one server and rejects its calls after too many.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    count: Mutex<Count>,
}

#[derive(Debug, Default)]
struct Count {
    failures: u32,
    /// What the last of them was, and when.
    last: Option<(Arc<str>, Instant)>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Closed,
    Open {
        until: Instant,
    },
    /// A call is trying.
    Trying,
}

/// How the outcome of a call changed a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Calls are rejected from now on.
    Opened,
    /// Calls pass again.
    Closed,
    /// Nothing changed.
    None,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, count: Mutex::default() }
    }

    /// Admits a call, or rejects it.
    ///
    /// # Errors
    /// When too many have failed just before.
    pub fn admit(&self, now: Instant) -> Result<Pass<'_>, Tripped> {
        let mut count = lock(&self.count);
        let is_trying = match count.phase {
            Phase::Closed => false,
            Phase::Open { until } if until <= now => {
                count.phase = Phase::Trying;
                true
            }
            Phase::Open { until } => return Err(count.tripped(Some(until - now))),
            Phase::Trying => return Err(count.tripped(None)),
        };
        Ok(Pass { breaker: self, began: now, is_trying, is_done: false })
    }

    /// Returns the state at `now`, the number of failures in a row, and the time until a call may test.
    pub fn state_at(&self, now: Instant) -> (BreakerState, u32, Option<Duration>) {
        let count = lock(&self.count);
        match count.phase {
            Phase::Closed => (BreakerState::Closed, count.failures, None),
            Phase::Open { until } if until <= now => (BreakerState::HalfOpen, count.failures, None),
            Phase::Open { until } => (BreakerState::Open, count.failures, Some(until - now)),
            Phase::Trying => (BreakerState::HalfOpen, count.failures, None),
        }
    }

    fn record_failure(&self, pass: &Pass<'_>, reason: Arc<str>, now: Instant) -> Transition {
        let mut count = lock(&self.count);
        let is_in_a_row = count.last.as_ref().is_some_and(|(_, last)| pass.began <= *last + self.settings.window);
        count.failures = if is_in_a_row || pass.is_trying { count.failures.saturating_add(1) } else { 1 };
        count.last = Some((reason, now));
        let is_over = self.settings.failures > 0 && count.failures >= self.settings.failures;
        match count.phase {
            // Calls that were under way when it opened say nothing new.
            Phase::Open { .. } => Transition::None,
            Phase::Trying if !pass.is_trying => Transition::None,
            Phase::Closed if !is_over => Transition::None,
            Phase::Closed | Phase::Trying => {
                count.phase = Phase::Open { until: now + self.settings.pause };
                Transition::Opened
            }
        }
    }

    fn record_success(&self) -> Transition {
        let mut count = lock(&self.count);
        let was_closed = matches!(count.phase, Phase::Closed);
        *count = Count::default();
        if was_closed { Transition::None } else { Transition::Closed }
    }

    /// Lets another call test the server.
    fn release_test(&self, now: Instant) {
        lock(&self.count).phase = Phase::Open { until: now };
    }
}

impl Count {
    fn tripped(&self, retry_in: Option<Duration>) -> Tripped {
        let reason = self.last.as_ref().map(|(reason, _)| Arc::clone(reason)).unwrap_or_default();
        Tripped { failures: self.failures, reason, retry_in }
    }
}

/// Permission for one call. A permission that is dropped without an outcome does not count: the caller gave up, or the
/// call did not reach the server.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    began: Instant,
    is_trying: bool,
    is_done: bool,
}

impl Pass<'_> {
    /// Counts a call as answered, or as failed for a reason.
    pub fn record(mut self, failure: Option<Arc<str>>, now: Instant) -> Transition {
        self.is_done = true;
        match failure {
            Some(reason) => self.breaker.record_failure(&self, reason, now),
            None => self.breaker.record_success(),
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_trying && !self.is_done {
            self.breaker.release_test(self.began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings =
        BreakerSettings { failures: 3, window: Duration::from_secs(60), pause: Duration::from_secs(30) };

    /// Plays calls, each as `SECOND:OUTCOME`: `+` answered, `x` failed, `-` given up. The expected texts: `.` passed,
    /// `!` passed and opened the breaker, `*` passed and closed it, else the rejection.
    #[track_caller]
    fn check(settings: BreakerSettings, calls: &str, expected: &str) {
        let (breaker, start) = (Breaker::new(settings), Instant::now());
        let mut found = Vec::new();
        for call in calls.split_whitespace() {
            let (second, outcome) = call.split_once(':').expect("SECOND:OUTCOME");
            let now = start + Duration::from_secs(second.parse().expect("a number"));
            let failure = match outcome {
                "+" => None,
                "x" => Some("gone".into()),
                _ => {
                    drop(breaker.admit(now));
                    continue;
                }
            };
            found.push(match breaker.admit(now).map(|pass| pass.record(failure, now)) {
                Ok(Transition::None) => ".".to_owned(),
                Ok(Transition::Opened) => "!".to_owned(),
                Ok(Transition::Closed) => "*".to_owned(),
                Err(rejection) => rejection.to_string(),
            });
        }
        assert_eq!(found.join(" "), expected, "{calls}");
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        check(
            SETTINGS,
            "0:x 1:x 2:x 3:+ 30:+",
            ". . ! circuit breaker open: the last 3 calls failed (gone); try again in 29 s circuit breaker open: the last \
             3 calls failed (gone); try again in 2 s",
        );
        check(SETTINGS, "0:x 1:x 2:+ 3:x 4:x 5:+", ". . . . . .");
    }

    #[test]
    fn failures_far_apart_are_not_in_a_row() {
        check(SETTINGS, "0:x 61:x 122:x 183:x", ". . . .");
        check(SETTINGS, "0:x 60:x 120:x", ". . !");
    }

    #[test]
    fn one_call_tests_after_the_pause() {
        let rejected = "circuit breaker open: the last 4 calls failed (gone); try again";
        check(SETTINGS, "0:x 0:x 0:x 30:x 31:+ 60:+ 61:x 61:x", &format!(". . ! ! {rejected} in 29 s * . ."));
    }

    #[test]
    fn a_test_that_is_given_up_leaves_it_to_the_next_call() {
        check(SETTINGS, "0:x 0:x 0:x 31:- 31:- 31:+ 32:+", ". . ! * .");
    }

    #[test]
    fn zero_failures_switch_it_off() {
        let never = BreakerSettings { failures: 0, ..SETTINGS };
        check(never, "0:x 0:x 0:x 0:x 0:x 0:x", ". . . . . .");
        check(BreakerSettings { failures: 1, ..SETTINGS }, "0:x", "!");
    }

    #[test]
    fn other_calls_are_rejected_while_one_tests() {
        let (breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        let lost = || Some(Arc::from("gone"));
        let early = breaker.admit(start).expect("it is closed");
        for _ in 0..3 {
            breaker.admit(start).expect("it is closed").record(lost(), start);
        }
        assert_eq!(breaker.state_at(start), (BreakerState::Open, 3, Some(SETTINGS.pause)));
        let later = start + SETTINGS.pause;
        assert_eq!(breaker.state_at(later), (BreakerState::HalfOpen, 3, None));
        let testing = breaker.admit(later).expect("one may test");
        let rejection = breaker.admit(later).expect_err("one alone");
        assert_eq!(rejection.retry_in, None);
        // A call that began long before and fails now does not end the test.
        assert_eq!(early.record(lost(), later), Transition::None);
        assert_eq!(breaker.state_at(later).0, BreakerState::HalfOpen);
        assert_eq!(testing.record(None, later), Transition::Closed);
        assert_eq!(breaker.state_at(later), (BreakerState::Closed, 0, None));
    }
}
