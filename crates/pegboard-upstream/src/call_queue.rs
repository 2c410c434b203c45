//! A fair queue of calls with a concurrency limit.
//!
//! Permits go round by party, within a party by its members, and only then by time of arrival, so
//! a party that makes many calls delays only its own.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use tokio::sync::oneshot;

/// Maximum number of waiting calls.
const MAX_WAITING: usize = 1024;

/// The caller on whose behalf a call is made: permits go round by party, and within a party by
/// member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerKey {
    /// One of several callers that do not trust each other, such as the user of a token. A party gets
    /// at most three quarters of the permits, if there are two or more: even if its calls take very
    /// long, other parties still get a permit.
    pub party: Option<u64>,
    /// One of several members of a party that share its permits fairly, such as a session.
    pub member: u64,
}

/// A concurrency limit for calls. Calls above it wait in one queue per party.
#[derive(Debug)]
pub struct CallQueue {
    /// 0: no limit.
    limit: usize,
    max_waiting: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    running: usize,
    /// Number of running calls of each party.
    running_of: HashMap<Option<u64>, usize>,
    waiting: usize,
    /// Parties with waiting calls; the first is next.
    parties: VecDeque<Party>,
    next: u64,
}

#[derive(Debug)]
struct Party {
    key: Option<u64>,
    /// Members with waiting calls; the first is next.
    members: VecDeque<Member>,
}

#[derive(Debug)]
struct Member {
    key: u64,
    waiting: VecDeque<(u64, oneshot::Sender<CallPermit>)>,
}

/// The error of a call that did not get a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// The call waited until its timeout.
    #[error("{limit} {} running; gave up after {} s", calls(*.limit), .waited.as_secs_f32())]
    Waited {
        /// The concurrency limit.
        limit: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// Too many calls are waiting, or the call was evicted for a party with fewer waiting calls.
    #[error("{limit} {} running and {waiting} more are waiting; try again later", calls(*.limit))]
    Full {
        /// The concurrency limit.
        limit: usize,
        /// Number of waiting calls.
        waiting: usize,
    },
}

fn calls(count: usize) -> &'static str {
    if count == 1 { "call is" } else { "calls are" }
}

/// A permit to make a call. The next waiting call gets one when it is dropped.
#[derive(Debug)]
pub struct CallPermit(Option<(Arc<CallQueue>, Option<u64>)>);

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some((queue, party)) = self.0.take() {
            queue.release(party);
        }
    }
}

