//! The turns that were used last, in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{Link, Turn};

/// Maximum number of bytes of all turns in memory.
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(super) struct Memory {
    state: Mutex<State>,
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<Link, Entry>,
    /// The same by the time of their last use.
    by_use: BTreeMap<u64, Link>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    turn: Arc<Turn>,
    used: u64,
    used_at: Instant,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { state: Mutex::default(), lifetime }
    }

    pub(super) fn get(&self, link: &Link) -> Option<Arc<Turn>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = state.turns.get(link)?;
        if entry.used_at.elapsed() >= self.lifetime {
            state.remove(link);
            return None;
        }
        let (turn, bytes) = (Arc::clone(&entry.turn), entry.bytes);
        state.insert(*link, Arc::clone(&turn), bytes);
        Some(turn)
    }

    pub(super) fn put(&self, link: Link, turn: Arc<Turn>, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.insert(link, turn, bytes);
        while state.bytes > MAX_BYTES {
            let Some((_, oldest)) = state.by_use.pop_first() else { return };
            state.remove(&oldest);
        }
    }
}

impl State {
    fn insert(&mut self, link: Link, turn: Arc<Turn>, bytes: usize) {
        self.remove(&link);
        self.clock += 1;
        self.bytes += bytes;
        self.by_use.insert(self.clock, link);
        self.turns.insert(link, Entry { turn, used: self.clock, used_at: Instant::now(), bytes });
    }

    fn remove(&mut self, link: &Link) {
        if let Some(entry) = self.turns.remove(link) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_turns_are_removed() {
        let memory = Memory::new(Duration::from_secs(60));
        let link = |at: u8| [at; 32];
        let turn = Arc::new(Turn::default());
        for at in 0..4 {
            memory.put(link(at), Arc::clone(&turn), MAX_BYTES / 4);
        }
        assert!(memory.get(&link(0)).is_some());
        memory.put(link(9), Arc::clone(&turn), MAX_BYTES / 4);
        let kept: Vec<u8> = (0..10).filter(|at| memory.get(&link(*at)).is_some()).collect();
        assert_eq!(kept, [0, 2, 3, 9]);
        // The same turn again takes no further room.
        memory.put(link(9), Arc::clone(&turn), MAX_BYTES / 4);
        assert!(memory.get(&link(2)).is_some());
        assert!(Memory::new(Duration::ZERO).get(&link(0)).is_none());
    }

    #[test]
    fn turns_end_with_their_lifetime() {
        let memory = Memory::new(Duration::ZERO);
        memory.put([1; 32], Arc::default(), 1);
        assert!(memory.get(&[1; 32]).is_none());
    }
}
