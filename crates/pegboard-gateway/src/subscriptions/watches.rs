//! Subscribed resources, and the subscriptions at their servers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use pegboard_mcp::{era::Era, json::Fields};
use pegboard_upstream::{Call, Fleet, Hello, Upstream};

use crate::lock;

/// A resource: its server, and its URI there.
type Key = (Arc<str>, String);

/// The subscribed resources, each with the number of its subscribers.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watched: Mutex<BTreeMap<Key, usize>>,
    /// To which connection of a server they were made known.
    known_to: Mutex<HashMap<Arc<str>, Arc<Hello>>>,
}

impl Watches {
    /// Adds a subscriber of a resource.
    pub(super) async fn add(&self, fleet: &Fleet, key: Key) {
        let is_first = {
            let mut watched = lock(&self.watched);
            let count = watched.entry(key.clone()).or_default();
            *count += 1;
            *count == 1
        };
        if is_first {
            self.send_request(fleet, &key, "resources/subscribe").await;
        }
    }

    /// Removes a subscriber of a resource.
    pub(super) async fn remove(&self, fleet: &Fleet, key: &Key) {
        let is_last = {
            let mut watched = lock(&self.watched);
            match watched.get_mut(key) {
                Some(count) if *count > 1 => {
                    *count -= 1;
                    false
                }
                Some(_) => watched.remove(key).is_some(),
                None => false,
            }
        };
        if is_last {
            self.send_request(fleet, key, "resources/unsubscribe").await;
        }
    }

    async fn send_request(&self, fleet: &Fleet, (server, uri): &Key, method: &str) {
        let Some(upstream) = fleet.find(server) else { return };
        match upstream.hello() {
            Some(hello) if hello.era == Era::Modern => upstream.watch_resources(self.uris_of(&upstream)).await,
            Some(_) => send_legacy_request(&upstream, method, uri).await,
            None => {}
        }
    }

    /// Returns the subscribed resources of a server.
    fn uris_of(&self, upstream: &Upstream) -> Vec<String> {
        let watched = lock(&self.watched);
        watched.keys().filter(|(server, _)| **server == *upstream.name()).map(|(_, uri)| uri.clone()).collect()
    }

    /// Returns whether a server was reconnected, and records the connection.
    pub(super) fn is_new_connection(&self, upstream: &Upstream, hello: &Arc<Hello>) -> bool {
        let old = lock(&self.known_to).insert(upstream.name().into(), Arc::clone(hello));
        old.is_none_or(|old| !Arc::ptr_eq(&old, hello))
    }

    /// Renews the subscriptions at a server, without waiting.
    pub(super) fn resubscribe(&self, upstream: &Arc<Upstream>, hello: &Arc<Hello>) {
        let (uris, is_modern) = (self.uris_of(upstream), hello.era == Era::Modern);
        let upstream = Arc::clone(upstream);
        tokio::spawn(async move {
            if is_modern {
                return upstream.watch_resources(uris).await;
            }
            for uri in uris {
                send_legacy_request(&upstream, "resources/subscribe", &uri).await;
            }
        });
    }
}

async fn send_legacy_request(upstream: &Upstream, method: &str, uri: &str) {
    let timeout = upstream.config().timeouts.call;
    let made = upstream.call(|_| Call::new(method, Fields::new().with("uri", uri), timeout)).await;
    if let Err(error) = made {
        tracing::debug!(server = upstream.name(), %error, method, "subscription rejected by the server");
    }
}
