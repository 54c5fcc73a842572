//! `waits`: a log of long waits for locks and events, to find what delays a server. The log has each wait above a threshold.
//! The log subtracts the time in which the waiter could have continued but had no CPU.
//! While the log is off, it costs one load, and only for threads that wait anyway. Taking a free lock never runs this code.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use super::kind::Kind;
use super::tick_waits::{self, By};
use crate::clock;
use crate::schedstat::RunDelay;
use crate::thread;

/// The maximum number of waits in the log until the caller takes them.
const KEPT_MAX: usize = 4096;
/// The threshold while the log is off. No wait is this long.
const OFF: u64 = u64::MAX;

static OVER_NS: AtomicU64 = AtomicU64::new(OFF);
static LOG: Mutex<LongWaits> = Mutex::new(LongWaits { waits: Vec::new(), lost: 0 });

thread_local! {
    /// The kernel's count of how long this thread waited for a CPU. The inner `None` means that the kernel does not count this.
    static RUN_DELAY: OnceCell<Option<RunDelay>> = const { OnceCell::new() };
}

/// A long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// The kind of the lock or event.
    pub kind: Kind,
    /// The address of the lock or event.
    pub address: usize,
    /// The waiting thread, by the kernel's number.
    pub thread: u32,
    /// When the wait began, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// How long the wait took, in nanoseconds, without `no_cpu_ns`.
    pub length_ns: u64,
    /// How long the thread had no CPU after the wait was over, in nanoseconds.
    /// If the kernel does not count this time, the field is `None`, and `length_ns` includes the time.
    pub no_cpu_ns: Option<u64>,
}

/// The logged waits.
///
/// ```
/// use evenkeel_sys::lock::waits::{self, Kind, LongWait, LongWaits};
///
/// waits::log_over_ns(5_000_000);
/// // … the server runs …
/// waits::stop_log();
/// let LongWaits { waits, lost } = waits::take_log();
/// for LongWait { kind, length_ns, .. } in waits.iter().filter(|wait| wait.kind == Kind::Mutex) {
///     println!("{kind:?}: {length_ns} ns");
/// }
/// assert_eq!(lost, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongWaits {
    /// The waits, in the order in which they ended.
    pub waits: Vec<LongWait>,
    /// The number of waits that did not fit into the log.
    pub lost: u64,
}

/// From now on, logs every wait longer than this, in nanoseconds. Allocates the memory of the log.
pub fn log_over_ns(over_ns: u64) {
    let mut log = log();
    let missing = KEPT_MAX.saturating_sub(log.waits.capacity());
    log.waits.reserve_exact(missing);
    OVER_NS.store(over_ns.min(OFF - 1), Ordering::Relaxed);
}

/// Stops logging. The caller can still take the waits in the log.
pub fn stop_log() {
    OVER_NS.store(OFF, Ordering::Relaxed);
}

/// Returns the waits logged since the last call.
pub fn take_log() -> LongWaits {
    let mut log = log();
    let taken = log.clone();
    log.waits.clear();
    log.lost = 0;
    taken
}

fn log() -> std::sync::MutexGuard<'static, LongWaits> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wait that lasts until this value is dropped. `None` if nothing is logged and the thread is not in a tick.
pub(crate) fn begin<'a, T>(kind: Kind, of: &T, by: By<'a>) -> Option<Waiting<'a>> {
    let is_logged = OVER_NS.load(Ordering::Relaxed) != OFF;
    let is_in_tick = tick_waits::is_in_tick();
    if !is_logged && !is_in_tick {
        return None;
    }
    by.begin();
    Some(Waiting {
        kind,
        address: std::ptr::from_ref(of).addr(),
        by,
        start_ns: clock::monotonic_ns(),
        run_delay_ns: if is_logged { run_delay_ns() } else { None },
        is_in_tick,
    })
}

#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    kind: Kind,
    address: usize,
    by: By<'a>,
    start_ns: u64,
    run_delay_ns: Option<u64>,
    is_in_tick: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let whole_ns = clock::monotonic_ns().saturating_sub(self.start_ns);
        if self.is_in_tick {
            tick_waits::add(self.kind, self.address, whole_ns, self.by);
        }
        let over_ns = OVER_NS.load(Ordering::Relaxed);
        // While the log is off, no wait is longer than the threshold.
        if whole_ns <= over_ns {
            return;
        }
        let no_cpu_ns = self.run_delay_ns.zip(run_delay_ns()).map(|(before, after)| after.saturating_sub(before));
        let length_ns = whole_ns.saturating_sub(no_cpu_ns.unwrap_or(0));
        if length_ns <= over_ns {
            return;
        }
        let mut log = log();
        if log.waits.len() == log.waits.capacity() {
            log.lost += 1;
            return;
        }
        let (kind, address, start_ns, thread) = (self.kind, self.address, self.start_ns, thread::id());
        log.waits.push(LongWait { kind, address, thread, start_ns, length_ns, no_cpu_ns });
    }
}

