//! Ranks by words and by meaning.
//!
//! Every visible tool has a lexical score and similarities, so that a higher limit only appends to
//! a ranking.

use std::ops::Range;

use pegboard_core::{
    Field, Hit, Query, Ranking, Reason,
    ranking::{cut, term_label},
};
use rustc_hash::FxHashMap;

use super::{
    confidence::{ConfidenceEvidence, Nearest, ScoreLead},
    external::External,
    fusion::{Blend, SimilaritySource},
    scan::Scan,
    second_look::{LOOKED_AT, LookFindings, ScoreGain, SecondLook, TokenSimilarities},
};
use crate::{
    actions::ToolAction,
    analysis::is_stop_word,
    languages,
    lexical::{
        explain,
        index::IndexView,
        plan::{Word, WordStatus},
        scorer::{Candidate, compare},
        search::{LexicalBuffers, NAMED, POOL, for_each_raised, hit},
    },
    semantic::{BLOCK, Model, QueryReading, ToolFirstTokens, Vector},
};

/// Number of tools with the highest lexical scores that are compared in full even after a coarse
/// pass.
const LEXICAL_POOL: usize = 1024;

/// Number of layers whose buffers are reused.
const KEPT_LAYERS: usize = 3;

/// Maximum number of query words in a reason.
const MAX_WORDS_IN_REASON: usize = 3;

/// Maximum error of rounding to six decimals.
const ROUNDING: f64 = 1e-6;

/// Factor from a score to a logarithm of odds, without a second look.
const STEEPNESS: f64 = 12.0;

/// Marks a tool that is named exactly, whose score is already set.
const RAISED: f32 = -1.0;

/// The buffers of a query, reused by the next one.
#[derive(Debug, Default)]
pub(crate) struct HybridBuffers {
    words: LexicalBuffers,
    scan: Scan,
    /// A lexical score for each row of the view, or [`RAISED`].
    lexical: Vec<f32>,
    /// The tools that are named exactly, with their scores.
    named: Vec<Candidate>,
    sources: Vec<SimilaritySource>,
    /// The first hits after the second look, in order.
    looked_at: Vec<RerankedHit>,
    lead: ScoreLead,
    nearness: TokenSimilarities,
}

/// A query to a view, and how the model reads it.
#[derive(Clone, Copy, Debug)]
struct QueryContext<'a> {
    /// The text with composed characters.
    text: &'a str,
    query: &'a Query<'a>,
    view: &'a IndexView<'a>,
    model: &'a Model,
    reading: &'a QueryReading,
    /// The vectors of the external model, if there is one.
    external: Option<&'a External<'a>>,
}

/// A hit after the second look.
#[derive(Clone, Copy, Debug, Default)]
struct RerankedHit {
    /// The score before.
    before: f64,
    /// The part of the gain that is due to the action.
    action: f64,
}

/// The ranking before its hits are created.
#[derive(Clone, Copy, Debug)]
struct RankingSummary {
    /// Number of hits.
    total: usize,
    meaning: QueryMeaning,
    /// The highest lexical score of a tool that is not named exactly.
    best_lexical: f32,
    /// The best hit without the external model, if there is one.
    own_best: Option<BestHit>,
}

/// The best hit of a ranking.
#[derive(Clone, Copy, Debug)]
struct BestHit {
    candidate: Candidate,
    /// Its lead over the others.
    lead: ScoreLead,
    /// What the second look found in it.
    seen: LookFindings,
    look_share: f64,
}

/// The evidence from a query's vectors.
#[derive(Clone, Copy, Debug, Default)]
struct QueryMeaning {
    /// How far the vectors can be trusted, 0 to 1.
    trust: f32,
    /// Similarity of the nearest background vectors.
    far: f64,
}

