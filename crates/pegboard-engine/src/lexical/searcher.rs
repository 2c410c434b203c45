//! A ranker over the indexes of catalog snapshots; how it scores tools is a parameter.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection, SnapshotCache, ToolVectors, locks::lock, naming,
    ranking::MAX_QUERY_BYTES,
};

use super::{
    index::{Index, IndexView},
    settings::Settings,
};
use crate::semantic::Model;

/// Maximum number of buffers that are kept for reuse; more queries rarely run at once.
const KEPT_BUFFERS: usize = 16;

/// How the tools of an index are scored.
pub(crate) trait Scoring: Debug + Send + Sync {
    /// The name of the ranker.
    const NAME: &'static str;

    /// The buffers of a query, reused by the next one.
    type Buffers: Debug + Default + Send;

    /// Returns the model whose vectors of tools the index holds, if there is one.
    fn vector_model(&self) -> Option<&Arc<Model>>;

    /// Ranks the tools of `view` for `query`, whose text with composed characters is `text`.
    fn rank(&self, text: &str, query: &Query<'_>, view: &IndexView<'_>, buffers: &mut Self::Buffers) -> Ranking;

    /// Frees large buffers before they are kept for reuse.
    fn trim(buffers: &mut Self::Buffers) {
        let _ = buffers;
    }

    /// Implements [`Ranker::use_vectors`].
    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        let _ = vectors;
        false
    }

    /// Implements [`Ranker::requests`].
    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        let _ = query;
        Vec::new()
    }
}

/// A ranker with an index for each catalog snapshot that is in use.
#[derive(Debug)]
#[expect(private_bounds, reason = "other crates choose among the ways of scoring, and cannot add one")]
pub struct Searcher<S: Scoring> {
    pub(crate) scoring: S,
    pub(crate) settings: Arc<Settings>,
    pub(crate) indexes: SnapshotCache<Index>,
    // Boxed, so that the pool moves pointers instead of buffers.
    buffers: Mutex<Vec<Box<S::Buffers>>>,
}

#[expect(private_bounds, reason = "see the type")]
impl<S: Scoring> Searcher<S> {
    pub(crate) fn with_scoring(scoring: S, settings: Settings) -> Self {
        let (indexes, buffers) = (SnapshotCache::default(), Mutex::default());
        Self { scoring, settings: Arc::new(settings), indexes, buffers }
    }

    /// Returns the memory of the index of `catalog` in bytes, without the tools.
    pub fn index_bytes(&self, catalog: &Catalog) -> usize {
        self.index(catalog).bytes()
    }

    /// Returns the index of `catalog`, made from an older one where few tools changed.
    pub(crate) fn index(&self, catalog: &Catalog) -> Arc<Index> {
        self.indexes.get(catalog, |older| {
            if let Some((before, index)) = older {
                let changes = catalog.changes_since(before);
                if changes.added.len() + changes.removed.len() <= catalog.len() / 2 {
                    return index.with_changes(changes);
                }
            }
            let model = self.scoring.vector_model().cloned();
            Index::build(catalog.iter().cloned().collect(), Arc::clone(&self.settings), model)
        })
    }

    fn with_buffers<T>(&self, work: impl FnOnce(&mut S::Buffers) -> T) -> T {
        // Buffers are only returned intact, so poison does not matter.
        let mut buffers = lock(&self.buffers).pop().unwrap_or_default();
        let result = work(&mut buffers);
        S::trim(&mut buffers);
        let mut pool = lock(&self.buffers);
        if pool.len() < KEPT_BUFFERS {
            pool.push(buffers);
        }
        result
    }
}

impl<S: Scoring + Default> Default for Searcher<S> {
    fn default() -> Self {
        Self::with_scoring(S::default(), Settings::default())
    }
}

impl<S: Scoring> Ranker for Searcher<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn learns_from_usage(&self) -> bool {
        true
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let text = naming::composed(query.checked(MAX_QUERY_BYTES)?);
        let index = self.index(catalog);
        let view = index.view(selection);
        Ok(self.with_buffers(|buffers| self.scoring.rank(&text, query, &view, buffers)))
    }

    fn prepare(&self, catalog: &Catalog) {
        self.index(catalog);
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.scoring.use_vectors(vectors)
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        self.scoring.requests(query)
    }
}
