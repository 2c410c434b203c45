//! Subscribed resources, and the subscriptions at their servers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use pegboard_upstream::{Hello, Rejected, Upstream};

use crate::lock;

/// A resource: its server, and its URI there.
pub(super) type Key = (Arc<str>, String);

/// What a connection of a server is beside the one that was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionChange {
    /// It is the first one.
    First,
    /// It is the same.
    Same,
    /// The server was connected again.
    Another,
}

/// The subscribed resources, each with the number of its subscribers.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watched: Mutex<BTreeMap<Key, usize>>,
    /// To which connection of a server they were made known.
    known_to: Mutex<HashMap<Arc<str>, Arc<Hello>>>,
}

impl Watches {
    /// Adds a subscriber of a resource.
    pub(super) fn add(&self, key: Key) {
        *lock(&self.watched).entry(key).or_default() += 1;
    }

    /// Removes a subscriber that was added before.
    pub(super) fn remove(&self, key: &Key) {
        let mut watched = lock(&self.watched);
        match watched.get_mut(key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = watched.remove(key),
        }
    }

    /// Makes the subscriptions known to a server.
    pub(super) async fn apply(&self, upstream: &Upstream, again: &[String]) -> Rejected {
        upstream.watch_resources(|| self.uris_of(upstream), again).await
    }

    /// Returns the subscribed resources of a server.
    pub(super) fn uris_of(&self, upstream: &Upstream) -> BTreeSet<String> {
        let name: Arc<str> = upstream.name().into();
        let watched = lock(&self.watched);
        let from_server = watched.range((Arc::clone(&name), String::new())..).map(|(key, _)| key);
        from_server.take_while(|(server, _)| *server == name).map(|(_, uri)| uri.clone()).collect()
    }

    /// Records the connection of a server.
    pub(super) fn record_connection(&self, upstream: &Upstream, hello: &Arc<Hello>) -> ConnectionChange {
        match lock(&self.known_to).insert(upstream.name().into(), Arc::clone(hello)) {
            None => ConnectionChange::First,
            Some(old) if Arc::ptr_eq(&old, hello) => ConnectionChange::Same,
            Some(_) => ConnectionChange::Another,
        }
    }
}
