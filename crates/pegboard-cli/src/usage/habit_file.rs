//! The file.

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

/// Bytes of the file.
const MAX_BYTES: usize = 4 << 20;

/// Bytes of it around the parts.
const FRAME_BYTES: usize = 128;

/// Bytes of a part. Whoever has much to say leaves room for the others.
const MAX_PART_BYTES: usize = MAX_BYTES / 2;

/// Parts of the file; the one that was used longest ago gives way.
const MAX_PARTS: usize = 500;

/// How long somebody else may hold the lock. It is held for as long as a write takes; what takes
/// longer has stopped, or is on a disk that has.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// What the holder of a token is known by begins with.
const TOKEN: &str = "token:";

const KIND: FileKind = FileKind { name: "usage", version: 1, max_bytes: MAX_BYTES };

/// The file's name in its folder.
const NAME: &str = "habits";

/// What takes the place of a file that cannot be read.
const DAMAGED: &str = "habits.damaged";

/// Whose habits, with which catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) catalog: String,
    /// Nobody learns a token from it.
    pub(crate) holder: String,
}

impl Scope {
    /// By what a holder is known. A token of the same name is somebody else.
    pub(super) fn holder(holder: Holder<'_>, mark: impl Fn(&str) -> String) -> String {
        match holder {
            Holder::Local | Holder::Anybody => holder.name().to_owned(),
            Holder::Token { secret, .. } => format!("{TOKEN}{}", mark(secret)),
        }
    }

    /// What people call the holder, who gave the name `name`: never what somebody who needs no
    /// token is called.
    pub(crate) fn caller<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let is_taken =
            name.starts_with(TOKEN) || [Holder::Local, Holder::Anybody].iter().any(|holder| holder.name() == name);
        if self.holder.starts_with(TOKEN) && is_taken { format!("{TOKEN}{name}").into() } else { name.into() }
    }
}

/// The habits of one scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Part {
    /// What the holder is called.
    pub(crate) name: String,
    pub(crate) habits: Vec<Habit>,
}

/// Everything that was learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Book {
    /// When something was last forgotten on purpose: what was learned before and is not written
    /// yet must not come back.
    pub(super) reset_at: u64,
    parts: BTreeMap<Scope, Part>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    reset_at: u64,
    parts: Vec<WrittenPart>,
}

#[derive(Debug, Deserialize, Serialize)]
struct WrittenPart {
    catalog: String,
    holder: String,
    name: String,
    habits: Vec<WrittenHabit>,
}

type WrittenHabit = (Vec<String>, String, f64, u64);

fn written(habit: &Habit) -> WrittenHabit {
    (habit.stems.clone(), habit.tool.clone(), habit.strength, habit.at)
}

impl WrittenPart {
    fn of(scope: &Scope, part: &Part) -> Self {
        Self {
            catalog: scope.catalog.clone(),
            holder: scope.holder.clone(),
            name: part.name.clone(),
            habits: part.habits.iter().map(written).collect(),
        }
    }
}

/// The bytes that something takes, with what separates it from the next.
fn size_of(written: &impl Serialize) -> usize {
    serde_json::to_vec(written).map_or(MAX_BYTES, |bytes| bytes.len() + 1)
}

/// What each may have at most so that all fit into `room`: as much as there is for those that
/// want more than their share.
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

/// The strongest habits of a part, as far as they fit into `most` bytes.
fn shrink(scope: &Scope, part: &mut Part, most: usize) {
    let settings = HabitSettings { max_entries: usize::MAX, ..HabitSettings::default() };
    let mut habits = Habits::from_list(settings, part.habits.drain(..), u64::MAX);
    let mut size = size_of(&WrittenPart::of(scope, part));
    habits.keep_strongest(|habit| {
        size += size_of(&written(habit));
        size <= most
    });
    part.habits = habits.iter().cloned().collect();
}

impl Book {
    #[cfg(test)]
    pub(super) fn of(reset_at: u64, parts: Vec<(String, String, Vec<Habit>)>) -> Self {
        let part = |(catalog, holder, habits)| (Scope { catalog, holder }, Part { name: String::new(), habits });
        Self { reset_at, parts: parts.into_iter().map(part).collect() }
    }

    /// All parts, by catalog and holder.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Scope, &Part)> {
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

    /// Forgets what `is_gone` says; how many habits.
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

    /// Nothing was learned after `now`, whatever a clock said that was ahead.
    fn until(mut self, now: u64) -> Self {
        for habit in self.parts.values_mut().flat_map(|part| &mut part.habits) {
            habit.at = habit.at.min(now);
        }
        self
    }

