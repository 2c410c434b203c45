//! Cached views of the tools for each caller.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_core::{Catalog, Ranker};
use pegboard_discovery::{Hits, Session};

use crate::{
    caller::{Caller, Viewer},
    lock,
    settings::{Listing, Shape},
    setup::Setup,
};

/// The view of one caller on one catalog in one shape.
#[derive(Debug)]
pub(crate) struct ToolView {
    /// A session that never begins: others are cheap copies of it.
    pub(crate) tools: Mutex<Session>,
}

impl ToolView {
    pub(super) fn new(catalog: Catalog, setup: &Setup, viewer: &Viewer, shape: Shape) -> Self {
        let selection = &*viewer.selection;
        let is_search_on = shape.listing != Listing::Everything && setup.exposure.decide(&catalog, selection).is_on;
        let ranker = setup.ranker_for(shape.dialect, viewer.caller);
        let tools = session(catalog, setup, viewer, shape, ranker);
        Self { tools: Mutex::new(if is_search_on { tools } else { tools.with_everything_listed() }) }
    }

    /// Creates a view in which the search is on, whatever the number of tools, with this ranker.
    pub(crate) fn with_search(
        catalog: Catalog,
        setup: &Setup,
        viewer: &Viewer,
        shape: Shape,
        ranker: Arc<dyn Ranker>,
    ) -> Self {
        Self { tools: Mutex::new(session(catalog, setup, viewer, shape, ranker)) }
    }
}

/// Returns a session as a view has it.
fn session(catalog: Catalog, setup: &Setup, viewer: &Viewer, shape: Shape, ranker: Arc<dyn Ranker>) -> Session {
    let mut settings = setup.discovery.clone();
    settings.always_searchable |= shape.listing == Listing::Searchable;
    settings.has_read_result = setup.offload.is_some();
    settings.hits = if shape.is_constant { Hits::Callable } else { Hits::Listed };
    Session::expecting(shape.dialect, settings, catalog, (*viewer.selection).clone(), ranker)
        .with_pre_discovered(setup.pre_discovered.iter().cloned())
        .with_categories(setup.prompt_categories.iter().cloned())
}

/// The key of a view: a caller, the number of a setup and a shape.
pub(super) type Key = (Caller, u64, Shape);

/// The views for the current directory.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<Key, Arc<ToolView>>>);

impl Views {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<ToolView>> {
        lock(&self.0).get(key).cloned()
    }

    /// Inserts a view if `is_current` returns that its directory was not replaced meanwhile. This
    /// is checked under the lock: a directory is replaced before the views are cleared, so that an
    /// outdated view is either detected here or cleared.
    pub(super) fn insert_if_current(&self, key: Key, view: &Arc<ToolView>, is_current: impl FnOnce() -> bool) {
        let mut views = lock(&self.0);
        if is_current() {
            views.insert(key, Arc::clone(view));
        }
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}
