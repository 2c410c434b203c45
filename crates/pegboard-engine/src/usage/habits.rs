//! Habits: what was learned from usage.

use std::{cmp::Ordering, collections::BTreeMap};

use super::words::{self, StemOutline};

/// Maximum length of a tool's identity in bytes.
pub const MAX_TOOL_BYTES: usize = 256;

/// Minimum similarity of related queries.
const LEAST_LIKENESS: f64 = 0.5;

/// Minimum strength; weaker habits are removed.
const LEAST_STRENGTH: f64 = 0.05;

/// Maximum strength; its effect saturates long before.
const MAX_STRENGTH: f64 = 1e6;

/// Maximum number of tools that one query boosts.
const MAX_BOOSTS: usize = 16;

/// Minimum amount of a boost.
const LEAST_AMOUNT: f64 = 1e-4;

/// How habits are learned and forgotten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HabitSettings {
    /// Days after which the strength of a habit is halved.
    pub half_life_days: u32,
    /// Maximum number of habits; the weakest are removed.
    pub max_entries: usize,
    /// Maximum boost of a score, 0 to 1.
    pub weight: f64,
}

impl Default for HabitSettings {
    fn default() -> Self {
        Self { half_life_days: 30, max_entries: 2000, weight: 0.5 }
    }
}

impl HabitSettings {
    /// Returns the factor by which a strength decays in so many seconds.
    fn decay(&self, seconds: u64) -> f64 {
        (-(seconds as f64) / self.half_life()).exp2()
    }

    /// Compares two habits by strength, which does not depend on the time: all decay alike.
    fn compare(&self, a: &Habit, b: &Habit) -> Ordering {
        let rank = |habit: &Habit| habit.strength.log2() + habit.at as f64 / self.half_life();
        rank(a).total_cmp(&rank(b)).then_with(|| a.at.cmp(&b.at)).then_with(|| b.key().cmp(&a.key()))
    }

    /// Returns the half-life in seconds.
    fn half_life(&self) -> f64 {
        f64::from(self.half_life_days.max(1)) * 86_400.0
    }
}

/// One observation to learn from: after a search for these words, this tool was called.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The stems of the query, sorted.
    stems: Vec<String>,
    tool: String,
    share: f64,
    at: u64,
}

impl Lesson {
    /// Creates a lesson from a query at a time in seconds; `None` if the query has no words to
    /// remember. `share` is its weight, 0 to 1.
    pub fn new(query: &str, tool: &str, share: f64, at: u64) -> Option<Self> {
        let stems = words::stems(query);
        let is_valid = !stems.is_empty() && !tool.is_empty() && tool.len() <= MAX_TOOL_BYTES && share > 0.0;
        is_valid.then(|| Self { stems, tool: tool.to_owned(), share: share.min(1.0), at })
    }

    /// Returns the time in seconds.
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
    /// The number of calls, decayed over time.
    pub strength: f64,
    /// The time of the strength, in seconds.
    pub at: u64,
}

impl Habit {
    /// Returns whether the habit is valid; habits from a file are not trusted.
    fn is_valid(&self) -> bool {
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

/// The boost of one tool for one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Boost {
    /// The tool, by [`Tool::upstream_id`](pegboard_core::Tool::upstream_id).
    pub tool: String,
    /// The maximum amount that is added to its score.
    pub amount: f64,
    /// The similarity of the nearest learned query, 0 to 1.
    pub likeness: f64,
    /// The words of the learned query with the most weight.
    pub words: String,
}

/// A bounded list of [`Habit`]s. Times are seconds of any clock that all callers share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Habits {
    settings: HabitSettings,
    /// Sorted by stems and tool.
    list: Vec<(StemOutline, Habit)>,
}

impl Habits {
    /// Creates an empty list.
    pub fn new(settings: HabitSettings) -> Self {
        Self { settings, list: Vec::new() }
    }

    /// Restores saved habits. Invalid habits are dropped, and the weakest if there are too many.
    /// Times after `now` are set to `now`: habits from a clock that was ahead would never decay.
    pub fn from_list(settings: HabitSettings, list: impl IntoIterator<Item = Habit>, now: u64) -> Self {
        let mut habits = Self::new(settings);
        let fit = list.into_iter().filter(Habit::is_valid).map(|habit| Habit { at: habit.at.min(now), ..habit });
        habits.list.extend(fit.map(|habit| (StemOutline::of(&habit.stems), habit)));
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

    /// Returns all habits, by their words and tools.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Habit> {
        self.list.iter().map(|(_, habit)| habit)
    }

