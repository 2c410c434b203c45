//! The file of learned habits.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_discovery::Holder;
use pegboard_engine::usage::{Habit, HabitSettings, Habits, Lesson};
use pegboard_state::{FileKind, LoadError, Lock, Stamp, Store};
use serde::{Deserialize, Serialize};

use super::now;
use crate::error::warn;

/// Maximum size of the file.
const MAX_BYTES: usize = 4 << 20;

/// Size of the file without the habits.
const FRAME_BYTES: usize = 128;

/// Maximum size of the habits of one scope, to leave room for others.
const MAX_PART_BYTES: usize = MAX_BYTES / 2;

/// Maximum number of scopes; the least recently used is removed.
const MAX_PARTS: usize = 500;

/// Timeout for the lock. It is held for as long as a write takes; a longer wait means that its
/// holder hangs, or the disk does.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Prefix of the identity of a token holder.
const TOKEN: &str = "token:";

const KIND: FileKind = FileKind { name: "usage", version: 1, max_bytes: MAX_BYTES };

/// Name of the file in its folder.
const NAME: &str = "habits";

/// Name for a file that cannot be read and is put aside.
const DAMAGED: &str = "habits.damaged";

/// The holder and the catalog that habits belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) catalog: String,
    /// The identity of the holder, from which no token can be derived.
    pub(crate) holder: String,
}

impl Scope {
    /// Returns the identity of a holder. A token with the name of another kind of holder is a
    /// different holder.
    pub(super) fn holder(holder: Holder<'_>, mark: impl Fn(&str) -> String) -> String {
        match holder {
            Holder::Local | Holder::Anybody => holder.name().to_owned(),
            Holder::Token { secret, .. } => format!("{TOKEN}{}", mark(secret)),
        }
    }

    /// Returns the display name of the holder, who gave the name `name`. A token never gets the
    /// name of a holder without a token.
    pub(crate) fn caller<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let is_taken =
            name.starts_with(TOKEN) || [Holder::Local, Holder::Anybody].iter().any(|holder| holder.name() == name);
        if self.holder.starts_with(TOKEN) && is_taken { format!("{TOKEN}{name}").into() } else { name.into() }
    }
}

/// The habits of one scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScopeHabits {
    /// The name of the holder.
    pub(crate) name: String,
    pub(crate) habits: Vec<Habit>,
}

