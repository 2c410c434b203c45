//! Computes the similarities of the tools of a view to the vectors of a query.

use super::fusion::Layer;
use crate::{
    lexical::{
        index::{IndexView, SegmentView},
        scorer::Candidate,
    },
    semantic::{BLOCK, Similarity, Vector},
};

/// The settings of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// Number of tools above which a view is scanned coarsely first.
    pub(crate) coarse_above: usize,
    /// Number of tools that the coarse pass leaves for the exact one.
    pub(crate) kept: usize,
}

impl Default for Scan {
    fn default() -> Self {
        Self { coarse_above: 100_000, kept: 4096 }
    }
}

impl Scan {
    /// Returns whether `view` is too large to compare every tool in full.
    pub(crate) fn is_coarse(&self, view: &IndexView<'_>) -> bool {
        view.tools > self.coarse_above
    }

    /// Compares the tools of `view` with `vectors`, into one layer for each vector.
    ///
    /// In a coarse scan, only the tools that are nearest by their first components, and those in
    /// `pool`, are compared in full; all others get zero. The result does not depend on how tools
    /// are distributed over segments.
    pub(crate) fn run(&self, view: &IndexView<'_>, vectors: &[Vector], pool: &[Candidate], layers: &mut Vec<Layer>) {
        layers.resize_with(vectors.len(), Layer::default);
        let similarities: Vec<Similarity<'_>> = vectors.iter().map(Similarity::to).collect();
        if !self.is_coarse(view) {
            fill(view, &similarities, layers);
            return;
        }
        let coarse: Vec<Similarity<'_>> = similarities.iter().map(|similarity| similarity.coarse()).collect();
        fill(view, &coarse, layers);
        for (layer, similarity) in layers.iter_mut().zip(similarities) {
            self.refine(view, similarity, pool, layer);
        }
    }

    /// Replaces coarse similarities by exact ones.
    fn refine(&self, view: &IndexView<'_>, similarity: Similarity<'_>, pool: &[Candidate], layer: &mut Layer) {
        let bar = highest(&layer.values, self.kept);
        let Layer { values, best } = layer;
        *best = 0.0;
        for (first, part) in view.numbered_parts() {
            let values = &mut values[first..first + part.segment.tools.len()];
            for (doc, value) in values.iter_mut().enumerate() {
                let is_kept = *value > 0.0 && *value >= bar;
                *value = if is_kept { part.segment.vectors.one(similarity, doc as u32) } else { 0.0 };
                *best = best.max(*value);
            }
        }
        for candidate in pool {
            let vectors = &view.parts[candidate.part as usize].segment.vectors;
            let value = vectors.one(similarity, candidate.doc);
            values[view.row(candidate)] = value;
            *best = best.max(value);
        }
    }
}

/// Compares every visible tool with every vector, block by block.
fn fill(view: &IndexView<'_>, similarities: &[Similarity<'_>], layers: &mut [Layer]) {
    for layer in layers.iter_mut() {
        layer.values.clear();
        layer.values.resize(view.rows(), 0.0);
        layer.best = 0.0;
    }
    for (first, part) in view.numbered_parts() {
        let tools = part.segment.tools.len();
        for block in 0..tools.div_ceil(BLOCK) {
            let visible = part.visible_word(block);
            if visible == 0 {
                continue;
            }
            let places = first + BLOCK * block..first + (BLOCK * (block + 1)).min(tools);
            for (layer, similarity) in layers.iter_mut().zip(similarities) {
                let values = &mut layer.values[places.clone()];
                part.segment.vectors.block(*similarity, block, values);
                hide(part, block, values);
                layer.best = values.iter().fold(layer.best, |best, value| if *value > best { *value } else { best });
            }
        }
    }
}

/// Sets hidden tools to zero.
fn hide(part: &SegmentView<'_>, block: usize, values: &mut [f32]) {
    let visible = part.visible_word(block);
    if visible != u64::MAX {
        for (at, value) in values.iter_mut().enumerate() {
            if visible >> at & 1 == 0 {
                *value = 0.0;
            }
        }
    }
}

/// Returns the `count`th highest of `values`.
fn highest(values: &[f32], count: usize) -> f32 {
    let mut bar = f32::MIN;
    let mut kept: Vec<f32> = Vec::with_capacity(2 * count);
    for value in values {
        if *value > bar {
            kept.push(*value);
            if kept.len() == 2 * count {
                bar = *kept.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1;
                kept.truncate(count);
            }
        }
    }
    if kept.len() < count || count == 0 {
        return bar;
    }
    *kept.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1
}
