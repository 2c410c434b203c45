//! A table of the vectors of many tools.

use super::{
    header::is_share,
    kernel::Kernel,
    vector::{LINE, Line, Vector},
};

/// Number of rows that are multiplied at once; they stay in the L1 cache while several vectors are
/// compared with them.
pub(crate) const BLOCK: usize = 64;

/// The vectors of tools by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Vectors {
    lines: Vec<Line>,
    scales: Vec<f32>,
    /// Number of lines of a vector.
    width: usize,
}

impl Vectors {
    /// Allocates a table of `count` vectors with `dims` components.
    pub(crate) fn new(count: usize, dims: usize) -> Self {
        let width = dims.div_ceil(LINE);
        Self { lines: Vec::with_capacity(count * width), scales: Vec::with_capacity(count), width }
    }

    pub(crate) fn len(&self) -> usize {
        self.scales.len()
    }

    pub(crate) fn push(&mut self, vector: &Vector) {
        self.lines.extend_from_slice(&vector.lines);
        self.scales.push(vector.scale());
    }

    /// Merges `count` vectors: those of `parts` whose position is not `u32::MAX`, in order.
    pub(crate) fn merged<'a>(count: usize, parts: impl Iterator<Item = (&'a Self, &'a [u32])> + Clone) -> Self {
        let width = parts.clone().map(|(part, _)| part.width).max().unwrap_or(0);
        if width == 0 {
            return Self::default();
        }
        let mut merged = Self::new(count, width * LINE);
        for (part, places) in parts {
            for number in (0..places.len()).filter(|number| places[*number] != u32::MAX) {
                merged.lines.extend_from_slice(part.row(number));
                merged.scales.push(part.scales[number]);
            }
        }
        merged
    }

    /// Computes the similarities of up to `BLOCK` tools from `BLOCK * block` on.
    pub(crate) fn block(&self, kernel: Similarity<'_>, block: usize, out: &mut [f32]) {
        let rows = BLOCK * block..(BLOCK * (block + 1)).min(self.scales.len());
        let mut dots = [0; BLOCK];
        let dots = &mut dots[..rows.len()];
        let lines = &self.lines[self.width * rows.start..self.width * rows.end];
        let Similarity { kernel, lines: query, scale } = kernel;
        kernel.dots(query, lines, self.width, dots);
        for ((out, dot), row) in out.iter_mut().zip(&*dots).zip(&self.scales[rows]) {
            *out = *dot as f32 * scale * row;
        }
    }

    /// Returns the similarity of one tool.
    pub(crate) fn one(&self, kernel: Similarity<'_>, number: u32) -> f32 {
        let mut dot = [0];
        kernel.kernel.dots(kernel.lines, self.row(number as usize), self.width.max(1), &mut dot);
        dot[0] as f32 * kernel.scale * self.scales[number as usize]
    }

    /// Returns one of the vectors.
    pub(crate) fn get(&self, number: u32, dims: usize) -> Vector {
        Vector::from_lines(self.row(number as usize).to_vec(), self.scales[number as usize], dims)
    }

    /// Returns all components, vector by vector, and the scale of each vector.
    pub(crate) fn to_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let components = self.lines.iter().flat_map(|line| line.0.map(i8::cast_unsigned)).collect();
        (components, self.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect())
    }

    /// Restores `count` vectors of `dims` components from [`to_bytes`](Self::to_bytes); `None` if
    /// they are invalid.
    pub(crate) fn from_bytes(components: &[u8], scales: &[u8], count: usize, dims: usize) -> Option<Self> {
        let width = dims.div_ceil(LINE);
        let (lines, rest) = components.as_chunks::<LINE>();
        let lines: Vec<Line> = lines.iter().map(|line| Line(line.map(u8::cast_signed))).collect();
        let (scales, more) = scales.as_chunks::<4>();
        let scales: Vec<f32> = scales.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_whole = rest.is_empty()
            && more.is_empty()
            && scales.len() == count
            && Some(lines.len()) == count.checked_mul(width);
        // The kernels rely on the range of components.
        let is_in_range = !components.contains(&i8::MIN.cast_unsigned()) && scales.iter().all(|scale| is_share(*scale));
        (is_whole && is_in_range).then_some(Self { lines, scales, width })
    }

    fn row(&self, number: usize) -> &[Line] {
        &self.lines[self.width * number..self.width * (number + 1)]
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Line>() * self.lines.capacity() + size_of::<f32>() * self.scales.capacity()
    }
}

/// A vector to compare tools with, and the kernel to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Similarity<'a> {
    kernel: Kernel,
    lines: &'a [Line],
    scale: f32,
}

impl<'a> Similarity<'a> {
    pub(crate) fn to(vector: &'a Vector) -> Self {
        Self { kernel: Kernel::best(), lines: &vector.lines, scale: vector.scale() }
    }

    /// Restricts the comparison to the first half of the components, which halves the memory
    /// traffic. Models order components by variance.
    pub(crate) fn coarse(self) -> Self {
        Self { lines: &self.lines[..self.lines.len().div_ceil(2)], ..self }
    }
}
