//! Calls that take turns when there may only be so many at a time.
//!
//! A party that makes many calls waits for its own: turns go round by party, within a party by
//! its members, and only then by time of arrival.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use tokio::sync::oneshot;

/// Calls that may wait at a time.
const MAX_WAITING: usize = 1024;

/// On whose behalf a call is made: turns go round by party, and within a party by member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnBehalf {
    /// One of several that do not trust each other, such as the holder of a token. It gets at most
    /// three quarters of the turns, where there are two or more: its calls may take as long as they
    /// like, and others still get a turn.
    pub party: Option<u64>,
    /// One of several that share fairly, such as a session.
    pub member: u64,
}

/// A bound on calls at a time. Calls above it wait in a row for each party.
#[derive(Debug)]
pub struct Turns {
    /// 0: no bound.
    most: usize,
    max_waiting: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// How many of them each party has.
    running_of: HashMap<Option<u64>, usize>,
    waiting: usize,
    /// Parties with calls that wait; the first is next.
    parties: VecDeque<Party>,
    next: u64,
}

#[derive(Debug)]
struct Party {
    key: Option<u64>,
    /// Members with calls that wait; the first is next.
    members: VecDeque<Member>,
}

#[derive(Debug)]
struct Member {
    key: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
}

/// Why a call did not get its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// It has waited as long as it could.
    #[error("{most} {} running; gave up after {} s", calls(*.most), .waited.as_secs_f32())]
    Waited {
        /// Calls at a time.
        most: usize,
        /// For how long.
        waited: Duration,
    },
    /// Too many wait already, or others that wait for less had to be let in.
    #[error("{most} {} running and {waiting} more are waiting; try again later", calls(*.most))]
    Full {
        /// Calls at a time.
        most: usize,
        /// Calls that wait.
        waiting: usize,
    },
}

fn calls(count: usize) -> &'static str {
    if count == 1 { "call is" } else { "calls are" }
}

/// A turn. The next one begins when it is dropped.
#[derive(Debug)]
pub struct Turn(Option<(Arc<Turns>, Option<u64>)>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((turns, party)) = self.0.take() {
            turns.end(party);
        }
    }
}

impl Turns {
    /// At most so many calls at a time; 0 is no bound.
    pub fn new(most: usize) -> Arc<Self> {
        Self::with_room_for(MAX_WAITING, most)
    }

    fn with_room_for(max_waiting: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { most, max_waiting, queue: Mutex::default() })
    }

    /// How many calls of a party may run at a time.
    fn most_of(&self, party: Option<u64>) -> usize {
        match (party, self.most) {
            (Some(_), most @ 2..) => most - (most / 4).max(1),
            (_, most) => most,
        }
    }

    /// Waits for a turn, at most `limit`. A call that stops waiting leaves its place to others.
    ///
    /// # Errors
    /// When it took too long, or too many wait.
    pub async fn take(self: &Arc<Self>, whose: OnBehalf, limit: Duration) -> Result<Turn, Busy> {
        let (mut waiting, turn) = match self.line_up(whose)? {
            Place::Now(turn) => return Ok(turn),
            Place::Later(waiting, turn) => (waiting, turn),
        };
        let turn = tokio::time::timeout(limit, turn).await;
        waiting.has_turn = matches!(turn, Ok(Ok(_)));
        match turn {
            Ok(Ok(turn)) => Ok(turn),
            // A party with fewer waiting calls took the place.
            Ok(Err(_)) => Err(Busy::Full { most: self.most_of(whose.party), waiting: self.max_waiting }),
            Err(_) => Err(Busy::Waited { most: self.most_of(whose.party), waited: limit }),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        lock(&self.queue).waiting
    }

    /// Whether no call has a turn or waits for one.
    pub fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.running == 0 && queue.waiting == 0
    }

    fn line_up(self: &Arc<Self>, whose: OnBehalf) -> Result<Place, Busy> {
        if self.most == 0 {
            return Ok(Place::Now(Turn(None)));
        }
        let mut queue = lock(&self.queue);
        if queue.running < self.most && queue.running_of(whose.party) < self.most_of(whose.party) {
            queue.begin(whose.party);
            return Ok(Place::Now(Turn(Some((Arc::clone(self), whose.party)))));
        }
        // Dropped after the lock: dropping it wakes the call that waited.
        let mut _sent_away = None;
        if queue.waiting >= self.max_waiting {
            let full = Busy::Full { most: self.most_of(whose.party), waiting: queue.waiting };
            _sent_away = Some(queue.make_room(whose.party).ok_or(full)?);
        }
        let (tell, turn) = oneshot::channel();
        let number = queue.add(whose, tell);
        drop(queue);
        Ok(Place::Later(Waiting { turns: Arc::clone(self), whose, number, has_turn: false }, turn))
    }

    /// Ends a turn of `party` and begins the next one.
    fn end(self: &Arc<Self>, party: Option<u64>) {
        let mut ended = party;
        loop {
            let next = {
                let mut queue = lock(&self.queue);
                queue.end(ended);
                let next = queue.next_in_line(|party| self.most_of(party));
                if let Some((party, _)) = &next {
                    queue.begin(*party);
                }
                next
            };
            let Some((party, tell)) = next else { return };
            match tell.send(Turn(Some((Arc::clone(self), party)))) {
                Ok(()) => return,
                // It no longer waits; the turn passes on.
                Err(mut turn) => turn.0 = None,
            }
            ended = party;
        }
    }
}

