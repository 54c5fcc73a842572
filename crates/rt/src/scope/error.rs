//! `ScopeError`: why scopes are not recorded.

pub(super) const THREADS_MAX: usize = 256;

/// Why nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// No thread of the process records.
    ///
    /// ```
    /// use evenkeel_rt::scope::{self, Scope, ScopeError};
    ///
    /// static MOVE: Scope = Scope::new("move players");
    ///
    /// drop(MOVE.enter());
    /// assert_eq!(scope::recording().unwrap_err(), ScopeError::NotStarted);
    /// ```
    #[error("no thread records scopes: call scope::start_thread on the tick's thread before its first tick")]
    NotStarted,
    /// The recorder has room for 256 threads.
    #[error("too many threads record scopes: {THREADS_MAX} can, those that have ended included")]
    TooManyThreads,
    /// The thread already records under another name. An earlier call set that name, or the first scope used the thread's own name.
    #[error("this thread records scopes under another name already: call scope::start_thread before its first scope")]
    OtherName,
    /// Only Linux reports the CPU time of a thread.
    #[error("long scopes need Linux: leave log_long out on this system")]
    Unsupported,
}
