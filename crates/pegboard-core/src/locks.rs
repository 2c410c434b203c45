//! Locks around plain data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock that guards plain data; nobody panics while holding one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
