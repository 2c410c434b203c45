//! Fusion of lexical scores and similarities into one score.
//!
//! Tools are processed in blocks, and numbered through all segments of a view.

use serde::Deserialize;

use crate::{
    scores,
    semantic::{BLOCK, is_share},
};

/// Maximum score of a tool that is not named exactly.
const BELOW_NAMED: f32 = scores::BELOW_NAMED as f32;

/// The share of the best similarity that makes a tool a hit without a common word.
const NEAR: f32 = 0.5;

/// The coefficients of fusion, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct FusionSettings {
    /// The weight of similarity, relative to words.
    similarity: f32,
    /// The part of it that comes from the request that a tool serves best.
    requests: f32,
    /// Minimum of the best tool's similarity.
    least_similarity: f32,
    /// The share of the best request's similarity up to which another request finds nothing.
    finds_from: f32,
    /// The share from which another request counts in full.
    finds_to: f32,
    /// The share of known words up to which similarity has no weight.
    known_from: f32,
    /// The share of known words from which similarity has its full weight.
    known_to: f32,
}

impl FusionSettings {
    pub(crate) fn is_sound(&self) -> bool {
        is_share(self.similarity)
            && (0.0..=1.0).contains(&self.requests)
            && (1e-3..=1.0).contains(&self.least_similarity)
            && (0.0..1.0).contains(&self.known_from)
            && self.known_to > self.known_from
            && self.known_to <= 1.0
            && (0.0..1.0).contains(&self.finds_from)
            && self.finds_to > self.finds_from
            && self.finds_to <= 1.0
    }

    /// Returns how well a request finds tools, 0 to 1, if its best similarity is `own` and that of
    /// all requests is `best`.
    fn finds(&self, own: f32, best: f32) -> f32 {
        ((own / best.max(f32::MIN_POSITIVE) - self.finds_from) / (self.finds_to - self.finds_from)).clamp(0.0, 1.0)
    }

    /// Returns how far the vector of a query can be trusted, 0 to 1, if the share `known` of its
    /// words is known.
    pub(crate) fn trust(&self, known: f32) -> f32 {
        ((known - self.known_from) / (self.known_to - self.known_from)).clamp(0.0, 1.0)
    }
}

/// The similarities of all tools to one vector.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// A similarity for each tool, 0 if it is hidden.
    pub(crate) values: Vec<f32>,
    /// The highest similarity.
    pub(crate) best: f32,
}

/// The similarities by one model. Several can be blended.
#[derive(Debug, Default)]
pub(crate) struct SimilaritySource {
    /// The weight, relative to words.
    weight: f32,
    requests: f32,
    least: f32,
    /// The layer of the whole query first, then those of its requests.
    pub(crate) layers: Vec<Layer>,
    /// How well each request finds tools, 0 to 1; 1 if there is no number.
    finds: Vec<f32>,
}

impl SimilaritySource {
    /// Applies the settings for a query whose vector has this trust.
    pub(crate) fn set(&mut self, settings: &FusionSettings, trust: f32) {
        self.weight = settings.similarity * trust;
        self.requests = settings.requests;
        self.least = settings.least_similarity;
        self.finds.clear();
    }

    /// Judges the requests by their layers: a request that finds nothing does not count, and if
    /// only one finds something, the query counts as one request.
    pub(crate) fn judge_requests(&mut self, settings: &FusionSettings) {
        let Some((_, requests)) = self.layers.split_first().filter(|(_, requests)| !requests.is_empty()) else {
            return;
        };
        let best = requests.iter().map(|layer| layer.best).fold(0.0, f32::max);
        self.finds.clear();
        self.finds.extend(requests.iter().map(|layer| settings.finds(layer.best, best)));
        let mut ordered = self.finds.clone();
        ordered.sort_unstable_by(|a, b| b.total_cmp(a));
        self.requests = settings.requests * ordered.get(1).copied().unwrap_or(0.0);
    }

    /// Returns how well a request finds tools, 0 to 1.
    fn finds(&self, request: usize) -> f32 {
        self.finds.get(request).copied().unwrap_or(1.0)
    }

