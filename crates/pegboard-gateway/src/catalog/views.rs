//! What each caller sees of the tools, worked out once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_core::Catalog;
use pegboard_discovery::{Hits, Session};

use crate::{
    caller::{Caller, Viewer},
    lock,
    settings::{Listing, Shape},
    setup::Setup,
};

/// What one caller sees of one catalog in one shape.
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
        let mut settings = setup.discovery.clone();
        settings.always_searchable |= shape.listing == Listing::Searchable;
        settings.hits = if shape.is_constant { Hits::Callable } else { Hits::Listed };
        let tools = Session::expecting(shape.dialect, settings, catalog, selection.clone(), ranker)
            .with_pre_discovered(setup.pre_discovered.iter().cloned())
            .with_categories(setup.prompt_categories.iter().cloned());
        Self { tools: Mutex::new(if is_search_on { tools } else { tools.with_everything_listed() }) }
    }
}

/// What a view is made for: a caller, the number of a setup, a shape.
pub(super) type Key = (Caller, u64, Shape);

/// The views that were made for the directory of now.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<Key, Arc<ToolView>>>);

impl Views {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<ToolView>> {
        lock(&self.0).get(key).cloned()
    }

    /// Keeps a view if `is_current` says that its directory was not replaced meanwhile. That is
    /// asked under the lock: a directory is replaced before the views are cleared, so that an
    /// outdated one is either seen here or cleared.
    pub(super) fn keep(&self, key: Key, view: &Arc<ToolView>, is_current: impl FnOnce() -> bool) {
        let mut views = lock(&self.0);
        if is_current() {
            views.insert(key, Arc::clone(view));
        }
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}
