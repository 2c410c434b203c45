//! The product's own ranking: exact names, fielded BM25 over a compact index, tolerance
//! for typos, an answer to each intent of a query, and, where there is a model, what the
//! query means.

mod answer;
mod bitmap;
mod both;
mod document;
mod explain;
mod index;
mod intents;
mod kept;
mod names;
mod near;
mod plan;
mod scan;
mod scorer;
mod segment;
mod settings;
mod vocabulary;

use std::sync::{Arc, Mutex, PoisonError};

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache, ToolVectors, naming,
    ranking::MAX_QUERY_BYTES,
};

pub(crate) use self::vocabulary::letter_bits;
use self::{
    answer::Buffers,
    index::{Index, View},
};
pub use self::{
    document::for_each_text,
    kept::KeptIndex,
    settings::{FieldWeight, INDEXED_FIELDS, Settings},
};
use crate::semantic::{External, ExternalTable, Model, requests_of};

/// Buffers that are kept for further queries; more run at once rarely.
const KEPT_BUFFERS: usize = 16;

/// The default ranker: exact names first, then relevance by words and by meaning.
#[derive(Debug)]
pub struct Hybrid {
    lexical: Lexical,
    /// Vectors by somebody else's model, for queries that bring one of theirs.
    external: ExternalTable,
}

impl Hybrid {
    /// A ranker with another model than the one that ships.
    pub fn new(model: Arc<Model>) -> Self {
        Self { lexical: Lexical { model: Some(model), ..Lexical::default() }, external: ExternalTable::default() }
    }

    /// What the index of `catalog` adds to the memory of its tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.lexical.index_bytes(catalog)
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
        self.lexical.rank_with(query, catalog, selection, external)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.lexical.prepare(catalog);
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.external.replace(vectors);
        true
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        requests_of(query)
    }
}

/// The lexical half of [`Hybrid`], a ranker of its own for comparison.
#[derive(Debug, Default)]
pub struct Lexical {
    settings: Arc<Settings>,
    /// Only [`Hybrid`] has one.
    model: Option<Arc<Model>>,
    indexes: SnapshotCache<Index>,
    // Boxed: what moves in and out of the pool is a pointer, not the buffers.
    #[expect(clippy::vec_box)]
    buffers: Mutex<Vec<Box<Buffers>>>,
}

impl Lexical {
    /// A ranker with other figures than the tuned ones.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }

    /// What the index of `catalog` adds to the memory of its tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.index(catalog).bytes()
    }

    fn index(&self, catalog: &Catalog) -> Arc<Index> {
        self.indexes.get(catalog, |older| {
            if let Some((before, index)) = older {
                let changes = catalog.changes_since(before);
                if changes.added.len() + changes.removed.len() <= catalog.len() / 2 {
                    return index.updated(changes);
                }
            }
            Index::build(catalog.iter().cloned().collect(), Arc::clone(&self.settings), self.model.clone())
        })
    }

    fn rank_with(
        &self,
        query: &Query<'_>,
        catalog: &Catalog,
        selection: &Selection,
        external: Option<External<'_>>,
    ) -> Result<Ranking, QueryError> {
        let text = naming::composed(query.checked(MAX_QUERY_BYTES)?);
        let index = self.index(catalog);
        let view = View { external, ..index.view(selection) };
        Ok(self.with_buffers(|buffers| buffers.rank(&text, query, &view)))
    }

    fn with_buffers<T>(&self, work: impl FnOnce(&mut Buffers) -> T) -> T {
        // Buffers are only put back whole, so poison does not matter.
        let pool = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = pool().pop().unwrap_or_default();
        let result = work(&mut buffers);
        buffers.trim();
        let mut pool = pool();
        if pool.len() < KEPT_BUFFERS {
            pool.push(buffers);
        }
        result
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
        self.rank_with(query, catalog, selection, None)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.index(catalog);
    }
}

#[cfg(test)]
mod hybrid_tests;
#[cfg(test)]
mod tests;
