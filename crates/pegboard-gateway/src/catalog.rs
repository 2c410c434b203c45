//! The items that the servers offer, and each caller's view of them.

pub(crate) mod apps;
pub(crate) mod directory;
pub(crate) mod entries;
pub(crate) mod own;
pub(crate) mod uris;
pub(crate) mod views;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pegboard_core::Catalog;
use pegboard_discovery::Session;
use pegboard_upstream::ClientOwner;

use self::{
    directory::Directory,
    own::{ClientRef, OwnDirectories},
    views::{ToolView, Views},
};
use crate::{caller::Viewer, exchange::Exchange, lock, settings::Shape, setup::Setup};

/// The items that the servers offer now, and each caller's view of them.
#[derive(Debug, Default)]
pub(crate) struct CatalogView {
    directory: RwLock<Arc<Directory>>,
    views: Views,
    own: OwnDirectories,
}

impl CatalogView {
    /// Everything that the servers offer.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Everything that the servers offer to this client, with the tools that only its own connections have.
    pub(crate) fn directory_for(&self, setup: &Setup, client: &ClientRef<'_>) -> Arc<Directory> {
        let base = self.directory();
        self.own.directory(&base, setup, client).unwrap_or(base)
    }

    /// Returns the tools of all servers.
    pub(crate) fn catalog(&self) -> Catalog {
        self.directory().catalog.clone().unwrap_or_else(Catalog::empty)
    }

    /// Switches to another directory.
    pub(crate) fn replace(&self, directory: Arc<Directory>) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
    }

    /// Clears the cached views, because the tools or the settings have changed.
    pub(crate) fn forget_views(&self) {
        self.views.clear();
        self.own.clear();
    }

    /// Forgets the directory of a client that has gone.
    pub(crate) fn forget_client(&self, owner: ClientOwner) {
        self.own.forget(owner);
    }

    /// Returns the current view of a caller.
    pub(crate) fn view(&self, setup: &Setup, viewer: &Viewer, shape: Shape) -> Arc<ToolView> {
        let key = (viewer.caller, viewer.setup, shape);
        if let Some(view) = self.views.get(&key) {
            return view;
        }
        let view = Arc::new(ToolView::new(self.catalog(), setup, viewer, shape));
        self.views.insert_if_current(key, &view, || lock(&view.tools).catalog().same_snapshot(&self.catalog()));
        view
    }

    /// Returns the current view of a client, with the tools that only its own connections have.
    pub(crate) fn view_for(&self, setup: &Setup, client: &ClientRef<'_>, shape: Shape) -> Arc<ToolView> {
        let own = self.own.view(&self.directory(), setup, client, shape);
        own.unwrap_or_else(|| self.view(setup, &client.viewer, shape))
    }

    /// Calls `work` with the tools of the session of a request; without a session, with those of
    /// its caller.
    pub(crate) fn with_tools<T>(&self, setup: &Setup, exchange: &Exchange, work: impl FnOnce(&mut Session) -> T) -> T {
        match &exchange.session {
            Some(session) => with_copy(setup, &session.tools, work),
            None => {
                let view = self.view_for(setup, &ClientRef::of_exchange(exchange), exchange.shape);
                with_copy(setup, &view.tools, work)
            }
        }
    }

    /// Returns whether a resource may be seen, or belongs to no server.
    pub(crate) fn may_subscribe(&self, viewer: &Viewer, uri: &str) -> bool {
        let directory = self.directory();
        directory.entries(&viewer.selection).resource(uri).is_some() || directory.all_entries().resource(uri).is_none()
    }
}

/// Calls `work` with a copy of `tools` if the view is constant, so that requests do not wait for
/// each other. With learning enabled, earlier searches matter too.
fn with_copy<T>(setup: &Setup, tools: &Mutex<Session>, work: impl FnOnce(&mut Session) -> T) -> T {
    let mut tools = lock(tools);
    if setup.learner.is_some() || !tools.is_constant() {
        return work(&mut tools);
    }
    let mut copy = tools.fork();
    drop(tools);
    work(&mut copy)
}
