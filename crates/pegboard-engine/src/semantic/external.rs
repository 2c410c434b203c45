//! What somebody else's model makes of a query and of the tools.
//!
//! Its cosines are on a scale of their own: with one model strangers are at 0.0, with another
//! at 0.8. So a tool's share is where it lies between the mean of all tools and the best of
//! them, which means the same for every model.

use std::sync::{Arc, PoisonError, RwLock};

use pegboard_core::{Tool, ToolVectors, vectors::Direction};

use super::fusion::Source;

/// What its shares count beside words, which count 1, and beside our own model. Both together
/// were better on families that our model had not seen than either alone; see the model card.
const WEIGHT: f32 = 0.9;

/// What they count where our own model knows none of the query's words; in between, in between.
/// A query in a language that only they read is theirs.
const WEIGHT_ALONE: f32 = 1.75;

/// How much of that is left for a query that asks for several things: our model is asked for
/// each of them, this one for all of them at once.
const SEVERAL: f32 = 0.5;

/// The best tool is taken to be at least so much nearer than the mean, so that noise among
/// tools that are all equally far is not stretched.
const LEAST_SPREAD: f32 = 0.05;

/// What one is as a whole number, when cosines are added up.
const FIXED: f64 = (1_u64 << 32) as f64;

/// The vectors of tools, replaced whole while searches go on.
#[derive(Debug, Default)]
pub(crate) struct ExternalTable(RwLock<Arc<ToolVectors>>);

impl ExternalTable {
    pub(crate) fn current(&self) -> Arc<ToolVectors> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, vectors: &Arc<ToolVectors>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(vectors);
    }
}

/// A query's vector, and those of tools by the same model.
#[derive(Debug)]
pub(crate) struct External<'a> {
    table: &'a ToolVectors,
    query: Direction,
}

impl<'a> External<'a> {
    /// `None` when the two cannot be compared: another length, or nothing to compare.
    pub(crate) fn new(table: &'a ToolVectors, vector: &[f32]) -> Option<Self> {
        let query = Direction::of(vector).filter(|query| query.dimensions() == table.dimensions())?;
        Some(Self { table, query })
    }

    /// Fills `source` with the shares of all rows: `tools` are runs of rows, each with the
    /// number of its first one and with which of them are visible.
    ///
    /// A tool without a vector, one that was not embedded yet, gets the share that our own
    /// model gives it, and where that has none, the share that its words give it. So it stands
    /// where it would stand without the other model, among tools that the other model may move.
    pub(crate) fn fill<'t, V: Fn(usize) -> bool>(
        &self,
        source: &mut Source,
        own: &Source,
        trust: f32,
        tools: impl Iterator<Item = (usize, &'t [Arc<Tool>], V)>,
        lexical_share: impl Fn(usize) -> f32,
    ) {
        let (mut shares, mut missing) = (Vec::new(), Vec::new());
        // As whole numbers, so that the order of the tools makes no difference to the last bit.
        let (mut sum, mut count, mut best) = (0_i64, 0_u32, f32::MIN);
        for (first, tools, is_visible) in tools {
            shares.resize(first + tools.len(), f32::MIN);
            for (at, tool) in tools.iter().enumerate().filter(|(at, _)| is_visible(*at)) {
                let Some(row) = self.table.row(tool) else {
                    missing.push(first + at);
                    continue;
                };
                // Rounding may lead beyond one.
                let cosine = self.query.cosine(row).clamp(-1.0, 1.0);
                (sum, count) = (sum + (cosine * FIXED) as i64, count + 1);
                best = best.max(cosine as f32);
                shares[first + at] = cosine as f32;
            }
        }
        if count == 0 {
            return source.set_shares(0.0, shares);
        }
        let mean = (sum as f64 / FIXED / f64::from(count)) as f32;
        let unit = 1.0 / (best - mean).max(LEAST_SPREAD);
        // What is hidden is far below the mean.
        shares.iter_mut().for_each(|share| *share = ((*share - mean) * unit).max(0.0));
        for row in missing {
            shares[row] = if own.weight() > 0.0 { own.share(row) } else { lexical_share(row) };
        }
        let usual = WEIGHT * if own.has_requests() { SEVERAL } else { 1.0 };
        source.set_shares(usual + (1.0 - trust) * (WEIGHT_ALONE - usual), shares);
    }
}

#[cfg(test)]
mod tests;
