//! How mutexes are locked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even after a panic elsewhere: our critical sections leave no state half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
