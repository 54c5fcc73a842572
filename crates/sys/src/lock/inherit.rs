//! `Inherit`: a lock whose holder runs with the priority of its most urgent waiter (`FUTEX_LOCK_PI`).
//! Suppose that a real-time tick thread shares data with ordinary threads.
//! With any other lock, the tick thread waits as long as third threads keep the holder from running. For a spin lock we measured 1 to 2.8 s.
//! With this lock the tick thread waits only as long as the holder itself takes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};

use super::tick_waits::By;
use super::waits::{self, Kind};
use crate::errno::Errno;

const FREE: u32 = 0;
/// The bits of the word that have the holder's number (`FUTEX_TID_MASK`).
const HOLDER: u32 = 0x3fff_ffff;

thread_local! {
    /// The kernel's number of this thread, read once, because a lock must not cost a system call.
    /// A forked child has another number, so it must not take these locks before exec. The same is true of most locks.
    static OWN: Cell<u32> = const { Cell::new(FREE) };
}

#[derive(Debug)]
pub(super) struct Inherit {
    /// The word is 0, or the holder's number with a bit for waiters. The kernel uses this word too.
    word: AtomicU32,
}

impl Inherit {
    pub(super) const fn new() -> Inherit {
        Inherit { word: AtomicU32::new(FREE) }
    }

    pub(super) fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, own(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_held();
        }
    }

    #[cold]
    fn lock_held(&self) {
        let holder = self.word.load(Ordering::Relaxed) & HOLDER;
        let _waiting = waits::begin(Kind::InheritMutex, self, By::Holder(holder));
        loop {
            // The kernel takes the lock for us. Or it lends the holder our priority, and we sleep.
            match futex::lock_pi(&self.word, Flags::PRIVATE, None).map_err(Errno::from) {
                Ok(()) => return,
                // The holder is about to end, or a signal arrived.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => never(errno),
            }
            if self.try_lock() {
                return;
            }
        }
    }

    /// Only the holder may call this.
    pub(super) fn unlock(&self) {
        let alone = self.word.compare_exchange(own(), FREE, Ordering::Release, Ordering::Relaxed).is_ok();
        if !alone && let Err(errno) = futex::unlock_pi(&self.word, Flags::PRIVATE) {
            panic!(
                "failed to release a lock that inherits priority: {}: this thread does not hold it",
                Errno::from(errno)
            );
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}

/// The thread already holds this lock (`EDEADLK`), or the kernel has no such locks. Continuing would mean running without the lock.
#[cold]
fn never(errno: Errno) -> ! {
    panic!("failed to take a lock that inherits priority: {errno}: does this thread hold it already?")
}

fn own() -> u32 {
    OWN.with(|own| {
        if own.get() == FREE {
            own.set(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        }
        own.get()
    })
}
