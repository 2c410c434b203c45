//! Subscriptions of clients, and notifications of servers.

mod listeners;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::Selection;
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw, raw},
    rpc::{Id, RpcError},
};
use pegboard_upstream::{ClientOwner, Fleet, Hello, UpdateSource, Upstream};
use tokio::task::JoinHandle;

use self::{
    listeners::{Listener, Listeners},
    watches::{ConnectionChange, Key, Watches},
};
use crate::{
    bounds::Subscriptions as Uris,
    caller::Viewer,
    catalog::CatalogView,
    exchange::Exchange,
    lock,
    request::{FLAGS, Listen},
    setup::Setups,
    shares::{Party, Shares},
    startup::Shutdown,
};

/// How long a client waits for servers after a change of its subscriptions: one that does not answer
/// must not delay the others.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(5);

/// Returns the URI at the server of what a client has subscribed to, if it is a resource of the server in question.
type Resolve<'a> = dyn Fn(&Viewer, &str) -> Option<String> + 'a;

/// A resource that a server has updated.
pub(crate) struct Updated<'a> {
    /// The URI at the server.
    pub(crate) uri: &'a str,
    pub(crate) resolve: &'a Resolve<'a>,
}

impl Updated<'_> {
    /// Returns the names of the resource for a client with these subscriptions: it may have subscribed under several names,
    /// or to a resource that this one belongs to.
    pub(crate) fn names<'a>(&self, viewer: &Viewer, subscribed: impl Iterator<Item = &'a str>) -> Vec<String> {
        let (mut names, mut parent) = (Vec::new(), None::<(usize, String)>);
        for name in subscribed {
            let Some(known) = (self.resolve)(viewer, name) else { continue };
            match self.uri.strip_prefix(known.as_str()) {
                Some("") => names.push(name.to_owned()),
                Some(rest) if rest.starts_with('/') || known.ends_with('/') => {
                    let is_nearest = parent.as_ref().is_none_or(|(length, _)| *length < known.len());
                    parent = if is_nearest { Some((known.len(), format!("{name}{rest}"))) } else { parent };
                }
                _ => {}
            }
        }
        if names.is_empty() { parent.into_iter().map(|(_, name)| name).collect() } else { names }
    }
}

/// The owner of subscriptions, which end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// A session, by its number.
    Session(u64),
    /// A request of a client that listens, by its number.
    Listener(u64),
}

/// A client that subscribes: the owner of its subscriptions, and the owner of its connections and its
/// era, as servers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscriber {
    pub(crate) holder: Holder,
    pub(crate) owner: Option<ClientOwner>,
    pub(crate) era: Era,
}

/// A subscription as it was counted. It is removed as it was added, although the client may see
/// something else by then.
#[derive(Clone, Debug)]
struct Counted {
    key: Key,
    client: Subscriber,
}

/// The requests to servers after a change of subscriptions. They go on if this is dropped.
#[derive(Debug)]
pub(crate) struct Announcing(Option<JoinHandle<Option<RpcError>>>);

impl Announcing {
    /// Waits until the servers have answered, at most [`ANNOUNCE_WAIT`]; returns the error of one that has rejected one of
    /// these subscriptions.
    pub(crate) async fn finished(self) -> Option<RpcError> {
        tokio::time::timeout(ANNOUNCE_WAIT, self.0?).await.ok()?.ok()?
    }
}

/// Subscriptions to resources, and clients that listen for changes.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    fleet: Arc<Fleet>,
    setups: Arc<Setups>,
    catalog: Arc<CatalogView>,
    shutdown: Arc<Shutdown>,
    watches: Watches,
    /// What each client has subscribed to, by the URI that it uses.
    counted: Mutex<HashMap<Holder, BTreeMap<String, Counted>>>,
    listeners: Listeners,
    /// Bytes of the subscriptions of each caller.
    bytes: Arc<Shares>,
}

