//! Ranking by words and by meaning.
//!
//! `combine` computes the lexical score and the similarities (`scan`) of every visible tool,
//! `fusion` combines them into one score, and `second_look` compares the first hits of short
//! queries word by word and verb by verb. `confidence` estimates the probability that the first hit
//! is right. `external` adds the vectors of an external model.

pub(crate) mod combine;
pub(crate) mod confidence;
mod external;
pub(crate) mod fusion;
mod scan;
pub(crate) mod second_look;

use std::sync::Arc;

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection, ToolVectors};

pub(crate) use self::external::{External, ExternalTable};
use crate::{
    blocks::{BlockError, PersistentIndex},
    lexical::{ParsedIndex, Searcher, Settings},
    semantic::{Model, requests_of},
};

/// The default ranker: exact names first, then relevance by words and by meaning.
#[derive(Debug)]
pub struct Hybrid {
    searcher: Searcher,
    /// Vectors of tools by an external model, for queries that bring one of the same model.
    external: ExternalTable,
}

impl Hybrid {
    /// Creates a ranker with another model than the built-in one.
    pub fn new(model: Arc<Model>) -> Self {
        Self { searcher: Searcher::new(Settings::default(), Some(model)), external: ExternalTable::default() }
    }

    /// Returns the memory of the index of `catalog` in bytes, without the tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.searcher.index(catalog).bytes()
    }
}

impl Default for Hybrid {
    fn default() -> Self {
        Self::new(Arc::clone(Model::embedded()))
    }
}

impl Ranker for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn learns_from_usage(&self) -> bool {
        true
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let table = self.external.current();
        let external = query.vectors.and_then(|vectors| External::new(&table, query.text, vectors));
        self.searcher.rank(query, catalog, selection, external)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.searcher.index(catalog);
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.external.replace(vectors);
        true
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        requests_of(query)
    }
}

impl PersistentIndex for Hybrid {
    fn index_key(&self) -> u64 {
        self.searcher.index_key()
    }

    fn index_to_bytes(&self, catalog: &Catalog) -> Option<Vec<u8>> {
        self.searcher.index_to_bytes(catalog)
    }

    fn parse_index(&self, bytes: &[u8]) -> Result<ParsedIndex, BlockError> {
        self.searcher.parse_index(bytes)
    }

    fn restore_index(&self, catalog: &Catalog, index: ParsedIndex) -> Result<(), BlockError> {
        self.searcher.restore_index(catalog, index)
    }
}

#[cfg(test)]
mod tests;
