//! The primitives of the locks: an atomic word, and waiting on it. A model checker can replace them to check their memory orderings.

#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
pub(super) use model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use crate::lock::tick_waits::{By, Releaser};
    pub(crate) use crate::lock::waits::{Kind, begin};

    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

    pub(crate) use crate::futex::{wait, wake};

    use crate::thread;

    /// How often a waiter reads the word before it sleeps. This takes some hundred nanoseconds, less than two system calls.
    const SPINS: u32 = 100;

    /// How often to spin before sleeping. 0 if all threads share one CPU.
    pub(crate) fn spins() -> u32 {
        /// 0 means unknown. Otherwise this is the number of spins plus one.
        static KNOWN: AtomicU32 = AtomicU32::new(0);
        match KNOWN.load(Ordering::Relaxed) {
            0 => {
                let spins = if thread::allowed_cpus().is_ok_and(|cpus| cpus > 1) { SPINS } else { 0 };
                KNOWN.store(spins + 1, Ordering::Relaxed);
                spins
            }
            known => known - 1,
        }
    }

    pub(crate) fn relax() {
        std::hint::spin_loop();
    }
}

/// Wait and wake for the model checker: a futex is one queue under a mutex, for all words.
#[cfg(loom)]
mod model {
    /// The model checker logs no waits, so this type only replaces the real one.
    pub(crate) enum Kind {
        Mutex,
        Read,
        Write,
        Event,
    }

    /// The model checker does not record who released a lock.
    #[derive(Debug)]
    pub(crate) struct Releaser;

    impl Releaser {
        pub(crate) fn new() -> Releaser {
            Releaser
        }

        pub(crate) fn is_this_thread(&self) {}
    }

    pub(crate) enum By<'a> {
        Releaser(&'a Releaser),
    }

    pub(crate) fn begin<T>(_: Kind, _: &T, By::Releaser(_): By<'_>) {}

    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    struct Queue {
        /// The sleepers: the word's address, and a unique number.
        sleepers: Vec<(usize, u32)>,
        next: u32,
    }

    loom::lazy_static! {
        static ref QUEUE: (Mutex<Queue>, Condvar) = (Mutex::new(Queue { sleepers: Vec::new(), next: 0 }), Condvar::new());
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    pub(crate) fn wait(word: &AtomicU32, value: u32) {
        let mut queue = QUEUE.0.lock().unwrap();
        // Like the kernel, check the word under a lock. A thread that wakes others takes the same lock.
        if word.load(Ordering::SeqCst) != value {
            return;
        }
        let own = (address(word), queue.next);
        queue.next += 1;
        queue.sleepers.push(own);
        // The condition variable wakes all threads. Threads that this wake is not for sleep again, so that the checker detects a missing wake.
        while queue.sleepers.contains(&own) {
            queue = QUEUE.1.wait(queue).unwrap();
        }
    }

    pub(crate) fn wake(word: &AtomicU32, count: u32) -> bool {
        let mut queue = QUEUE.0.lock().unwrap();
        let mut left = count;
        queue.sleepers.retain(|(sleeper, _)| {
            let is_woken = left > 0 && *sleeper == address(word);
            left -= u32::from(is_woken);
            !is_woken
        });
        QUEUE.1.notify_all();
        left < count
    }

    pub(crate) fn spins() -> u32 {
        0
    }

    pub(crate) fn relax() {
        loom::hint::spin_loop();
    }
}
