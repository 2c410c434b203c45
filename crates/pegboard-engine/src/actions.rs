//! The action that a query asks for, and the action of a tool.
//!
//! Both are found by their verbs in one list (`actions/verbs.txt`), in which each verb or phrase
//! has the kinds of action that it can mean. The model has a coefficient for each pair of a
//! requested and an offered kind. `train/actions.py` is the same in Python.

mod words;

use std::sync::LazyLock;

use pegboard_core::Tool;
use rustc_hash::FxHashMap;

use self::words::{for_each_word, stem};
use crate::analysis::begins_request;

/// The kinds of action, in the order of the model file.
pub(crate) const KINDS: [&str; 15] = [
    "list", "read", "search", "count", "create", "change", "delete", "send", "run", "stop", "start", "move", "copy",
    "download", "upload",
];

/// The kinds that only read, by number.
const READING: [usize; 6] = [0, 1, 2, 3, 8, 13];

/// The probability of each kind; they sum to one.
pub(crate) type ActionKinds = [f32; KINDS.len()];

/// Maximum number of characters and words of a description that are read.
const DESCRIPTION_CHARS: usize = 160;
const DESCRIPTION_WORDS: usize = 8;

/// The weight of the verb in a name, relative to that in the description.
const NAME_SHARE: f32 = 0.65;

/// The share that other kinds keep if a tool is annotated as read-only.
const KEPT_BY_READ_ONLY: f32 = 0.15;

/// Maximum distance of the particle of a verb in words: `take the site down`.
const MAX_GAP: usize = 5;

/// Maximum number of words of a name or query that are read; longer texts are documents.
const MAX_WORDS: usize = 64;

/// HTTP methods that begin a generated name.
const METHODS: [(&str, &str); 5] = [
    ("get", "read list"),
    ("post", "create:0.6 send:0.2 run:0.2"),
    ("put", "change"),
    ("patch", "change"),
    ("delete", "delete"),
];

/// Words that may precede the verb of a query.
const POLITE: [&str; 21] = [
    "please", "can", "could", "you", "i", "want", "need", "to", "would", "like", "let", "us", "me", "my", "the", "a",
    "an", "we", "should", "help", "kindly",
];

/// Verbs that are unambiguous at the start of a query. Not `add`, `remove` and `set`: adding to a
/// thing or removing from it changes the thing.
const PLAIN: [&str; 20] = [
    "delete", "erase", "purge", "create", "insert", "new", "update", "edit", "change", "modify", "rename", "list",
    "show", "get", "read", "view", "display", "fetch", "search", "find",
];

/// Kinds that return existing things, by number.
const LOOKING: [usize; 5] = [0, 1, 2, 3, 13];

/// Overlap of kinds below which they clash.
const CLASH: f32 = 0.15;

/// A tool whose reading kinds sum to less than this writes.
const WRITES: f32 = 0.3;

static VERBS: LazyLock<Verbs> = LazyLock::new(|| Verbs::parse(include_str!("actions/verbs.txt")));

/// The index of a verb in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VerbNumber(u16);

impl VerbNumber {
    const NONE: Self = Self(u16::MAX);
}

/// The list of verbs.
#[derive(Debug, Default)]
struct Verbs {
    entries: Vec<Verb>,
    /// By their stems, separated by blanks.
    phrases: FxHashMap<Box<str>, u16>,
    /// Verbs with a separate particle: `take * down`.
    apart: FxHashMap<Box<str>, Vec<(Box<str>, u16)>>,
    /// The number of words of the longest phrase that begins with a stem.
    longest: FxHashMap<Box<str>, usize>,
    methods: FxHashMap<&'static str, u16>,
}

#[derive(Debug)]
struct Verb {
    kinds: ActionKinds,
    /// Whether the verb is used as a noun just as often.
    is_weak: bool,
}

/// A verb in a text, and the position of its first word.
#[derive(Clone, Copy, Debug)]
struct FoundVerb {
    at: usize,
    number: u16,
}

/// The action that a query asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedAction {
    pub(crate) kinds: &'static ActionKinds,
    /// Whether the query begins with an unambiguous verb.
    pub(crate) is_plain: bool,
}

/// How a tool's action conflicts with the requested one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clash {
    #[default]
    None,
    /// The tool does something else.
    Other,
    /// The tool does something else, and changes something.
    Harm,
}