enum Place {
    Now(Turn),
    Later(Waiting, oneshot::Receiver<Turn>),
}

/// A place in the row, given up when dropped.
struct Waiting {
    turns: Arc<Turns>,
    whose: OnBehalf,
    number: u64,
    has_turn: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.has_turn {
            lock(&self.turns.queue).remove(self.whose, self.number);
        }
    }
}

impl Queue {
    fn running_of(&self, party: Option<u64>) -> usize {
        self.running_of.get(&party).copied().unwrap_or(0)
    }

    fn begin(&mut self, party: Option<u64>) {
        self.running += 1;
        *self.running_of.entry(party).or_default() += 1;
    }

    fn end(&mut self, party: Option<u64>) {
        self.running -= 1;
        if let Some(running) = self.running_of.get_mut(&party) {
            *running -= 1;
            if *running == 0 {
                self.running_of.remove(&party);
            }
        }
    }

    fn add(&mut self, whose: OnBehalf, tell: oneshot::Sender<Turn>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting += 1;
        let at = self.parties.iter().position(|one| one.key == whose.party).unwrap_or_else(|| {
            self.parties.push_back(Party { key: whose.party, members: VecDeque::new() });
            self.parties.len() - 1
        });
        self.parties[at].add(whose.member, (number, tell));
        number
    }

    /// The party that is next of those with fewer turns than they may have, and how to reach its
    /// call.
    fn next_in_line(&mut self, most_of: impl Fn(Option<u64>) -> usize) -> Option<(Option<u64>, oneshot::Sender<Turn>)> {
        let at = self.parties.iter().position(|one| self.running_of(one.key) < most_of(one.key))?;
        let mut party = self.parties.remove(at)?;
        let (key, next) = (party.key, party.next_in_line()?);
        if !party.members.is_empty() {
            self.parties.push_back(party);
        }
        self.waiting -= 1;
        Some((key, next))
    }

    fn remove(&mut self, whose: OnBehalf, number: u64) {
        let Some(at) = self.parties.iter().position(|one| one.key == whose.party) else { return };
        let party = &mut self.parties[at];
        let before = party.waiting();
        party.remove(whose.member, number);
        self.waiting -= before - party.waiting();
        if party.members.is_empty() {
            self.parties.remove(at);
        }
    }

    /// Sends the last call away of the party with the most that wait, if that is more than
    /// `party` would then have.
    fn make_room(&mut self, party: Option<u64>) -> Option<oneshot::Sender<Turn>> {
        let own = self.parties.iter().find(|one| one.key == party).map_or(0, Party::waiting);
        let largest = self.parties.iter_mut().max_by_key(|one| one.waiting())?;
        if largest.waiting() <= own + 1 {
            return None;
        }
        let tell = largest.pop_last()?;
        self.waiting -= 1;
        Some(tell)
    }
}

impl Party {
    fn waiting(&self) -> usize {
        self.members.iter().map(|member| member.waiting.len()).sum()
    }

    fn add(&mut self, key: u64, waiting: (u64, oneshot::Sender<Turn>)) {
        match self.members.iter_mut().find(|member| member.key == key) {
            Some(member) => member.waiting.push_back(waiting),
            None => self.members.push_back(Member { key, waiting: [waiting].into() }),
        }
    }

    fn next_in_line(&mut self) -> Option<oneshot::Sender<Turn>> {
        let mut member = self.members.pop_front()?;
        let (_, tell) = member.waiting.pop_front()?;
        if !member.waiting.is_empty() {
            self.members.push_back(member);
        }
        Some(tell)
    }

    fn remove(&mut self, key: u64, number: u64) {
        let Some(at) = self.members.iter().position(|member| member.key == key) else { return };
        self.members[at].waiting.retain(|(one, _)| *one != number);
        if self.members[at].waiting.is_empty() {
            self.members.remove(at);
        }
    }

