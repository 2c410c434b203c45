//! Quantized vectors with 8-bit components.

use super::kernel::dot;

/// Maximum absolute value of a component. The kernels rely on it.
const MOST: f32 = 127.0;

/// Number of components that are adjacent in memory and read at once.
pub(crate) const LINE: usize = 64;

/// A part of a vector, aligned to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [i8; LINE]);

/// Rounds a small number like [`f32::round_ties_even`], which is a function call on processors
/// without an instruction for it. From 2^23 on there are no fractions.
fn round_ties_even(number: f32) -> f32 {
    const NO_FRACTIONS: f32 = 12_582_912.0;
    (number + NO_FRACTIONS) - NO_FRACTIONS
}

/// A vector of unit length, or zero. Vectors of one model have the same number of components.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// The components; the last line is padded with zeros.
    pub(crate) lines: Vec<Line>,
    /// The value of one unit.
    pub(crate) scale: f32,
    dims: usize,
}

impl Vector {
    /// Quantizes the direction of `components`; zeros if there is none.
    pub fn new(components: &[f32]) -> Self {
        let mut lines = vec![Line([0; LINE]); components.len().div_ceil(LINE)];
        let length = length(components);
        let most = components.iter().fold(0.0_f32, |most, component| most.max(component.abs()));
        let mut scale = 0.0;
        if length > 0.0 && length.is_finite() && most > 0.0 {
            let unit = MOST / most;
            for (line, components) in lines.iter_mut().zip(components.chunks(LINE)) {
                for (place, component) in line.0.iter_mut().zip(components) {
                    // Within ±127: the largest is exactly that, except for rounding, which the
                    // saturating conversion and the clamp undo.
                    *place = round_ties_even(component * unit).clamp(-MOST, MOST) as i8;
                }
            }
            scale = most / length / MOST;
        }
        Self { lines, scale, dims: components.len() }
    }

    /// Returns the components, in units of [`scale`](Self::scale).
    pub fn components(&self) -> impl Iterator<Item = i8> {
        self.lines.iter().flat_map(|line| line.0).take(self.dims)
    }

    /// Returns the value of one unit; 0 for the zero vector.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the cosine similarity with `other`, a vector of the same model.
    pub fn similarity(&self, other: &Self) -> f32 {
        let dot: i32 = self.lines.iter().zip(&other.lines).map(|(a, b)| dot(a, b)).sum();
        dot as f32 * self.scale * other.scale
    }

    /// Creates a vector with these components; `None` if one is out of range.
    pub(crate) fn from_components(components: &[i8], scale: f32) -> Option<Self> {
        let mut lines = vec![Line([0; LINE]); components.len().div_ceil(LINE)];
        for (line, components) in lines.iter_mut().zip(components.chunks(LINE)) {
            line.0[..components.len()].copy_from_slice(components);
        }
        let is_right = components.iter().all(|component| *component > i8::MIN);
        is_right.then_some(Self { lines, scale, dims: components.len() })
    }

    pub(crate) fn from_lines(lines: Vec<Line>, scale: f32, dims: usize) -> Self {
        Self { lines, scale, dims }
    }
}

/// Computes the length in eight lanes, always in the same order.
fn length(components: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    for chunk in components.chunks(lanes.len()) {
        for (lane, component) in lanes.iter_mut().zip(chunk) {
            *lane += component * component;
        }
    }
    lanes.iter().sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounding_is_that_of_the_standard_library(number in -128.0..128.0_f32, half in -127..127_i8) {
            for number in [number, f32::from(half) + 0.5] {
                prop_assert_eq!(round_ties_even(number), number.round_ties_even());
            }
        }
    }
}
