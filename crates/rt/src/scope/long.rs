//! Logs scopes that use the CPU for longer than a limit, such as half of a hypervisor's quantum. A slice may cut such work in two.
//! The log has only innermost scopes, because outer scopes add no information. Switched-out time does not count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_sys::IS_LINUX;

use super::error::ScopeError;

/// The maximum number of scopes in the log until the caller takes them.
const KEPT_MAX: usize = 4096;
/// The limit while logging is off. No scope runs that long.
const OFF: u64 = u64::MAX;

static OVER_NS: AtomicU64 = AtomicU64::new(OFF);
static LOG: Mutex<LongScopes> = Mutex::new(LongScopes { scopes: Vec::new(), lost: 0 });

/// A scope that used the CPU for longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongScope {
    /// The scope's name.
    pub name: &'static str,
    /// The kernel's id of the thread that ran the scope.
    pub thread: u32,
    /// When the scope ended, in nanoseconds of the monotonic clock.
    pub end_ns: u64,
    /// The CPU time of the scope, in nanoseconds. It includes time that a hypervisor took without the kernel's knowledge.
    pub cpu_ns: u64,
}

/// The scopes that were logged.
///
/// ```
/// use evenkeel_rt::scope::{LongScope, LongScopes, take_long};
///
/// let LongScopes { scopes, lost } = take_long();
/// for LongScope { name, cpu_ns, .. } in scopes {
///     println!("{name} used the CPU for {cpu_ns} ns");
/// }
/// assert_eq!(lost, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongScopes {
    /// The scopes, in the order in which they ended.
    pub scopes: Vec<LongScope>,
    /// How many scopes were lost because the log was full.
    pub lost: u64,
}

/// From now on, logs each innermost scope that uses the CPU for longer than `over`, on threads that record. Allocates the log.
/// Each scope then reads the thread's CPU time twice, which takes about 0.7 us, so use this for diagnosis only.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::scope::{self, Scope};
///
/// static MOVE: Scope = Scope::new("move players");
///
/// scope::start_thread("tick", 64)?;
/// scope::log_long(Duration::from_millis(2))?;
/// drop(MOVE.enter());
/// scope::stop_long();
/// let log = scope::take_long();
/// println!("{} long scopes, {} lost", log.scopes.len(), log.lost);
/// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
/// ```
///
/// # Errors
/// [`ScopeError::Unsupported`] on other systems than Linux, where the CPU time of a thread is not known.
pub fn log_long(over: Duration) -> Result<(), ScopeError> {
    if !IS_LINUX {
        return Err(ScopeError::Unsupported);
    }
    let mut log = log();
    let missing = KEPT_MAX.saturating_sub(log.scopes.capacity());
    log.scopes.reserve_exact(missing);
    OVER_NS.store(u64::try_from(over.as_nanos()).map_or(OFF - 1, |ns| ns.min(OFF - 1)), Ordering::Relaxed);
    Ok(())
}

/// Stops logging. The caller can still take the scopes in the log.
pub fn stop_long() {
    OVER_NS.store(OFF, Ordering::Relaxed);
}

/// Takes the scopes that were logged since the last call.
pub fn take_long() -> LongScopes {
    let mut log = log();
    let taken = log.clone();
    log.scopes.clear();
    log.lost = 0;
    taken
}

fn log() -> std::sync::MutexGuard<'static, LongScopes> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(always)]
pub(super) fn is_on() -> bool {
    OVER_NS.load(Ordering::Relaxed) != OFF
}

/// Logs an innermost scope that has ended, if it used enough CPU time.
#[cold]
pub(super) fn ended(name: &'static str, cpu_ns: u64) {
    if cpu_ns <= OVER_NS.load(Ordering::Relaxed) {
        return;
    }
    let mut log = log();
    if log.scopes.len() == log.scopes.capacity() {
        log.lost += 1;
        return;
    }
    let (thread, end_ns) = (evenkeel_sys::thread::id(), evenkeel_sys::clock::monotonic_ns());
    log.scopes.push(LongScope { name, thread, end_ns, cpu_ns });
}
