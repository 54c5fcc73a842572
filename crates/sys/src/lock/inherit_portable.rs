//! `Inherit` for systems without a lock whose holder inherits priority.
//! This is a plain lock that knows its holder, so that it detects a thread that takes it twice.

use std::sync::atomic::{AtomicU32, Ordering};

use super::tick_waits::By;
use super::waits::{self, Kind};
use crate::{futex, thread};

const FREE: u32 = 0;
/// A bit next to the holder's number: a thread may sleep.
const WAITED_FOR: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Inherit {
    /// The word is 0, or the holder's number with a bit for waiters.
    word: AtomicU32,
}

impl Inherit {
    pub(super) const fn new() -> Inherit {
        Inherit { word: AtomicU32::new(FREE) }
    }

    pub(super) fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, thread::id(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_held();
        }
    }

    #[cold]
    fn lock_held(&self) {
        let holder = self.word.load(Ordering::Relaxed) & !WAITED_FOR;
        let _waiting = waits::begin(Kind::InheritMutex, self, By::Holder(holder));
        let own = thread::id();
        loop {
            // Other threads may sleep too, so this thread must wake one of them when it unlocks.
            let found = self.word.compare_exchange(FREE, own | WAITED_FOR, Ordering::Acquire, Ordering::Relaxed);
            let Err(holder) = found else { return };
            if holder & !WAITED_FOR == own {
                panic!(
                    "failed to take a lock that inherits priority: resource deadlock avoided (EDEADLK): does this thread hold it already?"
                );
            }
            let marked =
                self.word.compare_exchange(holder, holder | WAITED_FOR, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if marked {
                futex::wait(&self.word, holder | WAITED_FOR);
            }
        }
    }

    /// Only the holder may call this.
    pub(super) fn unlock(&self) {
        if self.word.swap(FREE, Ordering::Release) & WAITED_FOR != 0 {
            futex::wake(&self.word, 1);
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        struct Shared(Inherit, std::cell::UnsafeCell<u64>);
        // SAFETY: the threads access the cell only under the lock.
        unsafe impl Sync for Shared {}
        let shared = Shared(Inherit::new(), std::cell::UnsafeCell::new(0));
        let shared = &shared;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        shared.0.lock();
                        // SAFETY: this thread holds the lock.
                        unsafe { *shared.1.get() += 1 };
                        shared.0.unlock();
                    }
                });
            }
        });
        // SAFETY: all threads have ended.
        assert_eq!((unsafe { *shared.1.get() }, shared.0.is_locked()), (80_000, false));
    }

    #[test]
    fn to_take_what_one_holds_is_no_silent_hang() {
        let lock = Inherit::new();
        assert!(lock.try_lock() && !lock.try_lock());
        let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.lock()));
        assert!(twice.unwrap_err().downcast_ref::<&str>().unwrap().contains("does this thread hold it already"));
        lock.unlock();
        assert!(!lock.is_locked());
    }
}
