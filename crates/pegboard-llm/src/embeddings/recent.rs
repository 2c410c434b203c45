//! Vectors of the queries that were asked last.

use std::{collections::HashMap, sync::Arc};

use pegboard_core::vectors::Direction;

/// So many are kept.
const KEPT: usize = 1_024;

/// A longer query is not kept.
const LONGEST: usize = 2_048;

/// The latest queries and their vectors.
#[derive(Debug, Default)]
pub(super) struct Recent {
    clock: u64,
    rows: HashMap<Box<str>, (u64, Arc<Direction>)>,
}

impl Recent {
    /// The vector of a query, which counts as used now.
    pub(super) fn get(&mut self, query: &str) -> Option<Arc<Direction>> {
        self.clock += 1;
        let (used, row) = self.rows.get_mut(query)?;
        *used = self.clock;
        Some(Arc::clone(row))
    }

    /// Keeps the vector of a query; the one that was used longest ago makes room.
    pub(super) fn put(&mut self, query: &str, row: Arc<Direction>) {
        if query.len() > LONGEST {
            return;
        }
        self.clock += 1;
        self.rows.insert(query.into(), (self.clock, row));
        if self.rows.len() > KEPT {
            // No two were used at the same time.
            let oldest = self.rows.iter().min_by_key(|(_, (used, _))| *used).map(|(query, _)| query.clone());
            oldest.map(|oldest| self.rows.remove(&oldest));
        }
    }

    /// Forgets everything.
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
        let mut recent = Recent::default();
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
