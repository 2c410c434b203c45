//! Searches one view by words: from the text of a query to a ranking.

use std::sync::Arc;

use pegboard_core::{Fallback, Hit, Query, Ranking, Tool, ranking::cut};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    document::for_each_key_of,
    explain,
    index::IndexView,
    intents,
    names::{Certainty, Mention, Mentions},
    plan::{NOT_THERE, Plan, Word, WordStatus},
    scorer::{Candidate, Scorer, compare},
    segment::FULL_IMPACT,
};
use crate::scores;

/// Minimum score of hits that are named exactly, which other hits only approach.
pub(crate) const NAMED: f32 = scores::NAMED as f32;

/// Number of candidates that each intent, and the whole query, contribute to the answer. A
/// constant, so that a higher limit only appends to a ranking.
pub(crate) const POOL: usize = 64;

/// Score steps between a name as written, another spelling of it, and an alias: if the query is the
/// name, and if the query mentions it. The second leaves room for the rest of the query to decide
/// among equals.
const STEP_WHOLE: f32 = 0.0001;
const STEP_QUOTED: f32 = 0.03;

/// The buffers of a query, reused by the next one.
#[derive(Debug, Default)]
pub(crate) struct LexicalBuffers {
    pub(crate) plan: Plan,
    pub(crate) scorer: Scorer,
    pub(crate) mentions: Mentions,
    intents: Vec<u32>,
    for_intents: Vec<Candidate>,
    pub(crate) fused: Vec<Candidate>,
}

impl LexicalBuffers {
    /// Ranks `query`, whose text with composed characters is `text`.
    pub(crate) fn rank(&mut self, text: &str, query: &Query<'_>, view: &IndexView<'_>) -> Ranking {
        self.plan_for(text, view);
        // Not more than there are tools, whatever the limit.
        let limit = query.limit.min(view.tools);
        let (mut total, _) = self.score(text, limit, view);
        let worth = self.plan.worth(view).max(f32::MIN_POSITIVE);
        self.fused.iter_mut().for_each(|candidate| candidate.score *= NAMED / worth);
        total += self.raise_named(text, worth, view);
        self.fused.sort_unstable_by(|a, b| compare(view, a, b));
        let mut hits: Vec<Hit> = self.fused.iter().take(limit).map(|candidate| hit(candidate, view)).collect();
        let passing = cut(&mut hits, query);
        if query.explain {
            for hit in &mut hits {
                let named = self.mention_of(&hit.tool);
                hit.why = explain::reasons(&hit.tool, hit.score, text, &self.plan, named, view.settings);
            }
        }
        let confidence = Some(hits.first().map_or(0.0, |hit| hit.score));
        let ranking = Ranking { hits, total, passing, confidence, ..self.findings(text) };
        // The lexical ranker withholds nothing: its scores are not probabilities.
        ranking.withheld_below(query.least_confidence.unwrap_or(0.0))
    }

    /// Plans the terms of the query.
    pub(crate) fn plan_for(&mut self, text: &str, view: &IndexView<'_>) {
        self.plan.make(text, view);
        self.mentions.search(text, view);
        self.weigh_names_in_words(view);
    }

    /// Returns whether the query has several intents.
    pub(crate) fn has_intents(&mut self, text: &str) -> bool {
        intents::split(text, &self.plan, &mut self.intents).is_some()
    }

    /// Returns an empty ranking with the unknown and corrected words of the query.
    pub(crate) fn findings(&self, text: &str) -> Ranking {
        let words = &self.plan.words;
        Ranking {
            unmatched: unmatched(text, words),
            fallback: words.iter().any(|word| word.found == WordStatus::Nearly).then_some(Fallback::Typo),
            ..Ranking::default()
        }
    }

    /// Adds names that the query spells out in plain words as further terms.
    fn weigh_names_in_words(&mut self, view: &IndexView<'_>) {
        for mention in self.mentions.found.iter().filter(|mention| mention.certainty == Certainty::Words) {
            let weight = view.settings.name_in_words * view.rarity(mention.count);
            let word = self.plan.words.iter().position(|word| word.start >= mention.place.start).unwrap_or(0);
            self.plan.terms.add(&mention.key, word as u32, weight, view);
        }
    }

