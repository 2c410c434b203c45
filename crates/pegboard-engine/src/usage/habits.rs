//! What was learned.

use std::{cmp::Ordering, collections::BTreeMap};

use super::words::{self, Outline};

/// Bytes that the identity of a tool may have.
pub const MAX_TOOL_BYTES: usize = 256;

/// Queries that are less alike have nothing to do with each other.
const LEAST_LIKENESS: f64 = 0.5;

/// What has decayed below this is forgotten.
const LEAST_STRENGTH: f64 = 0.05;

/// Strength does not grow beyond this; it saturates long before.
const MAX_STRENGTH: f64 = 1e6;

/// Tools that one query raises.
const MAX_BOOSTS: usize = 16;

/// An amount that moves nothing.
const LEAST_AMOUNT: f64 = 1e-4;

/// How habits come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HabitSettings {
    /// Days after which what was learned counts half.
    pub half_life_days: u32,
    /// Habits that are kept; the weakest give way.
    pub max_entries: usize,
    /// What a habit can add to a score at most, 0 to 1.
    pub weight: f64,
}

impl Default for HabitSettings {
    fn default() -> Self {
        Self { half_life_days: 30, max_entries: 2000, weight: 0.5 }
    }
}

impl HabitSettings {
    /// What is left of something after so many seconds.
    fn decay(&self, seconds: u64) -> f64 {
        (-(seconds as f64) / self.half_life()).exp2()
    }

    /// Which is weaker, whenever that is asked: all decay alike.
    fn compare(&self, a: &Habit, b: &Habit) -> Ordering {
        let rank = |habit: &Habit| habit.strength.log2() + habit.at as f64 / self.half_life();
        rank(a).total_cmp(&rank(b)).then_with(|| a.at.cmp(&b.at)).then_with(|| b.key().cmp(&a.key()))
    }

    /// In seconds.
    fn half_life(&self) -> f64 {
        f64::from(self.half_life_days.max(1)) * 86_400.0
    }
}

/// Something to learn: after a search for these words, this tool was called.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The stems of the query, sorted.
    stems: Vec<String>,
    tool: String,
    share: f64,
    at: u64,
}

impl Lesson {
    /// The lesson of a query, at a time in seconds; `None` where there is nothing to remember
    /// it by. `share` is what it counts, 0 to 1.
    pub fn new(query: &str, tool: &str, share: f64, at: u64) -> Option<Self> {
        let stems = words::stems(query);
        let is_fit = !stems.is_empty() && !tool.is_empty() && tool.len() <= MAX_TOOL_BYTES && share > 0.0;
        is_fit.then(|| Self { stems, tool: tool.to_owned(), share: share.min(1.0), at })
    }

    /// When it was.
    pub fn at(&self) -> u64 {
        self.at
    }
}

/// A tool that was called after a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Habit {
    /// The stems of the query's words, sorted.
    pub stems: Vec<String>,
    /// The tool, by [`Tool::upstream_id`](pegboard_core::Tool::upstream_id).
    pub tool: String,
    /// How often, where what is long ago counts less.
    pub strength: f64,
    /// For which time that is, in seconds.
    pub at: u64,
}

impl Habit {
    /// Whether it can have been learned here. What comes from a file is not believed.
    fn is_fit(&self) -> bool {
        let is_stem = |stem: &String| !stem.is_empty() && stem.len() <= words::MAX_WORD_BYTES;
        (1..=words::MAX_WORDS).contains(&self.stems.len())
            && self.stems.iter().all(is_stem)
            && self.stems.is_sorted_by(|a, b| a < b)
            && (1..=MAX_TOOL_BYTES).contains(&self.tool.len())
            && self.strength.is_finite()
            && self.strength > 0.0
            && self.strength <= MAX_STRENGTH
    }

    fn key(&self) -> (&[String], &str) {
        (&self.stems, &self.tool)
    }
}

/// What habits do to one tool for one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Boost {
    /// The tool, by [`Tool::upstream_id`](pegboard_core::Tool::upstream_id).
    pub tool: String,
    /// What is added to its score at most.
    pub amount: f64,
    /// How alike the nearest learned query is, 0 to 1.
    pub likeness: f64,
    /// The words of the learned query that counts most.
    pub words: String,
}

/// A bounded list of [`Habit`]s, in an order of its own. Times are seconds of any clock that
/// all who learn share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Habits {
    settings: HabitSettings,
    /// Sorted by stems and tool.
    list: Vec<(Outline, Habit)>,
}

impl Habits {
    /// None yet.
    pub fn new(settings: HabitSettings) -> Self {
        Self { settings, list: Vec::new() }
    }

    /// Those that were written down. What nobody can have learned is left out, and the weakest
    /// if there are too many. Nothing was learned after `now`: what a clock that was ahead says
    /// would never fade.
    pub fn from_list(settings: HabitSettings, list: impl IntoIterator<Item = Habit>, now: u64) -> Self {
        let mut habits = Self::new(settings);
        let fit = list.into_iter().filter(Habit::is_fit).map(|habit| Habit { at: habit.at.min(now), ..habit });
        habits.list.extend(fit.map(|habit| (Outline::of(&habit.stems), habit)));
        habits.list.sort_by(|(_, a), (_, b)| a.key().cmp(&b.key()).then(b.at.cmp(&a.at)));
        habits.list.dedup_by(|(_, a), (_, b)| a.key() == b.key());
        if habits.list.len() > settings.max_entries {
            let mut count = 0;
            habits.keep_strongest(|_| {
                count += 1;
                count <= settings.max_entries
            });
        }
        habits
    }

