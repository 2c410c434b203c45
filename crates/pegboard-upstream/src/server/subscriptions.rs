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
pub(crate) struct ClientSubscriptions(Mutex<Subscribed>);

/// The subscribed resources of all clients.
#[derive(Debug, Default)]
struct Subscribed {
    by_source: HashMap<UpdateSource, BTreeMap<String, Resources>>,
    /// The number of changes so far.
    changes: u64,
}

/// The subscribed resources of a server on one connection.
#[derive(Debug, Default)]
struct Resources {
    /// Resources with the number of their subscriptions.
    counts: BTreeMap<String, usize>,
    /// The number of the last change that added or removed a resource.
    version: u64,
}

impl Subscribed {
    fn of(&self, server: &str, source: UpdateSource) -> Option<&Resources> {
        self.by_source.get(&source).and_then(|servers| servers.get(server))
    }
}

impl ClientSubscriptions {
    /// Adds a subscription of a client to a resource of a server.
    pub(crate) fn add(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        let Subscribed { by_source, changes } = &mut *lock(&self.0);
        for source in sources(owner, era) {
            let resources = by_source.entry(source).or_default().entry(server.to_owned()).or_default();
            let count = resources.counts.entry(uri.to_owned()).or_default();
            *count += 1;
            if *count == 1 {
                *changes += 1;
                resources.version = *changes;
            }
        }
    }

