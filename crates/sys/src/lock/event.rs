//! `Event`: threads wait until something has happened.

use super::primitive::{AtomicU32, Kind, Ordering, begin, relax, spins, wait, wake};

const NOT_YET: u32 = 0;
const HAPPENED: u32 = 1;
/// Not yet, and somebody may sleep.
const WAITED_FOR: u32 = 2;

/// Something that happens once, until it is reset. What was written before it is [`set`](Event::set) is seen by whoever has waited.
#[derive(Debug)]
pub struct Event {
    word: AtomicU32,
}

impl Event {
    /// One that has not happened.
    #[cfg(not(loom))]
    pub const fn new() -> Event {
        Event { word: AtomicU32::new(NOT_YET) }
    }

    /// The same for the model checker.
    #[cfg(loom)]
    pub fn new() -> Event {
        Event { word: AtomicU32::new(NOT_YET) }
    }

    /// It has happened: whoever waits goes on. A second time changes nothing.
    pub fn set(&self) {
        if self.word.swap(HAPPENED, Ordering::Release) == WAITED_FOR {
            wake(&self.word, i32::MAX.unsigned_abs());
        }
    }

    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        self.word.load(Ordering::Acquire) == HAPPENED
    }

    /// Whether a thread may sleep until it happens.
    pub fn is_awaited(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WAITED_FOR
    }

    /// It is to happen anew. Nobody may wait meanwhile who waits for the last time.
    pub fn reset(&self) {
        // Only what has happened goes back: who waits for the next time already is not forgotten.
        let _ = self.word.compare_exchange(HAPPENED, NOT_YET, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sleeps until it has happened.
    pub fn wait(&self) {
        if self.is_set() {
            return;
        }
        let _waiting = begin(Kind::Event, self);
        for _ in 0..spins() {
            if self.is_set() {
                return;
            }
            relax();
        }
        while !self.is_set() {
            let said = self.word.compare_exchange(NOT_YET, WAITED_FOR, Ordering::Relaxed, Ordering::Relaxed);
            if !matches!(said, Err(HAPPENED)) {
                wait(&self.word, WAITED_FOR);
            }
        }
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn who_waits_sees_what_was_written_before() {
        let (event, value) = (Event::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    event.wait();
                    assert_eq!(value.load(Ordering::Relaxed), 7);
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            value.store(7, Ordering::Relaxed);
            event.set();
        });
        event.set();
        event.wait();
        event.reset();
        assert!(!event.is_set());
        event.reset();
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    #[test]
    fn nobody_misses_it() {
        loom::model(|| {
            let shared = Arc::new((Event::new(), AtomicUsize::new(0)));
            let waiters = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.wait();
                    assert_eq!(shared.1.load(Ordering::Relaxed), 7);
                })
            });
            shared.1.store(7, Ordering::Relaxed);
            shared.0.set();
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }
}
