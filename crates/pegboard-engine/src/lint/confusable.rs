//! Tools that a model confuses with each other.

use std::collections::{BTreeMap, BTreeSet};

use pegboard_core::naming;

use super::{
    LintPass, list_names,
    report::Finding,
    rule::Rule,
    search::{Searches, in_parallel, quoted},
    words::{Words, is_placeholder, lead},
};
use crate::semantic::Vector;

/// The share of a tool's own score that another tool must reach to be confusable.
const NEAR: f64 = 0.6;

/// Similarity of meaning from which tools of two servers with equal names are confusable. Within a
/// server meanings are similar anyway.
const SAME_MEANING: f64 = 0.87;

/// The same for tools of two servers if one has an additional word in its name.
const NEARLY_SAME_MEANING: f64 = 0.9;

/// Maximum number of group members whose distinguishing words are listed.
const MAX_LISTED: usize = 3;

/// Maximum number of group members that are compared for such words.
const MAX_COMPARED: usize = 32;

/// Maximum number of distinguishing words of a tool.
const WORDS: usize = 3;

/// Groups of tools that are confused with each other.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The number of each tool's group.
    pub(super) of: Vec<Option<usize>>,
    members: Vec<Vec<usize>>,
    vectors: Vec<Vector>,
}

impl Groups {
    pub(super) fn find(pass: &LintPass<'_>, searches: &Searches) -> Self {
        let mut forest = Forest::new(pass.tools.len());
        same_descriptions(pass, &mut forest);
        let likeness = ToolComparison::of(pass);
        for at in 0..pass.tools.len() {
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

/// Joins tools with the same description.
fn same_descriptions(pass: &LintPass<'_>, forest: &mut Forest) {
    let mut first: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (at, tool) in pass.tools.iter().enumerate() {
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

/// The meaning of the words of a name, and whether each is a plural.
#[derive(Debug)]
struct NameMeaning {
    words: BTreeSet<String>,
    many: usize,
}

impl NameMeaning {
    /// Computes the meaning without filler words. The server's own name in front of a tool's adds
    /// nothing.
    fn of(pass: &LintPass<'_>, at: usize) -> Self {
        let tool = pass.tools[at];
        let server = tool.server_name().map(Words::of).unwrap_or_default();
        let words = Words::of(tool.name());
        let distinguishing_words = words.iter().filter(|word| !pass.words.is_filler(word) && !server.contains(word));
        Self {
            words: distinguishing_words.map(|word| pass.words.meaning(word)).collect(),
            many: words.iter().filter(|word| word.ends_with('s') && !word.ends_with("ss")).count(),
        }
    }

    fn has_own(&self, other: &Self) -> bool {
        self.words.difference(&other.words).next().is_some()
    }
}

/// The data by which pairs of tools are compared.
struct ToolComparison<'a> {
    pass: &'a LintPass<'a>,
    names: Vec<NameMeaning>,
    /// The vector of each tool; empty without a model.
    vectors: Vec<Vector>,
}

impl<'a> ToolComparison<'a> {
    fn of(pass: &'a LintPass<'a>) -> Self {
        let count = pass.tools.len();
        let vectors = pass.model.map(|model| in_parallel(count, |at| model.tool_vector(pass.tools[at])));
        let names = (0..count).map(|at| NameMeaning::of(pass, at)).collect();
        Self { pass, names, vectors: vectors.unwrap_or_default() }
    }

    /// Returns whether names and texts do not distinguish two tools. Names that each have a word of
    /// their own do.
    fn are_alike(&self, one: usize, other: usize) -> bool {
        let least = self.pass.thresholds.likeness;
        let words = self.pass.corpus.likeness(one, other);
        let meaning = similarity(&self.vectors, one, other).unwrap_or_default();
        let (a, b) = (&self.names[one], &self.names[other]);
        // Within a server, an additional word in a name is a distinction; between servers it is
        // often the name of the product.
        let are_strangers = self.pass.tools[one].server_name() != self.pass.tools[other].server_name();
        let name_themselves = || names_its_server(self.pass, one, other) && names_its_server(self.pass, other, one);
        match (a.has_own(b), b.has_own(a)) {
            (true, true) => false,
            _ if are_strangers && name_themselves() => false,
            (false, false) if a.many == b.many => words >= least || (are_strangers && meaning >= SAME_MEANING),
            // An additional word, or singular and plural, is easily overlooked.
            _ => words >= (3.0 + least) / 4.0 || (are_strangers && meaning >= NEARLY_SAME_MEANING),
        }
    }
}

/// Words of server names that do not name a product.
const NO_PRODUCT: [&str; 4] = ["context", "model", "modelcontextprotocol", "server"];

/// Returns whether a description names the product of its server at its start, and the other does
/// not: `Create an issue in GitHub`.
fn names_its_server(pass: &LintPass<'_>, one: usize, other: usize) -> bool {
    let beginning = |at: usize| naming::fold(lead(pass.tools[at].description()));
    let server = pass.tools[one].server_name().unwrap_or_default();
    let words = server.split(|c: char| !c.is_alphanumeric()).map(naming::fold);
    let mut products = words.filter(|word| word.len() > 3 && !NO_PRODUCT.contains(&word.as_str()));
    products.any(|product| beginning(one).contains(&product) && !beginning(other).contains(&product))
}

/// Returns the similarity of meaning of two tools, 0 to 1; `None` without a model.
fn similarity(vectors: &[Vector], one: usize, other: usize) -> Option<f64> {
    let (one, other) = (vectors.get(one)?, vectors.get(other)?);
    Some(f64::from(one.similarity(other)).max(0.0))
}

pub(super) fn check(pass: &LintPass<'_>, groups: &Groups, findings: &mut Vec<Finding>) {
    for members in &groups.members {
        let texts: BTreeSet<Vec<String>> = members.iter().map(|at| Words::of(pass.tools[*at].description())).collect();
        let names = list_names(members.iter().map(|at| pass.tools[*at].id()));
        let message = if texts.len() == 1 {
            format!("{} tools have the same description: {names}", members.len())
        } else {
            let least = |of: &dyn Fn(usize, usize) -> f64| {
                let pairs = members.windows(2).map(|pair| of(pair[0], pair[1]));
                (pairs.fold(1.0_f64, f64::min) * 100.0).round()
            };
            let words = least(&|one, other| pass.corpus.likeness(one, other));
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
        findings.push(pass.group(Rule::Confusable, members, message, describe_differences(pass, members)));
    }
}

/// Describes words that would distinguish the members of a group.
fn describe_differences(pass: &LintPass<'_>, members: &[usize]) -> String {
    let mut listed = Vec::new();
    // Each member is compared with all others, so only the first ones of a large group are.
    for at in members.iter().take(MAX_COMPARED) {
        if listed.len() == MAX_LISTED {
            break;
        }
        let others: Vec<usize> = members.iter().copied().filter(|other| other != at).collect();
        let words = pass.corpus.distinguishing_words(pass.tools[*at], &others, &pass.words, WORDS);
        if !words.is_empty() {
            listed.push(format!("`{}` with {}", pass.tools[*at].id(), quoted(&words)));
        }
    }
    match listed.is_empty() {
        true => {
            "their descriptions do not differ: keep one tool, or say in each description when to use it rather than \
             the others"
                .to_owned()
        }
        false => format!("begin each description with what distinguishes the tool: {}", listed.join("; ")),
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

    /// Returns the sets with more than one member, by their first ones.
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
