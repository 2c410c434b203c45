//! What somebody else's model makes of a query and of the tools.
//!
//! Its cosines are on a scale of their own: with one model strangers are at 0.0, with another
//! at 0.8. So a tool's share is where it lies between the mean of all tools and the best of
//! them, which means the same for every model.

use std::sync::{Arc, PoisonError, RwLock};

use pegboard_core::{Tool, ToolVectors, Vectors, vectors::Direction};

use super::fusion::Source;
use crate::semantic::requests_of;

/// What its shares count beside words, which count 1, and beside our own model. Both together
/// were better on families that our model had not seen than either alone; see the model card.
const WEIGHT: f32 = 0.9;

/// What they count where our own model knows none of the query's words; in between, in between.
/// A query in a language that only they read is theirs.
const WEIGHT_ALONE: f32 = 1.75;

/// How much of that is left for a query that asks for several things where there is only a vector
/// of all of them at once, while our model is asked for each.
const SEVERAL: f32 = 0.5;

/// How much of a share comes from the request that a tool serves best.
const REQUESTS: f32 = 0.75;

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

/// The vectors of a query and of its requests, and those of tools by the same model.
#[derive(Debug)]
pub(crate) struct External<'a> {
    table: &'a ToolVectors,
    whole: Direction,
    /// Those of all requests, or none.
    requests: Vec<Direction>,
}

impl<'a> External<'a> {
    /// `None` when they cannot be compared: another length, or nothing to compare.
    pub(crate) fn new(table: &'a ToolVectors, query: &str, vectors: &Vectors) -> Option<Self> {
        let comparable = |vector: &[f32]| Direction::of(vector).filter(|one| one.dimensions() == table.dimensions());
        let whole = comparable(vectors.get(query)?)?;
        let requests = vectors.all(&requests_of(query)).into_iter().map(comparable).collect::<Option<_>>();
        Some(Self { table, whole, requests: requests.unwrap_or_default() })
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
        // A request that no tool is near to, such as thanks, must not count as much as one that a tool
        // serves: it is measured by the whole query where that is nearer to something.
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

/// How near all tools are to one vector, on the scale of its model.
#[derive(Debug)]
struct Scale<'a> {
    query: &'a Direction,
    /// One for each tool, far below all others where it is hidden or has no row.
    cosines: Vec<f32>,
    /// Of the cosines as whole numbers, so that the order of the tools makes no difference to the
    /// last bit.
    sum: i64,
    count: u32,
    best: f32,
}

impl<'a> Scale<'a> {
    fn new(query: &'a Direction) -> Self {
        Self { query, cosines: Vec::new(), sum: 0, count: 0, best: f32::MIN }
    }

    fn add(&mut self, tool: usize, row: &Direction) {
        // Rounding may lead beyond one.
        let cosine = self.query.cosine(row).clamp(-1.0, 1.0);
        self.sum += (cosine * FIXED) as i64;
        self.count += 1;
        self.best = self.best.max(cosine as f32);
        self.cosines[tool] = cosine as f32;
    }

    fn mean(&self) -> f32 {
        (self.sum as f64 / FIXED / f64::from(self.count.max(1))) as f32
    }

    /// How much nearer the best tool is than the mean.
    fn spread(&self) -> f32 {
        self.best - self.mean()
    }

    /// Where every tool lies between the mean, 0, and the best, 1, or `least` above the mean if that is more.
    fn into_shares(mut self, least: f32) -> Vec<f32> {
        let mean = self.mean();
        let unit = 1.0 / self.spread().max(least);
        self.cosines.iter_mut().for_each(|cosine| *cosine = ((*cosine - mean) * unit).max(0.0));
        self.cosines
    }
}

#[cfg(test)]
mod tests;
