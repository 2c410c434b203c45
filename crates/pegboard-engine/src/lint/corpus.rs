//! The words of each tool as numbers, and how common each word is.

use pegboard_core::{Field, Tool};
use rustc_hash::{FxHashMap, FxHashSet};

use super::words::{Words, lead};
use crate::lexical::for_each_text;

/// Maximum number of distinguishing words that are checked: those late in a text are not suitable
/// for its start.
const MAX_CANDIDATES: usize = 12;

/// The words of all tools.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    numbers: FxHashMap<String, u32>,
    /// The number of tools that contain each word.
    counts: Vec<u32>,
    profiles: Vec<Profile>,
}

/// The words of one tool, each once, sorted by number.
#[derive(Debug, Default)]
struct Profile {
    /// The words of name, title and the start of the description.
    said: Vec<u32>,
    /// The words of all texts.
    all: Vec<u32>,
}

impl Corpus {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>, words: &Words) -> Self {
        let mut corpus = Self::default();
        for tool in tools {
            let mut profile = Profile::default();
            for_each_text(tool, &mut |field, text| {
                for word in Words::of(text) {
                    profile.all.push(corpus.number(words.stem(&word)));
                }
                let said = match field {
                    Field::Name | Field::Title => text,
                    Field::Description => lead(text),
                    _ => "",
                };
                profile.said.extend(Words::of(said).iter().map(|word| corpus.number(words.stem(word))));
            });
            for list in [&mut profile.said, &mut profile.all] {
                list.sort_unstable();
                list.dedup();
            }
            profile.all.iter().for_each(|number| corpus.counts[*number as usize] += 1);
            corpus.profiles.push(profile);
        }
        corpus
    }

    fn number(&mut self, stem: String) -> u32 {
        let next = self.counts.len() as u32;
        let number = *self.numbers.entry(stem).or_insert(next);
        if number == next {
            self.counts.push(0);
        }
        number
    }

    /// Returns the weight of a word: rare words weigh more.
    fn weight(&self, number: u32) -> f64 {
        (1.0 + self.profiles.len() as f64 / f64::from(self.counts[number as usize].max(1))).ln()
    }

    /// Returns the share of words that two tools have in common, 0 to 1; rare words weigh more.
    pub(super) fn likeness(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (&self.profiles[one].said, &self.profiles[other].said);
        let weigh = |list: &[u32]| list.iter().map(|number| self.weight(*number)).sum::<f64>();
        let shared: Vec<u32> = one.iter().copied().filter(|number| other.binary_search(number).is_ok()).collect();
        let shared = weigh(&shared);
        let whole = weigh(one) + weigh(other) - shared;
        if whole > 0.0 { shared / whole } else { 0.0 }
    }

    /// Returns words that distinguish `tool` from `others`: first those of its name that none of
    /// them begins with, then the rarest that none of them contains.
    pub(super) fn distinguishing_words(
        &self,
        tool: &Tool,
        others: &[usize],
        words: &Words,
        most: usize,
    ) -> Vec<String> {
        let mut seen = FxHashSet::default();
        let mut distinguishing_words: Vec<(Field, u32, String)> = Vec::new();
        for_each_text(tool, &mut |field, text| {
            let is_left_out = matches!(field, Field::ParameterValue | Field::ServerDescription | Field::Server);
            let found =
                if is_left_out || distinguishing_words.len() >= MAX_CANDIDATES { Vec::new() } else { Words::of(text) };
            for word in found {
                let stem = words.stem(&word);
                let is_plain = word.len() > 2 && !word.contains(|c: char| c.is_ascii_digit());
                // In a name, `start` is a distinction from `stop`.
                let is_name = field == Field::Name;
                let says_nothing = if is_name { words.is_filler(&word) } else { words.is_generic(&word) };
                if !is_plain || says_nothing || !seen.insert(stem.clone()) {
                    continue;
                }
                let Some(number) = self.numbers.get(&stem) else { continue };
                let has = |other: &usize| {
                    let profile = &self.profiles[*other];
                    let list = if is_name { &profile.said } else { &profile.all };
                    list.binary_search(number).is_ok()
                };
                if !others.iter().any(has) {
                    distinguishing_words.push((field, self.counts[*number as usize], word));
                }
            }
        });
        distinguishing_words.truncate(MAX_CANDIDATES);
        distinguishing_words.sort_by_key(|(field, count, _)| (*field != Field::Name, *count));
        distinguishing_words.into_iter().take(most).map(|(_, _, word)| word).collect()
    }
}
