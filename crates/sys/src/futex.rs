//! Sleeping on a word in memory until it changes (futex(2)).

use std::sync::atomic::AtomicU32;

use rustix::thread::futex::{self, Flags};

/// Waits as long as `word` is `value`; may end sooner, for no reason too.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    // That it has changed meanwhile, and that a signal came, are both reasons to look again, as the caller does.
    let _ = futex::wait(word, Flags::PRIVATE, value, None);
}

/// Wakes up to `count` of those that wait on `word`. Returns whether there was one.
pub(crate) fn wake(word: &AtomicU32, count: u32) -> bool {
    futex::wake(word, Flags::PRIVATE, count).is_ok_and(|woken| woken > 0)
}
