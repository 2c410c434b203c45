//! Ranking by words: exact names, fielded BM25 over a compact index, typo tolerance, and results
//! for each intent of a query. The index also holds the vectors of `hybrid`, which
//! ranks by words and meaning.

mod bitmap;
mod document;
pub(crate) mod explain;
pub(crate) mod index;
mod intents;
mod names;
mod near_terms;
pub(crate) mod plan;
mod saved_index;
pub(crate) mod scorer;
pub(crate) mod search;
mod searcher;
pub(crate) mod segment;
mod settings;
mod vocabulary;

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};

pub use self::{
    document::for_each_text,
    saved_index::ParsedIndex,
    settings::{FieldWeight, INDEXED_FIELDS, Settings},
};
pub(crate) use self::{searcher::Searcher, vocabulary::letter_bits};

/// The lexical half of [`Hybrid`](crate::Hybrid), as a separate ranker for comparison.
#[derive(Debug, Default)]
pub struct Lexical {
    searcher: Searcher,
}

impl Lexical {
    /// Creates a ranker with other settings than the tuned ones.
    pub fn new(settings: Settings) -> Self {
        Self { searcher: Searcher::new(settings, None) }
    }

    /// Returns the memory of the index of `catalog` in bytes, without the tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.searcher.index(catalog).bytes()
    }
}

impl Ranker for Lexical {
    fn name(&self) -> &'static str {
        "lexical"
    }

    fn learns_from_usage(&self) -> bool {
        true
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        self.searcher.rank(query, catalog, selection, None)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.searcher.index(catalog);
    }
}

#[cfg(test)]
pub(crate) mod tests;
