//! The indexes of catalog snapshots, and the search over them that the rankers share.

use std::sync::{Arc, Mutex};

use pegboard_core::{
    Catalog, Query, QueryError, Ranking, Selection, SnapshotCache, locks::lock, naming, ranking::MAX_QUERY_BYTES,
};

use super::{
    index::{Index, IndexView},
    search::Buffers,
    settings::Settings,
};
use crate::{hybrid::External, semantic::Model};

/// Maximum number of buffers that are kept for reuse; more queries rarely run at once.
const KEPT_BUFFERS: usize = 16;

/// Searches catalogs by words, and with a model also by meaning.
#[derive(Debug, Default)]
pub(crate) struct Searcher {
    pub(crate) settings: Arc<Settings>,
    pub(crate) model: Option<Arc<Model>>,
    pub(crate) indexes: SnapshotCache<Index>,
    // Boxed, so that the pool moves pointers instead of buffers.
    #[expect(clippy::vec_box)]
    buffers: Mutex<Vec<Box<Buffers>>>,
}

impl Searcher {
    pub(crate) fn new(settings: Settings, model: Option<Arc<Model>>) -> Self {
        Self { settings: Arc::new(settings), model, ..Self::default() }
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
            Index::build(catalog.iter().cloned().collect(), Arc::clone(&self.settings), self.model.clone())
        })
    }

    pub(crate) fn rank(
        &self,
        query: &Query<'_>,
        catalog: &Catalog,
        selection: &Selection,
        external: Option<External<'_>>,
    ) -> Result<Ranking, QueryError> {
        let text = naming::composed(query.checked(MAX_QUERY_BYTES)?);
        let index = self.index(catalog);
        let view = IndexView { external, ..index.view(selection) };
        Ok(self.with_buffers(|buffers| buffers.rank(&text, query, &view)))
    }

    pub(crate) fn with_buffers<T>(&self, work: impl FnOnce(&mut Buffers) -> T) -> T {
        // Buffers are only returned intact, so poison does not matter.
        let mut buffers = lock(&self.buffers).pop().unwrap_or_default();
        let result = work(&mut buffers);
        buffers.trim();
        let mut pool = lock(&self.buffers);
        if pool.len() < KEPT_BUFFERS {
            pool.push(buffers);
        }
        result
    }
}
