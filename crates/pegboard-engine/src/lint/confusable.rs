//! Tools that a model will take for each other.

use std::collections::{BTreeMap, BTreeSet};

use pegboard_core::naming;

use super::{
    Look, listed,
    report::Finding,
    rule::Rule,
    search::{Searches, in_parallel, quoted},
    words::{Words, is_placeholder, lead},
};
use crate::semantic::Vector;

/// How near another tool's score must come to the tool's own.
const NEAR: f64 = 0.6;

/// How near tools of two servers with equal names are by meaning when a model takes one for
/// the other. Within a server meanings are near anyway.
const SAME_MEANING: f64 = 0.87;

/// The same for tools of two servers of which one has a word more in its name.
const NEARLY_SAME_MEANING: f64 = 0.9;

/// Members of a group whose own words are told.
const MOST_TOLD: usize = 3;

/// Members of a group that are looked at for such words.
const MOST_COMPARED: usize = 32;

/// Words that tell one from the others.
const WORDS: usize = 3;

/// Tools that are confused with each other.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of each tool's group.
    pub(super) of: Vec<Option<usize>>,
    members: Vec<Vec<usize>>,
    vectors: Vec<Vector>,
}

impl Groups {
    pub(super) fn find(look: &Look<'_>, searches: &Searches) -> Self {
        let mut forest = Forest::new(look.tools.len());
        same_descriptions(look, &mut forest);
        let likeness = Likeness::of(look);
        for at in 0..look.tools.len() {
            let hits = searches.by_description(at);
            let near = |one: usize, other: usize| {
                let hits = searches.by_description(one);
                hits.score(one).zip(hits.score(other)).is_some_and(|(own, score)| score >= NEAR * own)
            };
            for (other, _) in hits.list.iter().filter(|(other, _)| *other > at) {
                if near(at, *other) && near(*other, at) && likeness.are_alike(at, *other) {
                    forest.join(at, *other);
                }
            }
        }
        forest.groups(likeness.vectors)
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

/// What pairs of tools are compared by.
struct Likeness<'a> {
    look: &'a Look<'a>,
    names: Vec<Meaning>,
    /// What each tool means; empty without a model.
    vectors: Vec<Vector>,
}

impl<'a> Likeness<'a> {
    fn of(look: &'a Look<'a>) -> Self {
        let count = look.tools.len();
        let vectors = look.model.map(|model| in_parallel(count, |at| model.tool_vector(look.tools[at])));
        let names = (0..count).map(|at| Meaning::of(look, at)).collect();
        Self { look, names, vectors: vectors.unwrap_or_default() }
    }

    /// Whether names and texts leave nothing to tell two tools apart by. Names that each have
    /// a word of their own do.
    fn are_alike(&self, one: usize, other: usize) -> bool {
        let least = self.look.thresholds.likeness;
        let words = self.look.corpus.likeness(one, other);
        let meaning = similarity(&self.vectors, one, other).unwrap_or_default();
        let (a, b) = (&self.names[one], &self.names[other]);
        // Within a server, one more word in a name is there to tell; between servers it often
        // is the name of the product.
        let are_strangers = self.look.tools[one].server_name() != self.look.tools[other].server_name();
        let name_themselves = || names_its_server(self.look, one, other) && names_its_server(self.look, other, one);
        match (a.has_own(b), b.has_own(a)) {
            (true, true) => false,
            _ if are_strangers && name_themselves() => false,
            (false, false) if a.many == b.many => words >= least || (are_strangers && meaning >= SAME_MEANING),
            // One more word, or one thing beside many, is easily overlooked.
            _ => words >= (3.0 + least) / 4.0 || (are_strangers && meaning >= NEARLY_SAME_MEANING),
        }
    }
}

/// Words of server names that are not the product's.
const NO_PRODUCT: [&str; 4] = ["context", "model", "modelcontextprotocol", "server"];

/// Whether a description begins with the product that its server is named after, and the
/// other does not: `Create an issue in GitHub`.
fn names_its_server(look: &Look<'_>, one: usize, other: usize) -> bool {
    let beginning = |at: usize| naming::fold(lead(look.tools[at].description()));
    let server = look.tools[one].server_name().unwrap_or_default();
    let words = server.split(|c: char| !c.is_alphanumeric()).map(naming::fold);
    let mut products = words.filter(|word| word.len() > 3 && !NO_PRODUCT.contains(&word.as_str()));
    products.any(|product| beginning(one).contains(&product) && !beginning(other).contains(&product))
}

/// How near two tools are by meaning, 0 to 1; nothing without a model.
fn similarity(vectors: &[Vector], one: usize, other: usize) -> Option<f64> {
    let (one, other) = (vectors.get(one)?, vectors.get(other)?);
    Some(f64::from(one.similarity(other)).max(0.0))
}

pub(super) fn look(look: &Look<'_>, groups: &Groups, findings: &mut Vec<Finding>) {
    for members in &groups.members {
        let texts: BTreeSet<Vec<String>> = members.iter().map(|at| Words::of(look.tools[*at].description())).collect();
        let names = listed(members.iter().map(|at| look.tools[*at].id()));
        let message = if texts.len() == 1 {
            format!("{} tools have the same description: {names}", members.len())
        } else {
            let least = |of: &dyn Fn(usize, usize) -> f64| {
                let pairs = members.windows(2).map(|pair| of(pair[0], pair[1]));
                (pairs.fold(1.0_f64, f64::min) * 100.0).round()
            };
            let words = least(&|one, other| look.corpus.likeness(one, other));
            let meaning = match groups.vectors.is_empty() {
                true => String::new(),
                false => format!(", {:.0} % by meaning", {
                    least(&|one, other| similarity(&groups.vectors, one, other).unwrap_or_default())
                }),
            };
            format!(
                "{} tools have similar descriptions ({words:.0} % of their words{meaning}), so a search for one \
                 finds the others: {names}",
                members.len()
            )
        };
        findings.push(look.group(Rule::Confusable, members, message, apart(look, members)));
    }
}

/// Words that would tell the members of a group apart.
fn apart(look: &Look<'_>, members: &[usize]) -> String {
    let mut told = Vec::new();
    // Each is compared with all others: of a crowd the first must do.
    for at in members.iter().take(MOST_COMPARED) {
        if told.len() == MOST_TOLD {
            break;
        }
        let others: Vec<usize> = members.iter().copied().filter(|other| other != at).collect();
        let words = look.corpus.telling(look.tools[*at], &others, &look.words, WORDS);
        if !words.is_empty() {
            told.push(format!("`{}` with {}", look.tools[*at].id(), quoted(&words)));
        }
    }
    match told.is_empty() {
        true => {
            "their descriptions do not differ: keep one tool, or say in each description when to use it rather than \
             the others"
                .to_owned()
        }
        false => format!("begin each description with what distinguishes the tool: {}", told.join("; ")),
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
    fn groups(mut self, vectors: Vec<Vector>) -> Groups {
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
        Groups { of, members, vectors }
    }
}
