//! `ReadWrite`: many readers or one writer, in two words. New readers wait as soon as a writer waits.
//! So a tick that writes once does not wait behind an endless stream of readers.
//! The lock counts as the standard library's futex lock does.

use super::primitive::{AtomicU32, By, Kind, Ordering, Releaser, begin, relax, spins, wait, wake};

/// One reader, in the count of readers that hold the lock (the lower 30 bits of `state`). If all 30 bits are set, a writer holds the lock.
const ONE_READER: u32 = 1;
const HOLDERS: u32 = (1 << 30) - 1;
const WRITER: u32 = HOLDERS;
const READERS_MAX: u32 = HOLDERS - 1;
/// These bits say that threads may sleep: readers on `state`, writers on `writers`.
const READERS_WAIT: u32 = 1 << 30;
const WRITERS_WAIT: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct ReadWrite {
    state: AtomicU32,
    /// The lock increments this number each time it wakes a writer. Writers sleep on a separate word, so that no reader gets their wake.
    writers: AtomicU32,
    releaser: Releaser,
}

fn is_free(state: u32) -> bool {
    state & HOLDERS == 0
}

fn may_read(state: u32) -> bool {
    state & HOLDERS < READERS_MAX && state & (READERS_WAIT | WRITERS_WAIT) == 0
}

impl ReadWrite {
    #[cfg(not(loom))]
    pub(super) const fn new() -> ReadWrite {
        ReadWrite { state: AtomicU32::new(0), writers: AtomicU32::new(0), releaser: Releaser::new() }
    }

    #[cfg(loom)]
    pub(super) fn new() -> ReadWrite {
        ReadWrite { state: AtomicU32::new(0), writers: AtomicU32::new(0), releaser: Releaser::new() }
    }