    /// All of them, by their words and tools.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Habit> {
        self.list.iter().map(|(_, habit)| habit)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What is left of a habit's strength.
    pub fn strength(&self, habit: &Habit, now: u64) -> f64 {
        habit.strength * self.settings.decay(now.saturating_sub(habit.at))
    }

    /// Takes a lesson in. Lessons may come in any order: an older one counts what is left of it.
    pub fn learn(&mut self, lesson: Lesson) {
        if self.settings.max_entries == 0 {
            return;
        }
        let Lesson { stems, tool, share, at } = lesson;
        let key = (stems.as_slice(), tool.as_str());
        let place = match self.list.binary_search_by(|(_, habit)| habit.key().cmp(&key)) {
            Ok(place) => {
                let habit = &mut self.list[place].1;
                let last = habit.at.max(at);
                let sum =
                    habit.strength * self.settings.decay(last - habit.at) + share * self.settings.decay(last - at);
                habit.strength = sum.min(MAX_STRENGTH);
                habit.at = last;
                place
            }
            Err(place) => {
                self.list.insert(place, (Outline::of(&stems), Habit { stems, tool, strength: share, at }));
                place
            }
        };
        if self.list.len() > self.settings.max_entries {
            self.forget_weakest(place);
        }
    }

    /// Lets go of what has decayed to next to nothing.
    pub fn forget(&mut self, now: u64) {
        let settings = self.settings;
        self.list.iter_mut().for_each(|(_, habit)| habit.at = habit.at.min(now));
        self.list.retain(|(_, habit)| habit.strength * settings.decay(now.saturating_sub(habit.at)) >= LEAST_STRENGTH);
    }

    /// Keeps the strongest for as long as `fits` says of each that it does.
    pub fn keep_strongest(&mut self, mut fits: impl FnMut(&Habit) -> bool) {
        let settings = self.settings;
        self.list.sort_by(|(_, a), (_, b)| settings.compare(b, a));
        let kept = self.list.iter().position(|(_, habit)| !fits(habit)).unwrap_or(self.list.len());
        self.list.truncate(kept);
        self.list.sort_by(|(_, a), (_, b)| a.key().cmp(&b.key()));
    }

    /// Lets go of those that `is_gone` says; how many.
    pub fn remove(&mut self, is_gone: impl Fn(&Habit) -> bool) -> usize {
        let before = self.list.len();
        self.list.retain(|(_, habit)| !is_gone(habit));
        before - self.list.len()
    }

    /// What `query` raises, the most first. Tools that were called after the same words share
    /// what there is to add, as far as they are visible.
    pub fn boosts(&self, query: &str, now: u64, is_visible: impl Fn(&str) -> bool) -> Vec<Boost> {
        if self.list.is_empty() || self.settings.weight <= 0.0 {
            return Vec::new();
        }
        let stems = words::stems(query);
        let outline = Outline::of(&stems);
        let mut found: BTreeMap<&str, Evidence<'_>> = BTreeMap::new();
        for (own, habit) in self.list.iter().filter(|(own, _)| own.may_meet(&outline)) {
            let likeness = words::likeness((&stems, &outline), (&habit.stems, own));
            if likeness > LEAST_LIKENESS {
                let near = (likeness - LEAST_LIKENESS) / (1.0 - LEAST_LIKENESS);
                found.entry(&habit.tool).or_default().add(habit, likeness, near * self.strength(habit, now));
            }
        }
        // Before anything is divided or cut: the share of a tool says how much others have.
        found.retain(|tool, _| is_visible(tool));
        let all: f64 = found.values().map(|evidence| evidence.sum).sum();
        let scale = self.settings.weight.min(1.0) / (1.0 + all);
        let mut boosts: Vec<Boost> = found.into_iter().map(|(tool, evidence)| evidence.boost(tool, scale)).collect();
        boosts.retain(|boost| boost.amount >= LEAST_AMOUNT);
        // By identity where they are equal, since that is the order they come in.
        boosts.sort_by(|a, b| b.amount.total_cmp(&a.amount));
        boosts.truncate(MAX_BOOSTS);
        boosts
    }

    /// The weakest goes, but not the one at `spared`: what was just learned is the weakest
    /// there can be, and nothing new would ever come in.
    fn forget_weakest(&mut self, spared: usize) {
        let places = (0..self.list.len()).filter(|place| *place != spared);
        let weakest = places.min_by(|a, b| self.settings.compare(&self.list[*a].1, &self.list[*b].1));
        if let Some(place) = weakest {
            self.list.remove(place);
        }
    }
}

/// What speaks for one tool.
#[derive(Default)]
struct Evidence<'a> {
    sum: f64,
    likeness: f64,
    best: f64,
    stems: &'a [String],
}

impl<'a> Evidence<'a> {
    fn add(&mut self, habit: &'a Habit, likeness: f64, worth: f64) {
        self.sum += worth;
        self.likeness = self.likeness.max(likeness);
        if worth > self.best {
            self.best = worth;
            self.stems = &habit.stems;
        }
    }

    fn boost(self, tool: &str, scale: f64) -> Boost {
        Boost { tool: tool.to_owned(), amount: self.sum * scale, likeness: self.likeness, words: self.stems.join(" ") }
    }
}
