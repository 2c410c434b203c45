//! Subscriptions of clients on the connections that their calls use.
//!
//! The catalog connection has the subscriptions of all clients. A connection beside it has those of
//! its clients too, and these get updates from there only, for as long as it is open: what their
//! calls change can be known to that connection alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use pegboard_mcp::{era::Era, json::Fields};
use tokio::sync::watch;

use super::{AGREEING, ClientOwner, UpdateSource, Upstream, pool::Slot};
use crate::{
    connection::{Call, Link},
    handshake::Hello,
};

/// The subscribed resources of clients by connection and server, each with the number of its
/// subscriptions. They belong to the fleet, so that they outlive a server that is replaced or paused.
#[derive(Debug, Default)]
pub(crate) struct ClientSubscriptions(Mutex<HashMap<UpdateSource, BTreeMap<String, Counts>>>);

/// Resources with the number of their subscriptions.
type Counts = BTreeMap<String, usize>;

impl ClientSubscriptions {
    /// Adds a subscription of a client to a resource of a server.
    pub(crate) fn add(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        let mut all = lock(&self.0);
        for source in sources(owner, era) {
            let uris = all.entry(source).or_default().entry(server.to_owned()).or_default();
            *uris.entry(uri.to_owned()).or_default() += 1;
        }
    }

    /// Removes a subscription that was added before.
    pub(crate) fn remove(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        let mut all = lock(&self.0);
        for source in sources(owner, era) {
            let Some(servers) = all.get_mut(&source) else { continue };
            if let Some(uris) = servers.get_mut(server) {
                match uris.get_mut(uri) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => _ = uris.remove(uri),
                }
            }
            servers.retain(|_, uris| !uris.is_empty());
            if servers.is_empty() {
                all.remove(&source);
            }
        }
    }

    /// Returns the resources of a server that the clients of a connection have subscribed to.
    fn of(&self, server: &str, source: UpdateSource) -> Vec<String> {
        let all = lock(&self.0);
        all.get(&source).and_then(|servers| servers.get(server)).into_iter().flat_map(Counts::keys).cloned().collect()
    }

    /// Forgets the subscriptions of a client that has gone.
    pub(crate) fn forget(&self, owner: ClientOwner) {
        lock(&self.0).remove(&UpdateSource::Client(owner));
    }
}

/// The subscriptions of clients on a legacy catalog connection.
#[derive(Debug, Default)]
pub(super) struct CatalogSubscriptions {
    /// The connection that has them.
    connection: Option<Arc<Hello>>,
    uris: BTreeSet<String>,
}

impl Upstream {
    /// Subscribes on the catalog connection to the resources that `wanted` returns, and ends other
    /// subscriptions. Returns when the server has agreed, or was given the time to: of an update before
    /// that, clients are not notified.
    pub async fn watch_resources(&self, wanted: impl Fn() -> Vec<String> + Send + Sync) {
        set_watched(&self.watched, &wanted);
        match self.hello().map(|hello| hello.era) {
            Some(Era::Modern) => {
                let connection = self.connection.borrow().clone();
                if let Some((link, _)) = connection {
                    let uris = self.watched.borrow().clone();
                    link.news.watching(&uris, AGREEING).await;
                }
            }
            Some(Era::Legacy) => self.send_catalog_subscriptions(wanted).await,
            None => {}
        }
    }

