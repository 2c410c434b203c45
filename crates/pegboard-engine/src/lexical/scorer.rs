//! Scores the tools of a view, term by term.

use std::cmp::Ordering;

use super::{
    index::View,
    plan::{NOT_THERE, Terms},
    segment::FULL_IMPACT,
};

/// A tool with its score, by its place in the view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) score: f32,
    pub(super) part: u32,
    pub(super) doc: u32,
}

/// Keeps its buffers between queries; all scores are zero between calls.
#[derive(Debug, Default)]
pub(super) struct Scorer {
    scores: Vec<f32>,
    touched: Vec<u64>,
    /// The best tools of the last [`run`](Self::run), best first.
    pub(super) best: Vec<Candidate>,
}

impl Scorer {
    /// Adds up the `terms` (number, weight) of `table` over all visible tools, keeps the
    /// `limit` best in [`best`](Self::best), and says how many match at all.
    pub(super) fn run(
        &mut self,
        view: &View<'_>,
        table: &Terms,
        terms: impl Iterator<Item = (usize, f32)> + Clone,
        limit: usize,
    ) -> usize {
        self.best.clear();
        let mut total = 0;
        let mut bar = f32::MIN;
        for (at, part) in view.parts.iter().enumerate() {
            let tools = part.segment.tools.len();
            if self.scores.len() < tools {
                self.scores.resize(tools, 0.0);
                self.touched.resize(tools.div_ceil(64), 0);
            }
            for (term, weight) in terms.clone() {
                let number = table.numbers(term)[at];
                if number == NOT_THERE {
                    continue;
                }
                let postings = part.segment.postings(number);
                let weight = weight / FULL_IMPACT;
                for (doc, impact) in postings.docs.iter().zip(postings.impacts) {
                    self.scores[*doc as usize] += weight * f32::from(*impact);
                    self.touched[*doc as usize / 64] |= 1 << (doc % 64);
                }
            }
            for word in 0..tools.div_ceil(64) {
                let mut bits = std::mem::take(&mut self.touched[word]);
                while bits != 0 {
                    let doc = (word * 64) as u32 + bits.trailing_zeros();
                    bits &= bits - 1;
                    let score = std::mem::take(&mut self.scores[doc as usize]);
                    if part.visible.as_ref().is_some_and(|visible| !visible.contains(doc)) {
                        continue;
                    }
                    total += 1;
                    if score >= bar {
                        self.best.push(Candidate { score, part: at as u32, doc });
                        if self.best.len() >= limit.saturating_mul(2).max(64) {
                            bar = self.keep_best(view, limit);
                        }
                    }
                }
            }
        }
        self.keep_best(view, limit);
        self.best.sort_unstable_by(|a, b| compare(view, a, b));
        total
    }

    /// Drops all but the `limit` best; the score that a further tool must reach.
    fn keep_best(&mut self, view: &View<'_>, limit: usize) -> f32 {
        if limit == 0 {
            self.best.clear();
            return f32::MAX;
        }
        if self.best.len() <= limit {
            return f32::MIN;
        }
        self.best.select_nth_unstable_by(limit - 1, |a, b| compare(view, a, b));
        self.best.truncate(limit);
        self.best[limit - 1].score
    }
}

/// Best first; equal scores by name, and equal names by identity.
pub(super) fn compare(view: &View<'_>, a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then_with(|| {
        let tool = |c: &Candidate| &view.parts[c.part as usize].segment.tools[c.doc as usize];
        let (a, b) = (tool(a), tool(b));
        a.name().cmp(b.name()).then_with(|| a.id().cmp(b.id()))
    })
}
