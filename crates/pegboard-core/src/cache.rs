//! Data that a ranker derives from a catalog, cached for as long as the catalog is in use.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Catalog;

/// Maximum number of cached snapshots; several are searched while an update spreads.
const KEPT: usize = 4;

/// Derived data for the catalog snapshots used last.
///
/// A ranker is given a snapshot with every query and must not pay for indexing twice. The cache
/// hands out what was derived for that snapshot, or lets the caller derive it, with the value
/// used last at hand so that only the difference needs work. A caller that asks for a snapshot
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

    /// Returns the cell for the value of `catalog`, and the value used last that is ready.
    fn entry(&self, catalog: &Catalog) -> (Cell<T>, Option<(Catalog, Arc<T>)>) {
        // In order of use. Entries are only ever pushed and removed whole, so poison does not matter.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = |entry: &Entry<T>| Some((entry.catalog.clone(), Arc::clone(entry.value.get()?)));
        let newest = entries.iter().rev().find_map(ready);
        if let Some(at) = entries.iter().position(|entry| entry.catalog.same_snapshot(catalog)) {
            // Snapshots of single clients come and go; the one of all clients stays.
            entries[at..].rotate_left(1);
            let value = entries.last().map(|entry| Arc::clone(&entry.value)).unwrap_or_default();
            return (value, newest);
        }
        if entries.len() == KEPT {
            entries.remove(0);
        }
        let value = Cell::default();
        entries.push(Entry { catalog: catalog.clone(), value: Arc::clone(&value) });
        (value, newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RawTool, Server};

    /// Returns catalogs of one tool each.
    fn catalogs(count: usize) -> Vec<Catalog> {
        let catalog = |number: usize| {
            let server = Server { name: "a".to_owned(), ..Server::default() };
            let tool = RawTool { name: format!("tool_{number}"), ..RawTool::default() };
            Catalog::empty().with_server(server, [tool]).0
        };
        (0..count).map(catalog).collect()
    }

    #[test]
    fn a_snapshot_in_use_outlives_those_that_come_and_go() {
        let (cache, catalogs) = (SnapshotCache::default(), catalogs(3 * KEPT));
        let of_all = &catalogs[0];
        let first = cache.get(of_all, |_| 0);
        for (number, catalog) in catalogs.iter().enumerate().skip(1) {
            assert_eq!(*cache.get(catalog, |_| number), number);
            let again = cache.get(of_all, |_| panic!("it was derived already"));
            assert!(Arc::ptr_eq(&again, &first));
        }
        assert_eq!(*cache.get(&catalogs[1], |newest| *newest.expect("a value").1 + 100), 100, "the one used last");
    }
}
