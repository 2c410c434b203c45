//! What the servers offer, and what each caller sees of it.

pub(crate) mod directory;
pub(crate) mod entries;
pub(crate) mod uris;
pub(crate) mod views;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pegboard_core::Catalog;
use pegboard_discovery::Session;

use self::{
    directory::Directory,
    views::{ToolView, Views},
};
use crate::{caller::Viewer, exchange::Exchange, lock, settings::Shape, setup::Setup};

/// What the servers offer now, and what each caller sees of it.
#[derive(Debug, Default)]
pub(crate) struct CatalogView {
    directory: RwLock<Arc<Directory>>,
    views: Views,
}

impl CatalogView {
    /// Everything that the servers offer.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tools of all servers.
    pub(crate) fn catalog(&self) -> Catalog {
        self.directory().catalog.clone().unwrap_or_else(Catalog::empty)
    }

    /// Goes over to another directory.
    pub(crate) fn replace(&self, directory: Arc<Directory>) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
    }

    /// Forgets what callers see: the tools or the settings are others.
    pub(crate) fn forget_views(&self) {
        self.views.clear();
    }

    /// What a caller sees, now.
    pub(crate) fn view(&self, setup: &Setup, viewer: &Viewer, shape: Shape) -> Arc<ToolView> {
        let key = (viewer.caller, viewer.setup, shape);
        if let Some(view) = self.views.get(&key) {
            return view;
        }
        let view = Arc::new(ToolView::new(self.catalog(), setup, viewer, shape));
        self.views.keep(key, &view, || lock(&view.tools).catalog().same_snapshot(&self.catalog()));
        view
    }

    /// The tools as the session of a request sees them; without one, as its caller does.
    pub(crate) fn with_tools<T>(&self, setup: &Setup, exchange: &Exchange, work: impl FnOnce(&mut Session) -> T) -> T {
        match &exchange.session {
            Some(session) => with_copy(setup, &session.tools, work),
            None => with_copy(setup, &self.view(setup, &exchange.viewer, exchange.shape).tools, work),
        }
    }

    /// Whether a resource is one that may be seen, or nobody's.
    pub(crate) fn may_follow(&self, viewer: &Viewer, uri: &str) -> bool {
        let directory = self.directory();
        directory.entries(&viewer.selection).resource(uri).is_some() || directory.all_entries().resource(uri).is_none()
    }
}

/// Works with a copy of `tools` where nothing can change, so that requests do not wait for each
/// other. Where it is learned from use, what was searched for before matters too.
fn with_copy<T>(setup: &Setup, tools: &Mutex<Session>, work: impl FnOnce(&mut Session) -> T) -> T {
    let mut tools = lock(tools);
    if setup.learner.is_some() || !tools.is_constant() {
        return work(&mut tools);
    }
    let mut copy = tools.fork();
    drop(tools);
    work(&mut copy)
}
