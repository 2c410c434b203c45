//! How conversations go on after a change.

use std::sync::Arc;

use pegboard_core::Catalog;
use pegboard_upstream::era::Era;

use super::Gateway;
use crate::{catalog::directory::Difference, exchange::Viewer, lock, sessions::ClientSession, settings::Profile};

impl Gateway {
    /// [`renew_sessions`](Self::renew_sessions), where waiting holds nobody up.
    pub(super) async fn renew(self: &Arc<Self>, difference: &Arc<Difference>) {
        let (gateway, difference) = (Arc::clone(self), Arc::clone(difference));
        let _ = tokio::task::spawn_blocking(move || gateway.renew_sessions(&difference)).await;
    }

    /// Lets all conversations go on with the new catalog; those whose list changed are told.
    fn renew_sessions(self: &Arc<Self>, difference: &Difference) {
        self.prepare_rankers();
        let catalog = self.catalog();
        for session in self.sessions.all() {
            self.renew_session(&session, &catalog, difference);
        }
    }

    /// Lets one conversation go on with the catalog and the settings of now; it ends if its
    /// caller has no business here any more.
    pub(crate) fn renew_session(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        catalog: &Catalog,
        difference: &Difference,
    ) {
        let old = session.viewer();
        let Some(viewer) = self.viewer(old.caller) else {
            tracing::info!(session = session.owner, "a conversation ends: its token is no longer known");
            self.sessions.remove(&session.id);
            return self.forget_session(session);
        };
        let is_new_setup = viewer.setup != old.setup;
        // One that has begun meanwhile has it already.
        if !is_new_setup && lock(&session.tools).catalog().same_snapshot(catalog) {
            return;
        }
        let view = self.view(&viewer, Self::dialect(session.profile, Era::Legacy));
        let shows_everything = session.profile == Profile::Passthrough || !view.is_search_on;
        let may_differ = is_new_setup || difference.tools_for(&viewer.selection);
        if is_new_setup {
            self.drop_subscriptions(session, &viewer);
        }
        session.set_viewer(viewer);
        let is_changed = {
            let mut tools = lock(&session.tools);
            let before = tools.list_changes();
            tools.update_like(&lock(&view.tools));
            tools.list_changes() != before
        };
        // What is shown can also change with the settings alone.
        if is_changed || (may_differ && (shows_everything || is_new_setup)) {
            session.announce("notifications/tools/list_changed");
        }
    }

    /// Ends the subscriptions to what may no longer be seen.
    fn drop_subscriptions(self: &Arc<Self>, session: &ClientSession, viewer: &Viewer) {
        let mut gone = Vec::new();
        lock(&session.subscriptions).retain(|uri| {
            let may_stay = self.may_follow(viewer, uri);
            if !may_stay {
                gone.push(uri.to_owned());
            }
            may_stay
        });
        self.unwatch(gone);
    }
}