impl Subscriptions {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        setups: Arc<Setups>,
        catalog: Arc<CatalogView>,
        shutdown: Arc<Shutdown>,
    ) -> Self {
        let (watches, listeners) = (Watches::default(), Listeners::default());
        let (counted, bytes) = (Mutex::default(), Arc::default());
        Self { fleet, setups, catalog, shutdown, watches, counted, listeners, bytes }
    }

    /// Adds a resource to `uris`; `false` if it was already there.
    ///
    /// # Errors
    /// When there are too many, or they are too long altogether.
    pub(crate) fn add_uri(&self, uris: &mut Uris, uri: &str, party: Party) -> Result<bool, RpcError> {
        uris.add(uri, &self.bytes, party)
    }

    /// Subscribes one client to resources, as far as `selection` allows. They are counted when this
    /// returns, whether or not the caller waits for the servers. Must be called inside a runtime.
    pub(crate) fn subscribe<'a>(
        self: &Arc<Self>,
        selection: &Selection,
        client: Subscriber,
        uris: impl IntoIterator<Item = &'a String>,
    ) -> Announcing {
        let entries = self.catalog.directory().entries(selection);
        let mut added = Vec::new();
        let mut all = lock(&self.counted);
        for uri in uris {
            let own = all.entry(client.holder).or_default();
            if let (Some(key), false) = (entries.resource(uri), own.contains_key(uri)) {
                let counted = Counted { key, client };
                self.fleet.add_subscription(&counted.key.0, client.owner, client.era, &counted.key.1);
                self.watches.add(counted.key.clone());
                own.insert(uri.clone(), counted.clone());
                added.push(counted);
            }
        }
        drop(all);
        self.announce(added)
    }

    /// Ends subscriptions of one client. They are not counted any more when this returns.
    pub(crate) fn unsubscribe<'a>(
        self: &Arc<Self>,
        holder: Holder,
        uris: impl IntoIterator<Item = &'a String>,
    ) -> Announcing {
        let mut all = lock(&self.counted);
        let Some(own) = all.get_mut(&holder) else { return Announcing(None) };
        let removed: Vec<Counted> = uris.into_iter().filter_map(|uri| own.remove(uri)).collect();
        if own.is_empty() {
            all.remove(&holder);
        }
        drop(all);
        self.uncount(removed)
    }

    /// Ends all subscriptions of a client that has gone.
    pub(crate) fn forget(self: &Arc<Self>, holder: Holder) -> Announcing {
        let removed = lock(&self.counted).remove(&holder).unwrap_or_default();
        self.uncount(removed.into_values().collect())
    }

    fn uncount(self: &Arc<Self>, removed: Vec<Counted>) -> Announcing {
        for Counted { key, client } in &removed {
            self.fleet.remove_subscription(&key.0, client.owner, client.era, &key.1);
            self.watches.remove(key);
        }
        self.announce(removed)
    }

    /// Sends the servers of these subscriptions what is subscribed to now.
    fn announce(self: &Arc<Self>, changed: Vec<Counted>) -> Announcing {
        let mut servers: BTreeMap<Arc<str>, (Subscriber, Vec<String>)> = BTreeMap::new();
        for Counted { key: (server, uri), client } in changed {
            servers.entry(server).or_insert((client, Vec::new())).1.push(uri);
        }
        if servers.is_empty() {
            return Announcing(None);
        }
        let (this, Ok(runtime)) = (Arc::clone(self), tokio::runtime::Handle::try_current()) else {
            return Announcing(None);
        };
        Announcing(Some(runtime.spawn(async move {
            let mut error = None;
            for (server, (client, uris)) in servers {
                let Some(upstream) = this.fleet.find(&server) else { continue };
                let on_their_connection = upstream.apply_subscriptions(client.owner, client.era, &uris).await;
                let on_catalog = this.watches.apply(&upstream, &uris).await;
                // Of the connection that the client gets updates from.
                let mut rejected = on_their_connection.unwrap_or(on_catalog);
                error = error.or_else(|| uris.iter().find_map(|uri| rejected.remove(uri)));
            }
            error
        })))
    }

    /// Renews the subscriptions at servers that were reconnected, and calls `connected` with these,
    /// without waiting. `connections` are those whose lists are in the directory.
    pub(crate) fn renew(
        self: &Arc<Self>,
        connections: Vec<(Arc<Upstream>, Option<Arc<Hello>>)>,
        connected: impl Fn(&Arc<Upstream>),
    ) {
        for (upstream, hello) in connections {
            let change = hello.map(|hello| self.watches.record_connection(&upstream, &hello));
            let Some(change) = change.filter(|change| *change != ConnectionChange::Same) else { continue };
            connected(&upstream);
            let this = Arc::clone(self);
            tokio::spawn(async move {
                this.watches.apply(&upstream, &[]).await;
                if change == ConnectionChange::Another {
                    upstream.report_missed_updates(UpdateSource::Catalog, this.watches.uris_of(&upstream)).await;
                }
            });
        }
    }

    /// Notifies the listeners for whom a list has changed.
    pub(crate) fn announce_list_change(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        self.listeners.announce_list_change(method, has_changed_for);
    }

    /// Notifies the listeners that a resource has changed.
    pub(crate) fn announce_resource_update(
        &self,
        updated: &Updated<'_>,
        is_for: impl Fn(Option<ClientOwner>, Era) -> bool,
        params: &Fields,
    ) {
        self.listeners.announce_resource_update(updated, is_for, params);
    }

    /// Applies the current settings to the listeners.
    pub(crate) fn renew_listeners(&self) {
        let may_subscribe = |viewer: &Viewer, uri: &str| self.catalog.may_subscribe(viewer, uri);
        self.listeners.renew(|viewer| self.setups.viewer(viewer.caller), may_subscribe);
    }

    /// Serves a client that listens, until it leaves or the gateway stops.
    pub(crate) async fn listen(self: &Arc<Self>, exchange: &Exchange, id: &Id, wanted: Listen) -> Result<(), RpcError> {
        let mut agreed = Fields::new();
        wanted.flags.iter().for_each(|flag| agreed.set(flag, raw(&true)));
        let methods = FLAGS.iter().filter(|(flag, _)| wanted.flags.contains(flag)).map(|(_, method)| *method).collect();
        let mut uris: BTreeSet<String> = wanted.uris.iter().flatten().cloned().collect();
        // What the caller may not see is not there to be listened to.
        uris.retain(|uri| self.catalog.may_subscribe(&exchange.viewer, uri));
        let mut followed = Uris::default();
        for uri in &uris {
            self.add_uri(&mut followed, uri, exchange.party())?;
        }
        if wanted.uris.is_some() {
            agreed.set("resourceSubscriptions", raw(&uris));
        }
        let request: Raw = id.to_raw();
        let viewer = exchange.viewer.clone();
        let owner = exchange.client_owner();
        let listener =
            Listener { id: request, outlet: exchange.outlet.clone(), methods, uris: followed, viewer, owner };
        listener.notify("notifications/subscriptions/acknowledged", Fields::new().with("notifications", &agreed));
        let number = self.listeners.add(listener);
        // The settings may have changed since it was asked who this is.
        if self.setups.current().number != exchange.viewer.setup {
            self.renew_listeners();
        }
        let holder = Holder::Listener(number);
        let _leaving = ListenerGuard { subscriptions: Arc::clone(self), number };
        let client = Subscriber { holder, owner, era: Era::Modern };
        self.subscribe(&exchange.viewer.selection, client, &uris).finished().await;
        let mut stopping = self.shutdown.stopping.subscribe();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = exchange.outlet.closed() => {}
        }
        Ok(())
    }
}

/// Removes a listener and its subscriptions when its request ends in any way.
struct ListenerGuard {
    subscriptions: Arc<Subscriptions>,
    number: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.subscriptions.listeners.remove(self.number);
        self.subscriptions.forget(Holder::Listener(self.number));
    }
}

#[cfg(test)]
mod tests;
