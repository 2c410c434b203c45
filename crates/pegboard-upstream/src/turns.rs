//! Calls that take turns when there may only be so many at a time.
//!
//! Whoever makes many calls waits for its own: the waiting take turns by whom they belong to,
//! and only then by when they came.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::locks::lock;

/// Calls that may wait at a time.
const MAX_WAITING: usize = 1024;

/// So many at a time, and the others in a row for each party.
#[derive(Debug)]
pub struct Turns {
    /// 0: as many as come.
    most: usize,
    max_waiting: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    waiting: usize,
    /// Those that have somebody waiting; the first is next.
    parties: VecDeque<Party>,
    next: u64,
}

#[derive(Debug)]
struct Party {
    key: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
}

/// Why a call did not get its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// It has waited as long as it could.
    #[error("{most} {} running, as many as may at a time, and no turn came within {} s", calls(*.most), .waited.as_secs_f32())]
    Waited {
        /// Calls at a time.
        most: usize,
        /// For how long.
        waited: Duration,
    },
    /// Too many wait already, or others that wait for less had to be let in.
    #[error("{most} {} running, as many as may at a time, and {waiting} more are waiting; try again later", calls(*.most))]
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

/// A turn. Another one's begins when it is dropped.
#[derive(Debug)]
pub struct Turn(Option<Arc<Turns>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

impl Turns {
    /// So many calls at a time; 0 is as many as come.
    pub fn new(most: usize) -> Arc<Self> {
        Self::with_room_for(MAX_WAITING, most)
    }

    fn with_room_for(max_waiting: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { most, max_waiting, queue: Mutex::default() })
    }

    /// Waits for a turn of `party`, at most `limit`. Whoever stops waiting leaves its place to
    /// others.
    ///
    /// # Errors
    /// When it took too long, or too many wait.
    pub async fn take(self: &Arc<Self>, party: u64, limit: Duration) -> Result<Turn, Busy> {
        let (mut waiting, turn) = match self.line_up(party)? {
            Place::Now(turn) => return Ok(turn),
            Place::Later(waiting, turn) => (waiting, turn),
        };
        let turn = tokio::time::timeout(limit, turn).await;
        waiting.has_turn = matches!(turn, Ok(Ok(_)));
        match turn {
            Ok(Ok(turn)) => Ok(turn),
            // One that waits for less took the place.
            Ok(Err(_)) => Err(Busy::Full { most: self.most, waiting: self.max_waiting }),
            Err(_) => Err(Busy::Waited { most: self.most, waited: limit }),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        lock(&self.queue).waiting
    }

    /// Whether nobody has a turn or waits for one.
    pub fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.running == 0 && queue.waiting == 0
    }

    fn line_up(self: &Arc<Self>, party: u64) -> Result<Place, Busy> {
        if self.most == 0 {
            return Ok(Place::Now(Turn(None)));
        }
        let mut queue = lock(&self.queue);
        if queue.running < self.most {
            queue.running += 1;
            return Ok(Place::Now(Turn(Some(Arc::clone(self)))));
        }
        // Dropped when the lock is gone: it wakes whoever waited.
        let mut _sent_away = None;
        if queue.waiting >= self.max_waiting {
            _sent_away = Some(queue.make_room(party).ok_or(Busy::Full { most: self.most, waiting: queue.waiting })?);
        }
        let (tell, turn) = oneshot::channel();
        let number = queue.add(party, tell);
        drop(queue);
        Ok(Place::Later(Waiting { turns: Arc::clone(self), party, number, has_turn: false }, turn))
    }

    /// Gives a turn that has ended to the next.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = {
                let mut queue = lock(&self.queue);
                let next = queue.next_in_line();
                if next.is_none() {
                    queue.running -= 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Turn(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // It has gone away meanwhile; the turn is the next one's.
                Err(mut turn) => turn.0 = None,
            }
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
    party: u64,
    number: u64,
    has_turn: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.has_turn {
            lock(&self.turns.queue).remove(self.party, self.number);
        }
    }
}

