//! The product's own ranking: exact names, fielded BM25 over a compact index, tolerance
//! for typos, and an answer to each intent of a query.

mod bitmap;
mod document;
mod explain;
mod index;
mod intents;
mod names;
mod near;
mod plan;
mod scorer;
mod segment;
mod settings;
mod vocabulary;

use std::sync::{Arc, Mutex, PoisonError};

use pegboard_core::{
    Catalog, Fallback, Hit, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache,
    ranking::{MAX_QUERY_BYTES, cut},
};

pub(crate) use self::vocabulary::letter_bits;
pub use self::{
    document::for_each_text,
    settings::{FieldWeight, Settings},
};
use self::{
    index::{Index, View},
    names::{Certainty, Mentions},
    plan::{Found, Plan, Word},
    scorer::{Candidate, Scorer, compare},
};

/// The share of the scale below hits that are named outright.
const BELOW_NAMED: f32 = 0.9;

/// Candidates that each intent, and the whole query, bring to the common answer.
const MIN_CANDIDATES: usize = 32;

/// Buffers that are kept for further queries; more run at once rarely.
const KEPT_BUFFERS: usize = 16;

/// The default ranker: exact name first, then lexical relevance.
///
/// Its learned half joins it here; until then it ranks like [`Lexical`].
#[derive(Debug, Default)]
pub struct Hybrid {
    lexical: Lexical,
}

impl Ranker for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        self.lexical.rank(query, catalog, selection)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.lexical.prepare(catalog);
    }
}

/// The lexical half of [`Hybrid`], a ranker of its own for comparison.
#[derive(Debug, Default)]
pub struct Lexical {
    settings: Arc<Settings>,
    indexes: SnapshotCache<Index>,
    // Boxed: what moves in and out of the pool is a pointer, not the buffers.
    #[expect(clippy::vec_box)]
    buffers: Mutex<Vec<Box<Buffers>>>,
}

/// What a query works in.
#[derive(Debug, Default)]
struct Buffers {
    plan: Plan,
    scorer: Scorer,
    mentions: Mentions,
    intents: Vec<u32>,
    fused: Vec<Candidate>,
}

impl Lexical {
    /// A ranker with other figures than the tuned ones.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }

    /// What the index of `catalog` adds to the memory of its tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.index(catalog).bytes()
    }

    fn index(&self, catalog: &Catalog) -> Arc<Index> {
        self.indexes.get(catalog, |older| {
            if let Some((before, index)) = older {
                let changes = catalog.changes_since(before);
                if changes.added.len() + changes.removed.len() <= catalog.len() / 2 {
                    return index.updated(changes);
                }
            }
            Index::build(catalog.iter().cloned().collect(), Arc::clone(&self.settings))
        })
    }

    fn with_buffers<T>(&self, work: impl FnOnce(&mut Buffers) -> T) -> T {
        // Buffers are only put back whole, so poison does not matter.
        let pool = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = pool().pop().unwrap_or_default();
        let result = work(&mut buffers);
        let mut pool = pool();
        if pool.len() < KEPT_BUFFERS {
            pool.push(buffers);
        }
        result
    }
}

impl Ranker for Lexical {
    fn name(&self) -> &'static str {
        "lexical"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = query.checked(MAX_QUERY_BYTES)?;
        let index = self.index(catalog);
        let view = index.view(selection);
        Ok(self.with_buffers(|buffers| buffers.rank(text, query, &view)))
    }

    fn prepare(&self, catalog: &Catalog) {
        self.index(catalog);
    }
}

impl Buffers {
    fn rank(&mut self, text: &str, query: &Query<'_>, view: &View<'_>) -> Ranking {
        self.plan.make(text, view);
        self.mentions.search(text, view);
        self.weigh_names_in_words(view);
        let total = self.score(text, query.limit, view);
        let worth = self.plan.worth().max(f32::MIN_POSITIVE);
        self.fused.iter_mut().for_each(|candidate| candidate.score *= BELOW_NAMED / worth);
        self.raise_named(view);
        self.fused.sort_unstable_by(|a, b| compare(view, a, b));
        let mut hits: Vec<Hit> =
            self.fused.iter().take(query.limit).map(|candidate| self.hit(candidate, view)).collect();
        cut(&mut hits, query);
        let confidence = hits.first().map(|hit| hit.score);
        if query.explain {
            let named = |hit: &Hit| self.certainty_of(hit, view);
            let named: Vec<Option<usize>> = hits.iter().map(named).collect();
            for (hit, named) in hits.iter_mut().zip(named) {
                let mention = named.map(|at| &self.mentions.found[at]);
                hit.why = explain::reasons(&hit.tool, hit.score, text, &self.plan, mention, view.settings);
            }
        }
        let words = &self.plan.words;
        Ranking {
            hits,
            total: total.max(self.fused.len()),
            unmatched: unmatched(text, words),
            fallback: words.iter().any(|word| word.found == Found::Nearly).then_some(Fallback::Typo),
            confidence,
        }
    }