impl HybridBuffers {
    /// Ranks by words and by the vectors of `model`, after translating the query to English if
    /// necessary. `text` is that of `query` with composed characters.
    pub(crate) fn rank(
        &mut self,
        text: &str,
        query: &Query<'_>,
        view: &IndexView<'_>,
        model: &Model,
        external: Option<&External<'_>>,
    ) -> Ranking {
        self.words.plan_for(text, view);
        let reading = &model.read(query.text);
        if reading.known_share() < 1.0
            && let Some(english) = self.in_english(text, model)
        {
            self.words.plan_for(&english, view);
            let (query, reading) = (&Query { text: &english, ..*query }, &model.read(&english));
            let ranking = self.rank_read(&QueryContext { text: &english, query, view, model, reading, external });
            return Ranking { translated: Some(english), ..ranking };
        }
        self.rank_read(&QueryContext { text, query, view, model, reading, external })
    }

    /// Frees buffers that only queries with many requests need, or that are too large for a catalog
    /// that has shrunk: a large query on a large catalog must not occupy memory permanently.
    pub(crate) fn trim(&mut self) {
        let rows = self.lexical.len();
        for source in &mut self.sources {
            source.layers.truncate(KEPT_LAYERS);
            source.layers.iter_mut().for_each(|layer| layer.values.shrink_to(2 * rows));
        }
        self.lexical.shrink_to(2 * rows);
    }

    /// Translates the query to English, if it is in another language, and appends those of its
    /// words that tools contain. `None` as well if tools contain most of its words, since they are
    /// then in its language.
    fn in_english(&self, text: &str, model: &Model) -> Option<String> {
        let is_english = |word: &str| is_stop_word(word) || model.knows(word);
        let mut english = languages::in_english(text, is_english)?;
        let own = |word: &Word| &text[word.start..word.end];
        // A similar spelling in Latin letters can be of any language.
        let is_found = |word: &Word| match word.found {
            WordStatus::Exactly => true,
            WordStatus::Nearly => !languages::is_latin(own(word)),
            WordStatus::Nowhere | WordStatus::Ignored => false,
        };
        let is_telling = |word: &&Word| !languages::is_filler(own(word)) && !is_english(&languages::fold(own(word)));
        let telling: Vec<&Word> = self.words.plan.words.iter().filter(is_telling).collect();
        if 2 * telling.iter().filter(|word| is_found(word)).count() > telling.len() {
            return None;
        }
        for word in telling.iter().filter(|word| word.found == WordStatus::Exactly).map(|word| own(word)) {
            if !languages::has_word(&english, word) {
                english.push(' ');
                english.push_str(word);
            }
        }
        Some(english)
    }

    /// Ranks by words and by the model's reading of the query.
    ///
    /// A hit is a tool that contains a word of the query, or has at least half the similarity to
    /// it, or to one of its requests, of the nearest tool. The number of hits does not depend on
    /// the limit.
    fn rank_read(&mut self, context: &QueryContext<'_>) -> Ranking {
        let QueryContext { text, query, view, model, reading, .. } = *context;
        let best_lexical = self.score_words(text, view);
        let meaning = self.score_meaning(reading, view, model);
        let look = SecondLook::new(model, text, reading, meaning.trust);
        let own_best = self.score_external(context, best_lexical, meaning.trust, look.as_ref());
        // The same hits get a second look, whatever the limit.
        let limit = query.limit.max(self.looked_at()).min(view.tools).max(1);
        let total = self.collect_hits(best_lexical, limit, view);
        self.rerank_first_hits(look.as_ref(), view);
        // The confidence is that of the best hit, even with a limit of zero.
        self.words.scorer.best.truncate(query.limit.max(1));
        self.build_ranking(context, look.as_ref(), RankingSummary { total, meaning, best_lexical, own_best })
    }

    /// Computes the lexical score of every row of `view`, as the lexical ranker does; returns the
    /// highest of a visible tool that is not named exactly.
    fn score_words(&mut self, text: &str, view: &IndexView<'_>) -> f32 {
        let Self { words, lexical, named, .. } = self;
        let terms = words.plan.terms.iter().map(|(at, term)| (at, term.weight));
        words.scorer.run_all(view, &words.plan.terms, terms, lexical);
        if words.has_intents(text) && words.score(text, POOL, view).1 {
            let whole_share = 1.0 - view.settings.intent;
            lexical.iter_mut().for_each(|score| *score *= whole_share);
            for candidate in &words.fused {
                // A tool that serves one request must keep its score for the whole query.
                let score = &mut lexical[view.row(candidate)];
                *score = score.max(candidate.score);
            }
        }
        let worth = words.plan.worth(view).max(f32::MIN_POSITIVE);
        lexical.iter_mut().for_each(|score| *score *= NAMED / worth);
        let mut places: FxHashMap<usize, usize> = FxHashMap::default();
        named.clear();
        for_each_raised(&words.plan, &words.mentions, text, worth, view, |candidate, _| {
            let row = view.row(&candidate);
            lexical[row] = RAISED;
            let place = *places.entry(row).or_insert(named.len());
            match named.get_mut(place) {
                Some(known) => known.score = known.score.max(candidate.score),
                None => named.push(candidate),
            }
        });
        best_of_visible(view, lexical)
    }

