//! Rules on search: whether tools are found by their own words.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use pegboard_core::{Catalog, Query, Selection, Tool, naming, text::excerpt};
use rustc_hash::FxHashMap;

use super::{
    LintPass, list_names,
    report::Finding,
    rule::Rule,
    words::{Words, is_placeholder, lead},
};

/// Number of hits beyond the required ones, to find the tool's actual position and equally good
/// tools.
const FURTHER: usize = 8;

/// Maximum number of other tools in a message.
const SHOWN: usize = 3;

/// Maximum number of words in a suggestion.
const WORDS: usize = 4;

/// Number of searches that a thread takes at a time.
const SHARE: usize = 64;

/// The hits of one search, as positions of tools, best first.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) list: Vec<(usize, f64)>,
}

impl Hits {
    /// Returns the rank of a tool, counted from 1; equal scores share a rank, so that it does not
    /// depend on their order.
    fn place(&self, tool: usize) -> Option<usize> {
        let own = self.score(tool)?;
        Some(1 + self.list.iter().filter(|(_, score)| *score > own).count())
    }

    pub(super) fn score(&self, tool: usize) -> Option<f64> {
        self.list.iter().find(|(other, _)| *other == tool).map(|(_, score)| *score)
    }
}

/// The results of searches for every tool's own words.
#[derive(Debug)]
pub(super) struct Searches {
    /// The hits of each text.
    found: Vec<Hits>,
    texts: Vec<OwnTexts>,
}

/// The positions of the texts of one tool.
#[derive(Clone, Copy, Debug)]
struct OwnTexts {
    description: usize,
    name: usize,
}

impl Searches {
    pub(super) fn run(pass: &LintPass<'_>, catalog: &Catalog) -> Self {
        pass.ranker.prepare(catalog);
        let numbers: FxHashMap<&str, usize> = pass.tools.iter().enumerate().map(|(at, tool)| (tool.id(), at)).collect();
        let ask = |text: &str| {
            let query = Query::new(text).limit(pass.thresholds.hits.saturating_add(FURTHER)).least_confidence(0.0);
            let ranking = pass.ranker.rank(&query, catalog, &Selection::everything());
            // A query that the ranker rejects finds nothing.
            let hits = ranking.map(|ranking| ranking.hits).unwrap_or_default();
            let list = hits.iter().filter_map(|hit| Some((*numbers.get(hit.tool.id())?, hit.score))).collect();
            Hits { list }
        };
        let mut distinct = DistinctTexts::default();
        let texts: Vec<OwnTexts> = pass.tools.iter().map(|tool| distinct.add(tool)).collect();
        let completed = distinct.completed_tools(&texts);
        let found = in_parallel(distinct.texts.len(), |at| {
            let hits = ask(&distinct.texts[at]);
            (0..completed[at]).for_each(|_| (pass.on_searched)());
            hits
        });
        Self { found, texts }
    }

    /// Returns the hits for the start of the description of the tool `at`.
    pub(super) fn by_description(&self, at: usize) -> &Hits {
        &self.found[self.texts[at].description]
    }

    /// Returns the hits for the words of the name of the tool `at`.
    fn by_name(&self, at: usize) -> &Hits {
        &self.found[self.texts[at].name]
    }
}

/// The texts to search for, each once: many tools of a large catalog share names or sentences.
#[derive(Debug, Default)]
struct DistinctTexts<'a> {
    numbers: FxHashMap<Cow<'a, str>, usize>,
    texts: Vec<Cow<'a, str>>,
}

impl<'a> DistinctTexts<'a> {
    fn add(&mut self, tool: &'a Tool) -> OwnTexts {
        let description = self.number(lead(tool.description()).into());
        OwnTexts { description, name: self.number(name_query(tool.name()).into()) }
    }

    fn number(&mut self, text: Cow<'a, str>) -> usize {
        let next = self.texts.len();
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }

    /// Returns how many tools are complete after each text.
    fn completed_tools(&self, tools: &[OwnTexts]) -> Vec<usize> {
        let mut completed = vec![0; self.texts.len()];
        tools.iter().for_each(|tool| completed[tool.description.max(tool.name)] += 1);
        completed
    }
}

/// Returns a name as a user would type it.
fn name_query(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Runs `work` for 0 to `count` on all cores; the results are in order. Threads take small shares
/// one after another, so that all are busy until the end.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(count / SHARE);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take_shares = || {
        let mut done: Vec<(usize, Vec<T>)> = Vec::new();
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            if start >= count {
                return done;
            }
            done.push((start, (start..count.min(start + SHARE)).map(&work).collect()));
        }
    };
    let mut shares: Vec<(usize, Vec<T>)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take_shares)).collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    shares.sort_unstable_by_key(|(start, _)| *start);
    shares.into_iter().flat_map(|(_, share)| share).collect()
}

/// Runs the rules. `groups` are the tools that are confused with each other, which is reported only
/// once.
pub(super) fn check(pass: &LintPass<'_>, searches: &Searches, groups: &[Option<usize>], findings: &mut Vec<Finding>) {
    let mut by_lead: BTreeMap<Vec<String>, Vec<(usize, Vec<usize>)>> = BTreeMap::new();
    for (at, tool) in pass.tools.iter().enumerate() {
        let words = Words::of(lead(tool.description()));
        if words.is_empty() || is_placeholder(tool.description()) {
            continue;
        }
        if let Some(ahead) = tools_ahead(pass, at, searches.by_description(at), groups) {
            by_lead.entry(words).or_default().push((at, ahead));
        }
    }
    for missing in by_lead.into_values() {
        match missing.as_slice() {
            [_, _, _, ..] => findings.push(shared_start_finding(pass, &missing)),
            few => {
                let not_found = |at: usize, ahead: &[usize]| not_found(pass, at, ahead, searches.by_description(at));
                findings.extend(few.iter().map(|(at, ahead)| not_found(*at, ahead)));
            }
        }
    }
    findings.extend(check_crowded_names(pass, searches));
}

