//! Vectors of tools and queries by somebody else's model.
//!
//! A ranker stays synchronous and knows no network. Whoever asks it fetches the vectors of the
//! queries first, from the [`VectorSource`] that the ranker names, and hands them over with
//! [`Query::vectors`](crate::Query::vectors). Those of tools are a table that the ranker is given
//! from outside, as far as it is complete.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    pin::Pin,
    sync::Arc,
};

use crate::Tool;

/// The longest vector that is taken.
pub const MAX_DIMENSIONS: usize = 8_192;

/// What one unit of a [`Direction`] is worth at most, but for rounding.
const LARGEST_SCALE: f32 = 1.001 / 127.0;

/// An answer that somebody has to wait for.
pub type Soon<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A direction in whole numbers: one byte for each dimension, and what one unit is worth.
///
/// A byte costs a quarter of a float and half of a 16-bit one, and the dot product of whole
/// numbers is exact, so that the same two vectors always give the same similarity.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    scale: f32,
    numbers: Box<[i8]>,
}

impl Direction {
    /// The direction of a vector, whatever its length; `None` if it has none, or too many or no
    /// dimensions, or numbers that are none.
    pub fn of(vector: &[f32]) -> Option<Self> {
        if vector.is_empty() || vector.len() > MAX_DIMENSIONS || vector.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let most = vector.iter().fold(0.0_f64, |most, number| most.max(f64::from(number.abs())));
        if most <= 0.0 {
            return None;
        }
        let numbers: Box<[i8]> =
            vector.iter().map(|number| (f64::from(*number) * 127.0 / most).round_ties_even() as i8).collect();
        // Not the length of `vector`: thousands of small numbers that are rounded to ones are longer.
        let length = f64::from(dot(&numbers, &numbers)).sqrt();
        Some(Self { scale: (1.0 / length) as f32, numbers })
    }

    /// One that was taken apart; `None` where [`of`](Self::of) could not have made it.
    pub fn from_parts(scale: f32, numbers: &[i8]) -> Option<Self> {
        // The largest number is 127, and alone it is as long as the vector.
        let is_right = scale > 0.0
            && scale <= LARGEST_SCALE
            && (1..=MAX_DIMENSIONS).contains(&numbers.len())
            && numbers.iter().map(|number| number.unsigned_abs()).max() == Some(127);
        is_right.then(|| Self { scale, numbers: numbers.into() })
    }

    /// How many dimensions it has.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// What one unit is worth.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// The whole numbers.
    pub fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// The vector that it stands for, of length one but for rounding.
    pub fn to_vector(&self) -> Arc<[f32]> {
        self.numbers.iter().map(|number| f32::from(*number) * self.scale).collect()
    }

    /// The cosine with another one of as many dimensions.
    pub fn cosine(&self, other: &Self) -> f64 {
        f64::from(dot(&self.numbers, &other.numbers)) * f64::from(self.scale) * f64::from(other.scale)
    }
}

/// The dot product of the bytes that both have. 8,192 products of bytes fit.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    // A product fits into 16 bits; in runs of a fixed length compilers multiply many at once,
    // which takes half the time.
    const RUN: usize = 16;
    let ((a_runs, a_rest), (b_runs, b_rest)) = (a.as_chunks::<RUN>(), b.as_chunks::<RUN>());
    let mut sum = 0;
    for (a, b) in a_runs.iter().zip(b_runs) {
        let mut products = [0_i16; RUN];
        for ((product, a), b) in products.iter_mut().zip(a).zip(b) {
            *product = i16::from(*a) * i16::from(*b);
        }
        sum += products.iter().map(|product| i32::from(*product)).sum::<i32>();
    }
    sum + a_rest.iter().zip(b_rest).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>()
}

/// What somebody else's model makes of tools.
///
/// A row belongs to the very tool, not to its name: one whose description changed is another
/// tool, and has no row until it was embedded too.
#[derive(Default)]
pub struct ToolVectors {
    dimensions: usize,
    /// By the tool's address, which is its own for as long as the tool is held here.
    rows: HashMap<usize, (Arc<Tool>, Arc<Direction>)>,
}

impl ToolVectors {
    /// A table of rows with as many dimensions as the first; others are left out.
    pub fn new(rows: impl IntoIterator<Item = (Arc<Tool>, Arc<Direction>)>) -> Self {
        let mut table = Self::default();
        for (tool, row) in rows {
            if table.dimensions == 0 {
                table.dimensions = row.dimensions();
            }
            if table.dimensions == row.dimensions() {
                table.rows.insert(Arc::as_ptr(&tool).addr(), (tool, row));
            }
        }
        table
    }

    /// How many dimensions every row has; 0 without rows.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many tools have a row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of a tool.
    pub fn row(&self, tool: &Arc<Tool>) -> Option<&Arc<Direction>> {
        self.rows.get(&Arc::as_ptr(tool).addr()).map(|(_, row)| row)
    }
}

impl fmt::Debug for ToolVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolVectors").field("dimensions", &self.dimensions).field("rows", &self.len()).finish()
    }
}

/// Vectors of queries and of their requests, by their texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    by_text: BTreeMap<String, Arc<[f32]>>,
}

impl Vectors {
    /// The vector of a text, if it could be had.
    pub fn get(&self, text: &str) -> Option<&[f32]> {
        self.by_text.get(text).map(|vector| &**vector)
    }

    /// Those of all these texts, or none: what is known of some requests of a query would speak
    /// against the tools that serve the others.
    pub fn all<'v>(&'v self, texts: &[&str]) -> Vec<&'v [f32]> {
        texts.iter().map(|text| self.get(text)).collect::<Option<_>>().unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }
}

