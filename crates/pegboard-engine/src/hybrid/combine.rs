//! One query answered by words and by meaning.
//!
//! Every visible tool has a lexical score and similarities, so that asking for more hits only
//! adds to the end of a ranking.

use std::ops::Range;

use pegboard_core::{
    Field, Hit, Query, Ranking, Reason,
    ranking::{cut, term_label},
};
use rustc_hash::FxHashMap;

use super::{
    confidence::{Evidence, Lead, Nearest},
    fusion::{Blend, Source},
    scan::Scan,
    second_look::{Gain, LOOKED_AT, Look, Nearness, Seen},
};
use crate::{
    actions::ToolAction,
    analysis::is_stop_word,
    languages,
    lexical::{
        explain,
        index::View,
        plan::{Found, Word},
        scorer::{Candidate, compare},
        search::{Buffers, NAMED, POOL, for_each_raised, hit},
    },
    semantic::{BLOCK, FirstOf, Model, Reading, Vector},
};

/// Tools whose words score highest are compared in full even where a coarse pass comes first.
const LEXICAL_POOL: usize = 1024;

/// Vectors of a query whose similarities keep their room for the next one.
const KEPT_LAYERS: usize = 3;

/// The most words of a query that a reason names.
const MAX_WORDS_IN_REASON: usize = 3;

/// What rounding to six decimals can change.
const ROUNDING: f64 = 1e-6;

/// What a score is multiplied with to be taken for a logarithm, where there is no second look.
const STEEPNESS: f64 = 12.0;

/// Marks a tool that is named outright, whose score stands already.
const RAISED: f32 = -1.0;

/// What a query works in; kept for the next one.
#[derive(Debug, Default)]
pub(crate) struct Both {
    pub(crate) scan: Scan,
    /// A lexical score for each row of the view, or [`RAISED`].
    lexical: Vec<f32>,
    /// The tools that are named outright, with their scores.
    named: Vec<Candidate>,
    sources: Vec<Source>,
    /// What the second look made of the first hits, in their order.
    looked_at: Vec<LookedAt>,
    lead: Lead,
    nearness: Nearness,
}

/// A hit after the second look.
#[derive(Clone, Copy, Debug, Default)]
struct LookedAt {
    /// Its score before that.
    before: f64,
    /// What it gained by what it does.
    action: f64,
}

/// What is known of a ranking before its hits are made.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// How many tools are hits.
    total: usize,
    meaning: Meaning,
    /// The highest lexical score of a tool that is not named outright.
    best_lexical: f32,
    /// What would be the best hit without somebody else's model, if that was asked.
    own_best: Option<Best>,
}

/// The best hit of a ranking.
#[derive(Clone, Copy, Debug)]
struct Best {
    candidate: Candidate,
    /// How far it is ahead.
    lead: Lead,
    /// What the second look saw in it.
    seen: Seen,
    look_share: f64,
}

/// What is known of a query by its vectors.
#[derive(Clone, Copy, Debug, Default)]
struct Meaning {
    /// How far they can be trusted.
    trust: f32,
    /// How near the nearest of what tools in general are about is.
    far: f64,
}

impl Both {
    /// Drops what only queries with many requests need, and all that a catalog which has become
    /// much smaller needs no more.
    pub(crate) fn trim(&mut self) {
        let rows = self.lexical.len();
        for source in &mut self.sources {
            source.layers.truncate(KEPT_LAYERS);
            source.layers.iter_mut().for_each(|layer| layer.values.shrink_to(2 * rows));
        }
        self.lexical.shrink_to(2 * rows);
    }
}

impl Buffers {
    /// Ranks by words and by what `model` makes of the query, in English where that is not its language.
    pub(crate) fn rank_by_both(&mut self, text: &str, query: &Query<'_>, view: &View<'_>, model: &Model) -> Ranking {
        let reading = model.read(query.text);
        if reading.known_share() < 1.0
            && let Some(english) = self.in_english(text, model)
        {
            self.plan_for(&english, view);
            let asked = Query { text: &english, ..*query };
            let ranking = self.rank_read(&english, &asked, view, model, &model.read(&english));
            return Ranking { translated: Some(english), ..ranking };
        }
        self.rank_read(text, query, view, model, &reading)
    }

