//! The confidence: the probability that the best hit is right.

use serde::Deserialize;

use super::second_look::LookFindings;
use crate::{
    actions::Clash,
    semantic::{BLOCK, Similarity, Vectors},
};

/// Number of similarities in [`ConfidenceEvidence::near`] and [`ConfidenceEvidence::far`].
const BEST: usize = 5;

/// Factor on the confidence in a tool that changes something other than what the query asks for.
const HARM_SHARE: f64 = 0.05;

/// The coefficients of confidence, from the model file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ConfidenceSettings {
    /// For short queries, which got a second look.
    short: ConfidenceRule,
    /// For all others.
    long: ConfidenceRule,
    /// For queries that the model cannot read.
    words: ConfidenceRule,
    /// Smaller catalogs count as this size, larger ones as `tools_to`.
    tools_from: f64,
    tools_to: f64,
    /// The confidence below which nothing matches: in the smallest catalogs and in the largest.
    nothing_below: [f64; 2],
}

/// The coefficient of each piece of [`ConfidenceEvidence`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ConfidenceRule {
    bias: f64,
    share: f64,
    margin: f64,
    lexical: f64,
    whole: f64,
    near: f64,
    background: f64,
    tools: f64,
    text: f64,
    worst: f64,
    name: f64,
    action: f64,
    clash: f64,
    length: f64,
    known: f64,
}

/// The inputs of the confidence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConfidenceEvidence {
    /// Whether the query names the best hit exactly.
    pub(crate) is_named: bool,
    /// Its lead over the others.
    pub(crate) lead: ScoreLead,
    /// Its lexical score.
    pub(crate) lexical: f64,
    /// Its similarity to the whole query.
    pub(crate) whole: f64,
    /// The highest similarities of visible tools.
    pub(crate) near: f64,
    /// The highest similarities of background vectors.
    pub(crate) far: f64,
    /// Number of visible tools.
    pub(crate) tools: usize,
    /// What the second look found in it.
    pub(crate) seen: LookFindings,
    /// Number of words in the query.
    pub(crate) words: usize,
    /// The share of them that the model knows.
    pub(crate) known: f64,
    /// How far the query's vector can be trusted, 0 to 1.
    pub(crate) trust: f64,
    /// The weight of the second look, 0 to 1.
    pub(crate) look_share: f64,
}

/// The lead of the best hit over the others, with scores converted to probabilities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScoreLead {
    /// Its share of the probability.
    pub(crate) share: f64,
    /// The difference to the share of the second hit.
    pub(crate) margin: f64,
}

impl ScoreLead {
    /// Computes the lead from `scores`, best first, in units of the logarithm.
    pub(crate) fn of(scores: impl Iterator<Item = f64> + Clone) -> Self {
        let first = scores.clone().next().unwrap_or_default();
        let mut parts = scores.map(|score| (score - first).exp());
        let (best, second) = (parts.next().unwrap_or(1.0), parts.next().unwrap_or_default());
        let total = best + second + parts.sum::<f64>();
        Self { share: best / total, margin: (best - second) / total }
    }
}

impl ConfidenceRule {
    fn is_sound(&self) -> bool {
        self.terms(&ConfidenceEvidence::default(), 1.0)
            .iter()
            .all(|(coefficient, _)| (-1e6..=1e6).contains(coefficient))
    }

    /// Returns each coefficient with its factor; `tools` is the size of the catalog, clamped to the
    /// measured range.
    fn terms(&self, evidence: &ConfidenceEvidence, tools: f64) -> [(f64, f64); 15] {
        [
            (self.bias, 1.0),
            (self.share, evidence.lead.share.max(1e-6).ln()),
            (self.margin, evidence.lead.margin),
            (self.lexical, evidence.lexical),
            (self.whole, evidence.whole),
            (self.near, evidence.near),
            (self.background, evidence.far),
            (self.tools, tools.ln()),
            (self.text, evidence.seen.text),
            (self.worst, evidence.seen.worst),
            (self.name, evidence.seen.name),
            (self.action, evidence.seen.action),
            (self.clash, f64::from(u8::from(evidence.seen.clash != Clash::None))),
            (self.length, (evidence.words.max(1) as f64).ln()),
            (self.known, evidence.known),
        ]
    }

