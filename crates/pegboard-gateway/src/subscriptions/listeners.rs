//! Modern clients that listen for changes.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use pegboard_upstream::{
    era::meta,
    json::{Fields, Raw, raw},
    rpc::{Id, Message, RpcError},
};

use crate::{
    bounds::Subscriptions,
    exchange::{Exchange, Outlet, Viewer},
    gateway::Gateway,
    lock,
};

/// One `subscriptions/listen`.
#[derive(Debug)]
struct Listener {
    number: u64,
    /// The request, which names the subscription.
    id: Raw,
    outlet: Outlet,
    methods: Vec<&'static str>,
    uris: Subscriptions,
    viewer: Viewer,
}

impl Listener {
    fn tell(&self, method: &str, mut params: Fields) {
        let mut own = params.object("_meta").unwrap_or_default();
        own.set(meta::SUBSCRIPTION, self.id.clone());
        params.set("_meta", own.to_raw());
        let _ = self.outlet.try_send(Message::notification(method, Some(&params.to_raw())));
    }
}

/// All clients that listen.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    all: Mutex<Vec<Listener>>,
    next: AtomicU64,
}

impl Listeners {
    /// Tells those who want to know that a list has changed, if it has for them.
    pub(crate) fn changed(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        let listeners = lock(&self.all);
        let interested = listeners.iter().filter(|one| one.methods.contains(&method) && has_changed_for(&one.viewer));
        interested.for_each(|one| one.tell(method, Fields::new()));
    }

    /// Goes on under other settings; whoever has no business here any more hears nothing.
    fn renew(&self, viewer: impl Fn(&Viewer) -> Option<Viewer>, may_follow: impl Fn(&Viewer, &str) -> bool) {
        let mut listeners = lock(&self.all);
        for one in listeners.iter_mut() {
            match viewer(&one.viewer) {
                Some(viewer) => {
                    one.uris.retain(|uri| may_follow(&viewer, uri));
                    one.viewer = viewer;
                }
                None => {
                    one.methods.clear();
                    one.uris = Subscriptions::default();
                }
            }
        }
    }

    /// Tells those who want to know that a resource has changed.
    pub(crate) fn updated(&self, is_it: impl Fn(&String) -> bool, params: &Fields) {
        for one in lock(&self.all).iter() {
            for uri in one.uris.iter().filter(|uri| is_it(uri)) {
                one.tell("notifications/resources/updated", params.clone().with("uri", uri));
            }
        }
    }
}

/// The lists that can be listened to, by the name of their flag.
const FLAGS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

impl Gateway {
    /// Lets those who listen go on under the settings of now.
    pub(crate) fn renew_listeners(&self) {
        self.listeners.renew(|viewer| self.viewer(viewer.caller), |viewer, uri| self.may_follow(viewer, uri));
    }

    /// Serves one `subscriptions/listen` until the client leaves or the gateway stops.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        exchange: &Exchange,
        id: &Id,
        params: &Fields,
    ) -> Result<Raw, RpcError> {
        let Some(wanted) = params.object("notifications") else {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, "`notifications` is required"));
        };
        let mut agreed = Fields::new();
        let mut methods = Vec::new();
        for (flag, method) in FLAGS.iter().filter(|(flag, _)| wanted.read::<bool>(flag) == Some(true)) {
            agreed.set(flag, raw(&true));
            methods.push(*method);
        }
        let mut uris: BTreeSet<String> = wanted.read("resourceSubscriptions").unwrap_or_default();
        // What the caller may not see is not there to be listened to.
        let directory = self.directory();
        let is_visible = |(server, _): (Arc<str>, String)| exchange.viewer.selection.allows_server(&server);
        uris.retain(|uri| directory.resource(uri).is_none_or(is_visible));
        let mut subscriptions = Subscriptions::default();
        for uri in &uris {
            subscriptions.add(uri, &self.subscription_bytes, exchange.party())?;
        }
        if wanted.has("resourceSubscriptions") {
            agreed.set("resourceSubscriptions", raw(&uris));
        }
        let request: Raw = id.to_raw();
        let number = self.listeners.next.fetch_add(1, Ordering::Relaxed);
        let listener = Listener {
            number,
            id: request.clone(),
            outlet: exchange.outlet.clone(),
            methods,
            uris: subscriptions,
            viewer: exchange.viewer.clone(),
        };
        listener.tell("notifications/subscriptions/acknowledged", Fields::new().with("notifications", &agreed));
        lock(&self.listeners.all).push(listener);
        // The settings may have changed since it was asked who this is.
        if self.setup().number != exchange.viewer.setup {
            self.renew_listeners();
        }
        let _leaving = Leaving { gateway: Arc::clone(self), number, uris: uris.clone() };
        for uri in &uris {
            self.watches.add(self, uri).await;
        }
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = exchange.outlet.closed() => {}
        }
        let own = Fields::new().with(meta::SUBSCRIPTION, &request);
        Ok(Fields::new().with("resultType", "complete").with("_meta", &own).to_raw())
    }
}

/// Takes a listener out when its request ends, in whatever way.
struct Leaving {
    gateway: Arc<Gateway>,
    number: u64,
    uris: BTreeSet<String>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        lock(&self.gateway.listeners.all).retain(|one| one.number != self.number);
        let (gateway, uris) = (Arc::clone(&self.gateway), std::mem::take(&mut self.uris));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for uri in uris {
                    gateway.watches.remove(&gateway, &uri).await;
                }
            });
        }
    }
}
