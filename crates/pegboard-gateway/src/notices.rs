//! What servers say of their own accord, on its way to the clients.

use std::sync::{Arc, Weak};

use pegboard_upstream::{
    Notice,
    json::{Fields, raw},
    rpc::Message,
};
use tokio::sync::mpsc;

use crate::{exchange::level, gateway::Gateway, lock};

/// Passes notices on for as long as the gateway lives.
pub(crate) async fn pump(gateway: Weak<Gateway>, mut notices: mpsc::Receiver<(Arc<str>, Notice)>) {
    while let Some((server, notice)) = notices.recv().await {
        let Some(gateway) = gateway.upgrade() else { return };
        match notice.method.as_str() {
            "notifications/resources/updated" => updated(&gateway, &server, &notice),
            "notifications/message" => log(&gateway, &server, &notice),
            method => tracing::debug!(server = %server, method, "a notification that no client would know"),
        }
    }
}

fn updated(gateway: &Gateway, server: &str, notice: &Notice) {
    let mut params = Fields::of_optional(notice.params.as_deref());
    let Some(uri) = params.text("uri") else { return };
    // A server's own mark of its subscription means nothing to our clients.
    if let Some(mut own) = params.object("_meta") {
        own.remove(pegboard_upstream::era::meta::SUBSCRIPTION);
        params.remove("_meta");
        if !own.is_empty() {
            params.set("_meta", own.to_raw());
        }
    }
    let shown = gateway.directory().uris.shown(server, &uri);
    // A client may have subscribed under either name.
    let names = if shown == uri { vec![uri] } else { vec![shown, uri] };
    for uri in names {
        params.set("uri", raw(&uri));
        let line = Message::notification("notifications/resources/updated", Some(&params.to_raw()));
        for session in gateway.sessions.all() {
            if lock(&session.subscriptions).contains(&uri) {
                session.tell(line.clone());
            }
        }
        gateway.listeners.updated(&uri, &params);
    }
}

fn log(gateway: &Gateway, server: &str, notice: &Notice) {
    let wanted = Fields::of_optional(notice.params.as_deref()).text("level").unwrap_or_default();
    let line = Message::notification("notifications/message", notice.params.as_deref());
    for session in gateway.sessions.all() {
        let is_wanted = level(&wanted) >= level(&session.log_level());
        if is_wanted && session.viewer.selection.allows_server(server) {
            session.tell(line.clone());
        }
    }
}
