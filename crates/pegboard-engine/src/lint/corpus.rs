//! What each tool says, as numbered words, and how common each word is.

use pegboard_core::{Field, Tool};
use rustc_hash::{FxHashMap, FxHashSet};

use super::words::{Words, lead};
use crate::lexical::for_each_text;

/// Words of their own that tools are asked for: what comes late in a text is no way to begin it.
const MOST_LOOKED_AT: usize = 12;

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
    /// Of its name, its title and the beginning of its description.
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

    /// Words that tell `tool` from `others`: first those of its name that none of them begins
    /// with, then the rarest that none of them has at all.
    pub(super) fn telling(&self, tool: &Tool, others: &[usize], words: &Words, most: usize) -> Vec<String> {
        let mut seen = FxHashSet::default();
        let mut telling: Vec<(Field, u32, String)> = Vec::new();
        for_each_text(tool, &mut |field, text| {
            let is_left_out = matches!(field, Field::ParameterValue | Field::ServerDescription | Field::Server);
            let found = if is_left_out || telling.len() >= MOST_LOOKED_AT { Vec::new() } else { Words::of(text) };
            for word in found {
                let stem = words.stem(&word);
                let is_plain = word.len() > 2 && !word.contains(|c: char| c.is_ascii_digit());
                // In a name, `start` tells something beside `stop`.
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
                    telling.push((field, self.counts[*number as usize], word));
                }
            }
        });
        telling.truncate(MOST_LOOKED_AT);
        telling.sort_by_key(|(field, count, _)| (*field != Field::Name, *count));
        telling.into_iter().take(most).map(|(_, _, word)| word).collect()
    }
}