/// Everything that was learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LearnedHabits {
    /// The time of the last reset: older lessons that are not written yet must not come back.
    pub(super) reset_at: u64,
    parts: BTreeMap<Scope, ScopeHabits>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredHabits {
    reset_at: u64,
    parts: Vec<StoredScope>,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredScope {
    catalog: String,
    holder: String,
    name: String,
    habits: Vec<StoredHabit>,
}

type StoredHabit = (Vec<String>, String, f64, u64);

fn to_stored(habit: &Habit) -> StoredHabit {
    (habit.stems.clone(), habit.tool.clone(), habit.strength, habit.at)
}

impl StoredScope {
    fn of(scope: &Scope, part: &ScopeHabits) -> Self {
        Self {
            catalog: scope.catalog.clone(),
            holder: scope.holder.clone(),
            name: part.name.clone(),
            habits: part.habits.iter().map(to_stored).collect(),
        }
    }
}

/// Returns the serialized size of a value, with its separator.
fn size_of(written: &impl Serialize) -> usize {
    serde_json::to_vec(written).map_or(MAX_BYTES, |bytes| bytes.len() + 1)
}

/// Returns the limit for each so that all fit into `room`: small ones take what they need, large
/// ones share the rest.
fn fair_share(mut sizes: Vec<usize>, room: usize) -> usize {
    sizes.sort_unstable();
    let (mut left, mut others) = (room, sizes.len());
    for size in sizes {
        if size > left / others {
            return left / others;
        }
        left -= size;
        others -= 1;
    }
    room
}

/// Keeps the strongest habits of a scope that fit into `most` bytes.
fn shrink(scope: &Scope, part: &mut ScopeHabits, most: usize) {
    let settings = HabitSettings { max_entries: usize::MAX, ..HabitSettings::default() };
    let mut habits = Habits::from_list(settings, part.habits.drain(..), u64::MAX);
    let mut size = size_of(&StoredScope::of(scope, part));
    habits.keep_strongest(|habit| {
        size += size_of(&to_stored(habit));
        size <= most
    });
    part.habits = habits.iter().cloned().collect();
}

impl LearnedHabits {
    #[cfg(test)]
    pub(super) fn of(reset_at: u64, parts: Vec<(String, String, Vec<Habit>)>) -> Self {
        let part = |(catalog, holder, habits)| (Scope { catalog, holder }, ScopeHabits { name: String::new(), habits });
        Self { reset_at, parts: parts.into_iter().map(part).collect() }
    }

    /// Returns all scopes, by catalog and holder.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Scope, &ScopeHabits)> {
        self.parts.iter()
    }

    /// Adds lessons to a scope.
    pub(super) fn learn<'a>(
        &mut self,
        scope: Scope,
        name: &str,
        settings: HabitSettings,
        lessons: impl Iterator<Item = &'a Lesson>,
        now: u64,
    ) {
        let part = self.parts.entry(scope).or_default();
        name.clone_into(&mut part.name);
        let mut habits = Habits::from_list(settings, part.habits.drain(..), now);
        lessons.filter(|lesson| lesson.at() >= self.reset_at).for_each(|lesson| habits.learn(lesson.clone()));
        habits.forget(now);
        part.habits = habits.iter().cloned().collect();
    }

    /// Deletes the habits that `is_gone` selects, and returns how many.
    pub(crate) fn reset(&mut self, now: u64, is_gone: impl Fn(&Scope, &str, &Habit) -> bool) -> usize {
        self.reset_at = now;
        let mut gone = 0;
        for (scope, part) in &mut self.parts {
            let name = part.name.clone();
            let before = part.habits.len();
            part.habits.retain(|habit| !is_gone(scope, &name, habit));
            gone += before - part.habits.len();
        }
        self.parts.retain(|_, part| !part.habits.is_empty());
        gone
    }

    /// Limits all times to `now`, against clocks that were ahead.
    fn clamp_times(mut self, now: u64) -> Self {
        for habit in self.parts.values_mut().flat_map(|part| &mut part.habits) {
            habit.at = habit.at.min(now);
        }
        self
    }

    /// Serializes everything within the limits: first the least recently used scopes are dropped,
    /// then the weakest habits of the largest ones.
    pub(super) fn bounded_bytes(&mut self) -> Vec<u8> {
        self.parts.retain(|_, part| !part.habits.is_empty());
        let last = |part: &ScopeHabits| part.habits.iter().map(|habit| habit.at).max();
        let mut order: Vec<Scope> = self.parts.keys().cloned().collect();
        order.sort_by_key(|scope| Reverse(self.parts.get(scope).and_then(last)));
        for scope in order.iter().skip(MAX_PARTS) {
            self.parts.remove(scope);
        }
        let sizes: Vec<usize> = self.parts.iter().map(|(scope, part)| size_of(&StoredScope::of(scope, part))).collect();
        let most = MAX_PART_BYTES.min(fair_share(sizes.clone(), MAX_BYTES - FRAME_BYTES));
        for ((scope, part), _) in self.parts.iter_mut().zip(sizes).filter(|(_, size)| *size > most) {
            shrink(scope, part, most);
        }
        self.parts.retain(|_, part| !part.habits.is_empty());
        let parts = self.parts.iter().map(|(scope, part)| StoredScope::of(scope, part)).collect();
        serde_json::to_vec(&StoredHabits { reset_at: self.reset_at, parts }).unwrap_or_default()
    }

    /// Parses the content of the file; `None` if it is invalid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let written: StoredHabits = serde_json::from_slice(bytes).ok()?;
        let habit = |(stems, tool, strength, at)| Habit { stems, tool, strength, at };
        let part = |part: StoredScope| {
            let scope = Scope { catalog: part.catalog, holder: part.holder };
            (scope, ScopeHabits { name: part.name, habits: part.habits.into_iter().map(habit).collect() })
        };
        Some(Self { reset_at: written.reset_at, parts: written.parts.into_iter().map(part).collect() })
    }
}

