//! Admission control: limits for each caller, so that one caller cannot use up everything.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_mcp::rpc::RpcError;
use pegboard_upstream::{Busy, CallPermit, CallQueue, CallerKey};
use tokio::time::Instant;

use crate::{
    lock,
    shares::{Claim, Party, Shares},
};

/// Maximum number of remembered callers; inactive ones are dropped.
const MOST: usize = 4096;

/// The maximum size of all bodies of one caller's requests in progress, as a multiple of the
/// largest body.
const BODIES_PER_CALLER: usize = 8;

/// Answers up to this many bytes are not counted, because the limit on requests bounds them.
const SMALL_ANSWER: usize = 64 << 10;

/// Number of bytes of arguments from which a call waits for a turn.
const LONG_ARGUMENTS: usize = 1 << 10;

/// How long a call waits for its turn.
const LONG_WORK_WAIT: Duration = Duration::from_secs(30);

/// The tolerance for rounding errors of accumulated time.
const ALMOST: f64 = 1e-9;

/// The limits of a caller's calls. A caller is a token, or an address if there are no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum number of concurrent calls; further ones wait for their turn. 0: unlimited.
    pub concurrent: usize,
    /// Maximum number of calls per minute, in any distribution; further ones are rejected. 0:
    /// unlimited.
    pub per_minute: u32,
}

impl CallLimits {
    fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The limit that rejects a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitExceeded {
    #[error(
        "rate limit reached: {per_minute} calls per minute (`limits.callsPerMinute`); try again in {} s",
        .retry_in.as_secs_f32().ceil().max(1.0)
    )]
    Rate { per_minute: u32, retry_in: Duration },
    #[error("your concurrency limit is reached (`limits.maxConcurrent`): {0}")]
    Busy(Busy),
}

/// The answers that a caller has not read yet leave no room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request was executed, but its response of {bytes} bytes cannot be sent: together with the responses that \
     you have not read yet, it exceeds the limit of {most} bytes (`connections.unreadBytesPerToken`)"
)]
pub(crate) struct TooMuchUnread {
    bytes: usize,
    most: usize,
}

/// The use of all callers, counted against their limits.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    shares: Mutex<HashMap<Party, Arc<Share>>>,
    /// Open event streams of each caller.
    streams: Arc<Shares>,
    /// Bytes of the bodies of each caller's requests in progress.
    body_bytes: Arc<Shares>,
    /// Bytes of the answers that each caller has not read yet.
    unread_bytes: Arc<Shares>,
    /// Turns for work that keeps a processor busy, so that it does not delay other callers much.
    long_work: Arc<CallQueue>,
}

impl Default for AdmissionControl {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shares: Mutex::default(),
            streams: Arc::default(),
            body_bytes: Arc::default(),
            unread_bytes: Arc::default(),
            long_work: CallQueue::new((processors / 2).max(1)),
        }
    }
}

#[derive(Debug)]
struct Share {
    limits: CallLimits,
    turns: Arc<CallQueue>,
    bucket: Mutex<Bucket>,
}

/// A token bucket that refills with time.
#[derive(Debug)]
struct Bucket {
    per_minute: u32,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_minute: u32, now: Instant) -> Self {
        Self { per_minute, left: f64::from(per_minute), at: now }
    }

    /// Takes one call, or returns the time until one is available.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.per_minute == 0 {
            return Ok(());
        }
        self.fill(now);
        if self.left >= 1.0 - ALMOST {
            self.left = (self.left - 1.0).max(0.0);
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) * 60.0 / f64::from(self.per_minute)))
    }

    fn fill(&mut self, now: Instant) {
        let most = f64::from(self.per_minute);
        let came = now.saturating_duration_since(self.at).as_secs_f64() * most / 60.0;
        self.left = (self.left + came).min(most);
        self.at = now;
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.left >= f64::from(self.per_minute) - ALMOST
    }
}

impl Share {
    fn new(limits: CallLimits) -> Self {
        let bucket = Mutex::new(Bucket::new(limits.per_minute, Instant::now()));
        Self { limits, turns: CallQueue::new(limits.concurrent), bucket }
    }

    /// Returns whether the share is equal to a new one.
    fn is_as_new(&self) -> bool {
        self.turns.is_idle() && lock(&self.bucket).is_full(Instant::now())
    }
}

impl AdmissionControl {
    /// Returns the share of a party. Changed limits start with a new share.
    fn share(&self, party: Party, limits: CallLimits) -> Arc<Share> {
        let mut shares = lock(&self.shares);
        if let Some(share) = shares.get(&party).filter(|share| share.limits == limits) {
            return Arc::clone(share);
        }
        if shares.len() >= MOST {
            shares.retain(|_, share| Arc::strong_count(share) > 1 || !share.is_as_new());
        }
        let share = Arc::new(Share::new(limits));
        shares.insert(party, Arc::clone(&share));
        share
    }