impl CallQueue {
    /// Creates a queue with this concurrency limit; 0 is no limit.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with_capacity(MAX_WAITING, limit)
    }

    fn with_capacity(max_waiting: usize, limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, max_waiting, state: Mutex::default() })
    }

    /// Returns the concurrency limit of a party.
    fn limit_of(&self, party: Option<u64>) -> usize {
        match (party, self.limit) {
            (Some(_), limit @ 2..) => limit - (limit / 4).max(1),
            (_, limit) => limit,
        }
    }

    /// Waits for a permit, at most `timeout`. A call that stops waiting leaves the queue.
    ///
    /// # Errors
    /// When the timeout has passed, or too many calls are waiting.
    pub async fn acquire(self: &Arc<Self>, whose: CallerKey, timeout: Duration) -> Result<CallPermit, Busy> {
        let (mut waiting, permit) = match self.enqueue(whose)? {
            Admission::Now(permit) => return Ok(permit),
            Admission::Later(waiting, permit) => (waiting, permit),
        };
        let permit = tokio::time::timeout(timeout, permit).await;
        waiting.has_permit = matches!(permit, Ok(Ok(_)));
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            // A party with fewer waiting calls took the place.
            Ok(Err(_)) => Err(Busy::Full { limit: self.limit_of(whose.party), waiting: self.max_waiting }),
            Err(_) => Err(Busy::Waited { limit: self.limit_of(whose.party), waited: timeout }),
        }
    }

    /// Returns the number of waiting calls.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting
    }

    /// Returns whether no call has a permit or waits for one.
    pub fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.running == 0 && state.waiting == 0
    }

    fn enqueue(self: &Arc<Self>, whose: CallerKey) -> Result<Admission, Busy> {
        if self.limit == 0 {
            return Ok(Admission::Now(CallPermit(None)));
        }
        let mut state = lock(&self.state);
        if state.running < self.limit && state.running_of(whose.party) < self.limit_of(whose.party) {
            state.start_call(whose.party);
            return Ok(Admission::Now(CallPermit(Some((Arc::clone(self), whose.party)))));
        }
        // Dropped after the lock: dropping it wakes the call that waited.
        let mut _evicted = None;
        if state.waiting >= self.max_waiting {
            let full = Busy::Full { limit: self.limit_of(whose.party), waiting: state.waiting };
            _evicted = Some(state.evict_call(whose.party).ok_or(full)?);
        }
        let (sender, permit) = oneshot::channel();
        let number = state.add(whose, sender);
        drop(state);
        Ok(Admission::Later(WaitingCall { queue: Arc::clone(self), whose, number, has_permit: false }, permit))
    }

    /// Takes a permit back from `party` and gives it to the next waiting call.
    fn release(self: &Arc<Self>, party: Option<u64>) {
        let mut ended = party;
        loop {
            let next = {
                let mut state = lock(&self.state);
                state.end_call(ended);
                let next = state.pop_next(|party| self.limit_of(party));
                if let Some((party, _)) = &next {
                    state.start_call(*party);
                }
                next
            };
            let Some((party, sender)) = next else { return };
            match sender.send(CallPermit(Some((Arc::clone(self), party)))) {
                Ok(()) => return,
                // It no longer waits; the permit goes to the next call.
                Err(mut permit) => permit.0 = None,
            }
            ended = party;
        }
    }
}

enum Admission {
    Now(CallPermit),
    Later(WaitingCall, oneshot::Receiver<CallPermit>),
}

/// A place in the queue, which is left when it is dropped.
struct WaitingCall {
    queue: Arc<CallQueue>,
    whose: CallerKey,
    number: u64,
    has_permit: bool,
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        if !self.has_permit {
            lock(&self.queue.state).remove(self.whose, self.number);
        }
    }
}

impl QueueState {
    fn running_of(&self, party: Option<u64>) -> usize {
        self.running_of.get(&party).copied().unwrap_or(0)
    }

    fn start_call(&mut self, party: Option<u64>) {
        self.running += 1;
        *self.running_of.entry(party).or_default() += 1;
    }

    fn end_call(&mut self, party: Option<u64>) {
        self.running -= 1;
        if let Some(running) = self.running_of.get_mut(&party) {
            *running -= 1;
            if *running == 0 {
                self.running_of.remove(&party);
            }
        }
    }

    fn add(&mut self, whose: CallerKey, sender: oneshot::Sender<CallPermit>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting += 1;
        let at = self.parties.iter().position(|one| one.key == whose.party).unwrap_or_else(|| {
            self.parties.push_back(Party { key: whose.party, members: VecDeque::new() });
            self.parties.len() - 1
        });
        self.parties[at].add(whose.member, (number, sender));
        number
    }

    /// Removes the next call of the first party that is below its limit, and returns that party and
    /// the channel to the call.
    fn pop_next(
        &mut self,
        limit_of: impl Fn(Option<u64>) -> usize,
    ) -> Option<(Option<u64>, oneshot::Sender<CallPermit>)> {
        let at = self.parties.iter().position(|one| self.running_of(one.key) < limit_of(one.key))?;
        let mut party = self.parties.remove(at)?;
        let (key, next) = (party.key, party.pop_next()?);
        if !party.members.is_empty() {
            self.parties.push_back(party);
        }
        self.waiting -= 1;
        Some((key, next))
    }