    /// Compares every row of `view` with the query and its requests by our own model.
    fn score_meaning(&mut self, reading: &QueryReading, view: &IndexView<'_>, model: &Model) -> QueryMeaning {
        let Self { words: LexicalBuffers { plan, scorer, .. }, scan, sources, .. } = self;
        sources.resize_with(1, SimilaritySource::default);
        let source = &mut sources[0];
        let whole = reading.vector(model);
        let trust = if whole.is_some() { model.fusion().trust(reading.known_share()) } else { 0.0 };
        source.set(model.fusion(), trust);
        let Some(whole) = whole.filter(|_| trust > 0.0) else {
            source.layers.clear();
            return QueryMeaning::default();
        };
        let mut vectors = reading.request_vectors(model);
        vectors.insert(0, whole);
        scorer.best.clear();
        if scan.is_coarse(view) {
            let terms = plan.terms.iter().map(|(at, term)| (at, term.weight));
            scorer.run(view, &plan.terms, terms, LEXICAL_POOL);
        }
        scan.run(view, &vectors, &scorer.best, &mut source.layers);
        source.judge_requests(model.fusion());
        QueryMeaning { trust, far: model.background(&vectors).mean() }
    }

    /// Adds the similarities of the external model, if there is one; returns the best hit without
    /// it, and its lead.
    fn score_external(
        &mut self,
        context: &QueryContext<'_>,
        best_lexical: f32,
        trust: f32,
        look: Option<&SecondLook<'_>>,
    ) -> Option<BestHit> {
        let QueryContext { view, external: Some(external), .. } = *context else { return None };
        self.collect_hits(best_lexical, self.looked_at(), view);
        self.rerank_first_hits(look, view);
        let own_best = self.best_hit(look, view);
        let Self { lexical, sources, .. } = self;
        let lexical_share = |row: usize| if best_lexical > 0.0 { lexical[row].max(0.0) / best_lexical } else { 0.0 };
        let [own, ..] = &sources[..] else { return own_best };
        let mut source = SimilaritySource::default();
        let tools = view.numbered_parts().map(|(first, part)| {
            let is_visible = |doc: usize| part.visible_word(doc / BLOCK) >> (doc % BLOCK) & 1 == 1;
            (first, part.segment.tools.as_slice(), is_visible)
        });
        external.fill(&mut source, own, trust, tools, lexical_share);
        sources.push(source);
        own_best
    }

    /// Collects the `limit` best tools; returns the number of hits.
    fn collect_hits(&mut self, best_lexical: f32, limit: usize, view: &IndexView<'_>) -> usize {
        let Self { words: LexicalBuffers { scorer, .. }, lexical, named, sources, .. } = self;
        let blend = Blend::new(best_lexical, sources);
        scorer.best.clear();
        scorer.best.extend_from_slice(named);
        let mut total = named.len();
        let mut bar = scorer.keep_best(view, limit);
        let mut scores = [0.0; BLOCK];
        for (at, (first, part)) in view.numbered_parts().enumerate() {
            let end = first + part.segment.tools.len();
            for (block, start) in (first..end).step_by(BLOCK).enumerate() {
                blend.scores(start, &lexical[start..(start + BLOCK).min(end)], &mut scores);
                let hits = bits(&scores, 0.0) & part.visible_word(block);
                total += hits.count_ones() as usize;
                let mut high = bits(&scores, bar) & hits;
                while high != 0 {
                    let place = high.trailing_zeros();
                    high &= high - 1;
                    let doc = (BLOCK * block) as u32 + place;
                    scorer.best.push(Candidate { score: scores[place as usize], part: at as u32, doc });
                }
                if scorer.best.len() >= limit.saturating_mul(2).max(2 * BLOCK) {
                    bar = scorer.keep_best(view, limit);
                }
            }
        }
        scorer.keep_best(view, limit);
        scorer.best.sort_unstable_by(|a, b| compare(view, a, b));
        total
    }

