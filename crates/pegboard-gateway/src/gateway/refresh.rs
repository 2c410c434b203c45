//! Application of changes at the servers or in the settings.

use std::sync::{Arc, Weak};

use pegboard_process::processes;
use tokio::sync::{oneshot, watch};

use super::Gateway;
use crate::{
    caller::Viewer,
    catalog::directory::{Difference, Directory},
};

impl Gateway {
    /// Applies changes at the servers, and notifies the clients.
    async fn refresh(self: &Arc<Self>, changes: u64) {
        let (fleet, before, setup) = (Arc::clone(&self.fleet), self.catalog.directory(), self.setup());
        let is_new_setup = self.progress.switch_setup(setup.number);
        // Before the directory is built: what these connections have listed is in it.
        let connections = fleet.servers().iter().map(|server| (Arc::clone(server), server.hello())).collect::<Vec<_>>();
        let made = tokio::task::spawn_blocking(move || {
            let directory = Arc::new(Directory::new(&fleet, &setup, &before));
            let difference = directory.difference(&before);
            (directory, difference)
        });
        let Ok((directory, difference)) = made.await else { return };
        self.catalog.replace(directory);
        let difference = Arc::new(difference);
        let is_news = difference.has_tools() || is_new_setup;
        if is_news {
            self.catalog.forget_views();
            self.record.record_tools(self.catalog(), &self.setup().selection);
        }
        // New clients see the new directory from now on. Without clients, the first list need not
        // wait for an index that only searches need.
        let is_awaited = self.sessions.count() == 0;
        if is_news && !is_awaited {
            self.renew_sessions(&difference).await;
        }
        if is_new_setup {
            self.subscriptions.renew_listeners();
        }
        let has_tools = |viewer: &Viewer| is_new_setup || difference.has_tools_for(&viewer.selection);
        self.subscriptions.announce_list_change("notifications/tools/list_changed", has_tools);
        self.announce("notifications/prompts/list_changed", |viewer| difference.has_prompts_for(&viewer.selection));
        self.announce("notifications/resources/list_changed", |viewer| difference.has_resources_for(&viewer.selection));
        // Last: a client that waits for the directory must not be notified of its contents.
        self.progress.mark_done(changes);
        self.lookalikes.request_comparison();
        if is_news && is_awaited {
            self.index_in_background().await;
            self.renew_sessions(&difference).await;
        }
        self.subscriptions.renew(connections, |upstream| self.sessions.set_server_log_level(upstream));
        drop(difference);
        if is_news && let Some(after) = self.setup().after_change {
            let _ = tokio::task::spawn_blocking(after).await;
        }
    }

    /// Updates all sessions on a blocking thread.
    async fn renew_sessions(self: &Arc<Self>, difference: &Arc<Difference>) {
        let (gateway, difference) = (Arc::clone(self), Arc::clone(difference));
        let renew = move || {
            gateway.prepare_rankers();
            gateway.sessions.refresh(&difference);
        };
        let _ = tokio::task::spawn_blocking(renew).await;
    }

    /// Indexes the tools on a low-priority thread, so that lists and starting servers go first.
    async fn index_in_background(self: &Arc<Self>) {
        let (done, indexed) = oneshot::channel::<()>();
        let gateway = Arc::clone(self);
        let thread = std::thread::Builder::new().name("index".to_owned()).spawn(move || {
            processes::lower_thread_priority();
            gateway.prepare_rankers();
            drop(done);
        });
        if thread.is_ok() {
            let _ = indexed.await;
        }
    }

    /// Indexes the tools now, rather than in the first search.
    fn prepare_rankers(&self) {
        let (catalog, setup) = (self.catalog(), self.setup());
        for shape in [setup.profile.shape(), setup.profile.constant_shape()] {
            (setup.rankers)(shape.dialect).prepare(&catalog);
        }
    }

    /// Notifies all clients for whom a list has changed.
    fn announce(&self, method: &'static str, has_changed_for: impl Fn(&Viewer) -> bool) {
        self.sessions.announce(method, &has_changed_for);
        self.subscriptions.announce_list_change(method, has_changed_for);
    }
}

/// Follows the changes of the fleet for as long as the gateway exists.
pub(super) async fn follow_fleet_changes(gateway: Weak<Gateway>, mut changes: watch::Receiver<u64>) {
    loop {
        let count = *changes.borrow_and_update();
        match gateway.upgrade() {
            Some(gateway) => gateway.refresh(count).await,
            None => return,
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
        time::Duration,
    };

    use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};

    use super::*;
    use crate::GatewaySettings;

    #[derive(Debug)]
    struct Nothing;

    impl Ranker for Nothing {
        fn name(&self) -> &'static str {
            "nothing"
        }

        fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
            Ok(Ranking::default())
        }

        fn prepare(&self, _: &Catalog) {
            let is_early = DONE.load(Ordering::Relaxed) + 1 != CHANGES.load(Ordering::Relaxed);
            IS_EARLY.fetch_or(is_early, Ordering::Relaxed);
        }
    }

    static CHANGES: AtomicUsize = AtomicUsize::new(0);
    static DONE: AtomicUsize = AtomicUsize::new(0);
    static IS_EARLY: AtomicBool = AtomicBool::new(false);

    fn count_done() {
        DONE.fetch_add(1, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn the_end_of_a_change_is_told_once() {
        let settings = GatewaySettings { after_change: Some(count_done), ..GatewaySettings::default() };
        let gateway = Gateway::start(Vec::new(), settings.clone(), Arc::new(|_| Arc::new(Nothing)), Vec::new());
        for change in 1..=3 {
            CHANGES.store(change, Ordering::Relaxed);
            let settings = GatewaySettings { page_size: change, ..settings.clone() };
            assert!(gateway.reconfigure(Vec::new(), settings, None).await.has_settings);
            let wait = async {
                while DONE.load(Ordering::Relaxed) < change {
                    tokio::task::yield_now().await;
                }
            };
            assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok());
        }
        assert_eq!(DONE.load(Ordering::Relaxed), 3);
        assert!(!IS_EARLY.load(Ordering::Relaxed), "an index was made after the end");
    }
}
