//! Scores the tools of a view, term by term.
//!
//! The scores of a segment are one array, and a bit for each tool marks whether its score counts.
//! Terms are added from the rarest to the most common. The best tools for the first term alone set
//! a threshold; from then on a posting is skipped if its tool has no score yet and, even with the
//! highest impact of all further terms, would not reach the threshold. A skipped posting only sets
//! one bit, for the count of matching tools. The result is exactly that of adding up everything.

use std::cmp::Ordering;

use super::{
    index::{IndexView, SegmentView},
    plan::{NOT_THERE, Terms},
    segment::FULL_IMPACT,
};

/// A tool with its score, by its position in the view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) part: u32,
    pub(crate) doc: u32,
}

/// Bounds are summed in another order than scores, and may differ in the last bits.
const SLACK: f32 = 1.0001;

/// Scores tools; reuses its buffers, which are zero between calls.
#[derive(Debug, Default)]
pub(crate) struct Scorer {
    /// A score for each tool of the largest segment.
    scores: Vec<f32>,
    /// A bit for each score that counts.
    scored: Vec<u64>,
    /// A bit for each tool of a posting that was only checked for its impact.
    seen: Vec<u64>,
    /// The terms of this run: number and weight, rarest first.
    order: Vec<(u32, f32)>,
    lists: Vec<List>,
    impacts: Vec<u16>,
    /// The best tools of the last [`run`](Self::run), best first.
    pub(crate) best: Vec<Candidate>,
}

/// A term in the current segment.
#[derive(Clone, Copy, Debug)]
struct List {
    number: u32,
    /// The weight of one unit of impact.
    weight: f32,
    /// The maximum that all later lists together can add.
    rest: f32,
}

impl Scorer {
    /// Adds up the `terms` (number, weight) of `table` over all visible tools, keeps the `limit`
    /// best in [`best`](Self::best), and returns how many match.
    pub(crate) fn run(
        &mut self,
        view: &IndexView<'_>,
        table: &Terms,
        terms: impl Iterator<Item = (usize, f32)>,
        limit: usize,
    ) -> usize {
        self.best.clear();
        self.set_order(terms);
        let mut total = 0;
        for (at, part) in view.parts.iter().enumerate() {
            let tools = part.segment.tools.len();
            if self.scores.len() < tools {
                self.scores.resize(tools, 0.0);
                self.scored.resize(tools.div_ceil(64), 0);
                self.seen.resize(tools.div_ceil(64), 0);
            }
            self.open_lists(table, at, part);
            let bar = self.keep_best(view, limit).max(self.first_bar(part, limit));
            for list in 0..self.lists.len() {
                self.add(part, self.lists[list], bar);
            }
            total += self.collect(view, at, part, limit);
        }
        self.keep_best(view, limit);
        self.best.sort_unstable_by(|a, b| compare(view, a, b));
        total
    }

    /// Adds up the `terms` (number, weight) of `table` for every tool, including hidden ones;
    /// `scores` gets one for each row of the view, 0 without a match.
    pub(crate) fn run_all(
        &mut self,
        view: &IndexView<'_>,
        table: &Terms,
        terms: impl Iterator<Item = (usize, f32)>,
        scores: &mut Vec<f32>,
    ) {
        self.set_order(terms);
        scores.clear();
        scores.resize(view.rows(), 0.0);
        for (at, (first, part)) in view.numbered_parts().enumerate() {
            self.open_lists(table, at, part);
            let scores = &mut scores[first..first + part.segment.tools.len()];
            for list in &self.lists {
                let postings = part.segment.postings(list.number);
                for (doc, impact) in postings.docs.iter().zip(postings.impacts) {
                    scores[*doc as usize] += list.weight * f32::from(*impact);
                }
            }
        }
    }

    /// Orders the terms by weight, highest first.
    fn set_order(&mut self, terms: impl Iterator<Item = (usize, f32)>) {
        self.order.clear();
        self.order.extend(terms.map(|(term, weight)| (term as u32, weight)));
        self.order.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    }

    fn open_lists(&mut self, table: &Terms, at: usize, part: &SegmentView<'_>) {
        self.lists.clear();
        for (term, weight) in &self.order {
            let number = table.numbers(*term as usize)[at];
            if number != NOT_THERE {
                self.lists.push(List { number, weight: weight / FULL_IMPACT, rest: 0.0 });
            }
        }
        let mut rest = 0.0;
        for list in self.lists.iter_mut().rev() {
            list.rest = rest * SLACK;
            rest += list.weight * f32::from(part.segment.peak(list.number));
        }
    }

