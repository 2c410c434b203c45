//! Subscriptions of clients, and notifications of servers.

mod listeners;
mod watches;

use std::{collections::BTreeSet, sync::Arc};

use pegboard_core::Selection;
use pegboard_mcp::{
    era::Era,
    json::{Fields, Raw, raw},
    rpc::{Id, RpcError},
};
use pegboard_upstream::{ClientOwner, Fleet, Hello, Upstream};

use self::{
    listeners::{Listener, Listeners},
    watches::Watches,
};
use crate::{
    bounds::Subscriptions as Uris,
    caller::Viewer,
    catalog::CatalogView,
    exchange::Exchange,
    request::{FLAGS, Listen},
    setup::Setups,
    shares::{Party, Shares},
    startup::Shutdown,
};

/// A client as servers know it: the owner of its connections, and its era.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscriber {
    pub(crate) owner: Option<ClientOwner>,
    pub(crate) era: Era,
}

/// Subscriptions to resources, and clients that listen for changes.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    fleet: Arc<Fleet>,
    setups: Arc<Setups>,
    catalog: Arc<CatalogView>,
    shutdown: Arc<Shutdown>,
    watches: Watches,
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
        Self { fleet, setups, catalog, shutdown, watches, listeners, bytes: Arc::default() }
    }

    /// Adds a resource to `uris`; `false` if it was already there.
    ///
    /// # Errors
    /// When there are too many, or they are too long altogether.
    pub(crate) fn add_uri(&self, uris: &mut Uris, uri: &str, party: Party) -> Result<bool, RpcError> {
        uris.add(uri, &self.bytes, party)
    }

    /// Subscribes one client to a resource, as far as `selection` allows.
    pub(crate) async fn subscribe(&self, selection: &Selection, client: Subscriber, uri: &str) {
        let Some(key) = self.catalog.directory().entries(selection).resource(uri) else { return };
        if let Some(upstream) = self.fleet.find(&key.0) {
            upstream.subscribe_for(client.owner, client.era, &key.1).await;
        }
        self.watches.add(&self.fleet, key).await;
    }

    /// Ends the subscription of one client to a resource, as far as `selection` allows.
    pub(crate) async fn unsubscribe(&self, selection: &Selection, client: Subscriber, uri: &str) {
        let Some(key) = self.catalog.directory().entries(selection).resource(uri) else { return };
        if let Some(upstream) = self.fleet.find(&key.0) {
            upstream.unsubscribe_for(client.owner, client.era, &key.1).await;
        }
        self.watches.remove(&self.fleet, &key).await;
    }

    /// Ends several subscriptions like [`unsubscribe`](Self::unsubscribe), without waiting. Must be
    /// called inside a runtime.
    pub(crate) fn unsubscribe_all(
        self: &Arc<Self>,
        viewer: &Viewer,
        client: Subscriber,
        uris: impl IntoIterator<Item = String>,
    ) {
        let uris: Vec<String> = uris.into_iter().collect();
        if uris.is_empty() {
            return;
        }
        let (this, Ok(runtime)) = (Arc::clone(self), tokio::runtime::Handle::try_current()) else { return };
        let viewer = viewer.clone();
        runtime.spawn(async move {
            for uri in uris {
                this.unsubscribe(&viewer.selection, client, &uri).await;
            }
        });
    }

    /// Renews the subscriptions at servers that were reconnected, and calls `connected` with these,
    /// without waiting.
    pub(crate) fn renew(&self, connected: impl Fn(&Arc<Upstream>)) {
        for upstream in self.fleet.servers().iter() {
            let hello: Option<Arc<Hello>> = upstream.hello();
            if let Some(hello) = hello.filter(|hello| self.watches.is_new_connection(upstream, hello)) {
                connected(upstream);
                self.watches.resubscribe(upstream, &hello);
            }
        }
    }

    /// Notifies the listeners for whom a list has changed.
    pub(crate) fn announce_list_change(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        self.listeners.announce_list_change(method, has_changed_for);
    }

    /// Notifies the listeners that a resource has changed.
    pub(crate) fn announce_resource_update(
        &self,
        is_it: impl Fn(&Viewer, &str) -> bool,
        is_for: impl Fn(Option<ClientOwner>, Era) -> bool,
        params: &Fields,
    ) {
        self.listeners.announce_resource_update(is_it, is_for, params);
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
        let client = Subscriber { owner: exchange.client_owner(), era: Era::Modern };
        let owner = client.owner;
        let listener =
            Listener { id: request, outlet: exchange.outlet.clone(), methods, uris: followed, viewer, owner };
        listener.notify("notifications/subscriptions/acknowledged", Fields::new().with("notifications", &agreed));
        let number = self.listeners.add(listener);
        // The settings may have changed since it was asked who this is.
        if self.setups.current().number != exchange.viewer.setup {
            self.renew_listeners();
        }
        let _leaving = ListenerGuard {
            subscriptions: Arc::clone(self),
            number,
            viewer: exchange.viewer.clone(),
            client,
            uris: uris.clone(),
        };
        for uri in &uris {
            self.subscribe(&exchange.viewer.selection, client, uri).await;
        }
        let mut stopping = self.shutdown.stopping.subscribe();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = exchange.outlet.closed() => {}
        }
        Ok(())
    }
}

/// Removes a listener when its request ends in any way.
struct ListenerGuard {
    subscriptions: Arc<Subscriptions>,
    number: u64,
    viewer: Viewer,
    client: Subscriber,
    uris: BTreeSet<String>,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.subscriptions.listeners.remove(self.number);
        self.subscriptions.unsubscribe_all(&self.viewer, self.client, std::mem::take(&mut self.uris));
    }
}

#[cfg(test)]
mod tests;