    /// Returns how many hits the second look needs: named ones, those that it reorders, and the
    /// next one.
    fn looked_at(&self) -> usize {
        self.named.len() + LOOKED_AT + 1
    }

    /// Reorders the first hits by the second look. The best gets the score that the first had; none
    /// falls behind those that were not included, and named tools stay in front.
    fn rerank_first_hits(&mut self, look: Option<&SecondLook<'_>>, view: &IndexView<'_>) {
        let Self { words: LexicalBuffers { scorer, .. }, lexical, sources, looked_at, lead, nearness, .. } = self;
        looked_at.clear();
        *lead = ScoreLead::of(scorer.best.iter().take(LOOKED_AT).map(|best| STEEPNESS * f64::from(best.score)));
        let (Some(look), Some(source)) = (look, sources.first()) else { return };
        let named = scorer.best.iter().take_while(|best| lexical[view.row(best)] == RAISED).count();
        let end = scorer.best.len().min(named + LOOKED_AT);
        let least = scorer.best.get(end).map_or(0.0, |next| next.score);
        let first = scorer.best.get(named).map_or(0.0, |best| best.score);
        // Including named ones: the confidence is about the best hit, whatever it is.
        nearness.fill(look, scorer.best[..end].iter().map(|candidate| first_tokens(candidate, view)));
        let mut ordered: Vec<(Candidate, RerankedHit)> = Vec::with_capacity(end - named);
        for candidate in &scorer.best[named..end] {
            let (tokens, action) = (first_tokens(candidate, view), action_of(candidate, view));
            let ScoreGain { words, action } = look.gain(tokens, action, source.whole(view.row(candidate)), nearness);
            let seen = RerankedHit { before: f64::from(candidate.score), action: f64::from(action) };
            ordered.push((Candidate { score: candidate.score + words + action, ..*candidate }, seen));
        }
        ordered.sort_by(|(a, _), (b, _)| compare(view, a, b));
        *lead = ScoreLead::of(ordered.iter().map(|(best, _)| look.to_logit(best.score)));
        let shift = first - ordered.first().map_or(0.0, |(best, _)| best.score);
        looked_at
            .extend(scorer.best[..named].iter().map(|best| RerankedHit { before: f64::from(best.score), action: 0.0 }));
        for (place, (candidate, seen)) in scorer.best[named..end].iter_mut().zip(ordered) {
            *place = Candidate { score: look.rescale_score(candidate.score + shift, first, least), ..candidate };
            looked_at.push(seen);
        }
    }

    /// Creates the ranking, without hits if the best of them is too unlikely.
    fn build_ranking(
        &self,
        context: &QueryContext<'_>,
        look: Option<&SecondLook<'_>>,
        judged: RankingSummary,
    ) -> Ranking {
        let QueryContext { text, query, view, model, .. } = *context;
        let best = &self.words.scorer.best;
        let mut hits: Vec<Hit> = best.iter().map(|candidate| hit(candidate, view)).collect();
        let passing = cut(&mut hits, query);
        if query.explain {
            let blend = Blend::new(judged.best_lexical, &self.sources);
            for (at, (hit, candidate)) in hits.iter_mut().zip(best).enumerate() {
                let seen = self.looked_at.get(at).copied();
                let before = Hit { score: seen.map_or(hit.score, |seen| seen.before), ..hit.clone() };
                hit.why = self.reasons(context, &before, candidate, &blend);
                if let (Some(look), Some(seen)) = (look, seen) {
                    add_second_look(hit, seen, look.actions(action_of(candidate, view)));
                }
            }
        }
        // Based on our own evidence, for which the coefficients were trained; a different
        // preference of the external model does not lower it.
        let evidence = |best: BestHit| self.evidence(context, best, judged.meaning);
        let judge = |best: BestHit| model.confidence().confidence(&evidence(best));
        let confidence = self.best_hit(look, view).into_iter().chain(judged.own_best).map(judge).fold(0.0, f64::max);
        // Stop words match everything.
        let says_nothing = self.words.plan.is_only_stop_words() && self.named.is_empty();
        let confidence = if says_nothing { 0.0 } else { confidence };
        let least = query.least_confidence.unwrap_or_else(|| bar(context, judged.meaning));
        Ranking { hits, total: judged.total, passing, confidence: Some(confidence), ..self.words.findings(text) }
            .withheld_below(least)
    }