impl WantedAction {
    /// Compares the requested action with that of a tool.
    pub(crate) fn clash(self, offered: &ActionKinds) -> Clash {
        let looking = |kinds: &ActionKinds| LOOKING.iter().map(|kind| kinds[*kind]).sum::<f32>();
        let pairs = self.kinds.iter().zip(offered).enumerate().filter(|(kind, _)| !LOOKING.contains(kind));
        let common: f32 = pairs.map(|(_, (wanted, offered))| wanted.min(*offered)).sum();
        let offered = looking(offered);
        if !self.is_plain || common + looking(self.kinds).min(offered) >= CLASH {
            Clash::None
        } else if offered < WRITES {
            Clash::Harm
        } else {
            Clash::Other
        }
    }
}

/// The action of a tool, in compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolAction {
    named: VerbNumber,
    described: VerbNumber,
    is_read_only: bool,
}

impl ToolAction {
    /// The length of the form on disk.
    pub(crate) const NUMBERS: usize = 3;

    /// Derives the action from name, description and annotations of `tool`.
    pub(crate) fn of(tool: &Tool) -> Self {
        Self {
            named: VERBS.of_name(tool.name()).unwrap_or(VerbNumber::NONE),
            described: VERBS.of_description(tool.description()).unwrap_or(VerbNumber::NONE),
            is_read_only: tool.annotations().read_only == Some(true),
        }
    }

    /// Returns the kinds of action of the tool, if its verbs are known.
    pub(crate) fn kinds(self) -> Option<ActionKinds> {
        let mut kinds = match (VERBS.kinds(self.named), VERBS.kinds(self.described)) {
            (Some(named), Some(described)) => {
                let mut both = *named;
                for (share, other) in both.iter_mut().zip(described) {
                    *share = NAME_SHARE * *share + (1.0 - NAME_SHARE) * other;
                }
                both
            }
            (named, described) => *named.or(described)?,
        };
        if self.is_read_only {
            let is_reading = |kind: usize| READING.contains(&kind);
            kinds.iter_mut().enumerate().filter(|(kind, _)| !is_reading(*kind)).for_each(|(_, share)| {
                *share *= KEPT_BY_READ_ONLY;
            });
            let total: f32 = kinds.iter().sum();
            kinds.iter_mut().for_each(|share| *share /= total);
        }
        Some(kinds)
    }

    /// Returns the form for an index on disk.
    pub(crate) fn to_numbers(self) -> [u16; Self::NUMBERS] {
        [self.named.0, self.described.0, u16::from(self.is_read_only)]
    }

    /// Restores an action; unknown numbers mean an unknown verb.
    pub(crate) fn from_numbers([named, described, is_read_only]: [u16; Self::NUMBERS]) -> Self {
        Self { named: VerbNumber(named), described: VerbNumber(described), is_read_only: is_read_only != 0 }
    }
}

/// Returns the action that a query asks for, if it has a known verb.
pub(crate) fn of_query(query: &str) -> Option<WantedAction> {
    let (verb, is_plain) = VERBS.of_query(query)?;
    Some(WantedAction { kinds: VERBS.kinds(verb)?, is_plain })
}

/// Returns whether `text`, a part of a query, contains a verb: any verb at its start, or one that
/// is not also a common noun. Other scripts count as containing one, since the list is English.
pub(crate) fn has_verb(text: &str) -> bool {
    let lower = text.to_lowercase();
    let words = Verbs::words_of_query(&lower);
    let is_lead = |word: &&str| POLITE.contains(word) || begins_request(word);
    let first = words.iter().position(|word| !is_lead(word)).unwrap_or(words.len());
    words.is_empty() || VERBS.scan(&words).iter().any(|one| !VERBS.is_weak(one) || one.at == first)
}

/// Returns the name of the most probable kind.
pub(crate) fn name_of(kinds: &ActionKinds) -> &'static str {
    let best = kinds.iter().enumerate().fold((0, 0.0), |best, (kind, share)| {
        // The last of equals: `read` rather than `list`.
        if *share >= best.1 { (kind, *share) } else { best }
    });
    KINDS[best.0]
}