    /// A name that the query spells out in plain words is one more thing to match.
    fn weigh_names_in_words(&mut self, view: &View<'_>) {
        for mention in self.mentions.found.iter().filter(|mention| mention.certainty == Certainty::Words) {
            let weight = view.settings.name_in_words * view.rarity(mention.count);
            let word = self.plan.words.iter().position(|word| word.start >= mention.place.start).unwrap_or(0);
            self.plan.terms.add(&mention.key, word as u32, weight, view);
        }
    }

    /// Scores the visible tools into `fused`; how many match.
    fn score(&mut self, text: &str, limit: usize, view: &View<'_>) -> usize {
        let Self { plan, scorer, intents, fused, .. } = self;
        let several = intents::split(text, plan, intents);
        let wanted = if several.is_some() { limit.max(MIN_CANDIDATES) } else { limit };
        let terms = || plan.terms.iter().map(|(at, term)| (at, term.weight));
        let total = scorer.run(view, &plan.terms, terms(), wanted);
        fused.clear();
        fused.extend_from_slice(&scorer.best);
        let best = fused.first().map_or(0.0, |candidate| candidate.score);
        let Some(count) = several.filter(|_| best > 0.0) else { return total };
        let share = view.settings.intent;
        let mut for_intents: Vec<Candidate> = Vec::with_capacity(wanted * count as usize);
        for intent in 0..count {
            let terms = terms().filter(|(at, _)| intents[plan.terms.get(*at).word as usize] == intent);
            scorer.run(view, &plan.terms, terms, wanted);
            let top = scorer.best.first().map_or(0.0, |candidate| candidate.score);
            if top > 0.0 {
                let scaled = scorer.best.iter().map(|c| Candidate { score: c.score * (best / top).sqrt(), ..*c });
                for_intents.extend(scaled);
            }
        }
        fuse(fused, for_intents, share);
        total
    }

    /// Puts the tools that the query names above all others.
    fn raise_named(&mut self, view: &View<'_>) {
        let named = self.mentions.found.iter().filter(|mention| mention.certainty != Certainty::Words);
        for mention in named {
            for (at, part) in view.parts.iter().enumerate() {
                let Some(term) = part.segment.vocabulary.find(&mention.key) else { continue };
                for doc in part.segment.postings(term).docs {
                    if part.visible.as_ref().is_some_and(|visible| !visible.contains(*doc)) {
                        continue;
                    }
                    let place = self.fused.iter().position(|c| (c.part, c.doc) == (at as u32, *doc));
                    let place = place.unwrap_or_else(|| {
                        self.fused.push(Candidate { score: 0.0, part: at as u32, doc: *doc });
                        self.fused.len() - 1
                    });
                    let score = &mut self.fused[place].score;
                    if mention.certainty == Certainty::Whole {
                        *score = 1.0;
                    } else if *score < BELOW_NAMED {
                        *score = BELOW_NAMED + (1.0 - BELOW_NAMED) * *score;
                    }
                }
            }
        }
    }

    fn hit(&self, candidate: &Candidate, view: &View<'_>) -> Hit {
        let tool = &view.parts[candidate.part as usize].segment.tools[candidate.doc as usize];
        // As a decimal number it prints like the figure it is, without binary dust.
        let score = (f64::from(candidate.score) * 1e6).round() / 1e6;
        Hit { tool: Arc::clone(tool), score, why: Vec::new() }
    }

    /// The mention by which `hit` is named outright, if any.
    fn certainty_of(&self, hit: &Hit, view: &View<'_>) -> Option<usize> {
        self.mentions.found.iter().position(|mention| {
            mention.certainty != Certainty::Words
                && view.parts.iter().any(|part| {
                    part.segment.vocabulary.find(&mention.key).is_some_and(|term| {
                        let docs = part.segment.postings(term).docs;
                        docs.iter().any(|doc| Arc::ptr_eq(&part.segment.tools[*doc as usize], &hit.tool))
                    })
                })
        })
    }
}

/// The words of `query` that were not found. Overlapping pairs of characters are one word.
fn unmatched(query: &str, words: &[Word]) -> Vec<String> {
    let runs = words.chunk_by(|before, after| after.start < before.end);
    let unknown = runs.filter(|run| run.iter().all(|word| word.found == Found::Nowhere));
    unknown.filter_map(|run| Some(query[run.first()?.start..run.last()?.end].to_owned())).collect()
}

/// Mixes what tools score for the whole query with what they score for the intent that
/// they serve best, which counts for `share`.
fn fuse(whole: &mut Vec<Candidate>, mut for_intents: Vec<Candidate>, share: f32) {
    let place = |c: &Candidate| (c.part, c.doc);
    for_intents.sort_unstable_by(|a, b| place(a).cmp(&place(b)).then(b.score.total_cmp(&a.score)));
    for_intents.dedup_by_key(|candidate| place(candidate));
    whole.iter_mut().for_each(|candidate| candidate.score *= 1.0 - share);
    whole.sort_unstable_by_key(place);
    let known = whole.len();
    for candidate in for_intents {
        let gain = candidate.score * share;
        match whole[..known].binary_search_by_key(&place(&candidate), place) {
            Ok(at) => whole[at].score += gain,
            Err(_) => whole.push(Candidate { score: gain, ..candidate }),
        }
    }
}

#[cfg(test)]
mod tests;
