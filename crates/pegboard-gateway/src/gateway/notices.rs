//! Notifications of servers, forwarded to the clients.

use std::sync::{Arc, Weak};

use pegboard_mcp::{
    era::Era,
    json::{Fields, raw},
    rpc::Message,
};
use pegboard_upstream::{ClientOwner, Notice, UpdateSource};
use tokio::sync::mpsc;

use super::Gateway;
use crate::{
    caller::{Caller, Viewer},
    lock,
    subscriptions::Updated,
};

const RESOURCE_UPDATED: &str = "notifications/resources/updated";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

/// Forwards notices for as long as the gateway exists.
pub(crate) async fn forward_notices(gateway: Weak<Gateway>, mut notices: mpsc::Receiver<(Arc<str>, Notice)>) {
    while let Some((server, notice)) = notices.recv().await {
        let Some(gateway) = gateway.upgrade() else { return };
        match notice.method.as_str() {
            RESOURCE_UPDATED => announce_resource_update(&gateway, &server, &notice),
            TOOLS_CHANGED => announce_own_list(&gateway, &server, TOOLS_CHANGED, notice.source),
            PROMPTS_CHANGED => announce_own_list(&gateway, &server, PROMPTS_CHANGED, notice.source),
            RESOURCES_CHANGED => announce_own_list(&gateway, &server, RESOURCES_CHANGED, notice.source),
            method => {
                let method = pegboard_core::text::brief(method, 100);
                tracing::debug!(server = %server, method, "unknown notification ignored");
            }
        }
    }
}

/// Notifies the client on whose own connection a list of a server has changed.
fn announce_own_list(gateway: &Gateway, server: &str, method: &'static str, source: UpdateSource) {
    let UpdateSource::Client(owner) = source else { return };
    // Prompts and resources are visible only with the whole server.
    let may_see = |viewer: &Viewer| method == TOOLS_CHANGED || viewer.selection.allows_server(server);
    match method {
        TOOLS_CHANGED => gateway.sessions.refresh_own_tools(owner),
        _ => gateway.sessions.announce_to(owner, method, may_see),
    }
    let is_theirs = |viewer: &Viewer| match (viewer.caller, owner) {
        (Caller::Token(holder), ClientOwner::Caller(number)) => holder.0 as u64 == number,
        // A program has one client on its pipes.
        (caller, ClientOwner::Session(_)) => caller == Caller::Pipe,
        _ => false,
    };
    gateway.subscriptions.announce_list_change(method, |viewer| is_theirs(viewer) && may_see(viewer));
}

fn announce_resource_update(gateway: &Gateway, server: &Arc<str>, notice: &Notice) {
    let mut params = Fields::of_optional(notice.params.as_deref());
    let Some(uri) = params.text("uri") else { return };
    // A server's own mark of its subscription means nothing to our clients.
    if let Some(mut own) = params.object("_meta") {
        own.remove(pegboard_mcp::era::meta::SUBSCRIPTION);
        params.remove("_meta");
        if !own.is_empty() {
            params.set("_meta", own.to_raw());
        }
    }
    let directory = gateway.catalog.directory();
    // A client may have subscribed under one of several names; the comparison is by server and
    // original URI.
    let resolve = |viewer: &Viewer, subscribed: &str| {
        let found = directory.entries(&viewer.selection).resource(subscribed);
        found.filter(|(of, _)| of == server).map(|(_, known)| known)
    };
    let updated = Updated { uri: &uri, resolve: &resolve };
    // A client gets the updates of the connection that its calls use.
    let upstream = gateway.fleet.find(server);
    let is_for = |owner: Option<ClientOwner>, era: Era| {
        upstream.as_ref().is_some_and(|upstream| upstream.update_source(owner, era) == notice.source)
    };
    for session in gateway.sessions.all() {
        if !is_for(Some(ClientOwner::Session(session.owner)), Era::Legacy) {
            continue;
        }
        let viewer = session.viewer();
        let subscribed = lock(&session.subscriptions);
        let names = updated.names(&viewer, subscribed.iter().map(String::as_str));
        drop(subscribed);
        for name in names {
            params.set("uri", raw(&name));
            let line = Message::notification(RESOURCE_UPDATED, Some(&params.to_raw()));
            session.send_or_keep(line);
        }
    }
    gateway.subscriptions.announce_resource_update(&updated, is_for, &params);
}
