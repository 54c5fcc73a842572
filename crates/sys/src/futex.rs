//! Lets a thread sleep until a word in memory changes (futex(2)).

use std::sync::atomic::AtomicU32;

use rustix::thread::futex::{self, Flags};

/// Waits as long as `word` has the value `value`. The wait may also end early without a reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    // The word may have changed, or a signal may have come. In both cases the caller checks again.
    let _ = futex::wait(word, Flags::PRIVATE, value, None);
}

/// Wakes up to `count` threads that wait on `word`. Returns whether any thread waited.
pub(crate) fn wake(word: &AtomicU32, count: u32) -> bool {
    futex::wake(word, Flags::PRIVATE, count).is_ok_and(|woken| woken > 0)
}