    /// Sends a legacy server what has changed since the last request, one request after the other: the
    /// server must not get a subscription and its end in another order than they came.
    async fn send_catalog_subscriptions(&self, wanted: impl Fn() -> Vec<String> + Send + Sync) {
        let mut sent = self.catalog_subscriptions.lock().await;
        let Some(hello) = self.hello() else { return };
        if !sent.connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, &hello)) {
            *sent = CatalogSubscriptions { connection: Some(hello), uris: BTreeSet::new() };
        }
        while let Some(change) = SubscriptionChange::next(&sent.uris, wanted()) {
            let timeout = self.config.timeouts.call;
            let made = self.call(|_| change.call(timeout)).await;
            if let Err(error) = made {
                let (server, method) = (self.name(), change.method);
                tracing::debug!(server, %error, method, "subscription rejected by the server");
            }
            change.apply_to(&mut sent.uris);
        }
    }

    /// Applies the subscriptions of a client to the open connections beside the catalog connection that
    /// it may use. Returns when the servers have agreed, or were given the time to.
    pub async fn apply_subscriptions(&self, owner: Option<ClientOwner>, era: Era) {
        for source in sources(owner, era) {
            self.pool.watch(source, || self.subscriptions_on(source));
            for (slot, link, hello) in self.pool.open_slots(|key| key.source() == Some(source)) {
                match hello.era {
                    Era::Modern => {
                        let uris = slot.watched.borrow().clone();
                        link.news.watching(&uris, AGREEING).await;
                    }
                    Era::Legacy => {
                        let mut sent = slot.subscribed.lock().await;
                        while self.send_subscription(&link, &mut sent, self.subscriptions_on(source)).await {}
                    }
                }
            }
        }
    }

    /// Returns the connection that a client gets updates of resources from.
    pub fn update_source(&self, owner: Option<ClientOwner>, era: Era) -> UpdateSource {
        let is_open = |source: &UpdateSource| !self.pool.open(|key| key.source() == Some(*source)).is_empty();
        sources(owner, era).find(is_open).unwrap_or_default()
    }

    fn subscriptions_on(&self, source: UpdateSource) -> Vec<String> {
        self.context.subscriptions.of(self.name(), source)
    }

    /// Subscribes on a new connection to what its clients have subscribed to; returns the resources,
    /// for a modern server.
    pub(super) async fn resubscribe(
        &self,
        slot: &Slot,
        link: &Arc<Link>,
        hello: &Hello,
    ) -> Option<watch::Receiver<Vec<String>>> {
        let source = slot.key.source()?;
        set_watched(&slot.watched, &|| self.subscriptions_on(source));
        if hello.era == Era::Modern {
            return Some(slot.watched.subscribe());
        }
        let mut sent = slot.subscribed.lock().await;
        while self.send_subscription(link, &mut sent, self.subscriptions_on(source)).await {}
        None
    }

    /// Marks a connection of the pool as open, once it has all subscriptions of its clients: a
    /// subscription that comes before this is made here, and one that comes after it finds the
    /// connection open.
    pub(super) async fn set_open_when_subscribed(&self, slot: &Slot, link: &Arc<Link>, hello: &Arc<Hello>) {
        let mut sent = slot.subscribed.lock().await;
        loop {
            let wanted = {
                let all = lock(&self.context.subscriptions.0);
                let servers = slot.key.source().and_then(|source| all.get(&source));
                let uris = servers.and_then(|servers| servers.get(self.name()));
                let wanted: Vec<String> = uris.into_iter().flat_map(Counts::keys).cloned().collect();
                if SubscriptionChange::next(&sent, wanted.clone()).is_none() {
                    return slot.set_open(link, hello);
                }
                wanted
            };
            match hello.era {
                Era::Modern => {
                    // The stream has them when the server has agreed.
                    link.news.watching(&wanted, AGREEING).await;
                    *sent = wanted.into_iter().collect();
                }
                Era::Legacy => _ = self.send_subscription(link, &mut sent, wanted).await,
            }
        }
    }

    /// Sends one change of the subscriptions on a legacy connection; `false` if there is none.
    async fn send_subscription(&self, link: &Arc<Link>, sent: &mut BTreeSet<String>, wanted: Vec<String>) -> bool {
        let Some(change) = SubscriptionChange::next(sent, wanted) else { return false };
        if let Err(error) = link.call(change.call(self.config.timeouts.connect)).await {
            let (server, method) = (self.name(), change.method);
            tracing::debug!(server, %error, method, "subscription rejected by the server");
        }
        change.apply_to(sent);
        true
    }
}