    /// The query in English, if it is in another language, with those of its words that tools have. `None`
    /// too if tools have most of its words: then they are in its language.
    fn in_english(&self, text: &str, model: &Model) -> Option<String> {
        let is_english = |word: &str| is_stop_word(word) || model.knows(word);
        let mut english = languages::in_english(text, is_english)?;
        let own = |word: &Word| &text[word.start..word.end];
        // What is spelled nearly alike in Latin letters can be of any language.
        let is_found = |word: &Word| match word.found {
            Found::Exactly => true,
            Found::Nearly => !languages::is_latin(own(word)),
            Found::Nowhere | Found::Aside => false,
        };
        let is_telling = |word: &&Word| !languages::is_filler(own(word)) && !is_english(&languages::fold(own(word)));
        let telling: Vec<&Word> = self.plan.words.iter().filter(is_telling).collect();
        if 2 * telling.iter().filter(|word| is_found(word)).count() > telling.len() {
            return None;
        }
        for word in telling.iter().filter(|word| word.found == Found::Exactly).map(|word| own(word)) {
            if !languages::has_word(&english, word) {
                english.push(' ');
                english.push_str(word);
            }
        }
        Some(english)
    }

    /// Ranks by words and by what `model` read in the query.
    ///
    /// A hit is a tool that has a word of the query, or is at least half as near to it, or to one
    /// of its requests, as the nearest tool; so many are counted, however many are asked for.
    fn rank_read(
        &mut self,
        text: &str,
        query: &Query<'_>,
        view: &View<'_>,
        model: &Model,
        reading: &Reading,
    ) -> Ranking {
        let best_lexical = self.score_words(text, view);
        let meaning = self.score_meaning(reading, view, model);
        let look = Look::new(model, text, reading, meaning.trust);
        let own_best = self.score_external(best_lexical, meaning.trust, look.as_ref(), view);
        // The same hits are looked at again however many are asked for.
        let limit = query.limit.max(self.looked_at()).min(view.tools).max(1);
        let total = self.collect(best_lexical, limit, view);
        self.rerank_first_hits(look.as_ref(), view);
        // The confidence is that of the best hit, even if none is asked for.
        self.scorer.best.truncate(query.limit.max(1));
        let judged = Judged { total, meaning, best_lexical, own_best };
        self.answer(text, query, view, model, reading, look.as_ref(), judged)
    }