    /// Takes out the call that came last of the member with the most.
    fn pop_last(&mut self) -> Option<oneshot::Sender<Turn>> {
        let at = (0..self.members.len()).max_by_key(|at| self.members[*at].waiting.len())?;
        let (_, tell) = self.members[at].waiting.pop_back()?;
        if self.members[at].waiting.is_empty() {
            self.members.remove(at);
        }
        Some(tell)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn party(party: u64) -> OnBehalf {
        OnBehalf { party: Some(party), member: 0 }
    }

    /// Calls that were lined up one after the other (`1b`: of the party 1, by its member b), and
    /// in which order their turns came.
    async fn order(turns: &Arc<Turns>, calls: &str) -> String {
        let first = turns.take(OnBehalf::default(), LONG).await.expect("no call runs");
        let (done, mut came) = tokio::sync::mpsc::unbounded_channel();
        for call in calls.split(' ').map(str::to_owned) {
            let (turns, done) = (Arc::clone(turns), done.clone());
            let before = turns.waiting();
            let own = Arc::clone(&turns);
            let [party, member] = [0, 1].map(|at| u64::from(*call.as_bytes().get(at).unwrap_or(&b'a')));
            tokio::spawn(async move {
                let turn = own.take(OnBehalf { party: Some(party), member }, LONG).await;
                let _ = done.send(call);
                drop(turn);
            });
            while turns.waiting() == before {
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
    async fn parties_take_turns() {
        let turns = Turns::new(1);
        assert_eq!(order(&turns, "1 1 1 1 2 3 2").await, "1 2 3 1 2 1 1");
        assert_eq!(order(&turns, "1a 1a 1a 1b 2c 1d 2c 2e").await, "1a 2c 1b 2e 1d 2c 1a 1a");
        assert!(turns.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarter_is_out_of_reach_of_one_party() {
        let turns = Turns::new(4);
        let mut greedy = Vec::new();
        for _ in 0..3 {
            greedy.push(turns.take(party(1), LONG).await.expect("room"));
        }
        let late = turns.take(party(1), Duration::from_secs(3)).await.expect_err("it has all that it may have");
        assert_eq!(late, Busy::Waited { most: 3, waited: Duration::from_secs(3) });
        let (own, behind) = (
            Arc::clone(&turns),
            tokio::spawn({
                let turns = Arc::clone(&turns);
                async move { turns.take(party(1), LONG).await }
            }),
        );
        while turns.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let other = own.take(party(2), LONG).await.expect("a turn is left for others");
        drop(other);
        tokio::task::yield_now().await;
        assert!(!behind.is_finished(), "another party's turn does not pass to it");
        greedy.pop();
        assert!(behind.await.expect("it ends").is_ok());
        drop(greedy);
        assert!(turns.is_idle());
        for (most, of_party) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (128, 96)] {
            assert_eq!(Turns::new(most).most_of(Some(1)), of_party);
            assert_eq!(Turns::new(most).most_of(None), most, "a single party gets all");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_as_may() {
        let turns = Turns::new(2);
        let (one, two) = (turns.take(OnBehalf::default(), LONG).await, turns.take(OnBehalf::default(), LONG).await);
        let late = turns.take(OnBehalf::default(), Duration::from_secs(3)).await.expect_err("two are running");
        assert_eq!(late.to_string(), "2 calls are running; gave up after 3 s");
        assert_eq!(turns.waiting(), 0, "it waits no longer");
        drop(one);
        let three = turns.take(OnBehalf::default(), LONG).await;
        assert!(three.is_ok());
        drop((two, three));
        assert!(turns.is_idle());
        let free = Turns::new(0);
        let many: Vec<_> = futures_of(&free, 100).await;
        assert_eq!((many.len(), free.is_idle()), (100, true));
    }

    async fn futures_of(turns: &Arc<Turns>, count: usize) -> Vec<Turn> {
        let mut many = Vec::new();
        for _ in 0..count {
            many.extend(turns.take(party(0), LONG).await);
        }
        many
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_stops_waiting_leaves_its_place() {
        let turns = Turns::new(1);
        let first = turns.take(party(1), LONG).await.expect("no call runs");
        {
            let mut gone = pin!(turns.take(party(1), LONG));
            let mut also_gone = pin!(turns.take(party(2), LONG));
            tokio::select! {
                biased;
                _ = &mut gone => unreachable!("no turn is free"),
                _ = &mut also_gone => unreachable!("no turn is free"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(turns.waiting(), 2);
            // Its turn has come, and it does not look any more.
            drop(first);
        }
        assert!(turns.is_idle(), "{turns:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_makes_room_for_others() {
        let turns = Turns::with_room_for(3, 1);
        let _first = turns.take(party(1), LONG).await.expect("no call runs");
        let wait = |whose: OnBehalf| {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.take(whose, LONG).await })
        };
        let crowd: Vec<_> = (0..3).map(|_| wait(party(1))).collect();
        while turns.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        let full = turns.take(party(1), LONG).await.expect_err("no room");
        assert_eq!(full, Busy::Full { most: 1, waiting: 3 });
        let other = wait(party(2));
        let mut sent_away = Vec::new();
        for one in crowd.into_iter().rev().take(1) {
            sent_away.push(one.await.expect("it ends").map(drop));
        }
        assert_eq!(sent_away, [Err(Busy::Full { most: 1, waiting: 3 })]);
        assert_eq!(turns.waiting(), 3);
        other.abort();
        let _ = other.await;
        assert_eq!(turns.waiting(), 2);
    }
}
