//! Subscriptions of clients on the connections that their calls use.
//!
//! The catalog connection has the subscriptions of all clients. A connection beside it has those of
//! its clients too, and these get updates from there only, for as long as it is open: what their
//! calls change can be known to that connection alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use pegboard_core::locks::lock;
use pegboard_mcp::{era::Era, json::Fields};
use tokio::sync::watch;

use super::{ClientOwner, UpdateSource, Upstream, pool::Slot};
use crate::{
    connection::{Call, Link},
    handshake::Hello,
};

/// The subscribed resources of clients, each with the number of its subscriptions.
#[derive(Debug, Default)]
pub(super) struct ClientSubscriptions(Mutex<HashMap<UpdateSource, BTreeMap<String, usize>>>);

impl ClientSubscriptions {
    /// Adds a subscription; returns whether the resource was not subscribed to.
    fn add(&self, source: UpdateSource, uri: &str) -> bool {
        let mut sources = lock(&self.0);
        let count = sources.entry(source).or_default().entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a subscription; returns whether it was the last one to the resource.
    fn remove(&self, source: UpdateSource, uri: &str) -> bool {
        let mut sources = lock(&self.0);
        let Some(uris) = sources.get_mut(&source) else { return false };
        let Some(count) = uris.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            uris.remove(uri);
        }
        if uris.is_empty() {
            sources.remove(&source);
        }
        is_last
    }

    /// Takes over the subscriptions of a predecessor's clients.
    pub(super) fn inherit(&self, old: &Self) {
        lock(&self.0).clone_from(&lock(&old.0));
    }

    fn of(&self, source: UpdateSource) -> Vec<String> {
        lock(&self.0).get(&source).map(|uris| uris.keys().cloned().collect()).unwrap_or_default()
    }

    /// Forgets the subscriptions on a connection.
    pub(super) fn forget(&self, source: UpdateSource) {
        lock(&self.0).remove(&source);
    }
}

impl Upstream {
    /// Subscribes a client to a resource on the connections beside the catalog connection, now and
    /// when they are opened.
    pub async fn subscribe_for(&self, owner: Option<ClientOwner>, era: Era, uri: &str) {
        for source in sources(owner, era) {
            if self.client_subscriptions.add(source, uri) {
                self.change_subscription(source, uri, "resources/subscribe").await;
            }
        }
    }

    /// Ends the subscription of a client to a resource on these connections.
    pub async fn unsubscribe_for(&self, owner: Option<ClientOwner>, era: Era, uri: &str) {
        for source in sources(owner, era) {
            if self.client_subscriptions.remove(source, uri) {
                self.change_subscription(source, uri, "resources/unsubscribe").await;
            }
        }
    }

    /// Returns the connection that a client gets updates of resources from.
    pub fn update_source(&self, owner: Option<ClientOwner>, era: Era) -> UpdateSource {
        let is_open = |source: &UpdateSource| !self.pool.open(|key| key.source() == Some(*source)).is_empty();
        sources(owner, era).find(is_open).unwrap_or_default()
    }

    async fn change_subscription(&self, source: UpdateSource, uri: &str, method: &str) {
        let uris = self.client_subscriptions.of(source);
        self.pool.watch(source, &uris);
        for (link, hello) in self.pool.open(|key| key.source() == Some(source)) {
            self.send_subscription(&link, &hello, method, uri).await;
        }
    }

    /// Subscribes on a new connection to what its clients have subscribed to; returns the resources,
    /// for a modern server.
    pub(super) async fn resubscribe(
        &self,
        slot: &Slot,
        link: &Arc<Link>,
        hello: &Hello,
    ) -> Option<watch::Receiver<Vec<String>>> {
        let uris = self.client_subscriptions.of(slot.key.source()?);
        slot.watched.send_replace(uris.clone());
        if hello.era == Era::Modern {
            return Some(slot.watched.subscribe());
        }
        for uri in uris {
            self.send_subscription(link, hello, "resources/subscribe", &uri).await;
        }
        None
    }

    /// Marks a connection of the pool as open, once it has all subscriptions of its clients: a
    /// subscription that comes before this is made here, and one that comes after it finds the
    /// connection open.
    pub(super) async fn set_open_when_subscribed(&self, slot: &Slot, link: &Arc<Link>, hello: &Arc<Hello>) {
        let mut sent: BTreeSet<String> = slot.watched.borrow().iter().cloned().collect();
        loop {
            let new: Vec<String> = {
                let sources = lock(&self.client_subscriptions.0);
                let uris = slot.key.source().and_then(|source| sources.get(&source));
                let new: Vec<String> =
                    uris.into_iter().flat_map(BTreeMap::keys).filter(|uri| !sent.contains(*uri)).cloned().collect();
                if new.is_empty() || hello.era == Era::Modern {
                    return slot.set_open(link, hello);
                }
                new
            };
            for uri in new {
                self.send_subscription(link, hello, "resources/subscribe", &uri).await;
                sent.insert(uri);
            }
        }
    }

    async fn send_subscription(&self, link: &Arc<Link>, hello: &Hello, method: &str, uri: &str) {
        if hello.era == Era::Modern {
            return;
        }
        let call = Call::new(method, Fields::new().with("uri", uri), self.config.timeouts.connect);
        if let Err(error) = link.call(call).await {
            tracing::debug!(server = self.name(), %error, method, "subscription rejected by the server");
        }
    }
}

/// Returns the connections beside the catalog connection that a client may use, its own first.
fn sources(owner: Option<ClientOwner>, era: Era) -> impl Iterator<Item = UpdateSource> {
    owner.map(UpdateSource::Client).into_iter().chain([UpdateSource::Shared(era)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_subscribed_to_once_for_each_client() {
        let subscriptions = ClientSubscriptions::default();
        let [ann, bob] = [1, 2].map(|owner| UpdateSource::Client(ClientOwner::Session(owner)));
        let added = [(ann, "a"), (ann, "a"), (bob, "a"), (ann, "b")].map(|(owner, uri)| subscriptions.add(owner, uri));
        assert_eq!(added, [true, false, true, true]);
        assert_eq!(subscriptions.of(ann), ["a", "b"]);
        let removed =
            [(ann, "a"), (ann, "a"), (ann, "a"), (bob, "x")].map(|(owner, uri)| subscriptions.remove(owner, uri));
        assert_eq!(removed, [false, true, false, false]);
        subscriptions.forget(ann);
        subscriptions.remove(bob, "a");
        assert!(lock(&subscriptions.0).is_empty());
    }
}
