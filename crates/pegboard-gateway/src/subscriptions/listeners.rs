//! Clients that listen for changes.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use pegboard_mcp::{
    era::{Era, meta},
    json::{Fields, Raw},
    rpc::Message,
};

use pegboard_upstream::ClientOwner;

use super::Updated;
use crate::{bounds::Subscriptions, caller::Viewer, exchange::Outlet, lock};

/// One client that listens.
#[derive(Debug)]
pub(super) struct Listener {
    /// The request, which names the subscription.
    pub(super) id: Raw,
    pub(super) outlet: Outlet,
    pub(super) methods: Vec<&'static str>,
    pub(super) uris: Subscriptions,
    pub(super) viewer: Viewer,
    /// The owner of its connections to servers.
    pub(super) owner: Option<ClientOwner>,
}

impl Listener {
    pub(super) fn notify(&self, method: &str, mut params: Fields) {
        let mut own = params.object("_meta").unwrap_or_default();
        own.set(meta::SUBSCRIPTION, self.id.clone());
        params.set("_meta", own.to_raw());
        let _ = self.outlet.try_send(Message::notification(method, Some(&params.to_raw())));
    }
}

/// All clients that listen.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// Each with its number.
    all: Mutex<Vec<(u64, Listener)>>,
    next: AtomicU64,
}

impl Listeners {
    /// Adds a listener; returns its number.
    pub(super) fn add(&self, listener: Listener) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.all).push((number, listener));
        number
    }

    pub(super) fn remove(&self, number: u64) {
        lock(&self.all).retain(|(one, _)| *one != number);
    }

    /// Notifies the listeners that want it that a list has changed, if it has for them.
    pub(super) fn announce_list_change(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let listeners = lock(&self.all);
        let all = listeners.iter().map(|(_, one)| one);
        let interested = all.filter(|one| one.methods.contains(&method) && has_changed_for(&one.viewer));
        interested.for_each(|one| one.notify(method, Fields::new()));
    }

    /// Applies other settings; listeners whose token was removed get nothing more.
    pub(super) fn renew(
        &self,
        viewer: impl Fn(&Viewer) -> Option<Viewer>,
        may_subscribe: impl Fn(&Viewer, &str) -> bool,
    ) {
        let mut listeners = lock(&self.all);
        for (_, one) in listeners.iter_mut() {
            match viewer(&one.viewer) {
                Some(viewer) => {
                    one.uris.retain(|uri| may_subscribe(&viewer, uri));
                    one.viewer = viewer;
                }
                None => {
                    one.methods.clear();
                    one.uris = Subscriptions::default();
                }
            }
        }
    }

    /// Notifies the listeners that want it that a resource has changed.
    pub(super) fn announce_resource_update(
        &self,
        updated: &Updated<'_>,
        is_for: impl Fn(Option<ClientOwner>, Era) -> bool,
        params: &Fields,
    ) {
        for (_, one) in lock(&self.all).iter().filter(|(_, one)| is_for(one.owner, Era::Modern)) {
            for uri in updated.names(&one.viewer, one.uris.iter().map(String::as_str)) {
                one.notify("notifications/resources/updated", params.clone().with("uri", &uri));
            }
        }
    }
}
