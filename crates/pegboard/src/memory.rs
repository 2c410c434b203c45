//! Memory that was needed once.
//!
//! Taking in lists and indexing them needs several times the memory of what is left in the end.
//! The allocator would keep the difference for as long as the program runs, in case something as
//! large comes again.

use std::sync::Arc;

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection,
    vectors::{ToolVectors, VectorSource},
};

/// A ranker that gives memory back once it has indexed.
#[derive(Debug)]
pub(crate) struct Frugal(pub(crate) Arc<dyn Ranker>);

impl Ranker for Frugal {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        self.0.rank(query, catalog, selection)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.0.prepare(catalog);
        give_back();
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.0.use_vectors(vectors)
    }

    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        self.0.vector_source()
    }
}

/// Gives whole pages that nobody uses back to the system; takes about a millisecond. Other
/// allocators do so by themselves.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to ask the allocator")]
fn give_back() {
    // SAFETY: `malloc_trim` takes a number, may be called by any thread at any time, and touches
    // nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}
