//! How likely it is that the best hit is what was asked for.

use serde::Deserialize;

/// The coefficients of confidence, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ConfidenceSettings {
    bias: f64,
    lexical: f64,
    similarity: f64,
    /// Below this nothing fits.
    pub(crate) nothing_below: f64,
}

impl ConfidenceSettings {
    pub(super) fn is_sound(&self) -> bool {
        let is_small = |number: f64| (-1e6..=1e6).contains(&number);
        is_small(self.bias)
            && is_small(self.lexical)
            && is_small(self.similarity)
            && (0.0..=1.0).contains(&self.nothing_below)
    }
}
