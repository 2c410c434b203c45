//! Release of memory that was needed once.
//!
//! Reading and indexing lists needs several times the memory of the result. The allocator would
//! keep the difference for as long as the program runs, in case something as large comes again.

/// Returns free pages to the system; takes about a millisecond. Other allocators do so by
/// themselves.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to ask the allocator")]
pub(crate) fn release_free_memory() {
    // SAFETY: `malloc_trim` takes a number, may be called by any thread at any time, and touches
    // nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn release_free_memory() {}