    /// Scores the visible tools into `fused`; returns how many match, and whether for several
    /// intents.
    pub(crate) fn score(&mut self, text: &str, limit: usize, view: &IndexView<'_>) -> (usize, bool) {
        let Self { plan, scorer, intents, for_intents, fused, .. } = self;
        let several = intents::split(text, plan, intents);
        let wanted = if several.is_some() { limit.max(POOL) } else { limit };
        let terms = || plan.terms.iter().map(|(at, term)| (at, term.weight));
        let total = scorer.run(view, &plan.terms, terms(), wanted);
        fused.clear();
        fused.extend_from_slice(&scorer.best);
        let best = fused.first().map_or(0.0, |candidate| candidate.score);
        let Some(count) = several.filter(|_| best > 0.0) else { return (total, false) };
        for_intents.clear();
        for intent in 0..count {
            let terms = terms().filter(|(at, _)| intents[plan.terms.get(*at).word as usize] == intent);
            scorer.run(view, &plan.terms, terms, POOL);
            let top = scorer.best.first().map_or(0.0, |candidate| candidate.score);
            if top > 0.0 {
                // The geometric mean of its own scale and that of the whole query: a small request
                // must count, but not more than a large one.
                let scale = (best / top).sqrt();
                for_intents.extend(scorer.best.iter().map(|c| Candidate { score: c.score * scale, ..*c }));
            }
        }
        fuse(fused, for_intents, view.settings.intent);
        (total, true)
    }

    /// Raises tools that the query names above all others; returns how many of them no term of the
    /// query has found.
    fn raise_named(&mut self, text: &str, worth: f32, view: &IndexView<'_>) -> usize {
        let mut places: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        let mut found_by_name_alone = 0;
        let Self { plan, mentions, fused, .. } = self;
        for_each_raised(plan, mentions, text, worth, view, |named, lexical| {
            if places.is_empty() {
                places.extend(fused.iter().enumerate().map(|(at, c)| ((c.part, c.doc), at)));
            }
            let place = *places.entry((named.part, named.doc)).or_insert_with(|| {
                found_by_name_alone += usize::from(lexical == 0.0);
                fused.push(Candidate { score: 0.0, ..named });
                fused.len() - 1
            });
            fused[place].score = fused[place].score.max(named.score);
        });
        found_by_name_alone
    }

    /// Returns the mention by which `tool` is named exactly, if any.
    pub(crate) fn mention_of(&self, tool: &Tool) -> Option<&Mention> {
        let names = std::iter::once(tool.name()).chain(tool.aliases().iter().map(String::as_str));
        let mut found = None;
        for name in names {
            for_each_key_of(tool, name, &mut |key| {
                let is_it = |mention: &&Mention| mention.certainty != Certainty::Words && mention.key == key;
                found = found.or(self.mentions.found.iter().find(is_it));
            });
        }
        found
    }
}

/// Calls `visit` for every visible tool that the query names exactly, with its raised score and its
/// lexical score. A tool may occur under several names.
pub(crate) fn for_each_raised(
    plan: &Plan,
    mentions: &Mentions,
    text: &str,
    worth: f32,
    view: &IndexView<'_>,
    mut visit: impl FnMut(Candidate, f32),
) {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    for mention in mentions.found.iter().filter(|mention| mention.certainty != Certainty::Words) {
        if !seen.insert(&mention.key) {
            continue;
        }
        for_each_named(view, mention, |part, doc, tool| {
            let lexical = whole_score(plan, view, part, doc);
            let step = name_step(tool, mention, text);
            let score = if mention.certainty == Certainty::Whole {
                1.0 - STEP_WHOLE * step
            } else {
                NAMED + STEP_QUOTED * (2.0 - step) + STEP_QUOTED * lexical.min(worth) / (worth * 1.01)
            };
            visit(Candidate { score, part, doc }, lexical);
        });
    }
}

