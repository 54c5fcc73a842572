//! `Gate`: which of a few threads sleep, and how one of them is woken.
//! A thread announces that it is about to sleep, checks for work again, and then sleeps.
//! A thread that created work checks for sleepers. At least one of the two threads sees the other.

use super::primitive::{AtomicU32, AtomicU64, Ordering, fence, relax, wait, wake};

/// The maximum number of threads of a gate, because each thread has one bit.
pub const SLOTS_MAX: usize = 64;

const AWAKE: u32 = 0;
const CALLED: u32 = 1;
const ASLEEP: u32 = 2;

/// Threads, each with a number below [`SLOTS_MAX`], that sleep until they are woken.
#[derive(Debug)]
pub struct Gate {
    /// The threads that sleep, or are about to.
    idle: AtomicU64,
    words: Box<[Word]>,
}

/// The word is in its own cache line, because its thread may poll the word for a moment.
#[repr(align(64))]
#[derive(Debug)]
struct Word(AtomicU32);

impl Gate {
    /// A gate for this many threads, at most [`SLOTS_MAX`].
    pub fn new(slots: usize) -> Gate {
        let words = (0..slots.min(SLOTS_MAX)).map(|_| Word(AtomicU32::new(AWAKE))).collect();
        Gate { idle: AtomicU64::new(0), words }
    }

    /// A bit for each thread that sleeps or is about to sleep. Without a fence these bits may be slightly out of date.
    #[inline]
    pub fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    /// Announces that the thread with this number is about to sleep. The thread must check for work again.
    /// If the thread finds work, it must call [`stay`](Gate::stay). Otherwise it must call [`sleep`](Gate::sleep).
    pub fn about_to_sleep(&self, slot: usize) {
        self.idle.fetch_or(bit(slot), Ordering::Relaxed);
        // Either the thread that just created work sees our bit, or our second check sees that work.
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement: the thread does not sleep after all.
    pub fn stay(&self, slot: usize) {
        self.idle.fetch_and(!bit(slot), Ordering::Relaxed);
    }

    /// Sleeps until another thread calls this thread. Before that it polls `looks` times for a call. It may return without a call.
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
        // Acquire: makes the caller's earlier writes visible.
        word.swap(AWAKE, Ordering::Acquire);
        self.stay(slot);
    }

    /// Wakes one of the threads with these bits, the lowest first. Returns its number. `None` if all are awake.
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

    /// Calls this thread, whether or not it sleeps.
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
    fn only_sleepers_are_woken_and_the_lowest_first() {
        let gate = Gate::new(3);
        assert_eq!(gate.wake_one(u64::MAX), None);
        gate.about_to_sleep(2);
        gate.about_to_sleep(1);
        assert_eq!((gate.idle(), gate.wake_one(1)), (0b110, None));
        assert_eq!(gate.wake_one(0b111), Some(1));
        gate.sleep(1, 0);
        gate.stay(2);
        assert_eq!(gate.wake_one(0b111), None);
        // An invalid slot never sleeps.
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
    fn no_thread_sleeps_through_work() {
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
                    // A thread that gets a call wakes the next thread, because the call may reach a thread that does not sleep after all.
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
