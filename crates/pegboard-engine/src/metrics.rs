//! Quality metrics of rankings against labelled queries.

use std::collections::{HashMap, HashSet};

/// Sums of the metrics over queries; [`mean`](Self::mean) divides them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Recall among the first hit.
    pub recall_at_1: f64,
    /// Recall among the first five hits.
    pub recall_at_5: f64,
    /// Recall among the first ten hits.
    pub recall_at_10: f64,
    /// Normalised discounted cumulative gain of the first ten, with graded relevance.
    pub ndcg_at_10: f64,
    /// The reciprocal rank of the first relevant tool.
    pub mrr: f64,
}

impl Quality {
    /// Computes the metrics of one ranking; `relevant` maps tool ids to a relevance above zero.
    ///
    /// ```
    /// use pegboard_engine::metrics::Quality;
    ///
    /// let relevant = [("a".to_owned(), 1.0), ("b".to_owned(), 1.0)].into();
    /// let quality = Quality::of(["x", "a"], &relevant);
    /// assert_eq!((quality.recall_at_1, quality.recall_at_5, quality.mrr), (0.0, 0.5, 0.5));
    /// ```
    pub fn of<'a>(ranked: impl IntoIterator<Item = &'a str>, relevant: &HashMap<String, f64>) -> Self {
        let mut quality = Self::default();
        if relevant.is_empty() {
            return quality;
        }
        let mut seen = HashSet::new();
        let mut gain = 0.0;
        for (rank, id) in ranked.into_iter().enumerate() {
            let Some(relevance) = relevant.get(id).filter(|_| seen.insert(id)) else { continue };
            let share = 1.0 / relevant.len() as f64;
            quality.recall_at_1 += if rank < 1 { share } else { 0.0 };
            quality.recall_at_5 += if rank < 5 { share } else { 0.0 };
            quality.recall_at_10 += if rank < 10 { share } else { 0.0 };
            gain += if rank < 10 { discounted(*relevance, rank) } else { 0.0 };
            if quality.mrr == 0.0 {
                quality.mrr = 1.0 / (rank + 1) as f64;
            }
        }
        let mut ideal: Vec<f64> = relevant.values().copied().collect();
        ideal.sort_by(|a, b| b.total_cmp(a));
        let ideal: f64 = ideal.iter().take(10).enumerate().map(|(rank, relevance)| discounted(*relevance, rank)).sum();
        quality.ndcg_at_10 = if ideal > 0.0 { gain / ideal } else { 0.0 };
        quality
    }

    /// Adds the metrics of another query.
    pub fn add(&mut self, other: Self) {
        self.recall_at_1 += other.recall_at_1;
        self.recall_at_5 += other.recall_at_5;
        self.recall_at_10 += other.recall_at_10;
        self.ndcg_at_10 += other.ndcg_at_10;
        self.mrr += other.mrr;
    }

    /// Returns the averages over `queries` queries.
    #[must_use]
    pub fn mean(self, queries: usize) -> Self {
        let n = queries.max(1) as f64;
        Self {
            recall_at_1: self.recall_at_1 / n,
            recall_at_5: self.recall_at_5 / n,
            recall_at_10: self.recall_at_10 / n,
            ndcg_at_10: self.ndcg_at_10 / n,
            mrr: self.mrr / n,
        }
    }
}

fn discounted(relevance: f64, rank: usize) -> f64 {
    relevance / ((rank + 2) as f64).log2()
}

/// Returns the percentile `share` of the sorted `samples`; 0 without samples.
pub fn percentile(samples: &[f64], share: f64) -> f64 {
    let last = samples.len().saturating_sub(1);
    samples.get(((last as f64) * share).round() as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graded_relevance_counts_in_the_gain() {
        let relevant = HashMap::from([("best".to_owned(), 2.0), ("good".to_owned(), 1.0)]);
        let ideal = Quality::of(["best", "good"], &relevant);
        assert!((ideal.ndcg_at_10 - 1.0).abs() < 1e-12);
        let swapped = Quality::of(["good", "best"], &relevant);
        assert!(swapped.ndcg_at_10 < 1.0 && swapped.recall_at_5 == 1.0 && swapped.mrr == 1.0);
    }

    #[test]
    fn a_repeated_hit_counts_once() {
        let relevant = HashMap::from([("a".to_owned(), 1.0)]);
        assert_eq!(Quality::of(["a", "a"], &relevant).recall_at_5, 1.0);
    }

    #[test]
    fn percentiles() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!((percentile(&samples, 0.5), percentile(&samples, 0.99), percentile(&[], 0.5)), (3.0, 5.0, 0.0));
    }
}