    /// Sets precomputed shares, those of the whole query first, with their weight and the part of
    /// it that is by requests.
    pub(crate) fn set_shares(&mut self, weight: f32, requests: f32, shares: Vec<Vec<f32>>) {
        (self.weight, self.requests, self.least) = (weight, requests, 0.0);
        self.layers = shares.into_iter().map(|values| Layer { values, best: 1.0 }).collect();
    }

    /// Returns the weight, relative to words.
    pub(crate) fn weight(&self) -> f32 {
        self.weight
    }

    /// Returns the tool's share of the best, 0 to 1.
    pub(crate) fn share(&self, tool: usize) -> f32 {
        let Some((whole, requests)) = self.layers.split_first() else { return 0.0 };
        let share = |layer: &Layer| layer.values[tool] / layer.best.max(self.least);
        let best = requests.iter().enumerate().map(|(at, layer)| self.finds(at) * share(layer)).reduce(f32::max);
        best.map_or(share(whole), |best| (1.0 - self.requests) * share(whole) + self.requests * best).clamp(0.0, 1.0)
    }

    /// Returns whether the query has several requests.
    pub(crate) fn has_requests(&self) -> bool {
        self.layers.len() > 1
    }

    /// Returns the tool's similarity to the whole query.
    pub(crate) fn whole(&self, tool: usize) -> f32 {
        self.layers.first().map_or(0.0, |layer| layer.values[tool])
    }

    /// Writes the highest similarity to the query or to one of its requests for a block of tools
    /// from `first` on.
    pub(crate) fn nearest_in(&self, first: usize, out: &mut [f32]) {
        for (at, layer) in self.layers.iter().enumerate() {
            for (out, value) in out.iter_mut().zip(&layer.values[first..]) {
                *out = if at == 0 { *value } else { out.max(*value) };
            }
        }
    }

    /// Adds the weighted shares of a block of tools to `scores`, and marks those that are near
    /// enough to be hits.
    fn add(&self, first: usize, scores: &mut [f32], is_near: &mut [bool]) {
        let Some((whole, requests)) = self.layers.split_first().filter(|_| self.weight > 0.0) else { return };
        let tools = first..first + scores.len();
        let whole_share = self.weight * if requests.is_empty() { 1.0 } else { 1.0 - self.requests };
        let mut shares = [0.0_f32; BLOCK];
        let unit = 1.0 / whole.best.max(self.least);
        for ((share, value), is_near) in shares.iter_mut().zip(&whole.values[tools.clone()]).zip(&mut *is_near) {
            *share = whole_share * value * unit;
            *is_near |= value * unit >= NEAR;
        }
        let mut best = [f32::MIN; BLOCK];
        for (at, request) in requests.iter().enumerate() {
            let unit = self.finds(at) / request.best.max(self.least);
            for ((best, value), is_near) in best.iter_mut().zip(&request.values[tools.clone()]).zip(&mut *is_near) {
                *best = best.max(value * unit);
                *is_near |= value * unit >= NEAR;
            }
        }
        let request_share = if requests.is_empty() { 0.0 } else { self.weight * self.requests };
        for ((score, share), best) in scores.iter_mut().zip(&shares).zip(&best) {
            *score += (share + if request_share > 0.0 { request_share * best } else { 0.0 }).max(0.0);
        }
    }
}

/// Blends lexical scores and similarities.
#[derive(Debug)]
pub(crate) struct Blend<'a> {
    sources: &'a [SimilaritySource],
    /// Factor from a lexical score to a share of the best one.
    lexical_unit: f32,
    /// The sum of all weights.
    weights: f32,
}

impl<'a> Blend<'a> {
    /// Blends lexical scores, the best of which is `best_lexical`, with `sources`.
    pub(crate) fn new(best_lexical: f32, sources: &'a [SimilaritySource]) -> Self {
        let lexical_unit = if best_lexical > 0.0 { 1.0 / best_lexical } else { 0.0 };
        Self { sources, lexical_unit, weights: 1.0 + sources.iter().map(|source| source.weight).sum::<f32>() }
    }

    /// Returns the part of a score that is due to one of the sources.
    pub(crate) fn part(&self, source: usize, tool: usize) -> f32 {
        let given = self.sources.get(source).filter(|source| source.weight > 0.0);
        given.map_or(0.0, |source| BELOW_NAMED * source.weight * source.share(tool) / self.weights)
    }