    /// Returns the number of habits.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no habits.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the current strength of a habit.
    pub fn strength(&self, habit: &Habit, now: u64) -> f64 {
        habit.strength * self.settings.decay(now.saturating_sub(habit.at))
    }

    /// Learns a lesson. Lessons may come in any order: an older one counts with its decayed weight.
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
                self.list.insert(place, (StemOutline::of(&stems), Habit { stems, tool, strength: share, at }));
                place
            }
        };
        if self.list.len() > self.settings.max_entries {
            self.forget_weakest(place);
        }
    }

    /// Removes habits that have decayed.
    pub fn forget(&mut self, now: u64) {
        let settings = self.settings;
        self.list.iter_mut().for_each(|(_, habit)| habit.at = habit.at.min(now));
        self.list.retain(|(_, habit)| habit.strength * settings.decay(now.saturating_sub(habit.at)) >= LEAST_STRENGTH);
    }

    /// Keeps the strongest habits as long as `fits` returns true.
    pub fn keep_strongest(&mut self, mut fits: impl FnMut(&Habit) -> bool) {
        let settings = self.settings;
        self.list.sort_by(|(_, a), (_, b)| settings.compare(b, a));
        let kept = self.list.iter().position(|(_, habit)| !fits(habit)).unwrap_or(self.list.len());
        self.list.truncate(kept);
        self.list.sort_by(|(_, a), (_, b)| a.key().cmp(&b.key()));
    }

    /// Removes the habits for which `is_gone` returns true; returns their number.
    pub fn remove(&mut self, is_gone: impl Fn(&Habit) -> bool) -> usize {
        let before = self.list.len();
        self.list.retain(|(_, habit)| !is_gone(habit));
        before - self.list.len()
    }

    /// Returns the boosts of `query`, the largest first. Tools that were called after the same
    /// words share the boost, as far as they are visible.
    pub fn boosts(&self, query: &str, now: u64, is_visible: impl Fn(&str) -> bool) -> Vec<Boost> {
        if self.list.is_empty() || self.settings.weight <= 0.0 {
            return Vec::new();
        }
        let stems = words::stems(query);
        let outline = StemOutline::of(&stems);
        let mut found: BTreeMap<&str, ToolEvidence<'_>> = BTreeMap::new();
        for (own, habit) in self.list.iter().filter(|(own, _)| own.may_meet(&outline)) {
            let likeness = words::likeness((&stems, &outline), (&habit.stems, own));
            if likeness > LEAST_LIKENESS {
                let near = (likeness - LEAST_LIKENESS) / (1.0 - LEAST_LIKENESS);
                found.entry(&habit.tool).or_default().add(habit, likeness, near * self.strength(habit, now));
            }
        }
        // Before anything is divided or cut: the share of a tool depends on all others.
        found.retain(|tool, _| is_visible(tool));
        let all: f64 = found.values().map(|evidence| evidence.sum).sum();
        let scale = self.settings.weight.min(1.0) / (1.0 + all);
        let mut boosts: Vec<Boost> = found.into_iter().map(|(tool, evidence)| evidence.boost(tool, scale)).collect();
        boosts.retain(|boost| boost.amount >= LEAST_AMOUNT);
        // Ordered by identity if they are equal, which is the order of the list.
        boosts.sort_by(|a, b| b.amount.total_cmp(&a.amount));
        boosts.truncate(MAX_BOOSTS);
        boosts
    }

    /// Removes the weakest habit, except the one at `spared`: a new habit is always the weakest,
    /// and would never stay.
    fn forget_weakest(&mut self, spared: usize) {
        let places = (0..self.list.len()).filter(|place| *place != spared);
        let weakest = places.min_by(|a, b| self.settings.compare(&self.list[*a].1, &self.list[*b].1));
        if let Some(place) = weakest {
            self.list.remove(place);
        }
    }
}

/// The evidence for one tool.
#[derive(Default)]
struct ToolEvidence<'a> {
    sum: f64,
    likeness: f64,
    best: f64,
    stems: &'a [String],
}

impl<'a> ToolEvidence<'a> {
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
