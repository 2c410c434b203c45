//! Memory that was needed once.
//!
//! Taking in lists and indexing them needs several times the memory of what is left in the end.
//! The allocator would keep the difference for as long as the program runs, in case something as
//! large comes again, and the whole model would stay mapped.

use std::sync::Arc;

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection,
    vectors::{ToolVectors, VectorSource},
};
use pegboard_engine::Model;
#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};

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

/// Gives back what nobody uses at the moment; takes about a millisecond.
fn give_back() {
    trim_heap();
    unmap_model();
}

/// Whole pages that are free go back to the system. Other allocators do so by themselves.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to ask the allocator")]
fn trim_heap() {
    // SAFETY: `malloc_trim` takes a number, may be called by any thread at any time, and touches
    // nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}

/// Indexing reads nearly all of the model, a query a few rows of it. The pages are those of the
/// program's file, and come again when they are read.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the bytes are the program's own")]
fn unmap_model() {
    let bytes = Model::embedded_bytes();
    let page = rustix::param::page_size();
    // Pages at the ends hold other things too.
    let before = bytes.as_ptr().align_offset(page);
    let Some(whole) = bytes.get(before..).map(|rest| &rest[..rest.len() / page * page]) else { return };
    // SAFETY: these are whole pages of a constant, mapped from a file and never written to: what is
    // read there later is the same. Only `LinuxDontNeed` is asked for, which moves nothing.
    let _ = unsafe { madvise(whole.as_ptr().cast_mut().cast(), whole.len(), Advice::LinuxDontNeed) };
}

#[cfg(not(target_os = "linux"))]
fn unmap_model() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_the_same_afterwards() {
        let before = Model::embedded_bytes().to_vec();
        give_back();
        assert!(Model::embedded_bytes() == before);
        assert!(Model::parse(Model::embedded_bytes().into()).is_ok());
    }
}