impl Queue {
    fn add(&mut self, party: u64, tell: oneshot::Sender<Turn>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting += 1;
        match self.parties.iter_mut().find(|one| one.key == party) {
            Some(one) => one.waiting.push_back((number, tell)),
            None => self.parties.push_back(Party { key: party, waiting: [(number, tell)].into() }),
        }
        number
    }

    fn next_in_line(&mut self) -> Option<oneshot::Sender<Turn>> {
        let mut party = self.parties.pop_front()?;
        let next = party.waiting.pop_front();
        if !party.waiting.is_empty() {
            self.parties.push_back(party);
        }
        self.waiting -= usize::from(next.is_some());
        next.map(|(_, tell)| tell)
    }

    fn remove(&mut self, party: u64, number: u64) {
        let Some(at) = self.parties.iter().position(|one| one.key == party) else { return };
        let waiting = &mut self.parties[at].waiting;
        let before = waiting.len();
        waiting.retain(|(one, _)| *one != number);
        self.waiting -= before - waiting.len();
        if self.parties[at].waiting.is_empty() {
            self.parties.remove(at);
        }
    }

    /// Sends the last one away of those who wait for most, if that is more than `party` would
    /// then wait for.
    fn make_room(&mut self, party: u64) -> Option<oneshot::Sender<Turn>> {
        let own = self.parties.iter().find(|one| one.key == party).map_or(0, |one| one.waiting.len());
        let largest = self.parties.iter_mut().max_by_key(|one| one.waiting.len())?;
        if largest.waiting.len() <= own + 1 {
            return None;
        }
        let (_, tell) = largest.waiting.pop_back()?;
        self.waiting -= 1;
        Some(tell)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Waiters that were lined up one after the other, and in which order their turns came.
    async fn order(turns: &Arc<Turns>, parties: &[u64]) -> Vec<u64> {
        let first = turns.take(0, LONG).await.expect("nobody is there");
        let (done, mut came) = tokio::sync::mpsc::unbounded_channel();
        for party in parties.iter().copied() {
            let (turns, done) = (Arc::clone(turns), done.clone());
            let before = turns.waiting();
            let own = Arc::clone(&turns);
            tokio::spawn(async move {
                let turn = own.take(party, LONG).await;
                let _ = done.send(party);
                drop(turn);
            });
            while turns.waiting() == before {
                tokio::task::yield_now().await;
            }
        }
        drop((first, done));
        let mut order = Vec::new();
        while let Some(party) = came.recv().await {
            order.push(party);
        }
        order
    }

    #[tokio::test(start_paused = true)]
    async fn parties_take_turns() {
        let turns = Turns::new(1);
        assert_eq!(order(&turns, &[1, 1, 1, 1, 2, 3, 2]).await, [1, 2, 3, 1, 2, 1, 1]);
        assert!(turns.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_as_may() {
        let turns = Turns::new(2);
        let (one, two) = (turns.take(1, LONG).await, turns.take(1, LONG).await);
        let late = turns.take(1, Duration::from_secs(3)).await.expect_err("two are running");
        assert_eq!(late.to_string(), "2 calls are running, as many as may at a time, and no turn came within 3 s");
        assert_eq!(turns.waiting(), 0, "it waits no longer");
        drop(one);
        let three = turns.take(2, LONG).await;
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
            many.extend(turns.take(0, LONG).await);
        }
        many
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_goes_away_leaves_its_place() {
        let turns = Turns::new(1);
        let first = turns.take(1, LONG).await.expect("nobody is there");
        {
            let mut gone = pin!(turns.take(1, LONG));
            let mut also_gone = pin!(turns.take(2, LONG));
            tokio::select! {
                biased;
                _ = &mut gone => unreachable!("it is no turn"),
                _ = &mut also_gone => unreachable!("it is no turn"),
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
        let _first = turns.take(1, LONG).await.expect("nobody is there");
        let wait = |party: u64| {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.take(party, LONG).await })
        };
        let crowd: Vec<_> = (0..3).map(|_| wait(1)).collect();
        while turns.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        let full = turns.take(1, LONG).await.expect_err("no room");
        assert_eq!(full, Busy::Full { most: 1, waiting: 3 });
        let other = wait(2);
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