impl Verbs {
    /// Parses the list. Invalid lines are skipped; a test checks that there are none.
    fn parse(text: &str) -> Self {
        let mut verbs = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((phrase, kinds)) = line.split_once(" = ") else { continue };
            let (is_weak, phrase) = (phrase.starts_with('~'), phrase.trim_start_matches('~'));
            let words: Vec<String> = phrase.split(' ').map(|word| stem(word).into_owned()).collect();
            let number = verbs.add(kinds, is_weak);
            let first: Box<str> = words[0].as_str().into();
            match &words[..] {
                [_, star, particle] if star == "*" => {
                    verbs.apart.entry(first).or_default().push((particle.as_str().into(), number));
                }
                _ => {
                    let longest = verbs.longest.entry(first).or_default();
                    *longest = words.len().max(*longest);
                    verbs.phrases.insert(words.join(" ").into(), number);
                }
            }
        }
        for (method, kinds) in METHODS {
            let number = verbs.add(kinds, false);
            verbs.methods.insert(method, number);
        }
        verbs
    }

    fn add(&mut self, kinds: &str, is_weak: bool) -> u16 {
        let mut shares = [0.0; KINDS.len()];
        for kind in kinds.split(' ') {
            let (kind, weight) = kind.split_once(':').unwrap_or((kind, "1"));
            if let (Some(place), Ok(weight)) = (KINDS.iter().position(|known| *known == kind), weight.parse()) {
                shares[place] = weight;
            }
        }
        let total: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        self.entries.push(Verb { kinds: shares, is_weak });
        self.entries.len() as u16 - 1
    }

    fn kinds(&self, number: VerbNumber) -> Option<&ActionKinds> {
        self.entries.get(usize::from(number.0)).map(|verb| &verb.kinds)
    }

    fn is_weak(&self, found: &FoundVerb) -> bool {
        self.entries[usize::from(found.number)].is_weak
    }

    /// Returns the words of a query in lower case.
    fn words_of_query(lower: &str) -> Vec<&str> {
        let words = lower.split(|c: char| !c.is_ascii_lowercase()).filter(|word| !word.is_empty());
        words.take(MAX_WORDS).collect()
    }

    /// Returns the verb of a query, and whether it is unambiguous.
    fn of_query(&self, query: &str) -> Option<(VerbNumber, bool)> {
        let lower = query.to_lowercase();
        let words = Self::words_of_query(&lower);
        let first = words.iter().position(|word| !POLITE.contains(word)).unwrap_or(words.len());
        let found = self.scan(&words);
        let strong = found.iter().find(|one| !self.is_weak(one) || one.at == first);
        // As a single word, not as a part of `get rid of`.
        let is_plain = |one: &FoundVerb| {
            let word = words[one.at];
            one.at == first && PLAIN.contains(&word) && self.phrases.get(&*stem(word)) == Some(&one.number)
        };
        strong.or(found.first()).map(|one| (VerbNumber(one.number), is_plain(one)))
    }

    fn of_name(&self, name: &str) -> Option<VerbNumber> {
        let words = lower_words(name, MAX_WORDS);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let [first, _, ..] = &words[..]
            && let Some(method) = self.methods.get(first)
        {
            return Some(VerbNumber(*method));
        }
        let found = self.scan(&words);
        let strong = found.iter().find(|one| !self.is_weak(one) || one.at == 0);
        strong.or(found.last()).map(|one| VerbNumber(one.number))
    }

    fn of_description(&self, text: &str) -> Option<VerbNumber> {
        let end = text.char_indices().nth(DESCRIPTION_CHARS).map_or(text.len(), |(at, _)| at);
        let words = lower_words(&text[..end], DESCRIPTION_WORDS);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = self.scan(&words);
        let begins = found.iter().find(|one| one.at <= 1);
        begins.or_else(|| found.iter().find(|one| !self.is_weak(one))).map(|one| VerbNumber(one.number))
    }

    /// Returns the verbs in `words`, the longest phrase at each position.
    fn scan(&self, words: &[&str]) -> Vec<FoundVerb> {
        let stems: Vec<_> = words.iter().map(|word| stem(word)).collect();
        let mut found = Vec::new();
        let mut phrase = String::new();
        let mut at = 0;
        while let Some(first) = stems.get(at) {
            let split = self.apart.get(&**first).and_then(|particles| {
                let after = stems.iter().skip(at + 2).take(MAX_GAP - 1);
                after.filter_map(|word| particles.iter().find(|(particle, _)| **particle == **word)).next()
            });
            let longest = self.longest.get(&**first).map_or(0, |longest| (*longest).min(stems.len() - at));
            let whole = (1..=longest).rev().find_map(|length| {
                phrase.clear();
                for (place, word) in stems[at..at + length].iter().enumerate() {
                    if place > 0 {
                        phrase.push(' ');
                    }
                    phrase.push_str(word);
                }
                self.phrases.get(phrase.as_str()).map(|number| (*number, length))
            });
            let verb = split.map(|(_, number)| (*number, 1)).or(whole);
            found.extend(verb.map(|(number, _)| FoundVerb { at, number }));
            at += verb.map_or(1, |(_, length)| length);
        }
        found
    }
}

/// Returns the first words of a name or text, in lower case.
fn lower_words(text: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word| {
        words.push(word.to_ascii_lowercase());
        words.len() < most
    });
    words
}

#[cfg(test)]
mod tests;
