//! Learned usage on disk.
//!
//! One signed file holds the habits of all catalogs and all callers ([`habit_file`]). A gateway or
//! an agent holds those of its catalog in memory and passes new lessons to a thread that writes
//! them ([`learner`]). Several programs may share the file: a writer takes its lock, reads what the
//! others have written, and adds its own, so that no lessons are lost.

mod habit_file;
mod learner;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use pegboard_core::Ranker;
use pegboard_discovery::Holder;
use pegboard_engine::usage::{Boost, BoostSource, HabitSettings, Habits, UsageRanker};

pub(crate) use self::{
    habit_file::{HabitFile, LearnedHabits, Scope, ScopeHabits},
    learner::UsageLearner,
};
use crate::{
    config::state::StateFolder,
    error::{CliError, warn},
};

/// Returns the folder for learned usage below the state folder.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("usage")
}

/// Returns the Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the identity of a catalog: the configuration that it comes from, else its files, else
/// the demo. It does not depend on the tools, which may change.
pub(crate) fn catalog_of(config: Option<&Path>, files: &[PathBuf]) -> String {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned();
    match (config, files) {
        (Some(config), _) => whole(config),
        (None, []) => "demo".to_owned(),
        (None, files) => {
            let mut files: Vec<String> = files.iter().map(|file| whole(file)).collect();
            files.sort();
            files.join(", ")
        }
    }
}

/// Habits at one moment, for a command that ends soon.
#[derive(Debug)]
struct FixedHabits(Habits);

impl BoostSource for FixedHabits {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        self.0.boosts(query, now(), is_visible)
    }
}

/// Returns `ranker` with the habits of `caller` for a catalog; `None` if that ranker does not
/// support habits.
pub(crate) fn with_habits(
    ranker: Arc<dyn Ranker>,
    book: &LearnedHabits,
    (catalog, caller): (&str, &str),
    settings: HabitSettings,
) -> Option<Arc<dyn Ranker>> {
    if !ranker.learns_from_usage() {
        return None;
    }
    let is_it = |scope: &Scope, part: &ScopeHabits| scope.catalog == catalog && scope.caller(&part.name) == caller;
    let mut parts = book.parts().filter(|(scope, part)| is_it(scope, part)).peekable();
    if parts.peek().is_none() && caller != local() {
        warn(&format!("no usage learned for the caller `{caller}` with this catalog; `pegboard usage` shows all"));
    }
    // One name may have had several tokens.
    let habits = Habits::from_list(settings, parts.flat_map(|(_, part)| part.habits.iter().cloned()), now());
    Some(Arc::new(UsageRanker::new(ranker, Arc::new(FixedHabits(habits)))))
}

/// Reads what was learned. `flag` is the state folder of the command line.
pub(crate) fn read(state: &StateFolder, flag: Option<&str>) -> Result<LearnedHabits, CliError> {
    let Some(file) = open_existing(state, flag)? else { return Ok(LearnedHabits::default()) };
    file.read().map_err(|error| unusable(&file.path(), error))
}

/// Opens the file, if anything was ever learned.
pub(crate) fn open_existing(state: &StateFolder, flag: Option<&str>) -> Result<Option<HabitFile>, CliError> {
    let Some(folder) = state.resolve(flag).map(|state| folder(&state)) else {
        return Err(CliError::new("no state folder, so no usage was learned")
            .hint("name the state folder of `pegboard serve` with `--state FOLDER`"));
    };
    HabitFile::open_existing(&folder).map_err(|error| unusable(&folder, error))
}

/// Returns the error that learned usage cannot be read.
pub(crate) fn unusable(path: &Path, error: io::Error) -> CliError {
    CliError::new(format!("cannot read learned usage from `{}`", path.display())).because(error)
}

/// Opens the learner of a gateway or an agent; `None` after a warning if nothing can be saved.
/// Blocks.
pub(crate) fn keeper(
    settings: Option<HabitSettings>,
    state: Option<&Path>,
    config: Option<&Path>,
) -> Option<Arc<UsageLearner>> {
    let settings = settings?;
    let Some(folder) = state.map(folder) else {
        warn("`usageLearning` has no effect without a state folder");
        return None;
    };
    match UsageLearner::open(&folder, catalog_of(config, &[]), settings) {
        Ok(keeper) => Some(Arc::new(keeper)),
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "usage learning disabled: cannot open its folder");
            None
        }
    }
}

/// Returns the name of the user of this program without a token.
pub(crate) fn local() -> &'static str {
    Holder::Local.name()
}
