//! The file.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use pegboard_engine::usage::{Habit, HabitSettings, Habits, Lesson};
use pegboard_upstream::store::{Kind, LoadError, Stamp, Store};
use serde::{Deserialize, Serialize};

/// Bytes of the file.
const MAX_BYTES: usize = 4 << 20;

/// Bytes of it around the parts.
const FRAME_BYTES: usize = 128;

/// Parts of the file; the one that was used longest ago gives way.
const MAX_PARTS: usize = 500;

const KIND: Kind = Kind { name: "usage", version: 1, max_bytes: MAX_BYTES };

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
    habits: Vec<(Vec<String>, String, f64, u64)>,
}

impl WrittenPart {
    fn of(scope: &Scope, part: &Part) -> Self {
        let habit = |habit: &Habit| (habit.stems.clone(), habit.tool.clone(), habit.strength, habit.at);
        Self {
            catalog: scope.catalog.clone(),
            holder: scope.holder.clone(),
            name: part.name.clone(),
            habits: part.habits.iter().map(habit).collect(),
        }
    }
}

/// The bytes that a part takes, with what separates it from the next.
fn size_of(scope: &Scope, part: &Part) -> usize {
    serde_json::to_vec(&WrittenPart::of(scope, part)).map_or(MAX_BYTES, |bytes| bytes.len() + 1)
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
    ) {
        let part = self.parts.entry(scope).or_default();
        name.clone_into(&mut part.name);
        let mut habits = Habits::from_list(settings, part.habits.drain(..));
        lessons.filter(|lesson| lesson.at() >= self.reset_at).for_each(|lesson| habits.learn(lesson.clone()));
        habits.forget(habits.last());
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

    /// As it is written, with what is too much left out: parts that were used longest ago, and
    /// the weaker habits of one that is too large by itself.
    pub(super) fn bounded_bytes(&mut self) -> Vec<u8> {
        self.parts.retain(|_, part| !part.habits.is_empty());
        let last = |part: &Part| part.habits.iter().map(|habit| habit.at).max();
        let mut order: Vec<Scope> = self.parts.keys().cloned().collect();
        order.sort_by_key(|scope| Reverse(self.parts.get(scope).and_then(last)));
        let mut left = MAX_BYTES - FRAME_BYTES;
        for (place, scope) in order.into_iter().enumerate() {
            let Some(mut part) = self.parts.remove(&scope) else { continue };
            let mut size = size_of(&scope, &part);
            if place == 0 && size > left {
                let max_entries = part.habits.len() * left / size / 2;
                let settings = HabitSettings { max_entries, ..HabitSettings::default() };
                part.habits = Habits::from_list(settings, part.habits.drain(..)).iter().cloned().collect();
                size = size_of(&scope, &part);
            }
            if place < MAX_PARTS && size <= left && !part.habits.is_empty() {
                left -= size;
                self.parts.insert(scope, part);
            }
        }
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
}

impl BookFile {
    /// Opens the folder, and makes it where it is missing.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { folder: folder.to_owned(), store: Store::open(folder, KIND)? })
    }

    /// Opens it if something was ever learned there.
    pub(crate) fn open_existing(folder: &Path) -> io::Result<Option<Self>> {
        if folder.is_dir() { Self::open(folder).map(Some) } else { Ok(None) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{NAME}.{}", KIND.name))
    }

    /// A text that stands for a secret, and from which nobody comes to it.
    pub(super) fn mark(&self, secret: &str) -> String {
        self.store.mark("holder", secret.as_bytes())
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
                let _lock = self.store.lock(NAME)?;
                self.read_alone()
            }
        }
    }

    fn load(&self) -> Result<Book, LoadError> {
        match self.store.load(NAME) {
            Ok(bytes) => Book::from_bytes(&bytes).ok_or(LoadError::Version),
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
        tracing::warn!(%aside, %error, "what was learned from use cannot be read and is put aside");
        Ok(Book::default())
    }

    /// Changes what is in it, while nobody else does; what it is then, and what `change` says.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Book) -> T) -> io::Result<(Book, T)> {
        let _lock = self.store.lock(NAME)?;
        let mut book = self.read_alone()?;
        let said = change(&mut book);
        let bytes = book.bounded_bytes();
        self.store.save_surely(NAME, &bytes)?;
        Ok((book, said))
    }
}