    /// Removes a subscription that was added before.
    pub(crate) fn remove(&self, server: &str, owner: Option<ClientOwner>, era: Era, uri: &str) {
        let Subscribed { by_source, changes } = &mut *lock(&self.0);
        for source in sources(owner, era) {
            let Some(servers) = by_source.get_mut(&source) else { continue };
            if let Some(resources) = servers.get_mut(server) {
                match resources.counts.get_mut(uri) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => {
                        resources.counts.remove(uri);
                        *changes += 1;
                        resources.version = *changes;
                    }
                }
            }
            servers.retain(|_, resources| !resources.counts.is_empty());
            if servers.is_empty() {
                by_source.remove(&source);
            }
        }
    }

    /// Returns the resources of a server that the clients of a connection have subscribed to.
    fn of(&self, server: &str, source: UpdateSource) -> BTreeSet<String> {
        self.versioned(server, source).0
    }

    /// Returns the resources of a server that the clients of a connection have subscribed to, and their
    /// version, which changes with them; `None` without any.
    fn versioned(&self, server: &str, source: UpdateSource) -> (BTreeSet<String>, Option<u64>) {
        let all = lock(&self.0);
        let resources = all.of(server, source);
        let uris = resources.into_iter().flat_map(|resources| resources.counts.keys()).cloned().collect();
        (uris, resources.map(|resources| resources.version))
    }

    /// Calls `act` if the resources still have this version, before they can change; returns whether
    /// they have.
    fn act_if_unchanged(&self, server: &str, source: UpdateSource, version: Option<u64>, act: impl FnOnce()) -> bool {
        let all = lock(&self.0);
        let is_unchanged = all.of(server, source).map(|resources| resources.version) == version;
        if is_unchanged {
            act();
        }
        is_unchanged
    }

    /// Forgets the subscriptions of a client that has gone.
    pub(crate) fn forget(&self, owner: ClientOwner) {
        lock(&self.0).by_source.remove(&UpdateSource::Client(owner));
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
    pub async fn watch_resources(&self, wanted: impl Fn() -> BTreeSet<String> + Send + Sync) {
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
    async fn send_catalog_subscriptions(&self, wanted: impl Fn() -> BTreeSet<String> + Send + Sync) {
        let mut sent = self.catalog_subscriptions.lock().await;
        let Some(hello) = self.hello() else { return };
        if !sent.connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, &hello)) {
            *sent = CatalogSubscriptions { connection: Some(hello), uris: BTreeSet::new() };
        }
        loop {
            let changes = SubscriptionChange::between(&sent.uris, &wanted());
            if changes.is_empty() {
                return;
            }
            for change in changes {
                let timeout = self.config.timeouts.call;
                let made = self.call(|_| change.call(timeout)).await;
                if let Err(error) = made {
                    let (server, method) = (self.name(), change.method);
                    tracing::debug!(server, %error, method, "subscription rejected by the server");
                }
                change.apply_to(&mut sent.uris);
            }
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
                        self.send_subscriptions(&link, &mut sent, source).await;
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

    fn subscriptions_on(&self, source: UpdateSource) -> BTreeSet<String> {
        self.context.subscriptions.of(self.name(), source)
    }

    /// Subscribes on a new connection to what its clients have subscribed to; returns the resources,
    /// for a modern server.
    pub(super) async fn resubscribe(
        &self,
        slot: &Slot,
        link: &Arc<Link>,
        hello: &Hello,
    ) -> Option<watch::Receiver<BTreeSet<String>>> {
        let source = slot.key.source()?;
        set_watched(&slot.watched, &|| self.subscriptions_on(source));
        if hello.era == Era::Modern {
            return Some(slot.watched.subscribe());
        }
        let mut sent = slot.subscribed.lock().await;
        self.send_subscriptions(link, &mut sent, source).await;
        None
    }

    /// Marks a connection of the pool as open, once it has all subscriptions of its clients: a
    /// subscription that comes before this is made here, and one that comes after it finds the
    /// connection open.
    pub(super) async fn set_open_when_subscribed(&self, slot: &Slot, link: &Arc<Link>, hello: &Arc<Hello>) {
        let Some(source) = slot.key.source() else { return slot.set_open(link, hello) };
        let subscriptions = &self.context.subscriptions;
        let mut sent = slot.subscribed.lock().await;
        loop {
            let (wanted, version) = subscriptions.versioned(self.name(), source);
            let changes = SubscriptionChange::between(&sent, &wanted);
            if changes.is_empty() {
                let open = || slot.set_open(link, hello);
                if subscriptions.act_if_unchanged(self.name(), source, version, open) {
                    return;
                }
                continue;
            }
            match hello.era {
                Era::Modern => {
                    // The stream has them when the server has agreed.
                    link.news.watching(&wanted, AGREEING).await;
                    *sent = wanted;
                }
                Era::Legacy => self.send_changes(link, &mut sent, changes).await,
            }
        }
    }

    /// Sends the changes of the subscriptions on a legacy connection, until there are none.
    async fn send_subscriptions(&self, link: &Arc<Link>, sent: &mut BTreeSet<String>, source: UpdateSource) {
        loop {
            let changes = SubscriptionChange::between(sent, &self.subscriptions_on(source));
            if changes.is_empty() {
                return;
            }
            self.send_changes(link, sent, changes).await;
        }
    }

    async fn send_changes(&self, link: &Arc<Link>, sent: &mut BTreeSet<String>, changes: Vec<SubscriptionChange>) {
        for change in changes {
            if let Err(error) = link.call(change.call(self.config.timeouts.connect)).await {
                let (server, method) = (self.name(), change.method);
                tracing::debug!(server, %error, method, "subscription rejected by the server");
            }
            change.apply_to(sent);
        }
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
    /// Returns the changes that lead from what was sent to what is wanted, subscriptions first.
    fn between(sent: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Vec<Self> {
        let missing = wanted.difference(sent).cloned();
        let surplus = sent.difference(wanted).cloned();
        let subscribe = missing.map(|uri| Self { method: "resources/subscribe", uri, is_wanted: true });
        let unsubscribe = surplus.map(|uri| Self { method: "resources/unsubscribe", uri, is_wanted: false });
        subscribe.chain(unsubscribe).collect()
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
pub(super) fn set_watched(watched: &watch::Sender<BTreeSet<String>>, wanted: &dyn Fn() -> BTreeSet<String>) {
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
        let set = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<BTreeSet<_>>();
        for (owner, uri) in [(ann, "a"), (ann, "a"), (bob, "a"), (ann, "b")] {
            subscriptions.add("one", owner, Era::Legacy, uri);
        }
        assert_eq!((of(ann), of(bob), shared()), (set(&["a", "b"]), set(&["a"]), of(ann)));
        assert!(subscriptions.of("other", UpdateSource::Shared(Era::Legacy)).is_empty());
        subscriptions.remove("one", ann, Era::Legacy, "a");
        assert_eq!(of(ann), set(&["a", "b"]), "the other one is left");
        subscriptions.remove("one", ann, Era::Legacy, "a");
        assert_eq!((of(ann), shared()), (set(&["b"]), set(&["a", "b"])));
        subscriptions.forget(ClientOwner::Session(1));
        assert!(of(ann).is_empty());
        subscriptions.remove("one", ann, Era::Legacy, "b");
        subscriptions.remove("one", bob, Era::Legacy, "x");
        subscriptions.remove("one", bob, Era::Legacy, "a");
        assert!(lock(&subscriptions.0).by_source.is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_change_of_the_resources_changes_their_version() {
        let subscriptions = ClientSubscriptions::default();
        let (ann, source) = (ClientOwner::Session(1), UpdateSource::Client(ClientOwner::Session(1)));
        let version = || subscriptions.versioned("one", source).1;
        let is_unchanged = |version| subscriptions.act_if_unchanged("one", source, version, || ());
        let add = |server, uri| subscriptions.add(server, Some(ann), Era::Legacy, uri);
        let remove = |uri| subscriptions.remove("one", Some(ann), Era::Legacy, uri);
        assert!(version().is_none() && is_unchanged(None));
        add("one", "a");
        let first = version();
        assert!(is_unchanged(first) && !is_unchanged(None));
        add("one", "a");
        add("other", "b");
        assert_eq!(version(), first, "a second subscription, or one at another server, adds no resource");
        remove("a");
        assert_eq!(version(), first);
        remove("a");
        assert_eq!(version(), None);
        add("one", "a");
        assert!(!is_unchanged(first), "it was removed meanwhile");
        let second = version();
        subscriptions.forget(ann);
        assert!(!is_unchanged(second));
    }

    #[test]
    fn a_later_set_is_not_overwritten_by_an_earlier_one() {
        let (watched, now) = (watch::Sender::default(), Mutex::new(BTreeSet::from(["a".to_owned()])));
        let wanted = || lock(&now).clone();
        // The one that changed the set first comes last.
        lock(&now).insert("b".to_owned());
        set_watched(&watched, &wanted);
        set_watched(&watched, &wanted);
        assert_eq!(*watched.borrow(), wanted());
    }

    #[test]
    fn changes_lead_to_what_is_wanted() {
        let mut sent: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let wanted: BTreeSet<String> = ["b", "c"].map(str::to_owned).into();
        let mut made = Vec::new();
        for change in SubscriptionChange::between(&sent, &wanted) {
            made.push((change.method, change.uri.clone()));
            change.apply_to(&mut sent);
        }
        assert_eq!(made, [("resources/subscribe", "c".to_owned()), ("resources/unsubscribe", "a".to_owned())]);
        assert_eq!(sent, wanted);
        assert!(SubscriptionChange::between(&sent, &wanted).is_empty());
    }
}
