//! The word list of one language.

use rustc_hash::FxHashMap;

/// How words of a language are matched with the stems of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forms {
    /// Words are not separated by spaces.
    Unspaced,
    /// Nouns and verbs have particles at their end.
    Particles,
    /// Articles and prepositions are prefixed to a word.
    Prefixed,
    /// Words have endings.
    Endings,
    /// Words have endings, and several form one long word.
    Compounds,
}

/// Maximum number of meanings of one word that are used.
const MAX_MEANINGS: usize = 2;

/// Maximum number of letters of an ending.
const ENDING: usize = 4;

/// Minimum number of letters of a stem before an ending, and in a compound.
const LEAST_STEM: usize = 3;
const LEAST_PART: usize = 4;

/// Letters that join the parts of a compound.
const JOINTS: [&str; 5] = ["", "s", "n", "en", "es"];

/// Prefixes of Arabic words, longest first.
const PREFIXES: [&str; 12] = ["وال", "بال", "فال", "كال", "لل", "ال", "و", "ب", "ل", "ف", "ك", "س"];

/// Words of one language with their English translations.
#[derive(Debug)]
pub(super) struct List {
    forms: Forms,
    entries: FxHashMap<String, Entry>,
    /// Number of letters of the longest entry.
    longest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// English words, separated by blanks; empty for function words.
    english: &'static str,
    /// Whether the entry takes no ending.
    is_whole: bool,
}

impl List {
    /// Parses lines of a word or stem, a tab, and English words. A `$` at the end of a word marks
    /// that it takes no ending.
    pub(super) fn parse(text: &'static str, forms: Forms, fillers: &'static str) -> Self {
        let words = text.lines().filter_map(|line| line.split_once('\t'));
        let fillers = fillers.split_whitespace().map(|word| (word, Entry { english: "", is_whole: true }));
        let entries: FxHashMap<String, Entry> = words
            .map(|(word, english)| (word.trim_end_matches('$'), Entry { english, is_whole: word.ends_with('$') }))
            .chain(fillers)
            .map(|(word, entry)| (super::fold(word), entry))
            .collect();
        let longest = entries.keys().map(|word| word.chars().count()).max().unwrap_or(0);
        Self { forms, entries, longest }
    }

    /// Returns whether the list contains the folded word.
    pub(super) fn has(&self, word: &str) -> bool {
        self.translate(&[word], &mut Vec::new()) > 0
    }

    /// Returns whether a folded word is a function word.
    pub(super) fn is_filler(&self, word: &str) -> bool {
        self.entries.get(word).is_some_and(|entry| entry.english.is_empty())
    }

    /// Adds the translation of the first of `words` to `english`; returns how many words it covers.
    pub(super) fn translate(&self, words: &[&str], english: &mut Vec<&str>) -> usize {
        let Some(first) = words.first() else { return 0 };
        let mut add = |entry: Entry| english.extend(entry.english.split_whitespace().take(MAX_MEANINGS));
        if let Some((entry, count)) = self.phrase(words) {
            add(entry);
            return count;
        }
        match self.forms {
            Forms::Unspaced | Forms::Particles => return usize::from(self.in_pieces(first, &mut add)),
            Forms::Prefixed => {
                let stripped = PREFIXES.iter().filter_map(|prefix| first.strip_prefix(prefix));
                let found = std::iter::once(*first).chain(stripped).find_map(|word| self.inflected(word));
                found.map(&mut add)
            }
            Forms::Endings => self.inflected(first).map(&mut add),
            Forms::Compounds => {
                let parts = self.inflected(first).map(|entry| vec![entry]).or_else(|| self.compound(first));
                parts.map(|parts| parts.into_iter().for_each(&mut add))
            }
        }
        .map_or(0, |()| 1)
    }

    /// Returns the entry of several words that the text begins with, and their number.
    fn phrase(&self, words: &[&str]) -> Option<(Entry, usize)> {
        let count = words.len().min(3);
        (2..=count).rev().find_map(|count| {
            let mut phrase = words[..count].join(" ");
            if let Some(entry) = self.entries.get(&phrase) {
                return Some((*entry, count));
            }
            // Its last word may have an ending.
            (0..2).find_map(|_| {
                phrase.pop()?;
                self.entries.get(&phrase).filter(|_| phrase.contains(' ')).map(|entry| (*entry, count))
            })
        })
    }

    /// Finds a word as it is, or its longest stem with an ending.
    fn inflected(&self, word: &str) -> Option<Entry> {
        let entry = self.entries.get(word).copied();
        entry.or_else(|| {
            self.beginnings(word)
                .find(|(begun, entry)| {
                    let left = word[begun.len()..].chars().count();
                    !entry.is_whole && left <= ENDING && begun.chars().count() >= LEAST_STEM
                })
                .map(|(_, entry)| entry)
        })
    }

    /// Splits a compound, if all of its parts are known.
    fn compound(&self, word: &str) -> Option<Vec<Entry>> {
        self.beginnings(word).filter(|(begun, _)| begun.len() >= LEAST_PART).find_map(|(begun, entry)| {
            let rest = &word[begun.len()..];
            JOINTS.iter().filter_map(|joint| rest.strip_prefix(joint)).filter(|rest| rest.len() >= LEAST_PART).find_map(
                |rest| match self.inflected(rest) {
                    Some(last) => Some(vec![entry, last]),
                    None => self.compound(rest).map(|others| [vec![entry], others].concat()),
                },
            )
        })
    }

    /// Passes the entries that follow each other in a text without spaces to `add`, the longest
    /// first; returns whether there is any.
    fn in_pieces(&self, text: &str, add: &mut impl FnMut(Entry)) -> bool {
        let (mut at, mut is_found) = (0, false);
        while at < text.len() {
            let rest = &text[at..];
            // Within a Korean word, one syllable is more likely an ending than a word.
            let is_word = |begun: &str| {
                self.forms == Forms::Unspaced || at == 0 && begun.len() == text.len() || begun.chars().count() > 1
            };
            let step = match self.beginnings_and_whole(rest).find(|(begun, _)| is_word(begun)) {
                Some((begun, entry)) => {
                    add(entry);
                    is_found = true;
                    begun.len()
                }
                None => rest.chars().next().map_or(1, char::len_utf8),
            };
            at += step;
        }
        is_found
    }

    fn beginnings_and_whole<'w>(&self, word: &'w str) -> impl Iterator<Item = (&'w str, Entry)> {
        let whole = self.entries.get(word).map(|entry| (word, *entry));
        whole.into_iter().chain(self.beginnings(word))
    }

    /// Returns the entries that are proper prefixes of `word`, longest first.
    fn beginnings<'w>(&self, word: &'w str) -> impl Iterator<Item = (&'w str, Entry)> {
        let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).skip(1).take(self.longest).collect();
        ends.into_iter().rev().filter_map(|end| Some((&word[..end], *self.entries.get(&word[..end])?)))
    }
}
