//! What each tool says, as numbered words, and how common each word is.

use pegboard_core::{Field, Tool};
use rustc_hash::{FxHashMap, FxHashSet};

use super::words::Words;
use crate::lexical::for_each_text;

/// The words of all tools.
#[derive(Debug, Default)]
pub(super) struct Corpus {
    numbers: FxHashMap<String, u32>,
    /// In how many tools each word is.
    counts: Vec<u32>,
    profiles: Vec<Profile>,
}

/// The words of one tool, each once, sorted by number.
#[derive(Debug, Default)]
struct Profile {
    /// Of its name, title and description.
    said: Vec<u32>,
    /// Of all its texts.
    all: Vec<u32>,
}

impl Corpus {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>, words: &Words) -> Self {
        let mut corpus = Self::default();
        for tool in tools {
            let mut profile = Profile::default();
            for_each_text(tool, &mut |field, text| {
                for word in Words::of(text) {
                    let number = corpus.number(words.stem(&word));
                    profile.all.push(number);
                    if is_said(field) {
                        profile.said.push(number);
                    }
                }
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

    /// How much a word tells: the rarer, the more.
    fn weight(&self, number: u32) -> f64 {
        (1.0 + self.profiles.len() as f64 / f64::from(self.counts[number as usize].max(1))).ln()
    }

    /// How much of what two tools say is the same, 0 to 1; rare words count more.
    pub(super) fn likeness(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (&self.profiles[one].said, &self.profiles[other].said);
        let weigh = |list: &[u32]| list.iter().map(|number| self.weight(*number)).sum::<f64>();
        let shared: Vec<u32> = one.iter().copied().filter(|number| other.binary_search(number).is_ok()).collect();
        let shared = weigh(&shared);
        let whole = weigh(one) + weigh(other) - shared;
        if whole > 0.0 { shared / whole } else { 0.0 }
    }

    /// Words that `tool` has and none of `others`, in the order in which it says them.
    pub(super) fn telling(&self, tool: &Tool, others: &[usize], words: &Words, most: usize) -> Vec<String> {
        let mut seen = FxHashSet::default();
        let mut telling: Vec<String> = Vec::new();
        for_each_text(tool, &mut |field, text| {
            if telling.len() == most || matches!(field, Field::ParameterValue | Field::ServerDescription) {
                return;
            }
            for word in Words::of(text) {
                let stem = words.stem(&word);
                if word.len() < 3 || words.is_generic(&word) || !seen.insert(stem.clone()) || telling.len() == most {
                    continue;
                }
                let Some(number) = self.numbers.get(&stem) else { continue };
                if others.iter().all(|other| self.profiles[*other].all.binary_search(number).is_err()) {
                    telling.push(word);
                }
            }
        });
        telling
    }
}

fn is_said(field: Field) -> bool {
    matches!(field, Field::Name | Field::Title | Field::Description)
}