    #[inline]
    pub(super) fn try_read(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while may_read(state) {
            match self.take(state, state + ONE_READER) {
                Ok(()) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    pub(super) fn read(&self) {
        if !self.try_read() {
            self.read_held();
        }
    }

    #[cfg(not(loom))]
    #[inline]
    pub(super) fn try_write(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while is_free(state) {
            match self.take(state, state | WRITER) {
                Ok(()) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    pub(super) fn write(&self) {
        if self.take(0, WRITER).is_err() {
            self.write_held();
        }
    }

    /// Only a reader that holds the lock may call this.
    #[inline]
    pub(super) fn unlock_read(&self) {
        self.name_releaser();
        // Release: our reads happen before the next writer's writes.
        let state = self.state.fetch_sub(ONE_READER, Ordering::Release) - ONE_READER;
        // Readers sleep only behind a writer that holds the lock or waits for it, so this state is known.
        if is_free(state) && state & WRITERS_WAIT != 0 {
            self.hand_on(state);
        }
    }

    /// Only the writer that holds the lock may call this.
    #[inline]
    pub(super) fn unlock_write(&self) {
        self.name_releaser();
        let state = self.state.fetch_sub(WRITER, Ordering::Release) - WRITER;
        if state & (READERS_WAIT | WRITERS_WAIT) != 0 {
            self.hand_on(state);
        }
    }

    #[inline]
    fn name_releaser(&self) {
        if self.state.load(Ordering::Relaxed) & (READERS_WAIT | WRITERS_WAIT) != 0 {
            self.releaser.is_this_thread();
        }
    }

    #[cfg(not(loom))]
    pub(super) fn is_locked(&self) -> bool {
        !is_free(self.state.load(Ordering::Relaxed))
    }

    #[cfg(not(loom))]
    pub(super) fn is_locked_by_writer(&self) -> bool {
        self.state.load(Ordering::Relaxed) & HOLDERS == WRITER
    }

    /// Acquire: makes the previous holder's writes visible.
    fn take(&self, from: u32, to: u32) -> Result<(), u32> {
        self.state.compare_exchange_weak(from, to, Ordering::Acquire, Ordering::Relaxed).map(|_| ())
    }

    /// Sets a bit that announces a sleeper. If the state has changed, returns the current state.
    fn announce(&self, state: u32, bit: u32) -> Result<(), u32> {
        if state & bit != 0 {
            return Ok(());
        }
        self.state.compare_exchange(state, state | bit, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
    }

    #[cold]
    fn read_held(&self) {
        let _waiting = begin(Kind::Read, self, By::Releaser(&self.releaser));
        let mut state = self.look(|state| state & HOLDERS != WRITER || state & (READERS_WAIT | WRITERS_WAIT) != 0);
        loop {
            if may_read(state) {
                match self.take(state, state + ONE_READER) {
                    Ok(()) => return,
                    Err(now) => state = now,
                }
                continue;
            }
            // Each reader is a thread with a stack. So this can happen only if guards were leaked a billion times.
            assert!(state & HOLDERS != READERS_MAX, "too many readers hold a lock");
            if let Err(now) = self.announce(state, READERS_WAIT) {
                state = now;
                continue;
            }
            wait(&self.state, state | READERS_WAIT);
            state = self.look(|state| state & HOLDERS != WRITER || state & (READERS_WAIT | WRITERS_WAIT) != 0);
        }
    }

    #[cold]
    fn write_held(&self) {
        let _waiting = begin(Kind::Write, self, By::Releaser(&self.releaser));
        let mut state = self.look(|state| is_free(state) || state & WRITERS_WAIT != 0);
        // A woken writer does not know whether other threads sleep, so it keeps the bit. At worst this causes one unneeded wake.
        let mut others = 0;
        loop {
            if is_free(state) {
                match self.take(state, state | WRITER | others) {
                    Ok(()) => return,
                    Err(now) => state = now,
                }
                continue;
            }
            if let Err(now) = self.announce(state, WRITERS_WAIT) {
                state = now;
                continue;
            }
            others = WRITERS_WAIT;
            // Read this number (with acquire) before reading the state again. If the number changes, there was a wake in between.
            let number = self.writers.load(Ordering::Acquire);
            state = self.state.load(Ordering::Relaxed);
            if is_free(state) || state & WRITERS_WAIT == 0 {
                continue;
            }
            wait(&self.writers, number);
            state = self.look(|state| is_free(state) || state & WRITERS_WAIT != 0);
        }
    }

    /// Spins for a moment until `enough` holds.
    fn look(&self, enough: impl Fn(u32) -> bool) -> u32 {
        let mut left = spins();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if left == 0 || enough(state) {
                return state;
            }
            relax();
            left -= 1;
        }
    }

    /// Wakes a writer, or otherwise all readers. Called when the lock is free and a thread may sleep.
    /// If another thread has taken the lock meanwhile, that thread will wake the sleepers.
    #[cold]
    fn hand_on(&self, mut state: u32) {
        let change = |from, to| self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        if state == WRITERS_WAIT {
            match change(state, 0) {
                Ok(_) => {
                    self.wake_writer();
                    return;
                }
                // Readers may have started to wait in the meantime.
                Err(now) => state = now,
            }
        }
        if state == READERS_WAIT | WRITERS_WAIT {
            if change(state, READERS_WAIT).is_err() || self.wake_writer() {
                return;
            }
            // The writer does not sleep yet and will find the lock free. So wake the readers.
            state = READERS_WAIT;
        }
        if state == READERS_WAIT && change(state, 0).is_ok() {
            wake(&self.state, i32::MAX.unsigned_abs());
        }
    }

    /// Wakes one writer. Returns whether a writer slept.
    fn wake_writer(&self) -> bool {
        // Release: a thread that sees this number also sees the earlier state.
        self.writers.fetch_add(1, Ordering::Release);
        wake(&self.writers, 1)
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    #[derive(Clone, Copy)]
    enum Does {
        Read,
        Write,
    }

    fn threads(what: &'static [Does]) {
        loom::model(move || {
            let shared = Arc::new((ReadWrite::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
            let spawn = |does: Does| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || match does {
                    Does::Read => {
                        shared.0.read();
                        // Other threads must see the two steps of a writer together or not at all.
                        let first = shared.1.load(Ordering::Relaxed);
                        assert_eq!(first, shared.2.load(Ordering::Relaxed));
                        shared.0.unlock_read();
                    }
                    Does::Write => {
                        shared.0.write();
                        let seen = shared.1.load(Ordering::Relaxed);
                        shared.1.store(seen + 1, Ordering::Relaxed);
                        shared.2.store(seen + 1, Ordering::Relaxed);
                        shared.0.unlock_write();
                    }
                })
            };
            for thread in what.iter().map(|does| spawn(*does)).collect::<Vec<_>>() {
                thread.join().unwrap();
            }
            shared.0.read();
            let writers = what.iter().filter(|does| matches!(does, Does::Write)).count();
            assert_eq!(shared.1.load(Ordering::Relaxed), writers);
        });
    }

    #[test]
    fn two_writers() {
        threads(&[Does::Write, Does::Write]);
    }

    #[test]
    fn a_reader_and_a_writer() {
        threads(&[Does::Read, Does::Write]);
    }

    #[test]
    fn readers_and_a_writer() {
        threads(&[Does::Read, Does::Write, Does::Read]);
    }

    #[test]
    fn writers_and_a_reader() {
        threads(&[Does::Write, Does::Write, Does::Read]);
    }
}