/// A change of the subscriptions on a legacy connection.
#[derive(Debug, PartialEq, Eq)]
struct SubscriptionChange {
    method: &'static str,
    uri: String,
    is_wanted: bool,
}

impl SubscriptionChange {
    /// Returns the next change that leads from what was sent to what is wanted.
    fn next(sent: &BTreeSet<String>, wanted: Vec<String>) -> Option<Self> {
        let surplus = sent.iter().find(|uri| !wanted.contains(uri)).cloned();
        let missing = wanted.into_iter().find(|uri| !sent.contains(uri));
        missing
            .map(|uri| Self { method: "resources/subscribe", uri, is_wanted: true })
            .or_else(|| surplus.map(|uri| Self { method: "resources/unsubscribe", uri, is_wanted: false }))
    }

    fn call(&self, timeout: Duration) -> Call {
        Call::new(self.method, Fields::new().with("uri", &self.uri), timeout)
    }

    /// Records that the change was sent.
    fn apply_to(self, sent: &mut BTreeSet<String>) {
        match self.is_wanted {
            true => _ = sent.insert(self.uri),
            false => _ = sent.remove(&self.uri),
        }
    }
}

/// Sets the resources of a connection to those that `wanted` returns. They are read under the lock of
/// the channel, so that a later change is not overwritten by an earlier one.
pub(super) fn set_watched(watched: &watch::Sender<Vec<String>>, wanted: &dyn Fn() -> Vec<String>) {
    watched.send_if_modified(|watched| {
        let uris = wanted();
        let is_new = *watched != uris;
        *watched = uris;
        is_new
    });
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
        let [ann, bob] = [1, 2].map(|number| Some(ClientOwner::Session(number)));
        let of = |owner: Option<ClientOwner>| subscriptions.of("one", UpdateSource::Client(owner.expect("an owner")));
        let shared = || subscriptions.of("one", UpdateSource::Shared(Era::Legacy));
        for (owner, uri) in [(ann, "a"), (ann, "a"), (bob, "a"), (ann, "b")] {
            subscriptions.add("one", owner, Era::Legacy, uri);
        }
        assert_eq!((of(ann), of(bob), shared()), (vec!["a".into(), "b".into()], vec!["a".into()], of(ann)));
        assert!(subscriptions.of("other", UpdateSource::Shared(Era::Legacy)).is_empty());
        subscriptions.remove("one", ann, Era::Legacy, "a");
        assert_eq!(of(ann), ["a", "b"], "the other one is left");
        subscriptions.remove("one", ann, Era::Legacy, "a");
        assert_eq!((of(ann), shared()), (vec!["b".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
        subscriptions.forget(ClientOwner::Session(1));
        assert!(of(ann).is_empty());
        subscriptions.remove("one", ann, Era::Legacy, "b");
        subscriptions.remove("one", bob, Era::Legacy, "x");
        subscriptions.remove("one", bob, Era::Legacy, "a");
        assert!(lock(&subscriptions.0).is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_later_set_is_not_overwritten_by_an_earlier_one() {
        let (watched, now) = (watch::Sender::new(Vec::new()), Mutex::new(vec!["a".to_owned()]));
        let wanted = || lock(&now).clone();
        // The one that changed the set first comes last.
        lock(&now).push("b".to_owned());
        set_watched(&watched, &wanted);
        set_watched(&watched, &wanted);
        assert_eq!(*watched.borrow(), ["a", "b"]);
    }

    #[test]
    fn changes_lead_to_what_is_wanted() {
        let mut sent: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let wanted = || ["b", "c"].map(str::to_owned).to_vec();
        let mut made = Vec::new();
        while let Some(change) = SubscriptionChange::next(&sent, wanted()) {
            made.push((change.method, change.uri.clone()));
            change.apply_to(&mut sent);
        }
        assert_eq!(made, [("resources/subscribe", "c".to_owned()), ("resources/unsubscribe", "a".to_owned())]);
        assert_eq!(sent, wanted().into_iter().collect());
    }
}
