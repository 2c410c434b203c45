//! How likely it is that the best hit is what was asked for.

use serde::Deserialize;

/// The coefficients of confidence, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ConfidenceSettings {
    bias: f64,
    lexical: f64,
    similarity: f64,
    /// Below this nothing fits.
    nothing_below: f64,
}

/// What there is to judge by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Whether the query names the best hit outright.
    pub(crate) is_named: bool,
    /// What its words score.
    pub(crate) lexical: f64,
    /// How near it is to the query, or to the nearest of its requests.
    pub(crate) similarity: f64,
    /// How far the query's vector can be trusted, 0 to 1.
    pub(crate) trust: f64,
}

impl ConfidenceSettings {
    pub(super) fn is_sound(&self) -> bool {
        let is_small = |number: f64| (-1e6..=1e6).contains(&number);
        is_small(self.bias)
            && is_small(self.lexical)
            && is_small(self.similarity)
            && (0.0..=1.0).contains(&self.nothing_below)
    }

    /// 0 to 1. Without a vector to trust it is the lexical score, which is all there is.
    pub(crate) fn confidence(&self, evidence: &Evidence) -> f64 {
        if evidence.is_named {
            return 1.0;
        }
        if evidence.trust == 0.0 {
            return evidence.lexical;
        }
        let total = self.bias + self.lexical * evidence.lexical + self.similarity * evidence.similarity;
        1.0 / (1.0 + (-total).exp())
    }

    /// The confidence below which nothing fits. The fewer words of a query the model knows, the
    /// less it can say that nothing fits: a query in a language that it does not read is
    /// answered with what its words find.
    pub(crate) fn nothing_below(&self, trust: f64) -> f64 {
        self.nothing_below * trust
    }
}
