//! What clients want to hear about, and what servers say of their own accord.

mod listeners;
mod watches;

use std::{collections::BTreeSet, sync::Arc};

use pegboard_core::Selection;
use pegboard_mcp::{
    json::{Fields, Raw, raw},
    rpc::{Id, RpcError},
};
use pegboard_upstream::{Fleet, Hello, Upstream};

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

/// Resources that clients follow, and clients that listen for changes.
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

    /// Lets `uris` follow a resource; whether it is new.
    ///
    /// # Errors
    /// When there are too many, or they are too long altogether.
    pub(crate) fn admit(&self, uris: &mut Uris, uri: &str, party: Party) -> Result<bool, RpcError> {
        uris.add(uri, &self.bytes, party)
    }

    /// Follows a resource for one client, which sees what `selection` allows.
    pub(crate) async fn follow(&self, selection: &Selection, uri: &str) {
        let key = self.catalog.directory().entries(selection).resource(uri);
        if let Some(key) = key {
            self.watches.add(&self.fleet, key).await;
        }
    }

    /// Follows a resource no longer for one client, which sees what `selection` allows.
    pub(crate) async fn unfollow(&self, selection: &Selection, uri: &str) {
        let key = self.catalog.directory().entries(selection).resource(uri);
        if let Some(key) = key {
            self.watches.remove(&self.fleet, &key).await;
        }
    }

    /// [`unfollow`](Self::unfollow) of several, without waiting. Must be called inside a runtime.
    pub(crate) fn unfollow_all(self: &Arc<Self>, viewer: &Viewer, uris: impl IntoIterator<Item = String>) {
        let uris: Vec<String> = uris.into_iter().collect();
        if uris.is_empty() {
            return;
        }
        let (this, Ok(runtime)) = (Arc::clone(self), tokio::runtime::Handle::try_current()) else { return };
        let viewer = viewer.clone();
        runtime.spawn(async move {
            for uri in uris {
                this.unfollow(&viewer.selection, &uri).await;
            }
        });
    }

    /// Makes resources that are followed known to servers that were connected anew, and calls
    /// `connected` with these. Waits for none of them.
    pub(crate) fn renew(&self, connected: impl Fn(&Arc<Upstream>)) {
        for upstream in self.fleet.servers().iter() {
            let hello: Option<Arc<Hello>> = upstream.hello();
            if let Some(hello) = hello.filter(|hello| self.watches.is_unknown_to(upstream, hello)) {
                connected(upstream);
                self.watches.make_known(upstream, &hello);
            }
        }
    }

    /// Tells those who listen that a list has changed, if it has for them.
    pub(crate) fn changed(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        self.listeners.changed(method, has_changed_for);
    }

    /// Tells those who listen that a resource has changed.
    pub(crate) fn updated(&self, is_it: impl Fn(&Viewer, &str) -> bool, params: &Fields) {
        self.listeners.updated(is_it, params);
    }

    /// Lets those who listen go on under the settings of now.
    pub(crate) fn renew_listeners(&self) {
        let may_follow = |viewer: &Viewer, uri: &str| self.catalog.may_follow(viewer, uri);
        self.listeners.renew(|viewer| self.setups.viewer(viewer.caller), may_follow);
    }

    /// Serves a client that listens, until it leaves or the gateway stops.
    pub(crate) async fn listen(self: &Arc<Self>, exchange: &Exchange, id: &Id, wanted: Listen) -> Result<(), RpcError> {
        let mut agreed = Fields::new();
        wanted.flags.iter().for_each(|flag| agreed.set(flag, raw(&true)));
        let methods = FLAGS.iter().filter(|(flag, _)| wanted.flags.contains(flag)).map(|(_, method)| *method).collect();
        let mut uris: BTreeSet<String> = wanted.uris.iter().flatten().cloned().collect();
        // What the caller may not see is not there to be listened to.
        uris.retain(|uri| self.catalog.may_follow(&exchange.viewer, uri));
        let mut followed = Uris::default();
        for uri in &uris {
            self.admit(&mut followed, uri, exchange.party())?;
        }
        if wanted.uris.is_some() {
            agreed.set("resourceSubscriptions", raw(&uris));
        }
        let request: Raw = id.to_raw();
        let viewer = exchange.viewer.clone();
        let listener = Listener { id: request, outlet: exchange.outlet.clone(), methods, uris: followed, viewer };
        listener.tell("notifications/subscriptions/acknowledged", Fields::new().with("notifications", &agreed));
        let number = self.listeners.add(listener);
        // The settings may have changed since it was asked who this is.
        if self.setups.current().number != exchange.viewer.setup {
            self.renew_listeners();
        }
        let _leaving =
            Leaving { subscriptions: Arc::clone(self), number, viewer: exchange.viewer.clone(), uris: uris.clone() };
        for uri in &uris {
            self.follow(&exchange.viewer.selection, uri).await;
        }
        let mut stopping = self.shutdown.stopping.subscribe();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = exchange.outlet.closed() => {}
        }
        Ok(())
    }
}

/// Takes a listener out when its request ends, in whatever way.
struct Leaving {
    subscriptions: Arc<Subscriptions>,
    number: u64,
    viewer: Viewer,
    uris: BTreeSet<String>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.subscriptions.listeners.remove(self.number);
        self.subscriptions.unfollow_all(&self.viewer, std::mem::take(&mut self.uris));
    }
}

#[cfg(test)]
mod tests;