/// The file of a [`LearnedHabits`].
#[derive(Debug)]
pub(crate) struct HabitFile {
    folder: PathBuf,
    store: Store,
    /// The timeout for the lock.
    pub(super) patience: Duration,
    /// Reports a damaged file: to the log, or on standard error.
    report: fn(&str),
}

impl HabitFile {
    /// Opens the folder, and creates it if it is missing.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let report = |text: &str| tracing::warn!("{text}");
        Ok(Self { folder: folder.to_owned(), store: Store::open(folder, KIND)?, patience: PATIENCE, report })
    }

    /// Opens the file for a command, if anything was ever learned there.
    pub(crate) fn open_existing(folder: &Path) -> io::Result<Option<Self>> {
        let open = || Self::open(folder).map(|file| Some(Self { report: warn, ..file }));
        if folder.is_dir() { open() } else { Ok(None) }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{NAME}.{}", KIND.name))
    }

    /// Returns the identity of a holder in this file, from which no secret can be derived.
    pub(super) fn id(&self, holder: Holder<'_>) -> String {
        Scope::holder(holder, |secret| self.store.keyed_hash("holder", secret.as_bytes()))
    }

    /// Returns the metadata of the file.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.store.stamp(NAME)
    }

    /// Reads the file. A damaged file is not an error: it is put aside, and the result is empty.
    pub(crate) fn read(&self) -> io::Result<LearnedHabits> {
        match self.load() {
            Ok(book) => Ok(book),
            Err(LoadError::Io(error)) => Err(error),
            Err(_) => {
                // A writer may just be replacing it with a good one.
                let _lock = self.lock()?;
                self.read_locked()
            }
        }
    }

    fn load(&self) -> Result<LearnedHabits, LoadError> {
        match self.store.load(NAME) {
            Ok(bytes) => {
                LearnedHabits::from_bytes(&bytes).map(|book| book.clamp_times(now())).ok_or(LoadError::Version)
            }
            Err(LoadError::Missing) => Ok(LearnedHabits::default()),
            Err(error) => Err(error),
        }
    }

    /// [`read`](Self::read) while the lock is held.
    fn read_locked(&self) -> io::Result<LearnedHabits> {
        let error = match self.load() {
            Ok(book) => return Ok(book),
            Err(LoadError::Io(error)) => return Err(error),
            Err(error) => error,
        };
        let aside = self.folder.join(DAMAGED);
        fs::rename(self.path(), &aside)?;
        let aside = aside.display();
        (self.report)(&format!("learned usage is unreadable; moved to `{aside}`: {error}"));
        Ok(LearnedHabits::default())
    }

    /// Locks the file against changes.
    pub(super) fn lock(&self) -> io::Result<Lock> {
        self.store.lock_within(NAME, self.patience)
    }

    /// Changes the content under the lock.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut LearnedHabits) -> T) -> io::Result<ChangeResult<T>> {
        let _lock = self.lock()?;
        let mut book = self.read_locked()?;
        let result = change(&mut book);
        let bytes = book.bounded_bytes();
        self.store.save_durably(NAME, &bytes)?;
        Ok(ChangeResult { book, stamp: self.stamp(), result })
    }
}

/// The result of a change.
pub(crate) struct ChangeResult<T> {
    /// The content of the file now.
    pub(super) book: LearnedHabits,
    /// The metadata of the file, read under the lock.
    pub(super) stamp: Option<Stamp>,
    /// The result of the closure.
    pub(crate) result: T,
}
