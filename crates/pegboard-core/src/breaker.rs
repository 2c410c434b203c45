//! Leaving a server alone that does not answer.
//!
//! A server that fails every call costs each caller the whole time limit. After a few
//! failures in a row its calls are refused at once, and after a pause one call may try
//! whether it is back. What a server answers, be it a refusal, is no failure here.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

use crate::{connection::CallError, locks::lock};

/// When calls of a server are refused.
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

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// It lets them pass.
    #[default]
    Closed,
    /// It refuses them.
    Open,
    /// It lets one of them try.
    HalfOpen,
}

impl BreakerState {
    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// Why a call was not made: too many before it have failed.
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

/// Counts the failures of one server.
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

/// What a change of phase is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Calls are refused from now on.
    Opened,
    /// Calls pass again.
    Closed,
    /// As before.
    None,
}

impl Breaker {
    /// One that lets calls pass.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, count: Mutex::default() }
    }

    /// Lets a call pass, or refuses it.
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
            Phase::Open { until } => return Err(count.refusal(Some(until - now))),
            Phase::Trying => return Err(count.refusal(None)),
        };
        Ok(Pass { breaker: self, began: now, is_trying, is_done: false })
    }

    /// What it does now, after how many failures, and until when at the latest.
    pub fn look(&self, now: Instant) -> (BreakerState, u32, Option<Duration>) {
        let count = lock(&self.count);
        match count.phase {
            Phase::Closed => (BreakerState::Closed, count.failures, None),
            Phase::Open { until } if until <= now => (BreakerState::HalfOpen, count.failures, None),
            Phase::Open { until } => (BreakerState::Open, count.failures, Some(until - now)),
            Phase::Trying => (BreakerState::HalfOpen, count.failures, None),
        }
    }

    fn failed(&self, pass: &Pass<'_>, reason: Arc<str>, now: Instant) -> Turn {
        let mut count = lock(&self.count);
        let is_in_a_row = count.last.as_ref().is_some_and(|(_, last)| pass.began <= *last + self.settings.window);
        count.failures = if is_in_a_row || pass.is_trying { count.failures.saturating_add(1) } else { 1 };
        count.last = Some((reason, now));
        let is_over = self.settings.failures > 0 && count.failures >= self.settings.failures;
        match count.phase {
            // Calls that were under way when it opened say nothing new.
            Phase::Open { .. } => Turn::None,
            Phase::Trying if !pass.is_trying => Turn::None,
            Phase::Closed if !is_over => Turn::None,
            Phase::Closed | Phase::Trying => {
                count.phase = Phase::Open { until: now + self.settings.pause };
                Turn::Opened
            }
        }
    }

    fn answered(&self) -> Turn {
        let mut count = lock(&self.count);
        let was_closed = matches!(count.phase, Phase::Closed);
        *count = Count::default();
        if was_closed { Turn::None } else { Turn::Closed }
    }

    /// Lets another call try.
    fn given_up(&self, now: Instant) {
        lock(&self.count).phase = Phase::Open { until: now };
    }
}

impl Count {
    fn refusal(&self, retry_in: Option<Duration>) -> Tripped {
        let reason = self.last.as_ref().map(|(reason, _)| Arc::clone(reason)).unwrap_or_default();
        Tripped { failures: self.failures, reason, retry_in }
    }
}

/// A call that may be made. Dropped without an outcome it counts for nothing: whoever made
/// it has lost interest, or it never got as far as the server.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    began: Instant,
    is_trying: bool,
    is_done: bool,
}

impl Pass<'_> {
    /// Counts the outcome of the call.
    pub(crate) fn finish<T>(self, outcome: &Result<T, CallError>, now: Instant) -> Turn {
        let failure = outcome.as_ref().err().filter(|error| is_failure(error));
        self.settle(failure.map(|error| error.to_string().into()), now)
    }

    /// Counts a call as answered, or as failed for a reason.
    pub fn settle(mut self, failure: Option<Arc<str>>, now: Instant) -> Turn {
        self.is_done = true;
        match failure {
            Some(reason) => self.breaker.failed(&self, reason, now),
            None => self.breaker.answered(),
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_trying && !self.is_done {
            self.breaker.given_up(self.began);
        }
    }
}

