//! Subscriptions of clients on the connections that their calls use.
//!
//! The catalog connection has the subscriptions of all clients. A connection beside it has those of
//! its clients too, and these get updates from there only, for as long as it is open: what their
//! calls change can be known to that connection alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw},
    rpc::RpcError,
};
use tokio::sync::watch;

use super::{AGREEING, ClientOwner, UpdateSource, Upstream, pool::Slot};
use crate::{
    connection::{Call, CallError, Link, Notice},
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

/// Subscriptions that a server has rejected, by resource.
pub type Rejected = BTreeMap<String, RpcError>;

/// What was sent on a legacy connection.
#[derive(Debug, Default)]
pub(super) struct SentSubscriptions {
    uris: BTreeSet<String>,
    /// What the server has rejected. It is not asked again for the sake of others.
    rejected: Rejected,
}

/// The subscriptions of clients on a legacy catalog connection.
#[derive(Debug, Default)]
pub(super) struct CatalogSubscriptions {
    /// The connection that has them.
    connection: Option<Arc<Hello>>,
    sent: SentSubscriptions,
}

impl Upstream {
    /// Subscribes on the catalog connection to the resources that `wanted` returns, and ends other
    /// subscriptions. Returns when the server has agreed, or was given the time to: of an update before
    /// that, clients are not notified. Also returns which subscriptions the server has rejected; it is asked again for
    /// those in `again`.
    pub async fn watch_resources(
        &self,
        wanted: impl Fn() -> BTreeSet<String> + Send + Sync,
        again: &[String],
    ) -> Rejected {
        set_watched(&self.watched, &wanted);
        match self.hello().map(|hello| hello.era) {
            Some(Era::Modern) => {
                let connection = self.connection.borrow().clone();
                if let Some((link, _)) = connection {
                    let uris = self.watched.borrow().clone();
                    link.news.watching(&uris, AGREEING).await;
                }
                Rejected::default()
            }
            Some(Era::Legacy) => self.send_catalog_subscriptions(wanted, again).await,
            None => Rejected::default(),
        }
    }

    /// Sends a legacy server what has changed since the last request, one request after the other: the
    /// server must not get a subscription and its end in another order than they came.
    async fn send_catalog_subscriptions(
        &self,
        wanted: impl Fn() -> BTreeSet<String> + Send + Sync,
        again: &[String],
    ) -> Rejected {
        let mut sent = self.catalog_subscriptions.lock().await;
        let Some(hello) = self.hello() else { return Rejected::default() };
        if !sent.connection.as_ref().is_some_and(|known| Arc::ptr_eq(known, &hello)) {
            *sent = CatalogSubscriptions { connection: Some(hello), sent: SentSubscriptions::default() };
        }
        let sent = &mut sent.sent;
        sent.ask_again(again);
        loop {
            let changes = sent.changes(&wanted());
            if changes.is_empty() {
                return sent.rejected.clone();
            }
            for change in changes {
                let outcome = self.call(|_| change.call(self.config.timeouts.call)).await;
                if sent.record(self.name(), change, outcome).is_break() {
                    return sent.rejected.clone();
                }
            }
        }
    }

    /// Notifies the clients of a connection that resources may have changed while the server could not say so.
    pub async fn report_missed_updates(&self, source: UpdateSource, uris: BTreeSet<String>) {
        for uri in uris {
            let params = Some(Fields::new().with("uri", &uri).to_raw());
            let notice = Notice { method: "notifications/resources/updated".to_owned(), params, source };
            let _ = self.context.notices.send((self.name().into(), notice)).await;
        }
    }

    /// Applies the subscriptions of a client to the open connections beside the catalog connection that
    /// it may use. Returns when the servers have agreed, or were given the time to, and which subscriptions were
    /// rejected there; `None` if no legacy connection is open. The server is asked again for those in `again`.
    pub async fn apply_subscriptions(
        &self,
        owner: Option<ClientOwner>,
        era: Era,
        again: &[String],
    ) -> Option<Rejected> {
        let mut rejected = None;
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
                        sent.ask_again(again);
                        let here = self.send_subscriptions(&link, &mut sent, source).await;
                        // A client gets updates from the first of them.
                        rejected.get_or_insert(here);
                    }
                }
            }
        }
        rejected
    }

    /// Returns the connection that a client gets updates of resources from.
    pub fn update_source(&self, owner: Option<ClientOwner>, era: Era) -> UpdateSource {
        let is_open = |source: &UpdateSource| !self.pool.open(|key| key.source() == Some(*source)).is_empty();
        sources(owner, era).find(is_open).unwrap_or_default()
    }

    pub(super) fn subscriptions_on(&self, source: UpdateSource) -> BTreeSet<String> {
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
        // What could not be sent is not sent again.
        let mut is_tried = None;
        loop {
            let (wanted, version) = subscriptions.versioned(self.name(), source);
            if sent.changes(&wanted).is_empty() || is_tried == Some(version) {
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
                    sent.uris = wanted;
                }
                Era::Legacy => _ = self.send_subscriptions(link, &mut sent, source).await,
            }
            is_tried = Some(version);
        }
    }

    /// Sends the changes of the subscriptions on a legacy connection, until there are none.
    async fn send_subscriptions(
        &self,
        link: &Arc<Link>,
        sent: &mut SentSubscriptions,
        source: UpdateSource,
    ) -> Rejected {
        loop {
            let changes = sent.changes(&self.subscriptions_on(source));
            if changes.is_empty() {
                return sent.rejected.clone();
            }
            for change in changes {
                let outcome = link.call(change.call(self.config.timeouts.connect)).await;
                if sent.record(self.name(), change, outcome).is_break() {
                    return sent.rejected.clone();
                }
            }
        }
    }
}