    /// Returns the part of a score that is due to words.
    pub(crate) fn lexical_part(&self, lexical: f32) -> f32 {
        BELOW_NAMED * (lexical * self.lexical_unit) / self.weights
    }

    /// Computes the scores of a block of tools from `first` on. Tools that are not hits, or have a
    /// negative lexical score, get -1.
    pub(crate) fn scores(&self, first: usize, lexical: &[f32], scores: &mut [f32; BLOCK]) {
        let mut is_hit = [false; BLOCK];
        let count = lexical.len().min(BLOCK);
        for ((score, lexical), is_hit) in scores.iter_mut().zip(lexical).zip(&mut is_hit) {
            *score = lexical * self.lexical_unit;
            *is_hit = *lexical > 0.0;
        }
        for source in self.sources {
            source.add(first, &mut scores[..count], &mut is_hit[..count]);
        }
        for (at, (score, is_hit)) in scores.iter_mut().zip(&is_hit).enumerate() {
            let counts = *is_hit && lexical.get(at).is_some_and(|lexical| *lexical >= 0.0);
            *score = if counts { BELOW_NAMED * *score / self.weights } else { -1.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: FusionSettings = FusionSettings {
        similarity: 1.75,
        requests: 0.75,
        least_similarity: 0.25,
        finds_from: 0.3,
        finds_to: 0.6,
        known_from: 0.5,
        known_to: 0.9,
    };

    /// The fourth tool is named outright.
    const LEXICAL: [f32; 5] = [0.5, 0.2, 0.0, -1.0, 0.1];

    const WHOLE: &[f32] = &[0.3, 0.6, 0.1, 0.2, -0.1];

    const REQUESTS: [&[f32]; 2] = [&[0.1, 0.5, 0.2, 0.1, 0.0], &[0.05, 0.1, 0.2, 0.15, -0.2]];

    /// What `train/fusion.py` gives; -1 where a tool is no hit or has its score already.
    #[track_caller]
    fn check(layers: &[&[f32]], known: f32, expected: [f32; 5]) {
        let layer =
            |values: &&[f32]| Layer { best: values.iter().copied().fold(0.0, f32::max), values: values.to_vec() };
        let mut source = SimilaritySource { layers: layers.iter().map(layer).collect(), ..SimilaritySource::default() };
        source.set(&SETTINGS, if layers.is_empty() { 0.0 } else { SETTINGS.trust(known) });
        source.judge_requests(&SETTINGS);
        let sources = [source];
        let blend = Blend::new(0.5, &sources);
        let mut scores = [0.0; BLOCK];
        blend.scores(0, &LEXICAL, &mut scores);
        for (score, expected) in scores.iter().zip(expected) {
            assert!((score - expected).abs() < 1e-5, "{:?}", &scores[..5]);
        }
        assert!(scores[5..].iter().all(|score| *score == -1.0));
    }

    #[test]
    fn words_and_one_request() {
        check(&[WHOLE], 1.0, [0.606_818, 0.695_818, -1.0, -1.0, 0.064_728]);
    }

    #[test]
    fn several_requests_that_are_half_trusted() {
        check(&[WHOLE, REQUESTS[0], REQUESTS[1]], 0.8, [0.599_547, 0.659_081, -1.0, -1.0, 0.076_973]);
    }

    #[test]
    fn a_request_that_finds_nothing_does_not_count() {
        let far: &[f32] = &[0.0125, 0.025, 0.05, 0.0375, -0.05];
        check(&[WHOLE, REQUESTS[0], far], 0.8, [0.637_432, 0.659_081, -1.0, -1.0, 0.076_973]);
        check(&[WHOLE], 0.8, [0.637_432, 0.659_081, -1.0, -1.0, 0.076_973]);
    }

    #[test]
    fn without_trust_or_vectors_words_decide() {
        check(&[WHOLE, REQUESTS[0]], 0.5, [0.890_000, 0.356_000, -1.0, -1.0, 0.178_000]);
        check(&[], 1.0, [0.890_000, 0.356_000, -1.0, -1.0, 0.178_000]);
    }
}