    fn sum(&self, evidence: &ConfidenceEvidence, tools: f64) -> f64 {
        self.terms(evidence, tools).iter().map(|(coefficient, value)| coefficient * value).sum()
    }
}

impl ConfidenceSettings {
    pub(crate) fn is_sound(&self) -> bool {
        [self.short, self.long, self.words].iter().all(ConfidenceRule::is_sound)
            && self.tools_from >= 1.0
            && self.tools_to > self.tools_from
            && self.tools_to <= 1e9
            && self.nothing_below.iter().all(|bar| (0.0..=1.0).contains(bar))
    }

    /// Returns the confidence below which nothing matches in a catalog of so many tools. The more
    /// tools there are, the more likely one of them matches.
    pub(crate) fn nothing_below(&self, tools: usize) -> f64 {
        let [small, large] = self.nothing_below;
        let size = (self.tools(tools) / self.tools_from).ln() / (self.tools_to / self.tools_from).ln();
        small + (large - small) * size
    }

    fn tools(&self, tools: usize) -> f64 {
        (tools as f64).clamp(self.tools_from, self.tools_to)
    }

    /// Returns the confidence, 0 to 1. As far as the query's vector cannot be trusted, only words
    /// decide: a query in a language that the model does not read is judged by the words it finds.
    pub(crate) fn confidence(&self, evidence: &ConfidenceEvidence) -> f64 {
        if evidence.is_named {
            return 1.0;
        }
        let tools = self.tools(evidence.tools);
        let (short, long) = (self.short.sum(evidence, tools), self.long.sum(evidence, tools));
        let meaning = evidence.look_share * short + (1.0 - evidence.look_share) * long;
        let total = evidence.trust * meaning + (1.0 - evidence.trust) * self.words.sum(evidence, tools);
        let confidence = 1.0 / (1.0 + (-total).exp());
        if evidence.seen.clash == Clash::Harm { confidence * HARM_SHARE } else { confidence }
    }
}

/// The highest of many similarities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nearest {
    /// In descending order.
    best: [f32; BEST],
    count: usize,
}

impl Nearest {
    /// Returns the value that a similarity must exceed to be included.
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

    /// Returns the mean; 0 if there are none.
    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = self.best[..self.count].iter().copied().map(f64::from).sum();
        sum / self.count.max(1) as f64
    }
}

/// Returns the highest similarities of `vectors` to any of `queries`.
pub(crate) fn nearest_of(vectors: &Vectors, queries: &[Similarity<'_>]) -> Nearest {
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

    use super::*;
    use crate::semantic::Model;

    #[derive(Deserialize)]
    struct Line {
        share: f64,
        margin: f64,
        lexical: f64,
        whole: f64,
        near: f64,
        far: f64,
        text: f64,
        worst: f64,
        name: f64,
        action: f64,
        clash: String,
        tools: usize,
        words: usize,
        known: f64,
        look_share: f64,
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
            let Line { share, margin, lexical, whole, near, far, text, worst, name, action, .. } = line;
            let clash = match line.clash.as_str() {
                "harm" => Clash::Harm,
                "other" => Clash::Other,
                _ => Clash::None,
            };
            let Line { tools, words, known, look_share, .. } = line;
            let evidence = ConfidenceEvidence {
                is_named: lexical >= 0.9,
                lead: ScoreLead { share, margin },
                lexical,
                whole,
                near,
                far,
                tools,
                seen: LookFindings { text, worst, name, action, clash },
                words,
                known,
                trust: f64::from(model.fusion().trust(known as f32)),
                look_share,
            };
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