/// Whether a call went unanswered. A server that says no is there.
fn is_failure(error: &CallError) -> bool {
    match error {
        CallError::Timeout(_) | CallError::Closed(_) | CallError::Unreachable(_) => true,
        CallError::Status { status } => *status >= 500,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;

    const SETTINGS: BreakerSettings =
        BreakerSettings { failures: 3, window: Duration::from_secs(60), pause: Duration::from_secs(30) };

    /// Plays calls, each as `SECOND:OUTCOME`: `+` answered, `r` refused by the server, `c`
    /// not found, `s` a broken server, `x` closed, `t` a time limit, `-` given up. What
    /// became of each: `.` passed, `!` passed and opened it, `*` passed and closed it, else
    /// the refusal.
    #[track_caller]
    fn check(settings: BreakerSettings, calls: &str, expected: &str) {
        let (breaker, start) = (Breaker::new(settings), Instant::now());
        let mut found = Vec::new();
        for call in calls.split_whitespace() {
            let (second, outcome) = call.split_once(':').expect("SECOND:OUTCOME");
            let now = start + Duration::from_secs(second.parse().expect("a number"));
            let outcome: Result<(), CallError> = match outcome {
                "+" => Ok(()),
                "r" => Err(CallError::Rpc(RpcError::new(RpcError::INTERNAL, "no"))),
                "c" => Err(CallError::Status { status: 404 }),
                "s" => Err(CallError::Status { status: 503 }),
                "x" => Err(CallError::Closed("gone".into())),
                "t" => Err(CallError::Timeout(Duration::from_secs(1))),
                _ => {
                    drop(breaker.admit(now));
                    continue;
                }
            };
            found.push(match breaker.admit(now).map(|pass| pass.finish(&outcome, now)) {
                Ok(Turn::None) => ".".to_owned(),
                Ok(Turn::Opened) => "!".to_owned(),
                Ok(Turn::Closed) => "*".to_owned(),
                Err(refusal) => refusal.to_string(),
            });
        }
        assert_eq!(found.join(" "), expected, "{calls}");
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        check(
            SETTINGS,
            "0:x 1:t 2:s 3:+ 30:+",
            ". . ! circuit breaker open: the last 3 calls failed (the server answered with HTTP status 503); try again in \
             29 s circuit breaker open: the last 3 calls failed (the server answered with HTTP status 503); try again \
             in 2 s",
        );
    }

    #[test]
    fn answers_of_any_kind_are_no_failures() {
        check(SETTINGS, "0:x 1:x 2:+ 3:x 4:x 5:r 6:x 7:x 8:c 9:x", ". . . . . . . . . .");
    }

    #[test]
    fn failures_far_apart_are_not_in_a_row() {
        check(SETTINGS, "0:x 61:x 122:x 183:x", ". . . .");
        check(SETTINGS, "0:x 60:x 120:x", ". . !");
    }

    #[test]
    fn one_call_tries_after_the_pause() {
        let refused = "circuit breaker open: the last 4 calls failed (the server is not connected: gone); try again";
        check(SETTINGS, "0:x 0:x 0:x 30:x 31:+ 60:+ 61:x 61:x", &format!(". . ! ! {refused} in 29 s * . ."));
    }

    #[test]
    fn a_try_that_was_given_up_leaves_it_to_the_next() {
        check(SETTINGS, "0:x 0:x 0:x 31:- 31:- 31:+ 32:+", ". . ! * .");
    }

    #[test]
    fn none_opens_it_when_it_is_switched_off() {
        let never = BreakerSettings { failures: 0, ..SETTINGS };
        check(never, "0:x 0:x 0:x 0:x 0:x 0:x", ". . . . . .");
        check(BreakerSettings { failures: 1, ..SETTINGS }, "0:x", "!");
    }

    #[test]
    fn while_one_tries_others_are_refused() {
        let (breaker, start) = (Breaker::new(SETTINGS), Instant::now());
        let lost = || Err::<(), _>(CallError::Closed("gone".into()));
        let early = breaker.admit(start).expect("it is closed");
        for _ in 0..3 {
            breaker.admit(start).expect("it is closed").finish(&lost(), start);
        }
        assert_eq!(breaker.look(start), (BreakerState::Open, 3, Some(SETTINGS.pause)));
        let later = start + SETTINGS.pause;
        assert_eq!(breaker.look(later), (BreakerState::HalfOpen, 3, None));
        let trying = breaker.admit(later).expect("one may try");
        let refusal = breaker.admit(later).expect_err("one alone");
        assert_eq!(refusal.retry_in, None);
        // One that began long before and fails now does not end the try.
        assert_eq!(early.finish(&lost(), later), Turn::None);
        assert_eq!(breaker.look(later).0, BreakerState::HalfOpen);
        assert_eq!(trying.finish(&Ok(()), later), Turn::Closed);
        assert_eq!(breaker.look(later), (BreakerState::Closed, 0, None));
    }
}
