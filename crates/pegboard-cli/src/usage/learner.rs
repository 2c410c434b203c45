//! Learning without delay for callers: a thread writes the lessons.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pegboard_core::Ranker;
use pegboard_discovery::{Holder, Learner, usage::UsageStep};
use pegboard_engine::usage::{Boost, BoostSource, Habit, HabitSettings, Habits, Lesson, UsageRanker};
use pegboard_state::Stamp;

use super::{
    habit_file::{HabitFile, LearnedHabits, Scope},
    now,
};

/// Poll interval for changes of the file by other programs, including resets.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long lessons are collected before they are written.
const GATHER: Duration = Duration::from_millis(100);

/// Delay after a failed write.
const RETRY: Duration = Duration::from_secs(10);

/// Maximum number of lessons that wait to be written; the oldest are dropped.
const MAX_WAITING: usize = 1000;

/// Learns the habits of one catalog. A thread writes them; it ends when this is dropped.
pub(crate) struct UsageLearner {
    shared: Arc<Shared>,
}

struct Shared {
    file: HabitFile,
    catalog: String,
    settings: HabitSettings,
    memory: Mutex<LearnerState>,
    news: Condvar,
}

#[derive(Default)]
struct LearnerState {
    /// The habits of each holder.
    habits: BTreeMap<String, Arc<Habits>>,
    /// Lessons that are not written yet, by number.
    waiting: VecDeque<WaitingLesson>,
    /// The number of lessons so far.
    lessons: u64,
    /// The metadata of the file when it was last read or written.
    stamp: Option<Stamp>,
    is_ending: bool,
    has_ended: bool,
}

#[derive(Clone)]
struct WaitingLesson {
    number: u64,
    holder: String,
    name: String,
    lesson: Lesson,
}

impl fmt::Debug for UsageLearner {
    /// Shows the catalog and the settings, which identify a learner.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageLearner")
            .field("catalog", &self.shared.catalog)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl UsageLearner {
    /// Opens the folder and reads the file. Blocks.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub(crate) fn open(folder: &Path, catalog: String, settings: HabitSettings) -> io::Result<Self> {
        Self::with_file(HabitFile::open(folder)?, catalog, settings)
    }

    pub(super) fn with_file(file: HabitFile, catalog: String, settings: HabitSettings) -> io::Result<Self> {
        let (memory, news) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { file, catalog, settings, memory, news });
        shared.reload_if_changed()?;
        let writer = Arc::clone(&shared);
        std::thread::Builder::new().name("usage".to_owned()).spawn(move || writer.run_writer())?;
        Ok(Self { shared })
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> HabitSettings {
        self.shared.settings
    }

    /// Returns the boosts of a query for a holder.
    #[cfg(test)]
    pub(super) fn boosts(&self, holder: Holder<'_>, query: &str) -> Vec<Boost> {
        HolderHabits { shared: Arc::clone(&self.shared), holder: self.shared.file.id(holder) }.boosts(query, &|_| true)
    }

    /// Reads the file now if it has changed.
    #[cfg(test)]
    pub(super) fn reload_if_changed(&self) {
        self.shared.reload_if_changed().expect("it can be read");
    }

    /// Applies the content of the file as if lessons were written up to `last`, and returns the
    /// numbers of those that still wait.
    #[cfg(test)]
    pub(super) fn apply(&self, last: u64) -> Vec<u64> {
        self.shared.apply(&self.shared.file.read().expect("it can be read"), None, last);
        self.shared.lock().waiting.iter().map(|one| one.number).collect()
    }

    fn signal_end(&self) {
        self.shared.lock().is_ending = true;
        self.shared.news.notify_all();
    }
}

impl Drop for UsageLearner {
    fn drop(&mut self) {
        // Not waited for: the last lessons are written behind our back.
        self.signal_end();
    }
}

impl Learner for UsageLearner {
    fn ranker(&self, holder: Holder<'_>, ranker: Arc<dyn Ranker>) -> Arc<dyn Ranker> {
        if !ranker.learns_from_usage() {
            return ranker;
        }
        let (shared, holder) = (Arc::clone(&self.shared), self.shared.file.id(holder));
        Arc::new(UsageRanker::new(ranker, Arc::new(HolderHabits { shared, holder })))
    }

    fn learn(&self, holder: Holder<'_>, step: &UsageStep) {
        let Some(lesson) = Lesson::new(&step.query, &step.tool, step.share, now()) else { return };
        let (id, name) = (self.shared.file.id(holder), holder.name().to_owned());
        let mut memory = self.shared.lock();
        let habits = memory.habits.entry(id.clone()).or_insert_with(|| Arc::new(Habits::new(self.shared.settings)));
        Arc::make_mut(habits).learn(lesson.clone());
        if memory.waiting.len() == MAX_WAITING {
            memory.waiting.pop_front();
        }
        memory.lessons += 1;
        let number = memory.lessons;
        memory.waiting.push_back(WaitingLesson { number, holder: id, name, lesson });
        drop(memory);
        self.shared.news.notify_all();
    }