    fn remove(&mut self, whose: CallerKey, number: u64) {
        let Some(at) = self.parties.iter().position(|one| one.key == whose.party) else { return };
        let party = &mut self.parties[at];
        let before = party.waiting();
        party.remove(whose.member, number);
        self.waiting -= before - party.waiting();
        if party.members.is_empty() {
            self.parties.remove(at);
        }
    }

    /// Evicts the last call of the party with the most waiting calls, if that party has more of them
    /// than `party` would then have.
    fn evict_call(&mut self, party: Option<u64>) -> Option<oneshot::Sender<CallPermit>> {
        let own = self.parties.iter().find(|one| one.key == party).map_or(0, Party::waiting);
        let largest = self.parties.iter_mut().max_by_key(|one| one.waiting())?;
        if largest.waiting() <= own + 1 {
            return None;
        }
        let sender = largest.pop_last()?;
        self.waiting -= 1;
        Some(sender)
    }
}

impl Party {
    fn waiting(&self) -> usize {
        self.members.iter().map(|member| member.waiting.len()).sum()
    }

    fn add(&mut self, key: u64, waiting: (u64, oneshot::Sender<CallPermit>)) {
        match self.members.iter_mut().find(|member| member.key == key) {
            Some(member) => member.waiting.push_back(waiting),
            None => self.members.push_back(Member { key, waiting: [waiting].into() }),
        }
    }

    fn pop_next(&mut self) -> Option<oneshot::Sender<CallPermit>> {
        let mut member = self.members.pop_front()?;
        let (_, sender) = member.waiting.pop_front()?;
        if !member.waiting.is_empty() {
            self.members.push_back(member);
        }
        Some(sender)
    }

    fn remove(&mut self, key: u64, number: u64) {
        let Some(at) = self.members.iter().position(|member| member.key == key) else { return };
        self.members[at].waiting.retain(|(one, _)| *one != number);
        if self.members[at].waiting.is_empty() {
            self.members.remove(at);
        }
    }

