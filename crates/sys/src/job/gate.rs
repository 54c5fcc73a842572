//! `Gate`: who of a few threads sleeps, and how one of them is woken. A thread says that it is about to sleep, looks once more whether
//! there is something to do, and then sleeps; who has made something to do looks who sleeps. One of the two sees the other.

use super::primitive::{AtomicU32, AtomicU64, Ordering, fence, relax, wait, wake};

/// The most threads that a gate has slots for: a bit each.
pub const SLOTS_MAX: usize = 64;

const AWAKE: u32 = 0;
const CALLED: u32 = 1;
const ASLEEP: u32 = 2;

/// Threads, each with a number below [`SLOTS_MAX`], that sleep until they are woken.
#[derive(Debug)]
pub struct Gate {
    /// Those that sleep, or are about to.
    idle: AtomicU64,
    words: Box<[Word]>,
}

/// In a cache line of its own: its thread may look at it for a moment.
#[repr(align(64))]
#[derive(Debug)]
struct Word(AtomicU32);

impl Gate {
    /// For so many threads, at most [`SLOTS_MAX`].
    pub fn new(slots: usize) -> Gate {
        let words = (0..slots.min(SLOTS_MAX)).map(|_| Word(AtomicU32::new(AWAKE))).collect();
        Gate { idle: AtomicU64::new(0), words }
    }

    /// A bit for each thread that sleeps or is about to, as far as one can tell without a fence.
    #[inline]
    pub fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    /// The thread with this number is about to sleep. It has to look once more for what it would sleep through, and then either
    /// [`stay`](Gate::stay) or [`sleep`](Gate::sleep).
    pub fn about_to_sleep(&self, slot: usize) {
        self.idle.fetch_or(bit(slot), Ordering::Relaxed);
        // Either our bit is seen by who has just made something to do, or what he made is seen by our second look.
        fence(Ordering::SeqCst);
    }

    /// It does not sleep after all.
    pub fn stay(&self, slot: usize) {
        self.idle.fetch_and(!bit(slot), Ordering::Relaxed);
    }

    /// It sleeps until it is called; before, it looks for a call so many times. May end without a call.
    pub fn sleep(&self, slot: usize, looks: u32) {
        let Some(Word(word)) = self.words.get(slot) else { return };
        for _ in 0..looks {
            if word.load(Ordering::Relaxed) == CALLED {
                break;
            }
            relax();
        }
        while word.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) != Err(CALLED) {
            wait(word, ASLEEP);
        }
        // Acquire: what the caller did before is seen.
        word.swap(AWAKE, Ordering::Acquire);
        self.stay(slot);
    }

    /// Wakes one of those whose bits are given, the lowest first; gives its number, or none if all are awake.
    pub fn wake_one(&self, of: u64) -> Option<usize> {
        fence(Ordering::SeqCst);
        let mut idle = self.idle.load(Ordering::Relaxed);
        loop {
            let slot = match idle & of {
                0 => return None,
                some => some.trailing_zeros() as usize,
            };
            let without = idle & !bit(slot);
            match self.idle.compare_exchange_weak(idle, without, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.call(slot);
                    return Some(slot);
                }
                Err(now) => idle = now,
            }
        }
    }

    /// Calls this one, whether or not it sleeps.
    fn call(&self, slot: usize) {
        let Some(Word(word)) = self.words.get(slot) else { return };
        if word.swap(CALLED, Ordering::Release) == ASLEEP {
            wake(word);
        }
    }
}

fn bit(slot: usize) -> u64 {
    1_u64.checked_shl(u32::try_from(slot).unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_who_sleeps_is_woken_and_the_lowest_first() {
        let gate = Gate::new(3);
        assert_eq!(gate.wake_one(u64::MAX), None);
        gate.about_to_sleep(2);
        gate.about_to_sleep(1);
        assert_eq!((gate.idle(), gate.wake_one(1)), (0b110, None));
        assert_eq!(gate.wake_one(0b111), Some(1));
        gate.sleep(1, 0);
        gate.stay(2);
        assert_eq!(gate.wake_one(0b111), None);
        // A slot that is not there sleeps no moment.
        gate.sleep(64, 0);
    }

    #[test]
    fn a_thread_sleeps_until_it_is_called() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                gate.about_to_sleep(1);
                gate.sleep(1, 10);
            });
            while gate.wake_one(0b10).is_none() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            sleeper.join().unwrap();
        });
        assert_eq!(gate.idle(), 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn nobody_sleeps_through_what_there_is_to_do() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(2), AtomicU64::new(0)));
            let sleepers = [0, 1].map(|slot| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.about_to_sleep(slot);
                    if shared.1.load(Ordering::Acquire) == 0 {
                        shared.0.sleep(slot, 0);
                    } else {
                        shared.0.stay(slot);
                    }
                    // Who may have been called wakes the next: a call may come to one that does not sleep after all.
                    shared.0.wake_one(0b11);
                })
            });
            shared.1.store(1, Ordering::Release);
            shared.0.wake_one(0b11);
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
        });
    }
}
