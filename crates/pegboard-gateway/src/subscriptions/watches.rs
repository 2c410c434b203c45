//! Resources that clients want to hear about, and the servers that must be told so.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use pegboard_upstream::{Call, Hello, Upstream, era::Era, json::Fields};

use crate::{gateway::Gateway, lock};

/// The resources that are watched, each with its server and how many want it.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watched: Mutex<BTreeMap<(Arc<str>, String), usize>>,
    /// To which connection of a server they were made known.
    known_to: Mutex<HashMap<Arc<str>, Arc<Hello>>>,
}

impl Watches {
    /// Watches a resource by the URI that clients use; whether there is such a server.
    pub(crate) async fn add(&self, gateway: &Gateway, uri: &str) -> bool {
        let Some(key) = gateway.directory().resource(uri) else { return false };
        let is_first = {
            let mut watched = lock(&self.watched);
            let count = watched.entry(key.clone()).or_default();
            *count += 1;
            *count == 1
        };
        if is_first {
            self.tell(gateway, &key, "resources/subscribe").await;
        }
        true
    }

    /// Stops watching a resource for one client.
    pub(crate) async fn remove(&self, gateway: &Gateway, uri: &str) {
        let Some(key) = gateway.directory().resource(uri) else { return };
        let is_last = {
            let mut watched = lock(&self.watched);
            match watched.get_mut(&key) {
                Some(count) if *count > 1 => {
                    *count -= 1;
                    false
                }
                Some(_) => watched.remove(&key).is_some(),
                None => false,
            }
        };
        if is_last {
            self.tell(gateway, &key, "resources/unsubscribe").await;
        }
    }

    async fn tell(&self, gateway: &Gateway, (server, uri): &(Arc<str>, String), method: &str) {
        let Some(upstream) = gateway.fleet.find(server) else { return };
        match upstream.hello() {
            Some(hello) if hello.era == Era::Modern => upstream.watch_resources(self.of(&upstream)).await,
            Some(_) => tell_legacy(&upstream, method, uri).await,
            None => {}
        }
    }

    /// The watched resources of a server.
    fn of(&self, upstream: &Upstream) -> Vec<String> {
        let watched = lock(&self.watched);
        watched.keys().filter(|(server, _)| **server == *upstream.name()).map(|(_, uri)| uri.clone()).collect()
    }

    /// Makes watches and the log level known to servers that were connected anew. Waits for
    /// none of them.
    pub(crate) fn renew(gateway: &Arc<Gateway>) {
        let this = &gateway.watches;
        for upstream in gateway.fleet.servers().iter() {
            let Some(hello) = upstream.hello() else { continue };
            let is_known = {
                let mut known = lock(&this.known_to);
                let old = known.insert(upstream.name().into(), Arc::clone(&hello));
                old.is_some_and(|old| Arc::ptr_eq(&old, &hello))
            };
            if is_known {
                continue;
            }
            gateway.tell_level(upstream);
            let uris = this.of(upstream);
            let upstream = Arc::clone(upstream);
            tokio::spawn(async move {
                if hello.era == Era::Modern {
                    return upstream.watch_resources(uris).await;
                }
                for uri in uris {
                    tell_legacy(&upstream, "resources/subscribe", &uri).await;
                }
            });
        }
    }
}

impl Gateway {
    /// Follows resources no longer on behalf of a conversation. Must be called inside a runtime.
    pub(crate) fn unwatch(self: &Arc<Self>, uris: impl IntoIterator<Item = String>) {
        let uris: Vec<String> = uris.into_iter().collect();
        if uris.is_empty() {
            return;
        }
        let gateway = Arc::clone(self);
        tokio::spawn(async move {
            for uri in uris {
                gateway.watches.remove(&gateway, &uri).await;
            }
        });
    }
}

async fn tell_legacy(upstream: &Upstream, method: &str, uri: &str) {
    let timeout = upstream.config().timeouts.call;
    let made = upstream.call(|_| Call::new(method, Fields::new().with("uri", uri), timeout)).await;
    if let Err(error) = made {
        tracing::debug!(server = upstream.name(), %error, method, "a subscription was not taken");
    }
}