impl FromIterator<(String, Arc<[f32]>)> for Vectors {
    fn from_iter<T: IntoIterator<Item = (String, Arc<[f32]>)>>(vectors: T) -> Self {
        Self { by_text: vectors.into_iter().collect() }
    }
}

/// The texts of a query whose vectors are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryTexts {
    /// All of it.
    pub whole: String,
    /// The single requests in it, if there are several. Their vectors are of use beside that of
    /// the whole, and together.
    pub requests: Vec<String>,
}

impl<T: Into<String>> From<T> for QueryTexts {
    fn from(whole: T) -> Self {
        Self { whole: whole.into(), requests: Vec::new() }
    }
}

/// Somebody else's model.
pub trait VectorSource: fmt::Debug + Send + Sync {
    /// Fetches the vectors of queries within a bounded time: first those of the whole texts, then
    /// those of single requests. It does not fail: what cannot be had is left out, and the search
    /// goes on without it. Where there are too many, the first are fetched, and of a query's
    /// requests all or none.
    fn ask(&self, queries: Vec<QueryTexts>) -> Soon<Vectors>;

    /// How it is doing.
    fn standing(&self) -> VectorStanding;
}

/// How a source of vectors is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorStanding {
    /// Where it is asked, without anything secret.
    pub endpoint: String,
    /// The model that is asked for.
    pub model: String,
    /// Tools that have a vector.
    pub embedded: usize,
    /// Tools that there are.
    pub tools: usize,
    /// Tools that it refused to embed.
    pub refused: usize,
    /// Queries, and requests within queries, whose vector it sent.
    pub fetched: u64,
    /// Those whose vector was known.
    pub known: u64,
    /// Those that went without a vector because it failed.
    pub failed: u64,
    /// Those that it was not asked for, because it had failed too often just before or because
    /// there were too many.
    pub skipped: u64,
    /// Why the last request to it failed, unless one has succeeded since.
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Catalog, RawTool};

    #[test]
    fn what_has_no_direction_is_refused() {
        for vector in [vec![], vec![0.0; 3], vec![1.0, f32::NAN], vec![f32::INFINITY], vec![1.0; MAX_DIMENSIONS + 1]] {
            assert_eq!(Direction::of(&vector), None);
        }
        assert!(Direction::of(&[f32::MAX; 3]).is_some());
        assert!(Direction::of(&[f32::MIN_POSITIVE / 2.0]).is_some());
        assert_eq!(Direction::from_parts(0.0, &[1]), None);
        assert_eq!(Direction::from_parts(f32::NAN, &[1]), None);
        assert_eq!(Direction::from_parts(0.001, &[]), None);
        for (scale, numbers) in
            [(1e30, &[127][..]), (0.01, &[127]), (0.001, &[-128]), (0.001, &[0, 0]), (0.001, &[126])]
        {
            assert_eq!(Direction::from_parts(scale, numbers), None, "{scale} {numbers:?}");
        }
        let alone = Direction::of(&[-3.0]).expect("a direction");
        assert_eq!(Direction::from_parts(alone.scale(), alone.numbers()), Some(alone));
    }

    #[test]
    fn a_direction_is_one_long() {
        // Rounded, the many small numbers are twice as large.
        let vector: Vec<f32> = [253.0].into_iter().chain([1.0; MAX_DIMENSIONS - 1]).collect();
        let direction = Direction::of(&vector).expect("a direction");
        assert!((direction.cosine(&direction) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_row_belongs_to_the_very_tool() {
        let raw = |text: &str| RawTool { name: "a".into(), description: text.into(), ..RawTool::default() };
        let tool = |text: &str| {
            let (catalog, _) = Catalog::from_tools(vec![raw(text)]);
            Arc::clone(catalog.iter().next().expect("a tool"))
        };
        let (one, other) = (tool("x"), tool("x"));
        let row = |vector: &[f32]| Arc::new(Direction::of(vector).expect("a direction"));
        let table = ToolVectors::new([(Arc::clone(&one), row(&[1.0, 0.0])), (Arc::clone(&other), row(&[1.0]))]);
        assert_eq!((table.dimensions(), table.len()), (2, 1));
        assert!(table.row(&one).is_some() && table.row(&other).is_none());
    }

    proptest! {
        #[test]
        fn rounding_hardly_turns_a_vector(
            a in prop::collection::vec(-1.0_f32..1.0, 64),
            b in prop::collection::vec(-1.0_f32..1.0, 64),
        ) {
            let exact = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum() };
            let (length_a, length_b) = (exact(&a, &a).sqrt(), exact(&b, &b).sqrt());
            prop_assume!(length_a > 0.1 && length_b > 0.1);
            let (x, y) = (Direction::of(&a).unwrap(), Direction::of(&b).unwrap());
            prop_assert!((x.cosine(&y) - exact(&a, &b) / length_a / length_b).abs() < 0.02);
            prop_assert_eq!(Direction::from_parts(x.scale(), x.numbers()), Some(x.clone()));
            // Whatever the length, every byte counts once.
            for length in [0, 1, 15, 16, 17, 63] {
                let pairs = x.numbers()[..length].iter().zip(&y.numbers()[..length]);
                let expected: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                prop_assert_eq!(dot(&x.numbers()[..length], &y.numbers()[..length]), expected);
            }
            // What came back from the disk is what was put there.
            let again = Direction::of(&x.to_vector()).unwrap();
            prop_assert_eq!(again.numbers(), x.numbers());
        }
    }
}
