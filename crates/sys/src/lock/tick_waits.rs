//! `tick_waits`: how long this thread's ticks waited for locks and events, for the telemetry page.
//! Outside of ticks it costs one read of thread-local memory, and only in threads that wait anyway. Taking a free lock never runs this code.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::kind::Kind;
use crate::thread;

thread_local! {
    /// The waits of the current tick of this thread. `None` between two ticks, and in all other threads.
    static OF_TICK: Cell<Option<TickWaits>> = const { Cell::new(None) };
    /// The kernel's number of this thread, read once. 0 means unknown.
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// The waits for locks and events inside one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickWaits {
    /// The sum of all waits in nanoseconds. This includes time in which the thread could have continued but had no CPU.
    pub total_ns: u64,
    /// The longest wait. `None` if the tick never waited.
    pub longest: Option<TickWait>,
}

/// A wait inside a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickWait {
    /// The kind of the lock or event.
    pub kind: Kind,
    /// The address of the lock or event.
    pub address: usize,
    /// How long the wait took, in nanoseconds.
    pub length_ns: u64,
    /// The thread that last held the lock or that set the event, by the kernel's number, if that thread is known.
    pub by: Option<u32>,
}

/// Begins a tick of this thread. From now on, the thread's waits are added up.
///
/// ```
/// use evenkeel_sys::lock::tick_waits::{self, TickWaits};
/// use evenkeel_sys::lock::Mutex;
///
/// let world = Mutex::new(0);
/// tick_waits::begin();
/// *world.lock() += 1; // free: no wait
/// assert_eq!(tick_waits::end(), Some(TickWaits::default()));
/// assert_eq!(tick_waits::end(), None);
/// ```
pub fn begin() {
    let _ = OF_TICK.try_with(|of_tick| of_tick.set(Some(TickWaits::default())));
}

/// Ends the tick and returns its waits. `None` if no tick has begun in this thread.
pub fn end() -> Option<TickWaits> {
    OF_TICK.try_with(Cell::take).ok().flatten()
}

/// The thread that released a lock or set an event while others slept. A waiter can then name the thread that it waited for.
/// The record costs nothing while no thread sleeps.
#[derive(Debug)]
pub(crate) struct Releaser(AtomicU32);

impl Releaser {
    pub(crate) const fn new() -> Releaser {
        Releaser(AtomicU32::new(0))
    }

    /// Records that the calling thread is about to release the lock. Call it before the release, because the lock may be freed afterwards.
    #[cold]
    pub(crate) fn is_this_thread(&self) {
        self.0.store(this_thread().unwrap_or(0), Ordering::Relaxed);
    }
}

/// The kernel's number of this thread. Only the first call in a thread is a system call. None while the thread ends.
pub fn this_thread() -> Option<u32> {
    let own = OWN.try_with(|own| {
        if own.get() == 0 {
            own.set(thread::id());
        }
        own.get()
    });
    own.ok()
}

/// The thread that a waiter waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    /// The waiter waits for the thread that releases the lock.
    Releaser(&'a Releaser),
    /// The waiter waits for the thread with this number, which holds the lock.
    Holder(u32),
}

impl By<'_> {
    /// Prepares for a wait.
    pub(super) fn begin(self) {
        if let By::Releaser(releaser) = self {
            // Forget the thread of an earlier release, so that this wait does not name it.
            releaser.0.store(0, Ordering::Relaxed);
        }
    }

    fn thread(self) -> Option<u32> {
        let thread = match self {
            By::Releaser(releaser) => releaser.0.load(Ordering::Relaxed),
            By::Holder(thread) => thread,
        };
        (thread != 0).then_some(thread)
    }
}

/// Whether this thread is in a tick.
pub(super) fn is_in_tick() -> bool {
    OF_TICK.try_with(|of_tick| of_tick.get().is_some()).unwrap_or(false)
}

/// Adds a wait that is over.
pub(super) fn add(kind: Kind, address: usize, length_ns: u64, by: By<'_>) {
    let _ = OF_TICK.try_with(|of_tick| {
        let Some(mut waits) = of_tick.get() else { return };
        waits.total_ns = waits.total_ns.saturating_add(length_ns);
        if waits.longest.is_none_or(|longest| longest.length_ns < length_ns) {
            waits.longest = Some(TickWait { kind, address, length_ns, by: by.thread() });
        }
        of_tick.set(Some(waits));
    });
}
