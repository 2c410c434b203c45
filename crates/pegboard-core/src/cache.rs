//! Data that a ranker derives from a catalog, cached for as long as the catalog is in use.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Catalog;

/// Maximum number of cached snapshots; several are searched while an update spreads.
const KEPT: usize = 4;

/// Derived data for the catalog snapshots seen last.
///
/// A ranker is given a snapshot with every query and must not pay for indexing twice. The cache
/// hands out what was derived for that snapshot, or lets the caller derive it, with the newest
/// older value at hand so that only the difference needs work. A caller that asks for a snapshot
/// that is ready never waits for one that is not.
#[derive(Debug)]
pub struct SnapshotCache<T> {
    entries: Mutex<Vec<Entry<T>>>,
}

/// Empty until its value has been derived.
type Cell<T> = Arc<OnceLock<Arc<T>>>;

#[derive(Debug)]
struct Entry<T> {
    catalog: Catalog,
    value: Cell<T>,
}

impl<T> Default for SnapshotCache<T> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<T> SnapshotCache<T> {
    /// Returns the value for `catalog`; `derive` makes it from scratch or from an older one.
    ///
    /// A second caller with the same new snapshot waits for the first instead of
    /// deriving the same thing again.
    pub fn get(&self, catalog: &Catalog, derive: impl FnOnce(Option<(&Catalog, &T)>) -> T) -> Arc<T> {
        let (value, newest) = self.entry(catalog);
        let derived = value.get_or_init(|| {
            let newest = newest.as_ref().map(|(catalog, value)| (catalog, &**value));
            Arc::new(derive(newest))
        });
        Arc::clone(derived)
    }

    /// Inserts a value that was derived for `catalog` elsewhere; an existing value stays.
    pub fn insert(&self, catalog: &Catalog, value: T) {
        let (cell, _) = self.entry(catalog);
        // Both were derived from the same snapshot.
        let _ = cell.set(Arc::new(value));
    }

    /// Returns the cell for the value of `catalog`, and the newest value that is ready.
    fn entry(&self, catalog: &Catalog) -> (Cell<T>, Option<(Catalog, Arc<T>)>) {
        // Entries are only ever pushed and removed whole, so poison does not matter.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = |entry: &Entry<T>| Some((entry.catalog.clone(), Arc::clone(entry.value.get()?)));
        let newest = entries.iter().rev().find_map(ready);
        if let Some(entry) = entries.iter().find(|entry| entry.catalog.same_snapshot(catalog)) {
            return (Arc::clone(&entry.value), newest);
        }
        if entries.len() == KEPT {
            entries.remove(0);
        }
        let value = Cell::default();
        entries.push(Entry { catalog: catalog.clone(), value: Arc::clone(&value) });
        (value, newest)
    }
}