    /// Returns the best hit, after the second look.
    fn best_hit(&self, look: Option<&SecondLook<'_>>, view: &IndexView<'_>) -> Option<BestHit> {
        let candidate = *self.words.scorer.best.first()?;
        let look = look.filter(|_| !self.looked_at.is_empty());
        let see = |look: &SecondLook<'_>| {
            look.inspect(first_tokens(&candidate, view), action_of(&candidate, view), &self.nearness)
        };
        let look_share = look.map_or(0.0, |look| f64::from(look.share));
        Some(BestHit { candidate, lead: self.lead, seen: look.map(see).unwrap_or_default(), look_share })
    }

    fn evidence(&self, context: &QueryContext<'_>, best: BestHit, meaning: QueryMeaning) -> ConfidenceEvidence {
        let QueryContext { text, view, reading, .. } = *context;
        let row = view.row(&best.candidate);
        let source = self.sources.first();
        ConfidenceEvidence {
            is_named: self.lexical[row] == RAISED,
            lexical: f64::from(self.lexical[row]),
            whole: f64::from(source.map_or(0.0, |source| source.whole(row))),
            near: source.map_or(0.0, |source| nearest_visible(source, view).mean()),
            far: meaning.far,
            tools: view.tools,
            seen: best.seen,
            words: text.split_whitespace().count(),
            known: f64::from(reading.known_share()),
            trust: f64::from(meaning.trust),
            look_share: best.look_share,
            lead: best.lead,
        }
    }

    /// Returns the reasons for a hit, which add up to its score, largest first.
    fn reasons(&self, context: &QueryContext<'_>, hit: &Hit, candidate: &Candidate, blend: &Blend<'_>) -> Vec<Reason> {
        let QueryContext { text, query, view, model, reading, .. } = *context;
        let lexical = self.lexical[view.row(candidate)];
        let named = self.words.mention_of(&hit.tool);
        let part = f64::from(blend.lexical_part(lexical));
        // Scores are rounded; the rest is not a reason.
        let by_words = if lexical == RAISED || hit.score - part < ROUNDING { hit.score } else { part };
        let mut reasons = explain::reasons(&hit.tool, by_words, text, &self.words.plan, named, view.settings);
        let external = if lexical == RAISED { 0.0 } else { blend.part(1, view.row(candidate)) };
        if external > 0.0 {
            let weight = f64::from(external).min(hit.score - by_words);
            let place = reasons.partition_point(|reason| reason.weight >= weight);
            reasons.insert(place, Reason { field: Field::Meaning, term: "(embeddings)".to_owned(), weight });
        }
        let weight = hit.score - reasons.iter().map(|reason| reason.weight).sum::<f64>();
        if weight > ROUNDING {
            let vectors = &view.parts[candidate.part as usize].segment.vectors;
            let term = nearest_words(query.text, reading, model, &vectors.get(candidate.doc, model.dims()));
            let place = reasons.partition_point(|reason| reason.weight >= weight);
            reasons.insert(place, Reason { field: Field::Meaning, term, weight });
        }
        reasons
    }
}