impl SentSubscriptions {
    /// Lets the server be asked again for resources that it has rejected.
    fn ask_again(&mut self, uris: &[String]) {
        self.rejected.retain(|uri, _| !uris.contains(uri));
    }

    /// Returns the changes that lead to what is wanted, without those that the server has rejected.
    fn changes(&mut self, wanted: &BTreeSet<String>) -> Vec<SubscriptionChange> {
        self.rejected.retain(|uri, _| wanted.contains(uri));
        let mut changes = SubscriptionChange::between(&self.uris, wanted);
        changes.retain(|change| !self.rejected.contains_key(&change.uri));
        changes
    }

    /// Records the answer to a change. Breaks if the server cannot be reached: what is left is sent with the next change, or
    /// to the next connection.
    fn record(&mut self, server: &str, change: SubscriptionChange, outcome: Result<Raw, CallError>) -> ControlFlow<()> {
        let Err(error) = outcome else {
            change.apply_to(&mut self.uris);
            return ControlFlow::Continue(());
        };
        let method = change.method;
        tracing::debug!(server, %error, method, "subscription rejected by the server");
        match error {
            CallError::Rpc(error) if change.is_wanted => {
                self.rejected.insert(change.uri, error);
            }
            // One that cannot be ended is not asked for again.
            CallError::Rpc(_) => change.apply_to(&mut self.uris),
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
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
    fn rejected_resources_are_asked_for_again_by_their_own_clients_only() {
        let set = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<BTreeSet<_>>();
        let uris = |changes: &[SubscriptionChange]| changes.iter().map(|one| one.uri.clone()).collect::<Vec<_>>();
        let rpc = || Err(CallError::Rpc(RpcError::new(RpcError::INVALID_PARAMS, "no")));
        let mut sent = SentSubscriptions::default();
        let mut changes = sent.changes(&set(&["a", "b", "c"]));
        assert_eq!(uris(&changes), ["a", "b", "c"]);
        let done = Fields::new().to_raw();
        assert!(sent.record("s", changes.remove(0), Ok(done)).is_continue());
        assert!(sent.record("s", changes.remove(0), rpc()).is_continue());
        assert!(sent.record("s", changes.remove(0), Err(CallError::SessionExpired)).is_break());
        assert_eq!(uris(&sent.changes(&set(&["a", "b", "c", "d"]))), ["c", "d"]);
        sent.ask_again(&["b".to_owned()]);
        assert_eq!(uris(&sent.changes(&set(&["a", "b"]))), ["b"]);
        let mut gone = sent.changes(&set(&[]));
        assert!(sent.record("s", gone.remove(0), rpc()).is_continue());
        assert!(sent.changes(&set(&[])).is_empty() && sent.rejected.is_empty());
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
