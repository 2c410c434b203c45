//! The similarity of two texts as Python's `difflib.SequenceMatcher` computes it.
//!
//! Implemented here because the crates that offer it differ from Python beyond 200 characters,
//! where Python starts to ignore frequent ones, and the `sequence` ranker guarantees Python's
//! results to the last bit.

/// Length from which frequent characters no longer start a match.
const AUTOJUNK_LENGTH: usize = 200;

/// A text to compare many others with, as the second sequence of a matcher.
#[derive(Debug)]
pub(crate) struct Matcher {
    text: Vec<char>,
    /// The characters that may start a match, sorted, with the start of their positions.
    letters: Vec<(char, u32)>,
    /// The positions of each character, in order.
    places: Vec<u32>,
}

/// Buffers for many comparisons.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// For each character of the other text, its run in [`Matcher::places`].
    runs: Vec<(u32, u32)>,
    open: Vec<Bounds>,
    lengths: Lengths,
}

/// A part of both texts, half open.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    a: (usize, usize),
    b: (usize, usize),
}

impl Matcher {
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        let mut sorted: Vec<(char, u32)> = text.iter().enumerate().map(|(at, c)| (*c, at as u32)).collect();
        sorted.sort_unstable();
        let too_frequent = if text.len() >= AUTOJUNK_LENGTH { text.len() / 100 + 1 } else { usize::MAX };
        let mut letters = Vec::new();
        let mut places = Vec::with_capacity(text.len());
        for run in sorted.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() <= too_frequent) {
            letters.push((run[0].0, places.len() as u32));
            places.extend(run.iter().map(|(_, at)| *at));
        }
        Self { text, letters, places }
    }

    /// Returns twice the number of matched characters divided by the length of both texts; 1 for
    /// two empty texts.
    pub(crate) fn ratio(&self, other: &[char], scratch: &mut Scratch) -> f64 {
        let length = other.len() + self.text.len();
        if length == 0 {
            return 1.0;
        }
        2.0 * self.matched(other, scratch) as f64 / length as f64
    }

    /// Returns the length of all matching blocks: the longest one, then those on either side.
    fn matched(&self, other: &[char], scratch: &mut Scratch) -> usize {
        let Scratch { runs, open, lengths } = scratch;
        runs.clear();
        runs.extend(other.iter().map(|c| self.run(*c)));
        lengths.fit(self.text.len());
        open.push(Bounds { a: (0, other.len()), b: (0, self.text.len()) });
        let mut total = 0;
        while let Some(bounds) = open.pop() {
            let (a, b, size) = self.longest(other, runs, bounds, lengths);
            if size == 0 {
                continue;
            }
            total += size;
            if bounds.a.0 < a && bounds.b.0 < b {
                open.push(Bounds { a: (bounds.a.0, a), b: (bounds.b.0, b) });
            }
            if a + size < bounds.a.1 && b + size < bounds.b.1 {
                open.push(Bounds { a: (a + size, bounds.a.1), b: (b + size, bounds.b.1) });
            }
        }
        total
    }

    fn run(&self, c: char) -> (u32, u32) {
        let Ok(at) = self.letters.binary_search_by_key(&c, |(letter, _)| *letter) else { return (0, 0) };
        let end = self.letters.get(at + 1).map_or(self.places.len() as u32, |(_, start)| *start);
        (self.letters[at].1, end)
    }

    /// Returns the longest block within the bounds; of equally long ones the first in `other` and
    /// then in the text.
    fn longest(
        &self,
        other: &[char],
        runs: &[(u32, u32)],
        bounds: Bounds,
        lengths: &mut Lengths,
    ) -> (usize, usize, usize) {
        let Bounds { a: (a_low, a_high), b: (b_low, b_high) } = bounds;
        let (mut best_a, mut best_b, mut best) = (a_low, b_low, 0);
        lengths.forget();
        for (a, (start, end)) in runs.iter().enumerate().take(a_high).skip(a_low) {
            lengths.next_row();
            let places = &self.places[*start as usize..*end as usize];
            let first = places.partition_point(|b| (*b as usize) < b_low);
            for b in places[first..].iter().map(|b| *b as usize).take_while(|b| *b < b_high) {
                let length = lengths.extend(b);
                if length > best {
                    (best_a, best_b, best) = (a + 1 - length, b + 1 - length, length);
                }
            }
        }
        // Frequent characters do not start a match, but they may extend one.
        while best_a > a_low && best_b > b_low && other[best_a - 1] == self.text[best_b - 1] {
            (best_a, best_b, best) = (best_a - 1, best_b - 1, best + 1);
        }
        while best_a + best < a_high && best_b + best < b_high && other[best_a + best] == self.text[best_b + best] {
            best += 1;
        }
        (best_a, best_b, best)
    }
}

/// The lengths of matches that end at each position, for the current row and the previous one.
///
/// Every cell has the number of the row that wrote it, so that a new row, block or text needs no
/// clearing.
#[derive(Debug, Default)]
struct Lengths {
    cells: [Vec<(u64, u32)>; 2],
    row: u64,
}

impl Lengths {
    /// Allocates cells for a text of `length` characters.
    fn fit(&mut self, length: usize) {
        for cells in &mut self.cells {
            if cells.len() <= length {
                cells.resize(length + 1, (0, 0));
            }
        }
    }

    /// Clears the previous row.
    fn forget(&mut self) {
        self.row += 2;
    }

    fn next_row(&mut self) {
        self.row += 1;
    }

    /// Returns the length of the match that ends at `place` in this row.
    fn extend(&mut self, place: usize) -> usize {
        let (this, before) = ((self.row % 2) as usize, ((self.row + 1) % 2) as usize);
        let (row, length) = self.cells[before][place];
        let length = if row + 1 == self.row { length + 1 } else { 1 };
        self.cells[this][place + 1] = (self.row, length);
        length as usize
    }
}
