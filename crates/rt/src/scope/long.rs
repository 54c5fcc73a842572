//! Scopes that kept the CPU for longer than told: half of a hypervisor's quantum, for one who wants to know what work may be cut in two.
//! Only innermost scopes are logged, since those around them say nothing new, and the time in which the thread was switched out does not
//! count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most that are kept until somebody takes them.
const KEPT_MAX: usize = 4096;
/// Nothing runs as long: nothing is logged.
const OFF: u64 = u64::MAX;

static OVER_NS: AtomicU64 = AtomicU64::new(OFF);
static LOG: Mutex<LongScopes> = Mutex::new(LongScopes { scopes: Vec::new(), lost: 0 });

/// A scope that ran long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongScope {
    /// Its name.
    pub name: &'static str,
    /// Who ran it: the kernel's number of the thread.
    pub thread: u32,
    /// When it ended, in nanoseconds of the monotonic clock.
    pub end_ns: u64,
    /// The CPU time that it took, in nanoseconds. What a hypervisor took meanwhile is in it where the kernel does not know of that.
    pub cpu_ns: u64,
}

/// The scopes that were logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongScopes {
    /// In the order in which they were left.
    pub scopes: Vec<LongScope>,
    /// Those for which there was no room.
    pub lost: u64,
}

/// From now on each innermost scope is logged that keeps the CPU for longer than this, in threads that [`start_thread`](super::start_thread)
/// knows. It costs two more readings of the thread's CPU time a scope, about 0.7 us: for finding out, not for every day. Takes the memory
/// that it needs.
pub fn log_long(over: Duration) {
    let mut log = log();
    let missing = KEPT_MAX.saturating_sub(log.scopes.capacity());
    log.scopes.reserve_exact(missing);
    OVER_NS.store(u64::try_from(over.as_nanos()).map_or(OFF - 1, |ns| ns.min(OFF - 1)), Ordering::Relaxed);
}

/// No scope is logged from now on. Those that were can still be taken.
pub fn stop_long() {
    OVER_NS.store(OFF, Ordering::Relaxed);
}

/// Takes what was logged since the last time.
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

/// An innermost scope has ended that took so much CPU time.
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
