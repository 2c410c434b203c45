//! What each kind of caller sees of the directory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use pegboard_discovery::{DialectName, Session};
use pegboard_upstream::era::Era;

use super::Gateway;
use crate::{
    exchange::{Caller, Exchange, Viewer},
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

/// The views that were made for the directory of now, by caller, setup and dialect.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<(Caller, u64, DialectName), Arc<View>>>);

impl Views {
    /// Forgets them all: the directory is another one.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl Gateway {
    /// What `viewer` sees in a dialect, now.
    pub(crate) fn view(&self, viewer: &Viewer, dialect: DialectName) -> Arc<View> {
        let key = (viewer.caller, viewer.setup, dialect);
        if let Some(view) = lock(&self.views.0).get(&key) {
            return Arc::clone(view);
        }
        let view = Arc::new(self.make_view(viewer, dialect));
        let mut views = lock(&self.views.0);
        // Made for a directory that was replaced meanwhile, it must not stay.
        let is_current = lock(&view.tools).catalog().same_snapshot(&self.catalog());
        if is_current {
            views.insert(key, Arc::clone(&view));
        }
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