    /// Returns the score of the `limit`th tool for the first list alone, a lower bound of the
    /// `limit`th score.
    fn first_bar(&mut self, part: &SegmentView<'_>, limit: usize) -> f32 {
        let Some(list) = self.lists.first().filter(|_| self.lists.len() > 1) else { return f32::MIN };
        let postings = part.segment.postings(list.number);
        if limit == 0 || postings.docs.len() < limit {
            return f32::MIN;
        }
        self.impacts.clear();
        let mut lowest = 0;
        for (doc, impact) in postings.docs.iter().zip(postings.impacts) {
            if *impact < lowest || part.visible_word(*doc as usize / 64) >> (doc % 64) & 1 == 0 {
                continue;
            }
            self.impacts.push(*impact);
            if self.impacts.len() >= 2 * limit + 64 {
                lowest = keep_highest(&mut self.impacts, limit);
            }
        }
        if self.impacts.len() < limit {
            return f32::MIN;
        }
        list.weight * f32::from(keep_highest(&mut self.impacts, limit)) / SLACK
    }

    /// Adds one list to the scores of all tools that can still reach `bar`.
    fn add(&mut self, part: &SegmentView<'_>, list: List, bar: f32) {
        let postings = part.segment.postings(list.number);
        let pairs = postings.docs.iter().zip(postings.impacts);
        let lowest = (bar - list.rest) / list.weight;
        if lowest <= 1.0 {
            for (doc, impact) in pairs {
                self.scores[*doc as usize] += list.weight * f32::from(*impact);
                self.scored[*doc as usize / 64] |= 1 << (doc % 64);
            }
            return;
        }
        // Saturates: if a list cannot reach the threshold at all, no impact is high enough.
        let lowest = lowest as u32;
        for (doc, impact) in pairs {
            let (word, bit) = (*doc as usize / 64, 1 << (doc % 64));
            self.seen[word] |= bit;
            if u32::from(*impact) >= lowest || self.scored[word] & bit != 0 {
                self.scores[*doc as usize] += list.weight * f32::from(*impact);
                self.scored[word] |= bit;
            }
        }
    }

    /// Moves high scores to `best` and clears the rest; returns how many visible tools match.
    fn collect(&mut self, view: &IndexView<'_>, at: usize, part: &SegmentView<'_>, limit: usize) -> usize {
        let enough = limit.saturating_mul(2).max(64);
        let mut bar = self.keep_best(view, limit);
        let mut total = 0;
        for word in 0..part.segment.tools.len().div_ceil(64) {
            let mut scored = std::mem::take(&mut self.scored[word]);
            let visible = part.visible_word(word);
            let matching = (scored | std::mem::take(&mut self.seen[word])) & visible;
            total += matching.count_ones() as usize;
            while scored != 0 {
                let bit = scored.trailing_zeros();
                scored &= scored - 1;
                let doc = (word * 64) as u32 + bit;
                let score = std::mem::take(&mut self.scores[doc as usize]);
                if score >= bar && visible >> bit & 1 == 1 {
                    self.best.push(Candidate { score, part: at as u32, doc });
                    if self.best.len() >= enough {
                        bar = self.keep_best(view, limit);
                    }
                }
            }
        }
        total
    }

    /// Drops all but the `limit` best; returns the score that a further tool must reach.
    pub(crate) fn keep_best(&mut self, view: &IndexView<'_>, limit: usize) -> f32 {
        if limit == 0 {
            self.best.clear();
            return f32::MAX;
        }
        if self.best.len() < limit {
            return f32::MIN;
        }
        self.best.select_nth_unstable_by(limit - 1, |a, b| compare(view, a, b));
        self.best.truncate(limit);
        self.best[limit - 1].score
    }
}

/// Drops all but the `count` highest; returns the lowest of them.
fn keep_highest(impacts: &mut Vec<u16>, count: usize) -> u16 {
    let (_, lowest, _) = impacts.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    let lowest = *lowest;
    impacts.truncate(count);
    lowest
}

/// Compares candidates: best first, equal scores by name, and equal names by identity.
pub(crate) fn compare(view: &IndexView<'_>, a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then_with(|| {
        let tool = |c: &Candidate| &view.parts[c.part as usize].segment.tools[c.doc as usize];
        let (a, b) = (tool(a), tool(b));
        a.name().cmp(b.name()).then_with(|| a.id().cmp(b.id()))
    })
}