/// Adds the changes by the second look to the reasons of `hit`: its action, and the rest, compared
/// with the best hit.
fn add_second_look(hit: &mut Hit, seen: RerankedHit, actions: Option<(&str, &str)>) {
    let action = if actions.is_some() { seen.action } else { 0.0 };
    let given: f64 = hit.why.iter().map(|reason| reason.weight).sum();
    let (wanted, offered) = actions.unwrap_or_default();
    let added = [
        Reason { field: Field::Action, term: term_label(wanted, offered).into_owned(), weight: action },
        Reason { field: Field::Meaning, term: "(words)".to_owned(), weight: hit.score - given - action },
    ];
    hit.why.extend(added.into_iter().filter(|reason| reason.weight.abs() > ROUNDING));
    hit.why.sort_by(|a, b| b.weight.total_cmp(&a.weight));
}

/// Returns the words of `query` that contribute most to the similarity with `tool`: the best, and
/// others with at least half of its contribution, in query order.
fn nearest_words(query: &str, reading: &QueryReading, model: &Model, tool: &Vector) -> String {
    let mut words: Vec<(Range<usize>, f32)> = reading.contributions(model, tool).collect();
    words.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.start.cmp(&b.0.start)));
    let best = words.first().map_or(0.0, |(_, gain)| *gain);
    words.truncate(MAX_WORDS_IN_REASON);
    words.retain(|(_, gain)| *gain > 0.0 && *gain >= best / 2.0);
    words.sort_by_key(|(place, _)| place.start);
    let mut terms: Vec<String> = words.into_iter().map(|(place, _)| query[place].to_lowercase()).collect();
    terms.dedup();
    terms.join(" ")
}

/// Returns the confidence below which a ranking is withheld. With an external model, ours only
/// decides as far as it has read the query.
fn bar(context: &QueryContext<'_>, meaning: QueryMeaning) -> f64 {
    let share = if context.external.is_some() { f64::from(meaning.trust) } else { 1.0 };
    context.model.confidence().nothing_below(context.view.tools) * share
}

/// Returns the highest score of a visible tool, or 0.
fn best_of_visible(view: &IndexView<'_>, scores: &[f32]) -> f32 {
    let higher = |best: f32, score: f32| if score > best { score } else { best };
    let mut best = 0.0;
    for (first, part) in view.numbered_parts() {
        let scores = &scores[first..first + part.segment.tools.len()];
        for (block, scores) in scores.chunks(BLOCK).enumerate() {
            let top = scores.iter().copied().fold(0.0, higher);
            if top <= best {
                continue;
            }
            let visible = part.visible_word(block);
            let seen = scores.iter().enumerate().filter(|(place, _)| visible >> place & 1 == 1);
            best = seen.map(|(_, score)| *score).fold(best, higher);
        }
    }
    best
}

/// Returns the first tokens of a tool.
fn first_tokens<'a>(candidate: &Candidate, view: &'a IndexView<'_>) -> ToolFirstTokens<'a> {
    view.parts[candidate.part as usize].segment.first.get(candidate.doc)
}

/// Returns the action of a tool.
fn action_of(candidate: &Candidate, view: &IndexView<'_>) -> ToolAction {
    view.parts[candidate.part as usize].segment.actions[candidate.doc as usize]
}

/// Returns the highest similarities of visible tools to the query or to one of its requests.
fn nearest_visible(source: &SimilaritySource, view: &IndexView<'_>) -> Nearest {
    let mut nearest = Nearest::default();
    if source.layers.is_empty() {
        return nearest;
    }
    let mut similarities = [0.0; BLOCK];
    for (first, part) in view.numbered_parts() {
        let end = first + part.segment.tools.len();
        for (block, start) in (first..end).step_by(BLOCK).enumerate() {
            let similarities = &mut similarities[..BLOCK.min(end - start)];
            source.nearest_in(start, similarities);
            let bar = nearest.bar();
            if similarities.iter().fold(f32::MIN, |most, one| if *one > most { *one } else { most }) <= bar {
                continue;
            }
            let visible = part.visible_word(block);
            let seen = similarities.iter().enumerate().filter(|(place, _)| visible >> place & 1 == 1);
            seen.for_each(|(_, similarity)| nearest.add(*similarity));
        }
    }
    nearest
}

/// Returns a bit for each score that is at least `least`.
fn bits(scores: &[f32; BLOCK], least: f32) -> u64 {
    scores.iter().enumerate().fold(0, |bits, (place, score)| bits | u64::from(*score >= least) << place)
}