    /// Admits a call to a server, after at most `wait`. The turn ends with the call.
    pub(crate) async fn admit(
        &self,
        limits: CallLimits,
        party: Party,
        wait: Duration,
    ) -> Result<Option<Arc<CallPermit>>, LimitExceeded> {
        if limits.is_none() {
            return Ok(None);
        }
        let share = self.share(party, limits);
        let taken = lock(&share.bucket).take(Instant::now());
        taken.map_err(|retry_in| LimitExceeded::Rate { per_minute: limits.per_minute, retry_in })?;
        let turn = share.turns.acquire(CallerKey::default(), wait).await.map_err(LimitExceeded::Busy)?;
        Ok(Some(Arc::new(turn)))
    }

    /// Claims an event stream; `None` if the caller has `most` already.
    pub(crate) fn open_stream(&self, party: Party, most: usize) -> Option<Claim> {
        self.streams.take(party, 1, most)
    }

    /// Claims memory for the body of a request; `None` if the bodies of the caller's requests in
    /// progress are too large altogether.
    pub(crate) fn open_body(&self, party: Party, bytes: usize, max_body_bytes: usize) -> Option<Claim> {
        let most = max_body_bytes.saturating_mul(BODIES_PER_CALLER);
        self.body_bytes.take(party, bytes.min(max_body_bytes), most)
    }

    /// Claims memory for an answer until it is sent. A small one needs none; a single one may have
    /// any size.
    ///
    /// # Errors
    /// When the answers that the caller has not read yet are too large altogether.
    pub(crate) fn open_answer(&self, party: Party, bytes: usize, most: usize) -> Result<Option<Claim>, TooMuchUnread> {
        if bytes <= SMALL_ANSWER {
            return Ok(None);
        }
        let room = self.unread_bytes.take(party, bytes.min(most), most);
        room.map(Some).ok_or(TooMuchUnread { bytes, most })
    }

    /// Waits until a party may use a processor for arguments of so many bytes. Parties take turns,
    /// so that one with many long queries delays others by one of them, not by all. A turn must not
    /// be kept while waiting for something else.
    ///
    /// # Errors
    /// When that took too long.
    pub(crate) async fn begin_work(&self, party: Party, bytes: usize) -> Result<Option<CallPermit>, RpcError> {
        if bytes < LONG_ARGUMENTS {
            return Ok(None);
        }
        let whose = CallerKey { party: Some(party.key()), member: 0 };
        let busy = |_| {
            let waited = LONG_WORK_WAIT.as_secs();
            let message = format!(
                "the gateway is busy: a request with large arguments gave up after {waited} s; try again later"
            );
            RpcError::new(RpcError::INTERNAL, message)
        };
        self.long_work.acquire(whose, LONG_WORK_WAIT).await.map(Some).map_err(busy)
    }
}

#[cfg(test)]
mod tests {
    use pegboard_http::Principal;

    use super::*;
    use crate::caller::Caller;

    /// Calls at these milliseconds: `.` for one that passes, else how long to wait.
    #[track_caller]
    fn check(per_minute: u32, times: &[u64], expected: &str) {
        let start = Instant::now();
        let mut bucket = Bucket::new(per_minute, start);
        let found = times.iter().map(|at| match bucket.take(start + Duration::from_millis(*at)) {
            Ok(()) => ".".to_owned(),
            Err(wait) => wait.as_millis().to_string(),
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn so_many_in_a_minute() {
        check(0, &[0, 0, 0], ". . .");
        check(2, &[0, 0, 0, 10_000, 30_000, 30_000, 600_000, 600_000, 600_000], ". . 30000 20000 . 30000 . . 30000");
        check(60, &[0, 0, 500, 60_000], ". . . .");
        check(1, &[0, 59_000, 60_000, 60_001], ". 1000 . 59999");
    }

    #[tokio::test(start_paused = true)]
    async fn a_party_is_remembered_for_as_long_as_it_matters() {
        let limits = AdmissionControl::default();
        let one = CallLimits { concurrent: 0, per_minute: 1 };
        let party = |number: usize| Party::Caller(Caller::Token(Principal(number)));
        let take = |number| lock(&limits.share(party(number), one).bucket).take(Instant::now()).is_ok();
        assert!(take(0) && !take(0));
        for number in 1..2 * MOST {
            limits.share(party(number), one);
        }
        assert!(!take(0), "others that came and went do not wash it away");
        assert!(lock(&limits.shares).len() <= MOST + 1);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(take(0));
        let other = CallLimits { per_minute: 5, ..one };
        assert!(lock(&limits.share(party(0), other).bucket).take(Instant::now()).is_ok(), "a new limit");
    }
}

#[cfg(test)]
mod admission_tests;
