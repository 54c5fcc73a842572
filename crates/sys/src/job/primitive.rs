//! What the job system's parts are built of, so that their orderings can be model-checked.

#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
pub(super) use model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    use rustix::thread::futex::{self, Flags};

    /// A cell as the model checker's is, so that it can watch who comes near.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, at: impl FnOnce(*mut T) -> R) -> R {
            at(self.0.get())
        }
    }

    /// Waits as long as `word` is `value`; may end sooner, for no reason too.
    pub(crate) fn wait(word: &AtomicU32, value: u32) {
        // That it has changed meanwhile, and that a signal came, are both reasons to look again, as the caller does.
        let _ = futex::wait(word, Flags::PRIVATE, value, None);
    }

    /// Wakes one that waits on `word`.
    pub(crate) fn wake(word: &AtomicU32) {
        let _ = futex::wake(word, Flags::PRIVATE, 1);
    }

    pub(crate) fn relax() {
        std::hint::spin_loop();
    }
}

/// The same under the model checker: a futex is a mutex and a condition over the word.
#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
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

    /// All wake, since the condition does not tell words apart; who was not meant sleeps on.
    pub(crate) fn wake(_: &AtomicU32) {
        let _queue = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    pub(crate) fn relax() {
        loom::hint::spin_loop();
    }
}