/// Calls `visit` (part, tool number, tool) for every visible tool that `mention` names.
fn for_each_named(view: &IndexView<'_>, mention: &Mention, mut visit: impl FnMut(u32, u32, &Tool)) {
    for (at, part) in view.parts.iter().enumerate() {
        let Some(term) = part.segment.vocabulary.find(&mention.key) else { continue };
        for doc in part.segment.postings(term).docs {
            if part.visible.as_ref().is_none_or(|visible| visible.contains(*doc)) {
                visit(at as u32, *doc, &part.segment.tools[*doc as usize]);
            }
        }
    }
}

/// Returns the score of one tool for all terms, by a lookup in every list.
fn whole_score(plan: &Plan, view: &IndexView<'_>, part: u32, doc: u32) -> f32 {
    let segment = view.parts[part as usize].segment;
    let gain = |(at, weight): (usize, f32)| {
        let number = plan.terms.numbers(at)[part as usize];
        let postings = (number != NOT_THERE).then(|| segment.postings(number))?;
        let place = postings.docs.binary_search(&doc).ok()?;
        Some(weight * f32::from(postings.impacts[place]) / FULL_IMPACT)
    };
    plan.terms.iter().filter_map(|(at, term)| gain((at, term.weight))).sum()
}

/// Returns how far the spelling in the query is from the tool's name: 0 as written, 1 in another
/// spelling, 2 an alias.
fn name_step(tool: &Tool, mention: &Mention, text: &str) -> f32 {
    let written = &text[mention.place.clone()];
    if written == tool.name() || written == tool.id() {
        return 0.0;
    }
    let mut is_name = false;
    for_each_key_of(tool, tool.name(), &mut |key| is_name |= key == mention.key);
    if is_name { 1.0 } else { 2.0 }
}

pub(crate) fn hit(candidate: &Candidate, view: &IndexView<'_>) -> Hit {
    let tool = &view.parts[candidate.part as usize].segment.tools[candidate.doc as usize];
    // Converted through decimal, so that it prints without binary rounding errors.
    let score = (f64::from(candidate.score) * 1e6).round() / 1e6;
    Hit { tool: Arc::clone(tool), score, why: Vec::new() }
}

/// Returns the words of `query` that were not found, each once. Overlapping pairs of characters are
/// one word.
fn unmatched(query: &str, words: &[Word]) -> Vec<String> {
    let runs = words.chunk_by(|before, after| after.start < before.end);
    let unknown = runs.filter(|run| run.iter().all(|word| word.found == WordStatus::Nowhere));
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut unmatched: Vec<String> = Vec::new();
    for run in unknown {
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            let word = &query[first.start..last.end];
            if seen.insert(word) {
                unmatched.push(word.to_owned());
            }
        }
    }
    unmatched
}

/// Combines the scores of the first tools for the whole query with those for the intent that they
/// serve best, which has the weight `share`.
fn fuse(whole: &mut Vec<Candidate>, for_intents: &mut Vec<Candidate>, share: f32) {
    let place = |c: &Candidate| (c.part, c.doc);
    for_intents.sort_unstable_by(|a, b| place(a).cmp(&place(b)).then(b.score.total_cmp(&a.score)));
    for_intents.dedup_by_key(|candidate| place(candidate));
    whole.iter_mut().for_each(|candidate| candidate.score *= 1.0 - share);
    let rest = whole.split_off(POOL.min(whole.len()));
    whole.sort_unstable_by_key(place);
    let pooled = whole.len();
    for candidate in for_intents.iter() {
        let gain = candidate.score * share;
        match whole[..pooled].binary_search_by_key(&place(candidate), place) {
            Ok(at) => whole[at].score += gain,
            Err(_) => whole.push(Candidate { score: gain, ..*candidate }),
        }
    }
    let is_new = |c: &Candidate| for_intents.binary_search_by_key(&place(c), place).is_err();
    whole.extend(rest.into_iter().filter(is_new));
}
