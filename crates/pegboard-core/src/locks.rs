//! Locks around plain data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock that guards plain data; no thread panics while it holds one.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
