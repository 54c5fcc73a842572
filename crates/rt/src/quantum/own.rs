//! What the kernel reports about the tick's own thread: whether the kernel preempted the thread (rseq(2)), and how long it waited for a CPU.
//!
//! The rseq mark does not cover a sleep, in which the thread itself gives up the CPU.
//! For sleeps, and if the mark does not work, the kernel's count of waiting shows who took the CPU.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use evenkeel_stats::periodicity::Label;
use evenkeel_sys::schedstat::RunDelay;

use crate::preempt::Preemptions;

struct Own {
    turns: Option<Rc<Preemptions>>,
    delay: Option<RunDelay>,
    marked: Cell<u64>,
    waited_ns: Cell<u64>,
}

thread_local! {
    /// The mark and the count of the calling thread. If a clock moves to another thread, it uses the mark and the count of that thread.
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

fn with<T>(ask: impl FnOnce(&Own) -> T) -> Option<T> {
    let make = || Own {
        turns: Preemptions::of_this_thread(),
        delay: RunDelay::of_this_thread().ok(),
        marked: Cell::new(0),
        waited_ns: Cell::new(0),
    };
    OWN.try_with(|own| ask(own.get_or_init(make))).ok()
}

impl Own {
    /// How long the thread waited for a CPU since the last call. `None` if the kernel does not count this time.
    fn waited_ns(&self) -> Option<u64> {
        let now_ns = self.delay.as_ref()?.read().ok()?.run_delay_ns;
        Some(now_ns.saturating_sub(self.waited_ns.replace(now_ns)))
    }

    /// Whether no other thread of the guest ran on this CPU since the last call. `None` if that is not known.
    fn is_intact(&self) -> Option<bool> {
        let count = self.turns.as_ref()?.count();
        Some(count == self.marked.replace(count))
    }
}

/// Creates the counters for the calling thread. Nothing else in this module allocates.
/// The first call of a process tests the mark, which takes up to 0.3 s.
pub(super) fn prepare() {
    mark();
    settle();
}

/// Starts to count preemptions. This costs a nanosecond or two. Call it when a tick begins.
pub(super) fn mark() {
    with(Own::is_intact);
}

/// Starts to count waiting from zero. This takes some microseconds, so do not call it when a tick begins.
pub(super) fn settle() {
    with(Own::waited_ns);
}

/// Which threads kept this thread from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descheduled {
    /// No thread inside the guest.
    Not,
    /// A thread inside the guest, for this many nanoseconds since the mark.
    For(u64),
    /// Not known.
    Unknown,
}

/// Returns who kept the thread from running since the mark, and sets the mark again.
pub(super) fn kept() -> Descheduled {
    let ask = |own: &Own| match own.is_intact() {
        Some(true) => Descheduled::Not,
        Some(false) | None => own.waited_ns().map_or(Descheduled::Unknown, Descheduled::For),
    };
    with(ask).unwrap_or(Descheduled::Unknown)
}

/// Returns who made a sleep end this much too late.
pub(super) fn label_of_sleep(late_ns: u64) -> Label {
    match with(Own::waited_ns).flatten() {
        Some(waited_ns) if waited_ns >= late_ns / 2 => Label::Preempted,
        Some(_) => Label::Foreign,
        None => Label::Unknown,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_about_itself() {
        std::thread::spawn(|| {
            prepare();
            mark();
            settle();
            assert_ne!(kept(), Descheduled::Unknown, "this kernel counts");
            std::thread::sleep(std::time::Duration::from_millis(1));
            // The sleep is reported ten seconds late, but the thread did not wait ten seconds for a CPU.
            assert_eq!(label_of_sleep(10_000_000_000), Label::Foreign);
        })
        .join()
        .unwrap();
    }
}