/// How long this thread has waited for a CPU since the thread began.
fn run_delay_ns() -> Option<u64> {
    let read = |kept: &OnceCell<Option<RunDelay>>| {
        let run_delay = kept.get_or_init(|| RunDelay::of_this_thread().ok()).as_ref()?;
        Some(run_delay.read().ok()?.run_delay_ns)
    };
    // A thread that is just ending has no thread-local data any more, so the result is `None`.
    RUN_DELAY.try_with(read).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Event, InheritMutex, Mutex as Plain, RwLock};
    use super::*;

    /// The threshold of the log in these tests.
    const LONG_NS: u64 = 2_000_000;

    /// In another thread, waits longer than `LONG_NS` for the lock that `hold` returns. The time counts from when the kernel puts the thread to sleep.
    fn while_held<G>(hold: impl FnOnce() -> G, wait: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let held = hold();
            let (sender, receiver) = std::sync::mpsc::channel();
            let waiter = scope.spawn(move || {
                sender.send(thread::id()).unwrap();
                wait();
            });
            let status = format!("/proc/self/task/{}/status", receiver.recv().unwrap());
            // The thread may sleep briefly before it waits, for example for a page, but five checks in a row cannot meet such a sleep.
            let mut looks_asleep = 0;
            while looks_asleep < 5 {
                std::thread::sleep(Duration::from_millis(1));
                let is_asleep = std::fs::read_to_string(&status).unwrap().contains("\nState:\tS");
                looks_asleep = if is_asleep { looks_asleep + 1 } else { 0 };
            }
            std::thread::sleep(Duration::from_nanos(2 * LONG_NS));
            drop(held);
            waiter.join().unwrap();
        });
    }

    #[test]
    fn the_waits_of_a_tick_name_the_thread_that_released() {
        let (plain, inherit, both, event) = (Plain::new(()), InheritMutex::new(()), RwLock::new(()), Event::new());
        assert_eq!(tick_waits::end(), None);
        let holder = thread::id();
        let in_tick = |kind: Kind, wait: &dyn Fn()| {
            tick_waits::begin();
            wait();
            let waits = tick_waits::end().unwrap();
            let longest = waits.longest.unwrap();
            assert_eq!((longest.kind, longest.by), (kind, Some(holder)));
            assert!(longest.length_ns > LONG_NS && waits.total_ns >= longest.length_ns, "{waits:?}");
        };
        tick_waits::begin();
        drop(plain.lock());
        assert_eq!(
            (tick_waits::end(), tick_waits::end()),
            (Some(tick_waits::TickWaits::default()), None),
            "a free lock is not a wait"
        );
        while_held(|| plain.lock(), || in_tick(Kind::Mutex, &|| drop(plain.lock())));
        while_held(|| inherit.lock(), || in_tick(Kind::InheritMutex, &|| drop(inherit.lock())));
        while_held(|| both.write(), || in_tick(Kind::Read, &|| drop(both.read())));
        while_held(|| both.read(), || in_tick(Kind::Write, &|| drop(both.write())));
        struct Sets<'a>(&'a Event);
        impl Drop for Sets<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        while_held(|| Sets(&event), || in_tick(Kind::Event, &|| event.wait()));
    }

    #[test]
    fn long_waits_are_logged_and_short_ones_are_not() {
        let (plain, inherit, both, event) = (Plain::new(()), InheritMutex::new(()), RwLock::new(()), Event::new());
        drop(plain.lock());
        while_held(|| plain.lock(), || drop(plain.lock()));
        // Other tests of this process may take locks at the same time. The addresses show which waits belong to this test.
        let ours = [
            std::ptr::from_ref(&plain).addr(),
            std::ptr::from_ref(&inherit).addr(),
            std::ptr::from_ref(&both).addr(),
            std::ptr::from_ref(&event).addr(),
        ];
        let size = size_of::<u64>() * 2;
        let of_ours = |log: LongWaits| -> Vec<LongWait> {
            let is_ours = |wait: &LongWait| ours.iter().any(|at| (*at..at + size).contains(&wait.address));
            log.waits.into_iter().filter(is_ours).collect()
        };
        assert_eq!(of_ours(take_log()), [], "nothing is logged by default");

        log_over_ns(LONG_NS);
        drop((plain.lock(), inherit.lock(), both.read(), both.try_write()));
        while_held(|| plain.lock(), || drop(plain.lock()));
        while_held(|| inherit.lock(), || drop(inherit.lock()));
        while_held(|| both.write(), || drop(both.read()));
        while_held(|| both.read(), || drop(both.write()));
        struct Sets<'a>(&'a Event);
        impl Drop for Sets<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        while_held(|| Sets(&event), || event.wait());
        stop_log();
        let waits = of_ours(take_log());
        let kinds: Vec<Kind> = waits.iter().map(|wait| wait.kind).collect();
        assert_eq!(kinds, [Kind::Mutex, Kind::InheritMutex, Kind::Read, Kind::Write, Kind::Event], "{waits:?}");
        for wait in &waits {
            assert!(wait.length_ns > LONG_NS && wait.thread != thread::id(), "{wait:?}");
        }
        while_held(|| plain.lock(), || drop(plain.lock()));
        assert_eq!(of_ours(take_log()), []);
    }
}
