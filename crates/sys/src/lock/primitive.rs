//! What the locks are built of, so that the orderings can be model-checked: an atomic word, and waiting on it.

#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
pub(super) use model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::thread::futex::{self, Flags};

    use crate::thread;

    /// Readings of the word before a waiter sleeps: some hundred nanoseconds, less than two system calls.
    const SPINS: u32 = 100;

    /// Waits as long as `word` is `value`; may end sooner, for no reason too.
    pub(crate) fn wait(word: &AtomicU32, value: u32) {
        // That it has changed meanwhile, and that a signal came, are both reasons to look again, as the caller does.
        let _ = futex::wait(word, Flags::PRIVATE, value, None);
    }

    /// Wakes up to `count` of those that wait on `word`.
    pub(crate) fn wake(word: &AtomicU32, count: u32) {
        let _ = futex::wake(word, Flags::PRIVATE, count);
    }

    /// How often to look before sleeping: not at all where all threads share one CPU.
    pub(crate) fn spins() -> u32 {
        /// 0 is not known yet, else one more than the number.
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

/// The same under the model checker: a futex is a mutex and a condition over the word.
#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, value: u32) {
        let queue = QUEUE.0.lock().unwrap();
        // The kernel looks at the word under its own lock, which a waker takes too.
        if word.load(Ordering::SeqCst) == value {
            drop(QUEUE.1.wait(queue).unwrap());
        }
    }

    pub(crate) fn wake(_: &AtomicU32, count: u32) {
        let _queue = QUEUE.0.lock().unwrap();
        if count == 1 { QUEUE.1.notify_one() } else { QUEUE.1.notify_all() }
    }

    pub(crate) fn spins() -> u32 {
        0
    }

    pub(crate) fn relax() {
        loom::hint::spin_loop();
    }
}
