//! A cache of the vectors of recent queries.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::vectors::Direction;

/// Maximum number of queries.
const KEPT: usize = 1_024;

/// Maximum length of a query in bytes.
const LONGEST: usize = 2_048;

/// The recent queries and their vectors.
#[derive(Debug, Default)]
pub(super) struct RecentVectors {
    clock: u64,
    rows: HashMap<Box<str>, (u64, Arc<Direction>)>,
}

impl RecentVectors {
    /// Returns the vector of a query, and marks it as used.
    pub(super) fn get(&mut self, query: &str) -> Option<Arc<Direction>> {
        self.clock += 1;
        let (used, row) = self.rows.get_mut(query)?;
        *used = self.clock;
        Some(Arc::clone(row))
    }

    /// Adds the vector of a query; the least recently used one is removed.
    pub(super) fn put(&mut self, query: &str, row: Arc<Direction>) {
        if query.len() > LONGEST {
            return;
        }
        self.clock += 1;
        self.rows.insert(query.into(), (self.clock, row));
        if self.rows.len() > KEPT {
            // No two have the same time of use.
            let oldest = self.rows.iter().min_by_key(|(_, (used, _))| *used).map(|(query, _)| query.clone());
            oldest.map(|oldest| self.rows.remove(&oldest));
        }
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let row = || Arc::new(Direction::of(&[1.0]).expect("a direction"));
        let mut recent = RecentVectors::default();
        (0..KEPT).for_each(|at| recent.put(&at.to_string(), row()));
        assert!(recent.get("0").is_some());
        recent.put("new", row());
        assert!(recent.get("0").is_some() && recent.get("new").is_some());
        assert!(recent.get("1").is_none());
        assert_eq!(recent.rows.len(), KEPT);
        recent.put(&"x".repeat(LONGEST + 1), row());
        assert_eq!(recent.rows.len(), KEPT);
    }
}
