//! `Event`: threads wait until an event has happened.

use super::primitive::{AtomicU32, By, Kind, Ordering, Releaser, begin, relax, spins, wait, wake};

const NOT_YET: u32 = 0;
const HAPPENED: u32 = 1;
/// The event has not happened yet, and a thread may sleep.
const WAITED_FOR: u32 = 2;

/// An event happens once, until it is reset. Threads that have waited see all writes before [`set`](Event::set).
///
/// ```
/// use evenkeel_sys::lock::Event;
///
/// let over = Event::new();
/// assert!(!over.is_set() && !over.is_awaited());
/// over.set();
/// over.wait(); // returns at once
/// over.reset(); // for the next time
/// ```
#[derive(Debug)]
pub struct Event {
    word: AtomicU32,
    setter: Releaser,
}

impl Event {
    /// An event that has not happened.
    #[cfg(not(loom))]
    pub const fn new() -> Event {
        Event { word: AtomicU32::new(NOT_YET), setter: Releaser::new() }
    }

    /// An event that has not happened, for the model checker.
    #[cfg(loom)]
    pub fn new() -> Event {
        Event { word: AtomicU32::new(NOT_YET), setter: Releaser::new() }
    }

    /// Sets the event: waiting threads continue. Setting it again changes nothing.
    pub fn set(&self) {
        if self.is_awaited() {
            self.setter.is_this_thread();
        }
        if self.word.swap(HAPPENED, Ordering::Release) == WAITED_FOR {
            wake(&self.word, i32::MAX.unsigned_abs());
        }
    }

    /// Whether the event has happened.
    pub fn is_set(&self) -> bool {
        self.word.load(Ordering::Acquire) == HAPPENED
    }

    /// Whether a thread may be sleeping until the event happens.
    pub fn is_awaited(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WAITED_FOR
    }

    /// Resets the event. Call it only when no thread still waits for the event.
    pub fn reset(&self) {
        // Reset only an event that has happened. Otherwise this would overwrite WAITED_FOR, and the next `set` would wake no thread.
        let _ = self.word.compare_exchange(HAPPENED, NOT_YET, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sleeps until the event has happened.
    pub fn wait(&self) {
        if self.is_set() {
            return;
        }
        let _waiting = begin(Kind::Event, self, By::Releaser(&self.setter));
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
    fn a_waiter_sees_earlier_writes() {
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
    fn no_thread_misses_the_event() {
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
