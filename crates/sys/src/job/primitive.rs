//! The primitives of the job system. A model checker can replace them to check their memory orderings.

#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(loom)]
pub(super) use model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) use crate::futex::wait;

    /// A cell with the model checker's interface, so that the model checker can observe each access.
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

    /// Wakes one thread that waits on `word`.
    pub(crate) fn wake(word: &AtomicU32) {
        crate::futex::wake(word, 1);
    }

    pub(crate) fn relax() {
        std::hint::spin_loop();
    }
}

/// Wait and wake for the model checker: a futex is a mutex and a condition variable.
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
        // Like the kernel, check the word under a lock. A thread that wakes others takes the same lock.
        if word.load(Ordering::SeqCst) == value {
            drop(QUEUE.1.wait(queue).unwrap());
        }
    }

    /// All threads wake, because the condition variable does not distinguish words. Threads that wait on another word sleep again.
    pub(crate) fn wake(_: &AtomicU32) {
        let _queue = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }

    pub(crate) fn relax() {
        loom::hint::spin_loop();
    }
}
