//! Locks of data that threads of this crate share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the data, even if a thread panicked while it had the lock. Each change in this crate leaves the data consistent.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