    fn finish(&self) {
        self.signal_end();
        // A lock or a disk that does not answer must not keep a program from ending.
        let is_writing = |memory: &mut LearnerState| !memory.has_ended;
        let waited = self.shared.news.wait_timeout_while(self.shared.lock(), self.shared.file.patience, is_writing);
        let (memory, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !memory.has_ended {
            tracing::warn!(lessons = memory.waiting.len(), "latest learned usage not saved in time");
        }
    }
}

/// The habits of one holder.
struct HolderHabits {
    shared: Arc<Shared>,
    holder: String,
}

impl fmt::Debug for HolderHabits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HolderHabits").field("catalog", &self.shared.catalog).finish_non_exhaustive()
    }
}

impl BoostSource for HolderHabits {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        let habits = self.shared.lock().habits.get(&self.holder).cloned();
        habits.map(|habits| habits.boosts(query, now(), is_visible)).unwrap_or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LearnerState> {
        // Nothing in it is ever half done.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lessons and reads changes of other programs, until the end.
    fn run_writer(&self) {
        let mut has_failed = false;
        loop {
            let is_idle = |memory: &mut LearnerState| memory.waiting.is_empty() && !memory.is_ending;
            let waited = self.news.wait_timeout_while(self.lock(), POLL_INTERVAL, is_idle);
            let (memory, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let has_news = !memory.waiting.is_empty();
            let mut is_ending = memory.is_ending;
            if has_news && !is_ending {
                let pause = if has_failed { RETRY } else { GATHER };
                let waited = self.news.wait_timeout_while(memory, pause, |memory| !memory.is_ending);
                is_ending = waited.unwrap_or_else(PoisonError::into_inner).0.is_ending;
            } else {
                drop(memory);
            }
            let done = if has_news { self.write() } else { self.reload_if_changed() };
            if let Err(error) = &done
                && !has_failed
            {
                let file = self.file.path();
                tracing::warn!(file = %file.display(), %error, "cannot save learned usage");
            }
            has_failed = done.is_err();
            if is_ending {
                self.lock().has_ended = true;
                return self.news.notify_all();
            }
        }
    }

    /// Adds the waiting lessons to the file.
    fn write(&self) -> io::Result<()> {
        let waiting = self.lock().waiting.clone();
        let Some(last) = waiting.back().map(|one| one.number) else { return Ok(()) };
        // A holder that was renamed meanwhile gets the new name.
        let names: BTreeMap<&String, &String> = waiting.iter().map(|one| (&one.holder, &one.name)).collect();
        let changed = self.file.change(|book| {
            for (holder, name) in names {
                let lessons = waiting.iter().filter(|one| one.holder == *holder).map(|one| &one.lesson);
                let scope = Scope { catalog: self.catalog.clone(), holder: holder.clone() };
                book.learn(scope, name, self.settings, lessons, now());
            }
        })?;
        self.apply(&changed.book, changed.stamp, last);
        Ok(())
    }

    /// Reads the file again if it has changed.
    fn reload_if_changed(&self) -> io::Result<()> {
        let stamp = self.file.stamp();
        if stamp == self.lock().stamp {
            return Ok(());
        }
        let book = self.file.read()?;
        self.apply(&book, stamp, 0);
        Ok(())
    }

    /// Applies the content of the file, which has the lessons up to the number `last`, and the
    /// lessons that are not written yet.
    fn apply(&self, book: &LearnedHabits, stamp: Option<Stamp>, last: u64) {
        let own = book.parts().filter(|(scope, _)| scope.catalog == self.catalog);
        // Every search takes the lock: what takes long is done before.
        let read = |habits: &[Habit]| Arc::new(Habits::from_list(self.settings, habits.iter().cloned(), now()));
        let mut habits: BTreeMap<String, Arc<Habits>> =
            own.map(|(scope, part)| (scope.holder.clone(), read(&part.habits))).collect();
        let mut memory = self.lock();
        memory.waiting.retain(|one| one.number > last);
        for one in memory.waiting.iter().filter(|one| one.lesson.at() >= book.reset_at) {
            let habits = habits.entry(one.holder.clone()).or_insert_with(|| Arc::new(Habits::new(self.settings)));
            Arc::make_mut(habits).learn(one.lesson.clone());
        }
        memory.stamp = stamp;
        std::mem::swap(&mut memory.habits, &mut habits);
        // The previous habits are dropped after the lock is released.
        drop(memory);
    }
}
