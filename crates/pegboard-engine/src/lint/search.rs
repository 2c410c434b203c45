//! Whether tools are found by their own words.

use pegboard_core::{Catalog, Query, Selection, naming};
use rustc_hash::FxHashMap;

use super::{
    Look, listed,
    report::Finding,
    rule::Rule,
    words::{Words, lead},
};

/// Hits beyond those that must have the tool, to say where it is instead and to find those
/// that are as good.
const FURTHER: usize = 8;

/// Words that a suggestion proposes.
const WORDS: usize = 4;

/// Fewer tools are not worth a thread of their own.
const PER_THREAD: usize = 64;

/// The hits of one search, as numbers of tools, best first.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) list: Vec<(usize, f64)>,
}

impl Hits {
    /// Counted from 1; equals share a place, so that it does not depend on their order.
    pub(super) fn place(&self, tool: usize) -> Option<usize> {
        let own = self.score(tool)?;
        Some(1 + self.list.iter().filter(|(_, score)| *score > own).count())
    }

    pub(super) fn score(&self, tool: usize) -> Option<f64> {
        self.list.iter().find(|(other, _)| *other == tool).map(|(_, score)| *score)
    }
}

/// What searches for every tool's own words find.
#[derive(Debug)]
pub(super) struct Searches {
    /// For the beginning of the description.
    pub(super) by_description: Vec<Hits>,
    /// For the words of the name.
    by_name: Vec<Hits>,
}

impl Searches {
    pub(super) fn run(look: &Look<'_>, catalog: &Catalog) -> Self {
        look.ranker.prepare(catalog);
        let numbers: FxHashMap<&str, usize> = look.tools.iter().enumerate().map(|(at, tool)| (tool.id(), at)).collect();
        let ask = |text: &str| {
            let query = Query::new(text).limit(look.thresholds.hits.saturating_add(FURTHER)).least_confidence(0.0);
            let ranking = look.ranker.rank(&query, catalog, &Selection::everything());
            // A query that the ranker does not take is not searched for, and finds nothing.
            let hits = ranking.map(|ranking| ranking.hits).unwrap_or_default();
            let list = hits.iter().filter_map(|hit| Some((*numbers.get(hit.tool.id())?, hit.score))).collect();
            Hits { list }
        };
        let both = in_parallel(look.tools.len(), |at| {
            let tool = look.tools[at];
            (ask(lead(tool.description())), ask(&name_query(tool.name())))
        });
        let (by_description, by_name) = both.into_iter().unzip();
        Self { by_description, by_name }
    }
}

/// The words of a name in an order in which they are no name: a search must find them by
/// what they mean.
fn name_query(name: &str) -> String {
    let mut words = Words::of(name);
    words.reverse();
    words.join(" ")
}

/// Runs `work` for 0 to `count` on all cores; the results are in order.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(count / PER_THREAD).max(1);
    let share = count.div_ceil(threads).max(1);
    if threads == 1 {
        return (0..count).map(work).collect();
    }
    std::thread::scope(|scope| {
        let work = &work;
        let starts = (0..count).step_by(share);
        let running: Vec<_> = starts
            .map(|start| scope.spawn(move || (start..count.min(start + share)).map(work).collect::<Vec<T>>()))
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// `groups` says which tools are confused with each other anyway; that is told once.
pub(super) fn look(look: &Look<'_>, searches: &Searches, groups: &[Option<usize>], findings: &mut Vec<Finding>) {
    for (at, tool) in look.tools.iter().enumerate() {
        let is_known = |other: usize| groups[at].is_some() && groups[at] == groups[other];
        if !lead(tool.description()).is_empty() {
            let hits = &searches.by_description[at];
            findings.extend(missing(look, at, hits, Rule::NotFoundByDescription, &is_known));
        }
        let folded = naming::fold(tool.name());
        let is_same = |other: usize| is_known(other) || naming::fold(look.tools[other].name()) == folded;
        if !name_query(tool.name()).is_empty() {
            findings.extend(missing(look, at, &searches.by_name[at], Rule::NotFoundByNameWords, &is_same));
        }
    }
}

/// The finding if a tool is not among its hits. Tools for which `is_known` holds do not stand
/// in its way.
fn missing(look: &Look<'_>, at: usize, hits: &Hits, rule: Rule, is_known: &dyn Fn(usize) -> bool) -> Option<Finding> {
    let limit = look.thresholds.hits;
    let own = hits.score(at);
    let ahead: Vec<usize> = hits
        .list
        .iter()
        .filter(|(other, score)| *other != at && own.is_none_or(|own| *score > own) && !is_known(*other))
        .map(|(other, _)| *other)
        .collect();
    let is_full = hits.list.len() >= limit.saturating_add(FURTHER);
    // Those that are confused with it may have filled the list.
    if (own.is_some() || is_full) && ahead.len() < limit {
        return None;
    }
    let asked = match rule {
        Rule::NotFoundByNameWords => "the words of its name",
        _ => "the beginning of its description",
    };
    let place = match hits.place(at) {
        Some(place) => format!("finds it at place {place}"),
        None if is_full => format!("does not find it among the first {}", hits.list.len()),
        None => "does not find it".to_owned(),
    };
    let first = listed(ahead.iter().take(3).map(|other| look.tools[*other].id()));
    let behind = if ahead.is_empty() { String::new() } else { format!(", behind {first}") };
    let message = format!("a search for {asked} {place}{behind}");
    let telling = look.corpus.telling(look.tools[at], &ahead, &look.words, WORDS);
    let suggestion = match (telling.is_empty(), ahead.is_empty()) {
        (false, false) => format!("begin the description with what only this one speaks of: {}", quoted(&telling)),
        (true, false) => "none of its words is its own: say what it does that the others do not".to_owned(),
        _ => "begin the description with words for what it does and what it acts on".to_owned(),
    };
    Some(look.finding(rule, at, message, suggestion))
}

/// `“a”, “b”`.
pub(super) fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("“{word}”")).collect::<Vec<_>>().join(", ")
}
