//! Which thread holds a lock. A thread that would wait for itself, or releases another thread's lock, gets an error.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{EvenkeelStatus, Failure};

/// The number in a [`Holder`] while no thread holds the lock.
const NOBODY: u32 = 0;

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(NOBODY) };
}

/// The calling thread's number, from 1.
/// We do not use the kernel's number: it would take a system call, and other systems than Linux have no number of this size.
fn own() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(NOBODY);
    OWN.with(|own| {
        if own.get() == NOBODY {
            own.set(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        }
        own.get()
    })
}

/// The thread that holds a lock. Only the holder writes it. So a thread that finds its own number there is the holder, in any memory order.
#[derive(Debug)]
pub(crate) struct Holder(AtomicU32);

impl Holder {
    pub(crate) const fn nobody() -> Holder {
        Holder(AtomicU32::new(NOBODY))
    }

    /// Call this before waiting for the lock.
    ///
    /// # Errors
    /// If the calling thread already holds the lock: it would wait for itself.
    pub(crate) fn is_another(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) == own() {
            return Err(Failure::new(
                EvenkeelStatus::Busy,
                "this thread holds the lock already and would wait for itself",
            ));
        }
        Ok(())
    }

    /// Records that the calling thread has just taken the lock.
    pub(crate) fn took(&self) {
        self.0.store(own(), Ordering::Relaxed);
    }

    /// Records that the calling thread is about to release the lock. Some thread must hold it.
    ///
    /// # Errors
    /// If another thread holds the lock.
    pub(crate) fn releases(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) != own() {
            return Err(Failure::new(EvenkeelStatus::WrongThread, "another thread holds the lock"));
        }
        self.0.store(NOBODY, Ordering::Relaxed);
        Ok(())
    }
}