    /// Removes the last call of the member with the most waiting calls.
    fn pop_last(&mut self) -> Option<oneshot::Sender<CallPermit>> {
        let at = (0..self.members.len()).max_by_key(|at| self.members[*at].waiting.len())?;
        let (_, sender) = self.members[at].waiting.pop_back()?;
        if self.members[at].waiting.is_empty() {
            self.members.remove(at);
        }
        Some(sender)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn party(party: u64) -> CallerKey {
        CallerKey { party: Some(party), member: 0 }
    }

    /// Queues calls one after the other (`1b`: of the party 1, by its member b) and returns the order
    /// in which they got permits.
    async fn order(queue: &Arc<CallQueue>, calls: &str) -> String {
        let first = queue.acquire(CallerKey::default(), LONG).await.expect("no call runs");
        let (done, mut came) = tokio::sync::mpsc::unbounded_channel();
        for call in calls.split(' ').map(str::to_owned) {
            let (queue, done) = (Arc::clone(queue), done.clone());
            let before = queue.waiting();
            let own = Arc::clone(&queue);
            let [party, member] = [0, 1].map(|at| u64::from(*call.as_bytes().get(at).unwrap_or(&b'a')));
            tokio::spawn(async move {
                let permit = own.acquire(CallerKey { party: Some(party), member }, LONG).await;
                let _ = done.send(call);
                drop(permit);
            });
            while queue.waiting() == before {
                tokio::task::yield_now().await;
            }
        }
        drop((first, done));
        let mut order = Vec::new();
        while let Some(call) = came.recv().await {
            order.push(call);
        }
        order.join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn parties_share_permits_in_turn() {
        let queue = CallQueue::new(1);
        assert_eq!(order(&queue, "1 1 1 1 2 3 2").await, "1 2 3 1 2 1 1");
        assert_eq!(order(&queue, "1a 1a 1a 1b 2c 1d 2c 2e").await, "1a 2c 1b 2e 1d 2c 1a 1a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarter_is_out_of_reach_of_one_party() {
        let queue = CallQueue::new(4);
        let mut greedy = Vec::new();
        for _ in 0..3 {
            greedy.push(queue.acquire(party(1), LONG).await.expect("room"));
        }
        let late = queue.acquire(party(1), Duration::from_secs(3)).await.expect_err("it has all that it may have");
        assert_eq!(late, Busy::Waited { limit: 3, waited: Duration::from_secs(3) });
        let (own, behind) = (
            Arc::clone(&queue),
            tokio::spawn({
                let queue = Arc::clone(&queue);
                async move { queue.acquire(party(1), LONG).await }
            }),
        );
        while queue.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let other = own.acquire(party(2), LONG).await.expect("a permit is left for others");
        drop(other);
        tokio::task::yield_now().await;
        assert!(!behind.is_finished(), "another party's permit does not pass to it");
        greedy.pop();
        assert!(behind.await.expect("it ends").is_ok());
        drop(greedy);
        assert!(queue.is_idle());
        for (limit, of_party) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (128, 96)] {
            assert_eq!(CallQueue::new(limit).limit_of(Some(1)), of_party);
            assert_eq!(CallQueue::new(limit).limit_of(None), limit, "a single party gets all");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_above_the_limit() {
        let queue = CallQueue::new(2);
        let (one, two) =
            (queue.acquire(CallerKey::default(), LONG).await, queue.acquire(CallerKey::default(), LONG).await);
        let late = queue.acquire(CallerKey::default(), Duration::from_secs(3)).await.expect_err("two are running");
        assert_eq!(late.to_string(), "2 calls are running; gave up after 3 s");
        assert_eq!(queue.waiting(), 0, "it no longer waits");
        drop(one);
        let three = queue.acquire(CallerKey::default(), LONG).await;
        assert!(three.is_ok());
        drop((two, three));
        assert!(queue.is_idle());
        let free = CallQueue::new(0);
        let many: Vec<_> = futures_of(&free, 100).await;
        assert_eq!((many.len(), free.is_idle()), (100, true));
    }

    async fn futures_of(queue: &Arc<CallQueue>, count: usize) -> Vec<CallPermit> {
        let mut many = Vec::new();
        for _ in 0..count {
            many.extend(queue.acquire(party(0), LONG).await);
        }
        many
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_stops_waiting_leaves_its_place() {
        let queue = CallQueue::new(1);
        let first = queue.acquire(party(1), LONG).await.expect("no call runs");
        {
            let mut gone = pin!(queue.acquire(party(1), LONG));
            let mut also_gone = pin!(queue.acquire(party(2), LONG));
            tokio::select! {
                biased;
                _ = &mut gone => unreachable!("no permit is free"),
                _ = &mut also_gone => unreachable!("no permit is free"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(queue.waiting(), 2);
            // It has got a permit, and no longer polls for it.
            drop(first);
        }
        assert!(queue.is_idle(), "{queue:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_party_is_evicted_for_others() {
        let queue = CallQueue::with_capacity(3, 1);
        let _first = queue.acquire(party(1), LONG).await.expect("no call runs");
        let wait = |whose: CallerKey| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.acquire(whose, LONG).await })
        };
        let crowd: Vec<_> = (0..3).map(|_| wait(party(1))).collect();
        while queue.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        let full = queue.acquire(party(1), LONG).await.expect_err("no room");
        assert_eq!(full, Busy::Full { limit: 1, waiting: 3 });
        let other = wait(party(2));
        let mut evicted = Vec::new();
        for one in crowd.into_iter().rev().take(1) {
            evicted.push(one.await.expect("it ends").map(drop));
        }
        assert_eq!(evicted, [Err(Busy::Full { limit: 1, waiting: 3 })]);
        assert_eq!(queue.waiting(), 3);
        other.abort();
        let _ = other.await;
        assert_eq!(queue.waiting(), 2);
    }
}