/// Returns the tools that rank before `at`, if it is not among the first hits. Tools that are
/// confused with it do not count.
fn tools_ahead(pass: &LintPass<'_>, at: usize, hits: &Hits, groups: &[Option<usize>]) -> Option<Vec<usize>> {
    let limit = pass.thresholds.hits;
    let is_known = |other: usize| groups[at].is_some() && groups[at] == groups[other];
    let own = hits.score(at);
    let is_ahead = |other: usize, score: f64| other != at && own.is_none_or(|own| score > own) && !is_known(other);
    let ahead: Vec<usize> =
        hits.list.iter().filter(|(other, score)| is_ahead(*other, *score)).map(|(other, _)| *other).collect();
    // Tools that are confused with it may have filled the list.
    let is_there = own.is_some() || is_full(pass, hits);
    (!is_there || ahead.len() >= limit).then_some(ahead)
}

/// Returns whether there may be more hits.
fn is_full(pass: &LintPass<'_>, hits: &Hits) -> bool {
    hits.list.len() >= pass.thresholds.hits.saturating_add(FURTHER)
}

fn not_found(pass: &LintPass<'_>, at: usize, ahead: &[usize], hits: &Hits) -> Finding {
    let place = match hits.place(at) {
        Some(place) => format!("finds it at rank {place}"),
        None if is_full(pass, hits) => format!("does not find it among the first {}", hits.list.len()),
        None => "does not find it".to_owned(),
    };
    let first = list_names(ahead.iter().take(SHOWN).map(|other| pass.tools[*other].id()));
    let behind = if ahead.is_empty() { String::new() } else { format!(", behind {first}") };
    let message = format!("a search for the beginning of its description {place}{behind}");
    // Comparing with all tools far ahead would leave no word to suggest.
    let nearest = &ahead[..ahead.len().min(SHOWN)];
    let distinguishing_words = pass.corpus.distinguishing_words(pass.tools[at], nearest, &pass.words, WORDS);
    let suggestion = match (distinguishing_words.is_empty(), ahead.is_empty()) {
        (false, false) => {
            format!("begin the description with what distinguishes this tool: {}", quoted(&distinguishing_words))
        }
        (true, false) => {
            "all of its words also occur in the others: say what it does that the others do not".to_owned()
        }
        _ => "begin the description with words for what it does and what it acts on".to_owned(),
    };
    pass.finding(Rule::NotFoundByDescription, at, message, suggestion)
}

/// Creates one finding for many tools that begin with the same sentence.
fn shared_start_finding(pass: &LintPass<'_>, missing: &[(usize, Vec<usize>)]) -> Finding {
    let members: Vec<usize> = missing.iter().map(|(at, _)| *at).collect();
    let start = excerpt(lead(pass.tools[members[0]].description()), 80);
    let message = format!(
        "{} tools are not found by their descriptions, because all begin with “{start}”: {}",
        members.len(),
        list_names(members.iter().map(|at| pass.tools[*at].id()))
    );
    let suggestion = "begin each with what it does; move what applies to all of them into the server's instructions";
    pass.group(Rule::NotFoundByDescription, &members, message, suggestion.to_owned())
}

/// Finds names that so many tools have that a search cannot show all of them.
fn check_crowded_names(pass: &LintPass<'_>, searches: &Searches) -> Vec<Finding> {
    let limit = pass.thresholds.hits;
    let mut crowds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, tool) in pass.tools.iter().enumerate() {
        let hits = searches.by_name(at);
        let own = hits.score(at);
        // Any of equal hits may be the last.
        let before =
            hits.list.iter().filter(|(other, score)| *other != at && own.is_none_or(|own| *score >= own)).count();
        if before >= limit || (own.is_none() && !name_query(tool.name()).is_empty()) {
            crowds.entry(naming::fold(tool.name())).or_default().push(at);
        }
    }
    let finding = |members: Vec<usize>| {
        let name = pass.tools[members[0]].name();
        let (message, suggestion) = match members.len() {
            1 => (
                format!("a search for the words of its name finds {limit} other tools before it"),
                "name it after what it does and what it acts on, in words that the other tools do not use",
            ),
            count => (
                format!(
                    "{count} tools are called `{name}`, but a search shows only {limit}: {}",
                    list_names(members.iter().map(|at| pass.tools[*at].id()))
                ),
                "include in each name what the tool acts on, such as the service or the kind of object",
            ),
        };
        pass.group(Rule::NotFoundByNameWords, &members, message, suggestion.to_owned())
    };
    crowds.into_values().map(finding).collect()
}

/// Formats words as `“a”, “b”`.
pub(super) fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("“{word}”")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_many_cores_keeps_its_order() {
        for count in [0, 1, SHARE, 10 * SHARE + 7] {
            let done = in_parallel(count, |at| 2 * at);
            assert!(done.iter().copied().eq((0..count).map(|at| 2 * at)), "{count}");
        }
    }
}
