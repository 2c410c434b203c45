//! Tools that a model will take for each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Look, listed,
    report::Finding,
    rule::Rule,
    search::{Searches, quoted},
    words::{Words, is_placeholder},
};

/// How near another tool's score must come to the tool's own.
const NEAR: f64 = 0.85;

/// Members of a group whose own words are told.
const MOST_TOLD: usize = 3;

/// Words that tell one from the others.
const WORDS: usize = 3;

/// Tools that are confused with each other.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of each tool's group.
    pub(super) of: Vec<Option<usize>>,
    members: Vec<Vec<usize>>,
}

impl Groups {
    pub(super) fn find(look: &Look<'_>, searches: &Searches) -> Self {
        let mut forest = Forest::new(look.tools.len());
        same_descriptions(look, &mut forest);
        let names: Vec<Meaning> = (0..look.tools.len()).map(|at| Meaning::of(look, at)).collect();
        for (at, hits) in searches.by_description.iter().enumerate() {
            let near = |one: usize, other: usize| {
                let hits = &searches.by_description[one];
                hits.score(one).zip(hits.score(other)).is_some_and(|(own, score)| score >= NEAR * own)
            };
            for (other, _) in hits.list.iter().filter(|(other, _)| *other > at) {
                if near(at, *other) && near(*other, at) && are_alike(look, &names, at, *other) {
                    forest.join(at, *other);
                }
            }
        }
        forest.groups()
    }
}

/// Joins tools that are described in the same words.
fn same_descriptions(look: &Look<'_>, forest: &mut Forest) {
    let mut first: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (at, tool) in look.tools.iter().enumerate() {
        let words = Words::of(tool.description());
        if words.is_empty() || is_placeholder(tool.description()) {
            continue;
        }
        match first.get(&words) {
            Some(other) => forest.join(*other, at),
            None => _ = first.insert(words, at),
        }
    }
}

/// What the words of a name mean, and whether each is of many things.
#[derive(Debug)]
struct Meaning {
    words: BTreeSet<String>,
    many: usize,
}

impl Meaning {
    /// Without the words that make no difference. The server's own name in front of a tool's
    /// tells nothing that the server does not.
    fn of(look: &Look<'_>, at: usize) -> Self {
        let tool = look.tools[at];
        let server = tool.server_name().map(Words::of).unwrap_or_default();
        let words = Words::of(tool.name());
        let telling = words.iter().filter(|word| !look.words.is_filler(word) && !server.contains(word));
        Self {
            words: telling.map(|word| look.words.meaning(word)).collect(),
            many: words.iter().filter(|word| word.ends_with('s') && !word.ends_with("ss")).count(),
        }
    }

    fn has_own(&self, other: &Self) -> bool {
        self.words.difference(&other.words).next().is_some()
    }
}

/// Whether names and texts leave nothing to tell two tools apart by. Names that each have a
/// word of their own do.
fn are_alike(look: &Look<'_>, names: &[Meaning], one: usize, other: usize) -> bool {
    let least = look.thresholds.likeness;
    let (a, b) = (&names[one], &names[other]);
    let needed = match (a.has_own(b), b.has_own(a)) {
        (true, true) => return false,
        (false, false) if a.many == b.many => least,
        // One more word, or one thing beside many, is easily overlooked.
        _ => (3.0 + least) / 4.0,
    };
    look.corpus.likeness(one, other) >= needed
}

pub(super) fn look(look: &Look<'_>, groups: &Groups, findings: &mut Vec<Finding>) {
    for members in &groups.members {
        let texts: BTreeSet<Vec<String>> = members.iter().map(|at| Words::of(look.tools[*at].description())).collect();
        let names = listed(members.iter().map(|at| look.tools[*at].id()));
        let message = if texts.len() == 1 {
            format!("{} tools have the same description: {names}", members.len())
        } else {
            let pairs = members.windows(2).map(|pair| look.corpus.likeness(pair[0], pair[1]));
            let least = pairs.fold(1.0_f64, f64::min);
            let share = (least * 100.0).round();
            format!(
                "{} tools say much the same ({share:.0} % of their words), and a search for one finds the others: \
                 {names}",
                members.len()
            )
        };
        findings.push(look.group(Rule::Confusable, members, message, apart(look, members)));
    }
}

/// Words that would tell the members of a group apart.
fn apart(look: &Look<'_>, members: &[usize]) -> String {
    let mut told = Vec::new();
    for at in members {
        let others: Vec<usize> = members.iter().copied().filter(|other| other != at).collect();
        let words = look.corpus.telling(look.tools[*at], &others, &look.words, WORDS);
        if !words.is_empty() && told.len() < MOST_TOLD {
            told.push(format!("`{}` of {}", look.tools[*at].id(), quoted(&words)));
        }
    }
    match told.is_empty() {
        true => {
            "nothing that they say differs: keep one, or say in each when to use it rather than the others".to_owned()
        }
        false => format!("begin each description with what only it speaks of: {}", told.join("; ")),
    }
}

/// Disjoint sets that can be joined.
struct Forest {
    parents: Vec<usize>,
}

impl Forest {
    fn new(count: usize) -> Self {
        Self { parents: (0..count).collect() }
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[one.max(other)] = one.min(other);
    }

    /// The sets with more than one member, by their first ones.
    fn groups(mut self) -> Groups {
        let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in 0..self.parents.len() {
            let root = self.root(at);
            sets.entry(root).or_default().push(at);
        }
        let members: Vec<Vec<usize>> = sets.into_values().filter(|members| members.len() > 1).collect();
        let mut of = vec![None; self.parents.len()];
        for (number, group) in members.iter().enumerate() {
            group.iter().for_each(|at| of[*at] = Some(number));
        }
        Groups { of, members }
    }
}
