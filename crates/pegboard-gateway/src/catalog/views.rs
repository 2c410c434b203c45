//! What each kind of caller sees of the directory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_discovery::{DialectName, Session};
use pegboard_upstream::era::Era;

use crate::{
    exchange::{Caller, Exchange, Viewer},
    gateway::Gateway,
    lock,
    settings::Profile,
};

/// What one kind of caller sees of one directory in one dialect, worked out once.
#[derive(Debug)]
pub(crate) struct View {
    /// A conversation that never begins, from which others are forked.
    pub(crate) tools: Mutex<Session>,
    /// Whether tools are hidden behind a search at all.
    pub(crate) is_search_on: bool,
}

/// What a view is made for: a caller, the number of a setup, a dialect.
type Key = (Caller, u64, DialectName);

/// The views that were made for the directory of now.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<HashMap<Key, Arc<View>>>);

impl Views {
    fn get(&self, key: &Key) -> Option<Arc<View>> {
        lock(&self.0).get(key).cloned()
    }

    /// Keeps a view if `is_current` says that its directory was not replaced meanwhile. That is
    /// asked under the lock: a directory is replaced before the views are cleared, so that an
    /// outdated one is either seen here or cleared.
    fn keep(&self, key: Key, view: &Arc<View>, is_current: impl FnOnce() -> bool) {
        let mut views = lock(&self.0);
        if is_current() {
            views.insert(key, Arc::clone(view));
        }
    }

    /// Forgets them all: the directory is another one.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl Gateway {
    /// What `viewer` sees in a dialect, now.
    pub(crate) fn view(&self, viewer: &Viewer, dialect: DialectName) -> Arc<View> {
        let key = (viewer.caller, viewer.setup, dialect);
        if let Some(view) = self.views.get(&key) {
            return view;
        }
        let view = Arc::new(self.make_view(viewer, dialect));
        self.views.keep(key, &view, || lock(&view.tools).catalog().same_snapshot(&self.catalog()));
        view
    }

    fn make_view(&self, viewer: &Viewer, dialect: DialectName) -> View {
        let (catalog, setup) = (self.catalog(), self.setup());
        let selection = &*viewer.selection;
        let decision = setup.exposure.decide(&catalog, selection);
        let ranker = self.with_habits((setup.rankers)(dialect), viewer.caller);
        let settings = setup.discovery.clone();
        let tools = Session::expecting(dialect, settings, catalog, selection.clone(), ranker);
        View { tools: Mutex::new(tools), is_search_on: decision.is_on }
    }

    /// The conversation that a request belongs to, for its tools.
    pub(crate) fn with_tools<T>(&self, exchange: &Exchange, work: impl FnOnce(&mut Session) -> T) -> T {
        match &exchange.session {
            Some(session) => work(&mut lock(&session.tools)),
            None => {
                let dialect = Self::dialect(self.setup().profile, Era::Modern);
                let view = self.view(&exchange.viewer, dialect);
                let mut tools = lock(&view.tools);
                work(&mut tools)
            }
        }
    }

    /// Whether a resource is one that may be seen, or nobody's.
    pub(crate) fn may_follow(&self, viewer: &Viewer, uri: &str) -> bool {
        let owner = self.directory().resource(uri);
        owner.is_none_or(|(server, _)| viewer.selection.allows_server(&server))
    }

    /// The dialect in which a client with this profile is answered.
    pub fn dialect(profile: Profile, era: Era) -> DialectName {
        match profile {
            Profile::Passthrough => DialectName::Bridge,
            Profile::Dialect(dialect) if era == Era::Modern && is_stateful(dialect) => DialectName::Bridge,
            Profile::Dialect(dialect) => dialect,
        }
    }
}

/// Whether a dialect's list depends on what happened before.
pub(crate) fn is_stateful(dialect: DialectName) -> bool {
    !matches!(dialect, DialectName::Bridge | DialectName::Ranked)
}