    /// As it is written, with what is too much left out: parts that were used longest ago if
    /// there are too many, and then the weakest habits of the largest ones.
    pub(super) fn bounded_bytes(&mut self) -> Vec<u8> {
        self.parts.retain(|_, part| !part.habits.is_empty());
        let last = |part: &Part| part.habits.iter().map(|habit| habit.at).max();
        let mut order: Vec<Scope> = self.parts.keys().cloned().collect();
        order.sort_by_key(|scope| Reverse(self.parts.get(scope).and_then(last)));
        for scope in order.iter().skip(MAX_PARTS) {
            self.parts.remove(scope);
        }
        let sizes: Vec<usize> = self.parts.iter().map(|(scope, part)| size_of(&WrittenPart::of(scope, part))).collect();
        let most = MAX_PART_BYTES.min(fair_share(sizes.clone(), MAX_BYTES - FRAME_BYTES));
        for ((scope, part), _) in self.parts.iter_mut().zip(sizes).filter(|(_, size)| *size > most) {
            shrink(scope, part, most);
        }
        self.parts.retain(|_, part| !part.habits.is_empty());
        let parts = self.parts.iter().map(|(scope, part)| WrittenPart::of(scope, part)).collect();
        serde_json::to_vec(&Written { reset_at: self.reset_at, parts }).unwrap_or_default()
    }

    /// What was written; `None` if that is no such thing.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        let habit = |(stems, tool, strength, at)| Habit { stems, tool, strength, at };
        let part = |part: WrittenPart| {
            let scope = Scope { catalog: part.catalog, holder: part.holder };
            (scope, Part { name: part.name, habits: part.habits.into_iter().map(habit).collect() })
        };
        Some(Self { reset_at: written.reset_at, parts: written.parts.into_iter().map(part).collect() })
    }
}

/// Where a [`Book`] is kept.
#[derive(Debug)]
pub(crate) struct BookFile {
    folder: PathBuf,
    store: Store,
    /// How long the lock is waited for.
    pub(super) patience: Duration,
    /// Says that the file was damaged: to the log, or to whoever waits for a command.
    tell: fn(&str),
}

impl BookFile {
    /// Opens the folder, and makes it where it is missing.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let tell = |text: &str| tracing::warn!("{text}");
        Ok(Self { folder: folder.to_owned(), store: Store::open(folder, KIND)?, patience: PATIENCE, tell })
    }

    /// Opens it for a command, if something was ever learned there.
    pub(crate) fn open_existing(folder: &Path) -> io::Result<Option<Self>> {
        let open = || Self::open(folder).map(|file| Some(Self { tell: warn, ..file }));
        if folder.is_dir() { open() } else { Ok(None) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{NAME}.{}", KIND.name))
    }

    /// By what a holder is known in it. Nobody comes from that to a secret.
    pub(super) fn id(&self, holder: Holder<'_>) -> String {
        Scope::holder(holder, |secret| self.store.keyed_hash("holder", secret.as_bytes()))
    }

    /// What the file looks like from outside.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.store.stamp(NAME)
    }

    /// What is in it. A damaged file is no error: it is put aside, and there is nothing.
    pub(crate) fn read(&self) -> io::Result<Book> {
        match self.load() {
            Ok(book) => Ok(book),
            Err(LoadError::Io(error)) => Err(error),
            Err(_) => {
                // Whoever writes may just put a good one in its place.
                let _lock = self.lock()?;
                self.read_alone()
            }
        }
    }

    fn load(&self) -> Result<Book, LoadError> {
        match self.store.load(NAME) {
            Ok(bytes) => Book::from_bytes(&bytes).map(|book| book.until(now())).ok_or(LoadError::Version),
            Err(LoadError::Missing) => Ok(Book::default()),
            Err(error) => Err(error),
        }
    }

    /// [`read`](Self::read) for whoever has the lock.
    fn read_alone(&self) -> io::Result<Book> {
        let error = match self.load() {
            Ok(book) => return Ok(book),
            Err(LoadError::Io(error)) => return Err(error),
            Err(error) => error,
        };
        let aside = self.folder.join(DAMAGED);
        fs::rename(self.path(), &aside)?;
        let aside = aside.display();
        (self.tell)(&format!("learned usage is unreadable; moved to `{aside}`: {error}"));
        Ok(Book::default())
    }

    /// Keeps others from changing it.
    pub(super) fn lock(&self) -> io::Result<Lock> {
        self.store.lock_within(NAME, self.patience)
    }

    /// Changes what is in it, while nobody else does.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> io::Result<Changed<T>> {
        let _lock = self.lock()?;
        let mut book = self.read_alone()?;
        let said = change(&mut book);
        let bytes = book.bounded_bytes();
        self.store.save_durably(NAME, &bytes)?;
        Ok(Changed { book, stamp: self.stamp(), said })
    }
}

/// What a change leaves.
pub(crate) struct Changed<T> {
    /// What is in the file now.
    pub(super) book: Book,
    /// What it looks like, before anybody else could change it again.
    pub(super) stamp: Option<Stamp>,
    /// What whoever changed it says.
    pub(crate) said: T,
}
