//! The similarities of an external embedding model.
//!
//! Its cosines have their own scale: unrelated texts have 0.0 with one model and 0.8 with another.
//! Therefore a tool's share is its position between the mean of all tools and the best of them,
//! which means the same for every model.

use std::sync::{Arc, PoisonError, RwLock};

use pegboard_core::{Tool, ToolVectors, Vectors, vectors::Direction};

use super::fusion::SimilaritySource;
use crate::semantic::requests_of;

/// The weight of the external shares, relative to words, which have 1, and to our own model. Both
/// together were better on families that our model had not seen than either alone; see the model
/// card.
const WEIGHT: f32 = 0.9;

/// The weight if our own model knows none of the query's words; interpolated in between. Only the
/// external model can read such a query.
const WEIGHT_ALONE: f32 = 1.75;

/// The factor on the weight for a query with several requests if only the whole query has a vector,
/// while our model has one for each.
const SEVERAL: f32 = 0.5;

/// The part of a share that comes from the request that a tool serves best.
const REQUESTS: f32 = 0.75;

/// Minimum distance between the best tool and the mean, so that noise among equally distant tools
/// is not amplified.
const LEAST_SPREAD: f32 = 0.05;

/// The fixed-point representation of one, for sums of cosines.
const FIXED: f64 = (1_u64 << 32) as f64;

/// The vectors of tools, replaced as a whole while searches are running.
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

/// The vectors of a query and of its requests, and those of tools by the same model.
#[derive(Debug)]
pub(crate) struct External<'a> {
    table: &'a ToolVectors,
    whole: Direction,
    /// The vectors of all requests, or none.
    requests: Vec<Direction>,
}

impl<'a> External<'a> {
    /// Returns `None` if the vectors cannot be compared: another length, or no vectors.
    pub(crate) fn new(table: &'a ToolVectors, query: &str, vectors: &Vectors) -> Option<Self> {
        let comparable = |vector: &[f32]| Direction::of(vector).filter(|one| one.dimensions() == table.dimensions());
        let whole = comparable(vectors.get(query)?)?;
        let requests = vectors.all(&requests_of(query)).into_iter().map(comparable).collect::<Option<_>>();
        Some(Self { table, whole, requests: requests.unwrap_or_default() })
    }

    /// Fills `source` with the shares of all rows: `tools` are runs of rows, each with the index of
    /// its first row and a test of visibility.
    ///
    /// A tool without a vector, because it was not embedded yet, gets its share by our own model,
    /// or else by its words. Thus it keeps the rank that it has without the external model.
    pub(crate) fn fill<'t, V: Fn(usize) -> bool>(
        &self,
        source: &mut SimilaritySource,
        own: &SimilaritySource,
        trust: f32,
        tools: impl Iterator<Item = (usize, &'t [Arc<Tool>], V)>,
        lexical_share: impl Fn(usize) -> f32,
    ) {
        let mut scales: Vec<Scale<'_>> = std::iter::once(&self.whole).chain(&self.requests).map(Scale::new).collect();
        let mut missing = Vec::new();
        for (first, tools, is_visible) in tools {
            scales.iter_mut().for_each(|scale| scale.cosines.resize(first + tools.len(), f32::MIN));
            for (at, tool) in tools.iter().enumerate().filter(|(at, _)| is_visible(*at)) {
                match self.table.row(tool) {
                    Some(row) => scales.iter_mut().for_each(|scale| scale.add(first + at, row)),
                    None => missing.push(first + at),
                }
            }
        }
        let has_rows = scales.iter().all(|scale| scale.count > 0);
        // A request that no tool serves, such as thanks, must not count as much as one that a tool
        // serves: it is scaled by the whole query if that is nearer to a tool.
        let least = scales[0].spread().max(LEAST_SPREAD);
        let mut shares: Vec<Vec<f32>> = scales.into_iter().map(|scale| scale.into_shares(least)).collect();
        for row in missing {
            let share = if own.weight() > 0.0 { own.share(row) } else { lexical_share(row) };
            shares.iter_mut().for_each(|shares| shares[row] = share);
        }
        let is_at_once = own.has_requests() && self.requests.is_empty();
        let usual = WEIGHT * if is_at_once { SEVERAL } else { 1.0 };
        let weight = if has_rows { usual + (1.0 - trust) * (WEIGHT_ALONE - usual) } else { 0.0 };
        source.set_shares(weight, REQUESTS, shares);
    }
}

/// The cosines of all tools with one vector.
#[derive(Debug)]
struct Scale<'a> {
    query: &'a Direction,
    /// One for each tool; far below all others if it is hidden or has no row.
    cosines: Vec<f32>,
    /// The sum in fixed point, so that it does not depend on the order of the tools.
    sum: i64,
    count: u32,
    best: f32,
}

impl<'a> Scale<'a> {
    fn new(query: &'a Direction) -> Self {
        Self { query, cosines: Vec::new(), sum: 0, count: 0, best: f32::MIN }
    }

    fn add(&mut self, tool: usize, row: &Direction) {
        // Rounding may exceed one.
        let cosine = self.query.cosine(row).clamp(-1.0, 1.0);
        self.sum += (cosine * FIXED) as i64;
        self.count += 1;
        self.best = self.best.max(cosine as f32);
        self.cosines[tool] = cosine as f32;
    }

    fn mean(&self) -> f32 {
        (self.sum as f64 / FIXED / f64::from(self.count.max(1))) as f32
    }

    /// Returns the distance between the best tool and the mean.
    fn spread(&self) -> f32 {
        self.best - self.mean()
    }

    /// Converts to shares: the position of every tool between the mean, 0, and the best, 1, or
    /// `least` above the mean if that is more.
    fn into_shares(mut self, least: f32) -> Vec<f32> {
        let mean = self.mean();
        let unit = 1.0 / self.spread().max(least);
        self.cosines.iter_mut().for_each(|cosine| *cosine = ((*cosine - mean) * unit).max(0.0));
        self.cosines
    }
}

#[cfg(test)]
mod tests;
