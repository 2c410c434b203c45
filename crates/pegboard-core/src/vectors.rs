//! Vectors of tools and queries from an external embedding model.
//!
//! A ranker is synchronous and does not use the network. Its caller first fetches the vectors of
//! the queries from the [`VectorSource`] that the ranker names, and passes them with
//! [`Query::vectors`](crate::Query::vectors). The vectors of tools are a table that is given to the
//! ranker, possibly incomplete.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    pin::Pin,
    sync::Arc,
};

use crate::Tool;

/// Maximum number of dimensions of a vector.
pub const MAX_DIMENSIONS: usize = 8_192;

/// The largest scale of a [`Direction`], with a margin for rounding.
const LARGEST_SCALE: f32 = 1.001 / 127.0;

/// A boxed future that can be sent between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A quantized direction: one signed byte for each dimension, and the scale of one unit.
///
/// A byte costs a quarter of a float and half of a 16-bit one, and the dot product of whole
/// numbers is exact, so that the same two vectors always give the same similarity.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    scale: f32,
    numbers: Box<[i8]>,
}

impl Direction {
    /// Quantizes the direction of a vector of any length; `None` if the vector is zero, has no
    /// dimensions or too many, or contains numbers that are not finite.
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

    /// Restores a direction from its parts; `None` if [`of`](Self::of) could not have made it.
    pub fn from_parts(scale: f32, numbers: &[i8]) -> Option<Self> {
        // The largest number is 127, and alone it is as long as the vector.
        let is_right = scale > 0.0
            && scale <= LARGEST_SCALE
            && (1..=MAX_DIMENSIONS).contains(&numbers.len())
            && numbers.iter().map(|number| number.unsigned_abs()).max() == Some(127);
        is_right.then(|| Self { scale, numbers: numbers.into() })
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the value of one unit.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the quantized numbers.
    pub fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// Returns the direction as a vector of length one, except for rounding.
    pub fn to_vector(&self) -> Arc<[f32]> {
        self.numbers.iter().map(|number| f32::from(*number) * self.scale).collect()
    }

    /// Returns the cosine similarity with a direction of as many dimensions.
    pub fn cosine(&self, other: &Self) -> f64 {
        f64::from(dot(&self.numbers, &other.numbers)) * f64::from(self.scale) * f64::from(other.scale)
    }
}

/// Returns the dot product over the dimensions that both have. 8,192 products of bytes fit.
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

/// The embeddings of tools by an external model.
///
/// A row belongs to one version of a tool, not to its name: a tool whose description changed has no
/// row until it has been embedded again.
#[derive(Default)]
pub struct ToolVectors {
    dimensions: usize,
    /// By the tool's address, which is its own for as long as the tool is held here.
    rows: HashMap<usize, (Arc<Tool>, Arc<Direction>)>,
}

impl ToolVectors {
    /// Creates a table. Rows with another number of dimensions than the first are dropped.
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

    /// Returns the number of dimensions of every row; 0 without rows.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the number of tools that have a row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the row of a tool.
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
    /// Returns the vector of a text, if it is available.
    pub fn get(&self, text: &str) -> Option<&[f32]> {
        self.by_text.get(text).map(|vector| &**vector)
    }

    /// Returns the vectors of all these texts, or none: the vectors of only some requests of a
    /// query would count against the tools that serve the others.
    pub fn all<'v>(&'v self, texts: &[&str]) -> Vec<&'v [f32]> {
        texts.iter().map(|text| self.get(text)).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }
}

impl FromIterator<(String, Arc<[f32]>)> for Vectors {
    fn from_iter<T: IntoIterator<Item = (String, Arc<[f32]>)>>(vectors: T) -> Self {
        Self { by_text: vectors.into_iter().collect() }
    }
}

/// The texts of a query whose vectors are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryTexts {
    /// The whole query.
    pub whole: String,
    /// The single requests in the query, if there are several. Their vectors are used in addition
    /// to that of the whole query, and only all together.
    pub requests: Vec<String>,
}

impl<T: Into<String>> From<T> for QueryTexts {
    fn from(whole: T) -> Self {
        Self { whole: whole.into(), requests: Vec::new() }
    }
}

/// An external embedding model.
pub trait VectorSource: fmt::Debug + Send + Sync {
    /// Fetches the vectors of queries within a bounded time: first those of the whole texts, then
    /// those of single requests. It does not fail: a vector that is not available is left out, and
    /// the search continues without it. If there are too many texts, the first ones are fetched,
    /// and of the requests of a query all or none.
    fn ask(&self, queries: Vec<QueryTexts>) -> BoxFuture<Vectors>;

    /// Returns the status of the source.
    fn status(&self) -> VectorSourceStatus;
}

/// The status of a source of vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorSourceStatus {
    /// The address of the endpoint, without secrets.
    pub endpoint: String,
    /// The requested model.
    pub model: String,
    /// Number of tools that have a vector.
    pub embedded: usize,
    /// Number of all tools.
    pub tools: usize,
    /// Number of tools that the model refused to embed.
    pub refused: usize,
    /// Number of queries, and of requests within queries, whose vector was fetched.
    pub fetched: u64,
    /// Number of those whose vector was cached.
    pub known: u64,
    /// Number of those without a vector because the request failed.
    pub failed: u64,
    /// Number of those that were not requested, because too many requests had failed just before or
    /// because there were too many texts.
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
