//! What a ranker derives from a catalog, kept for as long as the catalog stays.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Catalog;

/// Snapshots that may be searched side by side while an update spreads.
const KEPT: usize = 4;

/// Derived data for the catalog snapshots seen last.
///
/// A ranker is given a snapshot with every query and must not pay for indexing twice.
/// The cache hands out what was derived for that snapshot, or lets the caller derive it,
/// with the newest older value at hand so that only the difference needs work.
#[derive(Debug)]
pub struct SnapshotCache<T> {
    entries: Mutex<Vec<(Catalog, Arc<T>)>>,
}

impl<T> Default for SnapshotCache<T> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<T> SnapshotCache<T> {
    /// The value for `catalog`; `derive` makes it from scratch or from an older one.
    ///
    /// A second caller with the same new snapshot waits for the first instead of
    /// deriving the same thing again.
    pub fn get(&self, catalog: &Catalog, derive: impl FnOnce(Option<(&Catalog, &T)>) -> T) -> Arc<T> {
        // A panic in `derive` leaves the entries as they were, so they stay usable.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = entries.iter().position(|(known, _)| known.same_snapshot(catalog)) {
            return Arc::clone(&entries[position].1);
        }
        let newest = entries.last().map(|(known, value)| (known, &**value));
        let value = Arc::new(derive(newest));
        if entries.len() == KEPT {
            entries.remove(0);
        }
        entries.push((catalog.clone(), Arc::clone(&value)));
        value
    }
}
