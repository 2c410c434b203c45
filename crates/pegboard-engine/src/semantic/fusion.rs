//! How lexical scores and similarities become one score.

use serde::Deserialize;

use super::header::is_share;

/// The scale below tools that the query names outright.
pub(crate) const BELOW_NAMED: f32 = 0.9;

/// The coefficients of fusion, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct FusionSettings {
    /// What similarity counts beside words.
    pub(crate) similarity: f32,
    /// How much of it comes from the request that a tool serves best.
    pub(crate) requests: f32,
    /// The similarity that the best tool is taken to have at least, and that makes a tool a
    /// hit without a common word.
    pub(crate) least_similarity: f32,
    /// The share of known words up to which similarity has no weight.
    pub(crate) known_from: f32,
    /// The share of known words from which on it has all of it.
    pub(crate) known_to: f32,
}

impl FusionSettings {
    pub(super) fn is_sound(&self) -> bool {
        is_share(self.similarity)
            && (0.0..=1.0).contains(&self.requests)
            && (1e-3..=1.0).contains(&self.least_similarity)
            && (0.0..1.0).contains(&self.known_from)
            && self.known_to > self.known_from
            && self.known_to <= 1.0
    }
}
