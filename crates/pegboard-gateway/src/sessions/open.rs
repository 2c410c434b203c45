//! The sessions in memory.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{caller::Caller, lock, sessions::ClientSession, shares::Party};

/// All sessions in memory.
#[derive(Debug, Default)]
pub(crate) struct OpenSessions {
    by_id: Mutex<HashMap<String, Arc<ClientSession>>>,
}

impl OpenSessions {
    /// Adds a session; evicts another one if there are `most`.
    pub(crate) fn add(&self, session: Arc<ClientSession>, most: usize) -> Vec<Arc<ClientSession>> {
        let gone = self.remove_surplus(most.max(1) - 1);
        lock(&self.by_id).insert(session.id.clone(), session);
        gone
    }

    /// Removes the least recently used sessions of a token until there are at most `most` of them.
    pub(crate) fn remove_surplus_of(&self, caller: Caller, most: usize) -> Vec<Arc<ClientSession>> {
        let mut sessions = lock(&self.by_id);
        let mut own: Vec<Arc<ClientSession>> = match caller {
            Caller::Token(_) => sessions.values().filter(|session| session.caller() == caller).cloned().collect(),
            Caller::Anybody | Caller::Pipe => Vec::new(),
        };
        own.sort_by_key(|session| session.age_order());
        own.truncate(own.len().saturating_sub(most));
        own.iter().for_each(|session| _ = sessions.remove(&session.id));
        own
    }

    /// Adds a session from disk, unless another request just did; returns the session that is kept,
    /// and whether it is this one.
    pub(crate) fn readmit(&self, session: Arc<ClientSession>) -> (Arc<ClientSession>, bool) {
        let mut sessions = lock(&self.by_id);
        match sessions.entry(session.id.clone()) {
            Entry::Occupied(there) => (Arc::clone(there.get()), false),
            Entry::Vacant(place) => (Arc::clone(place.insert(session)), true),
        }
    }

    /// Removes sessions until there are at most `most`: the least recently used ones of the token
    /// or address with the most sessions.
    pub(crate) fn remove_surplus(&self, most: usize) -> Vec<Arc<ClientSession>> {
        let mut sessions = lock(&self.by_id);
        let mut gone = Vec::new();
        while sessions.len() > most {
            let mut counts: HashMap<Party, usize> = HashMap::new();
            sessions.values().for_each(|session| *counts.entry(session.party).or_default() += 1);
            let order = |session: &&Arc<ClientSession>| {
                (Reverse(counts.get(&session.party).copied().unwrap_or_default()), session.age_order())
            };
            let first = sessions.values().min_by_key(order).map(|session| session.id.clone());
            let Some(first) = first else { break };
            gone.extend(sessions.remove(&first));
        }
        gone
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.by_id).len()
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<ClientSession>> {
        lock(&self.by_id).get(id).cloned()
    }

    pub(crate) fn remove(&self, id: &str) -> Option<Arc<ClientSession>> {
        lock(&self.by_id).remove(id)
    }

    /// Removes sessions that were not used for so long.
    pub(crate) fn expire(&self, limit: Duration) -> Vec<Arc<ClientSession>> {
        let mut sessions = lock(&self.by_id);
        let old: Vec<String> = sessions
            .values()
            .filter(|session| session.is_unused_since(limit))
            .map(|session| session.id.clone())
            .collect();
        old.iter().filter_map(|id| sessions.remove(id)).collect()
    }

    /// Returns all sessions, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<ClientSession>> {
        let mut all: Vec<Arc<ClientSession>> = lock(&self.by_id).values().cloned().collect();
        all.sort_by_key(|session| session.owner);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::testing;

    #[test]
    fn those_with_the_most_sessions_make_room() {
        let open = OpenSessions::default();
        let session = |owner: u64, address: u8| {
            let party = Party::Address(IpAddr::V4(Ipv4Addr::new(192, 0, 2, address)).into());
            testing::session(Caller::Anybody, party, owner, true)
        };
        let quiet = session(1, 1);
        assert!(open.add(Arc::clone(&quiet), 4).is_empty());
        let crowd: Vec<_> = (2..=4).map(|owner| session(owner, 2)).collect();
        for one in &crowd {
            assert!(open.add(Arc::clone(one), 4).is_empty());
        }
        let gone: Vec<u64> = open.add(session(5, 3), 4).iter().map(|session| session.owner).collect();
        assert_eq!(gone, [2], "the oldest of the crowd, although another one is older");
        assert!(open.find(&quiet.id).is_some());
        assert_eq!(open.remove_surplus_of(Caller::Anybody, 0).len(), 0, "only tokens have a share of their own");
    }
}
