//! The rankers by name.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use clap::ValueEnum;
use pegboard_core::{Ranker, Reason};
use pegboard_discovery::DialectName;
use pegboard_engine::Model;
use pegboard_gateway::{Rankers, control::host::NamedRankers};

use crate::{commands::search::why_not::missing_words, rankers::RankerName};

/// The settings of rankers.
#[derive(Clone, Debug)]
pub(crate) struct RankerSettings {
    /// The model of semantic rankers, if it is not the built-in one.
    pub(crate) model: Option<Arc<Model>>,
    /// The bonus of each literal hit, for rankers that have it.
    pub(crate) token_bonus: f64,
}

/// The rankers by name. Those that the gateway uses are shared with it, and the others are made when
/// they are first asked for.
pub(super) struct CachedRankers {
    used: Rankers,
    settings: RankerSettings,
    made: Mutex<HashMap<RankerName, Arc<dyn Ranker>>>,
}

impl fmt::Debug for CachedRankers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedRankers").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl CachedRankers {
    pub(super) fn new(used: Rankers, settings: RankerSettings) -> Self {
        Self { used, settings, made: Mutex::default() }
    }
}

impl NamedRankers for CachedRankers {
    fn names(&self) -> Vec<&'static str> {
        RankerName::NAMES.to_vec()
    }

    fn ranker(&self, name: &str) -> Option<Arc<dyn Ranker>> {
        let used = DialectName::ALL.into_iter().map(|dialect| (self.used)(dialect));
        if let Some(used) = used.into_iter().find(|ranker| ranker.name() == name) {
            return Some(used);
        }
        let name = RankerName::from_str(name, false).ok()?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let build = || Arc::from(name.build(self.settings.model.as_ref(), self.settings.token_bonus));
        Some(Arc::clone(made.entry(name).or_insert_with(build)))
    }

    fn missing_words(&self, query: &str, matched: &[Reason]) -> Vec<String> {
        missing_words(query, matched)
    }
}
