//! `Inherit`: a lock whose holder runs with the priority of the most urgent that waits for it (`FUTEX_LOCK_PI`). Where the tick's thread
//! is real-time and shares data with ordinary ones, anything else lets it wait for as long as third threads keep the holder from running:
//! a spin lock for 1 to 2.8 s, as measured, this one for as long as the holder itself takes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};

use super::waits::{self, Kind};
use crate::errno::Errno;

const FREE: u32 = 0;

thread_local! {
    /// The kernel's number of this thread, asked once: a lock must not cost a system call. A forked child has another; it
    /// must not take locks of this kind before exec, as of few kinds.
    static OWN: Cell<u32> = const { Cell::new(FREE) };
}

#[derive(Debug)]
pub(super) struct Inherit {
    /// 0, or the holder's number, with a bit for those who wait. The kernel knows the word too.
    word: AtomicU32,
}

impl Inherit {
    pub(super) const fn new() -> Inherit {
        Inherit { word: AtomicU32::new(FREE) }
    }

    pub(super) fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, own(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_held();
        }
    }

    #[cold]
    fn lock_held(&self) {
        let _waiting = waits::begin(Kind::InheritMutex, self);
        loop {
            // The kernel takes the lock for us, or lends the holder our priority and lets us sleep.
            match futex::lock_pi(&self.word, Flags::PRIVATE, None).map_err(Errno::from) {
                Ok(()) => return,
                // The holder is just about to end, or a signal came.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => never(errno),
            }
            if self.try_lock() {
                return;
            }
        }
    }

    /// To be called by the holder alone.
    pub(super) fn unlock(&self) {
        let alone = self.word.compare_exchange(own(), FREE, Ordering::Release, Ordering::Relaxed).is_ok();
        if !alone && let Err(errno) = futex::unlock_pi(&self.word, Flags::PRIVATE) {
            never(errno.into());
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}

/// A thread that takes a lock which it holds (`EDEADLK`), or a kernel without such locks: to go on would be to go on unlocked.
#[cold]
fn never(errno: Errno) -> ! {
    panic!("failed to take or let go a lock that inherits priority: {errno}: does this thread hold it already?")
}

fn own() -> u32 {
    OWN.with(|own| {
        if own.get() == FREE {
            own.set(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        }
        own.get()
    })
}
