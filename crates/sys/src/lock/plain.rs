//! `Plain`: a lock in one word. Whoever finds it held sleeps, and whoever lets it go wakes one of them; who comes meanwhile may take it
//! first, since a lock that is handed on stands still while the next one wakes up.

use super::primitive::{AtomicU32, Kind, Ordering, begin, relax, spins, wait, wake};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep.
const WAITED_FOR: u32 = 2;

#[derive(Debug)]
pub(super) struct Plain {
    word: AtomicU32,
}

impl Plain {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Plain {
        Plain { word: AtomicU32::new(FREE) }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Plain {
        Plain { word: AtomicU32::new(FREE) }
    }

    pub(super) fn try_lock(&self) -> bool {
        // Acquire: what the last holder wrote is seen by us.
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
        let _waiting = begin(Kind::Mutex, self);
        let mut seen = self.look();
        if seen == FREE {
            match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        loop {
            // From here on the word says that somebody sleeps, since we can't know whether we are the last: at worst one wake too many.
            if seen != WAITED_FOR && self.word.swap(WAITED_FOR, Ordering::Acquire) == FREE {
                return;
            }
            wait(&self.word, WAITED_FOR);
            seen = self.look();
        }
    }

    /// Looks for a moment whether it comes free. Others that sleep already had their moment: then there is no sense in it.
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

    /// To be called by the holder alone.
    #[inline]
    pub(super) fn unlock(&self) {
        // Release: what we wrote is seen by the next holder.
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
                    // Two steps that somebody else's would come between, if the lock let them.
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
