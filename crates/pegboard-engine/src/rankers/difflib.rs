//! The similarity of two texts as Python's `difflib.SequenceMatcher` computes it.
//!
//! Written here because the crates that offer it differ from Python beyond 200
//! characters, where Python starts to ignore frequent ones, and the `sequence` ranker
//! promises Python's figures to the last bit.

use std::collections::HashMap;

/// From this length on, characters that are too frequent no longer start a match.
const AUTOJUNK_LENGTH: usize = 200;

/// One text to compare many others with, as the second sequence of a matcher.
#[derive(Debug)]
pub(crate) struct Matcher {
    text: Vec<char>,
    /// Where each character stands, unless it is too frequent.
    places: HashMap<char, Vec<u32>>,
}

impl Matcher {
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        let mut places: HashMap<char, Vec<u32>> = HashMap::new();
        for (at, c) in text.iter().enumerate() {
            places.entry(*c).or_default().push(at as u32);
        }
        if text.len() >= AUTOJUNK_LENGTH {
            let too_frequent = text.len() / 100 + 1;
            places.retain(|_, places| places.len() <= too_frequent);
        }
        Self { text, places }
    }

    /// Twice the matched characters by the length of both texts; 1 for two empty ones.
    pub(crate) fn ratio(&self, other: &[char]) -> f64 {
        let length = other.len() + self.text.len();
        if length == 0 {
            return 1.0;
        }
        2.0 * self.matched(other) as f64 / length as f64
    }

    /// The length of all matching blocks: the longest one, then those on either side.
    fn matched(&self, other: &[char]) -> usize {
        let mut total = 0;
        let mut open = vec![(0, other.len(), 0, self.text.len())];
        let mut lengths = Lengths::new(self.text.len());
        while let Some((a_low, a_high, b_low, b_high)) = open.pop() {
            let (a, b, size) = self.longest(other, a_low, a_high, b_low, b_high, &mut lengths);
            if size == 0 {
                continue;
            }
            total += size;
            if a_low < a && b_low < b {
                open.push((a_low, a, b_low, b));
            }
            if a + size < a_high && b + size < b_high {
                open.push((a + size, a_high, b + size, b_high));
            }
        }
        total
    }

    /// The longest block within the bounds, the first in `other` and then in the text
    /// where several are as long.
    fn longest(
        &self,
        other: &[char],
        a_low: usize,
        a_high: usize,
        b_low: usize,
        b_high: usize,
        lengths: &mut Lengths,
    ) -> (usize, usize, usize) {
        let (mut best_a, mut best_b, mut best) = (a_low, b_low, 0);
        lengths.reset();
        for (a, c) in other.iter().enumerate().take(a_high).skip(a_low) {
            lengths.next_row();
            let places = self.places.get(c).map_or(&[][..], Vec::as_slice);
            let first = places.partition_point(|b| (*b as usize) < b_low);
            for b in places[first..].iter().map(|b| *b as usize).take_while(|b| *b < b_high) {
                let length = lengths.extend(b);
                if length > best {
                    (best_a, best_b, best) = (a + 1 - length, b + 1 - length, length);
                }
            }
        }
        // Frequent characters do not start a match, but they may lengthen one.
        while best_a > a_low && best_b > b_low && other[best_a - 1] == self.text[best_b - 1] {
            (best_a, best_b, best) = (best_a - 1, best_b - 1, best + 1);
        }
        while best_a + best < a_high && best_b + best < b_high && other[best_a + best] == self.text[best_b + best] {
            best += 1;
        }
        (best_a, best_b, best)
    }
}

/// For the row at hand and the one before it, how long a match ends at each place.
///
/// Two arrays with a stamp for the row that wrote a cell, so that a new row or block
/// costs nothing to begin.
#[derive(Debug)]
struct Lengths {
    cells: [Vec<(u32, u32)>; 2],
    row: u32,
}

impl Lengths {
    fn new(length: usize) -> Self {
        Self { cells: [vec![(0, 0); length + 1], vec![(0, 0); length + 1]], row: 1 }
    }

    /// Forgets the row before.
    fn reset(&mut self) {
        self.row += 2;
    }

    fn next_row(&mut self) {
        self.row += 1;
    }

    /// The length of the match that ends at `place` in this row.
    fn extend(&mut self, place: usize) -> usize {
        let (this, before) = (self.row as usize % 2, (self.row as usize + 1) % 2);
        let (row, length) = self.cells[before][place];
        let length = if row + 1 == self.row { length + 1 } else { 1 };
        self.cells[this][place + 1] = (self.row, length);
        length as usize
    }
}
