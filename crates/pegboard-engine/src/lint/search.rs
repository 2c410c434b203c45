//! Whether tools are found by their own words.

use std::collections::BTreeMap;

use pegboard_core::{Catalog, Query, Selection, naming};
use rustc_hash::FxHashMap;

use super::{
    Look, listed,
    report::Finding,
    rule::Rule,
    words::{Words, is_placeholder, lead},
};

/// Hits beyond those that must have the tool, to say where it is instead and to find those
/// that are as good.
const FURTHER: usize = 8;

/// Tools that are named of those that are found instead.
const SHOWN: usize = 3;

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
    fn place(&self, tool: usize) -> Option<usize> {
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
            let found = (ask(lead(tool.description())), ask(&name_query(tool.name())));
            (look.on_searched)();
            found
        });
        let (by_description, by_name) = both.into_iter().unzip();
        Self { by_description, by_name }
    }
}

/// A name as somebody would type it who has heard it.
fn name_query(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Runs `work` for 0 to `count` on all cores; the results are in order.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
    let mut by_lead: BTreeMap<Vec<String>, Vec<(usize, Vec<usize>)>> = BTreeMap::new();
    for (at, tool) in look.tools.iter().enumerate() {
        let words = Words::of(lead(tool.description()));
        if words.is_empty() || is_placeholder(tool.description()) {
            continue;
        }
        if let Some(ahead) = ahead(look, at, &searches.by_description[at], groups) {
            by_lead.entry(words).or_default().push((at, ahead));
        }
    }
    for missing in by_lead.into_values() {
        match missing.as_slice() {
            [_, _, _, ..] => findings.push(same_beginning(look, &missing)),
            few => findings
                .extend(few.iter().map(|(at, ahead)| not_found(look, *at, ahead, &searches.by_description[*at]))),
        }
    }
    findings.extend(crowded_names(look, searches));
}

/// The tools before `at` in its hits, if it is not among the first ones. Those that are
/// confused with it do not stand in its way.
fn ahead(look: &Look<'_>, at: usize, hits: &Hits, groups: &[Option<usize>]) -> Option<Vec<usize>> {
    let limit = look.thresholds.hits;
    let is_known = |other: usize| groups[at].is_some() && groups[at] == groups[other];
    let own = hits.score(at);
    let is_ahead = |other: usize, score: f64| other != at && own.is_none_or(|own| score > own) && !is_known(other);
    let ahead: Vec<usize> =
        hits.list.iter().filter(|(other, score)| is_ahead(*other, *score)).map(|(other, _)| *other).collect();
    // Those that are confused with it may have filled the list.
    let is_there = own.is_some() || is_full(look, hits);
    (!is_there || ahead.len() >= limit).then_some(ahead)
}

/// Whether there may be more hits.
fn is_full(look: &Look<'_>, hits: &Hits) -> bool {
    hits.list.len() >= look.thresholds.hits.saturating_add(FURTHER)
}

fn not_found(look: &Look<'_>, at: usize, ahead: &[usize], hits: &Hits) -> Finding {
    let place = match hits.place(at) {
        Some(place) => format!("finds it at rank {place}"),
        None if is_full(look, hits) => format!("does not find it among the first {}", hits.list.len()),
        None => "does not find it".to_owned(),
    };
    let first = listed(ahead.iter().take(SHOWN).map(|other| look.tools[*other].id()));
    let behind = if ahead.is_empty() { String::new() } else { format!(", behind {first}") };
    let message = format!("a search for the beginning of its description {place}{behind}");
    // What is said of those far ahead would leave no word to propose.
    let nearest = &ahead[..ahead.len().min(SHOWN)];
    let telling = look.corpus.telling(look.tools[at], nearest, &look.words, WORDS);
    let suggestion = match (telling.is_empty(), ahead.is_empty()) {
        (false, false) => format!("begin the description with what distinguishes this tool: {}", quoted(&telling)),
        (true, false) => {
            "all of its words also occur in the others: say what it does that the others do not".to_owned()
        }
        _ => "begin the description with words for what it does and what it acts on".to_owned(),
    };
    look.finding(Rule::NotFoundByDescription, at, message, suggestion)
}

/// One finding for many tools that begin with the same sentence.
fn same_beginning(look: &Look<'_>, missing: &[(usize, Vec<usize>)]) -> Finding {
    let members: Vec<usize> = missing.iter().map(|(at, _)| *at).collect();
    let start: String = lead(look.tools[members[0]].description()).chars().take(80).collect();
    let message = format!(
        "{} tools are not found by their descriptions, because all begin with “{start}”: {}",
        members.len(),
        listed(members.iter().map(|at| look.tools[*at].id()))
    );
    let suggestion = "begin each with what it does; move what applies to all of them into the server's instructions";
    look.group(Rule::NotFoundByDescription, &members, message, suggestion.to_owned())
}

/// Names that so many tools have that a search for them cannot show all.
fn crowded_names(look: &Look<'_>, searches: &Searches) -> Vec<Finding> {
    let limit = look.thresholds.hits;
    let mut crowds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, tool) in look.tools.iter().enumerate() {
        let hits = &searches.by_name[at];
        let own = hits.score(at);
        // Of equals any may be the last.
        let before =
            hits.list.iter().filter(|(other, score)| *other != at && own.is_none_or(|own| *score >= own)).count();
        if before >= limit || (own.is_none() && !name_query(tool.name()).is_empty()) {
            crowds.entry(naming::fold(tool.name())).or_default().push(at);
        }
    }
    let finding = |members: Vec<usize>| {
        let name = look.tools[members[0]].name();
        let (message, suggestion) = match members.len() {
            1 => (
                format!("a search for the words of its name finds {limit} other tools before it"),
                "name it after what it does and what it acts on, in words that the other tools do not use",
            ),
            count => (
                format!(
                    "{count} tools are called `{name}`, but a search shows only {limit}: {}",
                    listed(members.iter().map(|at| look.tools[*at].id()))
                ),
                "include in each name what the tool acts on, such as the service or the kind of object",
            ),
        };
        look.group(Rule::NotFoundByNameWords, &members, message, suggestion.to_owned())
    };
    crowds.into_values().map(finding).collect()
}

/// `“a”, “b”`.
pub(super) fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("“{word}”")).collect::<Vec<_>>().join(", ")
}