    /// Gives every row of `view` its lexical score, as the lexical ranker would; the highest of
    /// a visible tool that is not named outright.
    fn score_words(&mut self, text: &str, view: &View<'_>) -> f32 {
        let terms = self.plan.terms.iter().map(|(at, term)| (at, term.weight));
        self.scorer.run_all(view, &self.plan.terms, terms, &mut self.both.lexical);
        if self.has_intents(text) && self.score(text, POOL, view).1 {
            let whole_share = 1.0 - view.settings.intent;
            self.both.lexical.iter_mut().for_each(|score| *score *= whole_share);
            for candidate in &self.fused {
                // What serves one request must not lose what it is worth to all of them.
                let score = &mut self.both.lexical[view.row(candidate)];
                *score = score.max(candidate.score);
            }
        }
        let worth = self.plan.worth(view).max(f32::MIN_POSITIVE);
        let Self { plan, mentions, both: Both { lexical, named, .. }, .. } = self;
        lexical.iter_mut().for_each(|score| *score *= NAMED / worth);
        let mut places: FxHashMap<usize, usize> = FxHashMap::default();
        named.clear();
        for_each_raised(plan, mentions, text, worth, view, |candidate, _| {
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

    /// Compares every row of `view` with the query and its requests, as our own model sees them.
    fn score_meaning(&mut self, reading: &Reading, view: &View<'_>, model: &Model) -> Meaning {
        let Self { plan, scorer, both: Both { scan, sources, .. }, .. } = self;
        sources.resize_with(1, Source::default);
        let source = &mut sources[0];
        let whole = reading.vector(model);
        let trust = if whole.is_some() { model.fusion().trust(reading.known_share()) } else { 0.0 };
        source.set(model.fusion(), trust);
        let Some(whole) = whole.filter(|_| trust > 0.0) else {
            source.layers.clear();
            return Meaning::default();
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
        Meaning { trust, far: model.background(&vectors).mean() }
    }

    /// Adds what somebody else's model makes of the query, if it was asked; the best hit
    /// without it, and how far ahead that is.
    fn score_external(
        &mut self,
        best_lexical: f32,
        trust: f32,
        look: Option<&Look<'_>>,
        view: &View<'_>,
    ) -> Option<Best> {
        let external = view.external.as_ref()?;
        self.collect(best_lexical, self.looked_at(), view);
        self.rerank_first_hits(look, view);
        let own_best = self.best(look, view);
        let Both { lexical, sources, .. } = &mut self.both;
        let lexical_share = |row: usize| if best_lexical > 0.0 { lexical[row].max(0.0) / best_lexical } else { 0.0 };
        let [own, ..] = &sources[..] else { return own_best };
        let mut source = Source::default();
        let tools = view.numbered_parts().map(|(first, part)| {
            let is_visible = |doc: usize| part.visible_word(doc / BLOCK) >> (doc % BLOCK) & 1 == 1;
            (first, part.segment.tools.as_slice(), is_visible)
        });
        external.fill(&mut source, own, trust, tools, lexical_share);
        sources.push(source);
        own_best
    }

    /// Puts the `limit` best tools into the scorer's list; how many hits there are.
    fn collect(&mut self, best_lexical: f32, limit: usize, view: &View<'_>) -> usize {
        let Self { scorer, both, .. } = self;
        let blend = Blend::new(best_lexical, &both.sources);
        scorer.best.clear();
        scorer.best.extend_from_slice(&both.named);
        let mut total = both.named.len();
        let mut bar = scorer.keep_best(view, limit);
        let mut scores = [0.0; BLOCK];
        for (at, (first, part)) in view.numbered_parts().enumerate() {
            let end = first + part.segment.tools.len();
            for (block, start) in (first..end).step_by(BLOCK).enumerate() {
                blend.scores(start, &both.lexical[start..(start + BLOCK).min(end)], &mut scores);
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

    /// How many hits must be there for the second look: those that are named, those that it is for, and the next.
    fn looked_at(&self) -> usize {
        self.both.named.len() + LOOKED_AT + 1
    }

    /// Orders the first hits anew by what `look` sees in them. The best has the score that the first
    /// one had; none falls behind those that were not looked at, and those that are named stay
    /// in front.
    fn rerank_first_hits(&mut self, look: Option<&Look<'_>>, view: &View<'_>) {
        let Self { scorer, both: Both { lexical, sources, looked_at, lead, nearness, .. }, .. } = self;
        looked_at.clear();
        *lead = Lead::of(scorer.best.iter().take(LOOKED_AT).map(|best| STEEPNESS * f64::from(best.score)));
        let (Some(look), Some(source)) = (look, sources.first()) else { return };
        let named = scorer.best.iter().take_while(|best| lexical[view.row(best)] == RAISED).count();
        let end = scorer.best.len().min(named + LOOKED_AT);
        let least = scorer.best.get(end).map_or(0.0, |next| next.score);
        let first = scorer.best.get(named).map_or(0.0, |best| best.score);
        // The named ones too: the confidence is about the best hit, whatever it is.
        nearness.fill(look, scorer.best[..end].iter().map(|candidate| first_tokens(candidate, view)));
        let mut ordered: Vec<(Candidate, LookedAt)> = Vec::with_capacity(end - named);
        for candidate in &scorer.best[named..end] {
            let (tokens, action) = (first_tokens(candidate, view), action_of(candidate, view));
            let Gain { words, action } = look.gain(tokens, action, source.whole(view.row(candidate)), nearness);
            let seen = LookedAt { before: f64::from(candidate.score), action: f64::from(action) };
            ordered.push((Candidate { score: candidate.score + words + action, ..*candidate }, seen));
        }
        ordered.sort_by(|(a, _), (b, _)| compare(view, a, b));
        *lead = Lead::of(ordered.iter().map(|(best, _)| look.in_logarithm(best.score)));
        let shift = first - ordered.first().map_or(0.0, |(best, _)| best.score);
        looked_at
            .extend(scorer.best[..named].iter().map(|best| LookedAt { before: f64::from(best.score), action: 0.0 }));
        for (place, (candidate, seen)) in scorer.best[named..end].iter_mut().zip(ordered) {
            *place = Candidate { score: look.settled(candidate.score + shift, first, least), ..candidate };
            looked_at.push(seen);
        }
    }

    /// Turns the scorer's list into hits, unless the best of them is too unlikely.
    #[expect(clippy::too_many_arguments)]
    fn answer(
        &self,
        text: &str,
        query: &Query<'_>,
        view: &View<'_>,
        model: &Model,
        reading: &Reading,
        look: Option<&Look<'_>>,
        judged: Judged,
    ) -> Ranking {
        let best = &self.scorer.best;
        let mut hits: Vec<Hit> = best.iter().map(|candidate| hit(candidate, view)).collect();
        let passing = cut(&mut hits, query);
        if query.explain {
            let blend = Blend::new(judged.best_lexical, &self.both.sources);
            for (at, (hit, candidate)) in hits.iter_mut().zip(best).enumerate() {
                let seen = self.both.looked_at.get(at).copied();
                let before = Hit { score: seen.map_or(hit.score, |seen| seen.before), ..hit.clone() };
                hit.why = self.reasons(&before, candidate, text, query, view, model, reading, &blend);
                if let (Some(look), Some(seen)) = (look, seen) {
                    add_second_look(hit, seen, look.actions(action_of(candidate, view)));
                }
            }
        }
        // Judged by our own evidence, which the figures were made for, and not less because
        // somebody else's model prefers another tool.
        let evidence = |best: Best| self.evidence(best, text, view, reading, judged.meaning);
        let judge = |best: Best| model.confidence().confidence(&evidence(best));
        let confidence = self.best(look, view).into_iter().chain(judged.own_best).map(judge).fold(0.0, f64::max);
        // Words that say nothing fit everything.
        let says_nothing = self.plan.is_only_stop_words() && self.both.named.is_empty();
        let confidence = if says_nothing { 0.0 } else { confidence };
        let least = query.least_confidence.unwrap_or_else(|| bar(view, model, judged.meaning));
        Ranking { hits, total: judged.total, passing, confidence: Some(confidence), ..self.findings(text) }
            .withheld_below(least)
    }

    /// The best hit, after the second look.
    fn best(&self, look: Option<&Look<'_>>, view: &View<'_>) -> Option<Best> {
        let candidate = *self.scorer.best.first()?;
        let look = look.filter(|_| !self.both.looked_at.is_empty());
        let see = |look: &Look<'_>| {
            look.inspect(first_tokens(&candidate, view), action_of(&candidate, view), &self.both.nearness)
        };
        let look_share = look.map_or(0.0, |look| f64::from(look.share));
        Some(Best { candidate, lead: self.both.lead, seen: look.map(see).unwrap_or_default(), look_share })
    }

    fn evidence(&self, best: Best, text: &str, view: &View<'_>, reading: &Reading, meaning: Meaning) -> Evidence {
        let row = view.row(&best.candidate);
        let source = self.both.sources.first();
        Evidence {
            is_named: self.both.lexical[row] == RAISED,
            lexical: f64::from(self.both.lexical[row]),
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

    /// The reasons for a hit, which add up to its score, largest first.
    #[expect(clippy::too_many_arguments)]
    fn reasons(
        &self,
        hit: &Hit,
        candidate: &Candidate,
        text: &str,
        query: &Query<'_>,
        view: &View<'_>,
        model: &Model,
        reading: &Reading,
        blend: &Blend<'_>,
    ) -> Vec<Reason> {
        let lexical = self.both.lexical[view.row(candidate)];
        let named = self.mention_of(&hit.tool);
        let part = f64::from(blend.lexical_part(lexical));
        // Scores are rounded; what that leaves is no reason.
        let by_words = if lexical == RAISED || hit.score - part < ROUNDING { hit.score } else { part };
        let mut reasons = explain::reasons(&hit.tool, by_words, text, &self.plan, named, view.settings);
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

/// Adds what the second look changed to the reasons of `hit`: its action, and the rest of what it saw,
/// compared with the best hit.
fn add_second_look(hit: &mut Hit, seen: LookedAt, actions: Option<(&str, &str)>) {
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

/// The words of `query` that bring it nearest to `tool`: the best, and others that give at
/// least half as much, in query order.
fn nearest_words(query: &str, reading: &Reading, model: &Model, tool: &Vector) -> String {
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

/// The confidence below which nothing fits. Where somebody else's model was asked, ours can only
/// say so as far as it has read the query.
fn bar(view: &View<'_>, model: &Model, meaning: Meaning) -> f64 {
    let share = if view.external.is_some() { f64::from(meaning.trust) } else { 1.0 };
    model.confidence().nothing_below(view.tools) * share
}

/// The highest score of a visible tool, or 0.
fn best_of_visible(view: &View<'_>, scores: &[f32]) -> f32 {
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

/// The first tokens of a tool.
fn first_tokens<'a>(candidate: &Candidate, view: &'a View<'_>) -> FirstOf<'a> {
    view.parts[candidate.part as usize].segment.first.get(candidate.doc)
}

/// What a tool does.
fn action_of(candidate: &Candidate, view: &View<'_>) -> ToolAction {
    view.parts[candidate.part as usize].segment.actions[candidate.doc as usize]
}

/// How near the nearest visible tools are to the query or to one of its requests.
fn nearest_visible(source: &Source, view: &View<'_>) -> Nearest {
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

/// A bit for each score that reaches `least`.
fn bits(scores: &[f32; BLOCK], least: f32) -> u64 {
    scores.iter().enumerate().fold(0, |bits, (place, score)| bits | u64::from(*score >= least) << place)
}
