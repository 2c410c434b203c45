//! How likely it is that the best hit is what was asked for.

use serde::Deserialize;

use super::table::{BLOCK, Similarity, Vectors};

/// So many similarities make up [`Evidence::near`] and [`Evidence::far`].
const BEST: usize = 5;

/// The coefficients of confidence, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ConfidenceSettings {
    bias: f64,
    lexical: f64,
    similarity: f64,
    whole: f64,
    near: f64,
    background: f64,
    tools: f64,
    words_bias: f64,
    words_lexical: f64,
    words_tools: f64,
    /// Smaller catalogs count as this large, larger ones as `tools_to`.
    tools_from: f64,
    tools_to: f64,
    /// Below this nothing fits.
    pub(crate) nothing_below: f64,
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
    /// How near it is to the query as a whole.
    pub(crate) whole: f64,
    /// How near the nearest visible tools are.
    pub(crate) near: f64,
    /// How near the nearest of what tools in general are about is.
    pub(crate) far: f64,
    /// How many tools are visible.
    pub(crate) tools: usize,
    /// How far the query's vector can be trusted, 0 to 1.
    pub(crate) trust: f64,
}

impl ConfidenceSettings {
    pub(super) fn is_sound(&self) -> bool {
        let coefficients = [
            self.bias,
            self.lexical,
            self.similarity,
            self.whole,
            self.near,
            self.background,
            self.tools,
            self.words_bias,
            self.words_lexical,
            self.words_tools,
        ];
        coefficients.iter().all(|number| (-1e6..=1e6).contains(number))
            && self.tools_from >= 1.0
            && (self.tools_from..=1e9).contains(&self.tools_to)
            && (0.0..=1.0).contains(&self.nothing_below)
    }

    /// 0 to 1. As far as the query's vector cannot be trusted, words alone decide: a query in a
    /// language that the model does not read is judged by what its words find.
    pub(crate) fn confidence(&self, evidence: &Evidence) -> f64 {
        if evidence.is_named {
            return 1.0;
        }
        let tools = (evidence.tools as f64).clamp(self.tools_from, self.tools_to).ln();
        let meaning = self.bias
            + self.lexical * evidence.lexical
            + self.similarity * evidence.similarity
            + self.whole * evidence.whole
            + self.near * evidence.near
            + self.background * evidence.far
            + self.tools * tools;
        let words = self.words_bias + self.words_lexical * evidence.lexical + self.words_tools * tools;
        let total = evidence.trust * meaning + (1.0 - evidence.trust) * words;
        1.0 / (1.0 + (-total).exp())
    }
}

/// The highest of many similarities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nearest {
    /// Highest first.
    best: [f32; BEST],
    count: usize,
}

impl Nearest {
    /// What a similarity must exceed to be among them.
    pub(crate) fn bar(&self) -> f32 {
        if self.count < BEST { f32::NEG_INFINITY } else { self.best[BEST - 1] }
    }

    pub(crate) fn add(&mut self, similarity: f32) {
        if similarity <= self.bar() {
            return;
        }
        let place = self.best[..self.count].partition_point(|known| *known >= similarity);
        self.count = (self.count + 1).min(BEST);
        self.best[place..self.count].rotate_right(1);
        self.best[place] = similarity;
    }

    /// Their mean; 0 if there are none.
    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = self.best[..self.count].iter().copied().map(f64::from).sum();
        sum / self.count.max(1) as f64
    }
}

/// How near the nearest of `vectors` are to any of `queries`.
pub(super) fn nearest_of(vectors: &Vectors, queries: &[Similarity<'_>]) -> Nearest {
    let mut nearest = Nearest::default();
    for block in 0..vectors.len().div_ceil(BLOCK) {
        let count = BLOCK.min(vectors.len() - BLOCK * block);
        let mut highest = [f32::NEG_INFINITY; BLOCK];
        for query in queries {
            let mut values = [0.0; BLOCK];
            vectors.block(*query, block, &mut values);
            highest.iter_mut().zip(values).for_each(|(highest, value)| *highest = highest.max(value));
        }
        highest[..count].iter().for_each(|value| nearest.add(*value));
    }
    nearest
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{super::Model, *};

    #[derive(Deserialize)]
    struct Line {
        lexical: f64,
        similarity: f64,
        whole: f64,
        near: f64,
        far: f64,
        tools: usize,
        known: f32,
        confidence: f64,
    }

    /// What the reference in Python makes of the same evidence.
    #[test]
    fn the_reference_agrees() {
        let model = Model::embedded();
        let sample = include_str!("../../../../train/confidence.jsonl");
        let lines: Vec<Line> = sample.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(lines.len() > 40);
        for line in lines {
            let Line { lexical, similarity, whole, near, far, tools, .. } = line;
            let trust = f64::from(model.fusion().trust(line.known));
            let is_named = lexical >= 0.9;
            let evidence = Evidence { is_named, lexical, similarity, whole, near, far, tools, trust };
            let found = model.confidence().confidence(&evidence);
            assert!((found - line.confidence).abs() < 1e-6, "{evidence:?}: {found} instead of {}", line.confidence);
        }
    }

    #[test]
    fn the_nearest_are_kept() {
        let check = |similarities: &[f32], mean: f64| {
            let mut nearest = Nearest::default();
            similarities.iter().for_each(|similarity| nearest.add(*similarity));
            assert!((nearest.mean() - mean).abs() < 1e-6, "{similarities:?}: {nearest:?}");
        };
        check(&[], 0.0);
        check(&[-0.5], -0.5);
        check(&[0.25, -0.25, 0.75], 0.25);
        check(&[0.0, 1.0, 1.0, 0.5, 0.25, 0.25, -1.0], 0.6);
        check(&[0.25, 0.5, 0.0, 1.0, 0.25, 1.0, -1.0], 0.6);
    }
}
