//! Locks of data that threads of this crate share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data, even if a thread panicked while it held the lock: each change here leaves the data consistent.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
