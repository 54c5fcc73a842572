//! `Plain`: a lock in one word. A thread that finds the lock held sleeps, and the release wakes one sleeper.
//! A thread that arrives meanwhile may take the lock first. If the release passed the lock on, the lock would be idle while the next thread wakes.

use super::primitive::{AtomicU32, By, Kind, Ordering, Releaser, begin, relax, spins, wait, wake};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// The lock is held, and a thread may sleep.
const WAITED_FOR: u32 = 2;

#[derive(Debug)]
pub(super) struct Plain {
    word: AtomicU32,
    releaser: Releaser,
}

impl Plain {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Plain {
        Plain { word: AtomicU32::new(FREE), releaser: Releaser::new() }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Plain {
        Plain { word: AtomicU32::new(FREE), releaser: Releaser::new() }
    }

    pub(super) fn try_lock(&self) -> bool {
        // Acquire: makes the previous holder's writes visible.
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_held();
        }
    }

    #[cold]
    fn lock_held(&self) {
        let _waiting = begin(Kind::Mutex, self, By::Releaser(&self.releaser));
        let mut seen = self.look();
        if seen == FREE {
            match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        loop {
            // Mark the word: from here on a thread sleeps. We cannot know whether we are the last waiter, so at worst this causes one unneeded wake.
            if seen != WAITED_FOR && self.word.swap(WAITED_FOR, Ordering::Acquire) == FREE {
                return;
            }
            wait(&self.word, WAITED_FOR);
            seen = self.look();
        }
    }

    /// Spins for a moment. If other threads already sleep, they have spun before, so more spinning is pointless.
    fn look(&self) -> u32 {
        let mut left = spins();
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen != HELD || left == 0 {
                return seen;
            }
            relax();
            left -= 1;
        }
    }

    /// Only the holder may call this.
    #[inline]
    pub(super) fn unlock(&self) {
        if self.word.load(Ordering::Relaxed) == WAITED_FOR {
            self.releaser.is_this_thread();
        }
        // Release: makes our writes visible to the next holder.
        if self.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            wake(&self.word, 1);
        }
    }

    #[cfg(not(loom))]
    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    #[test]
    fn one_at_a_time_and_nobody_sleeps_for_ever() {
        loom::model(|| {
            let shared = Arc::new((Plain::new(), AtomicUsize::new(0)));
            let threads = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.lock();
                    // The test has two steps. If the lock failed, another thread would run between them.
                    let seen = shared.1.load(Ordering::Relaxed);
                    shared.1.store(seen + 1, Ordering::Relaxed);
                    shared.0.unlock();
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            shared.0.lock();
            assert_eq!(shared.1.load(Ordering::Relaxed), 2);
        });
    }
}
