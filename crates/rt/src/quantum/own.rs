//! What the kernel tells the thread that ticks of itself: whether it was preempted while it ran (rseq(2)), and how long it waited for a CPU.
//!
//! The mark of rseq says nothing of a sleep, in which a thread gives the CPU up itself: who was late to wake it is told by the kernel's
//! count of its waiting, as everything is where the mark does not serve.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU8, Ordering};

use evenkeel_stats::periodicity::Label;
use evenkeel_sys::rseq::Watcher;
use evenkeel_sys::schedstat::RunDelay;

/// Whether the mark does what it is used for on this kernel: 0 is not known yet.
static SERVES: AtomicU8 = AtomicU8::new(UNTRIED);
const UNTRIED: u8 = 0;
const TRYING: u8 = 1;
const YES: u8 = 2;
const NO: u8 = 3;

/// Tries the mark out, once in a process, in the calling thread, which must be an ordinary one: up to 0.3 s.
pub(super) fn try_mark() {
    if SERVES.compare_exchange(UNTRIED, TRYING, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let does = Watcher::of_this_thread().is_ok_and(|watcher| watcher.self_test().is_ok());
        SERVES.store(if does { YES } else { NO }, Ordering::Relaxed);
    }
}

struct Own {
    watcher: Option<Watcher>,
    delay: Option<RunDelay>,
    waited_ns: Cell<u64>,
}

thread_local! {
    /// Both belong to one thread: a clock that goes to another one has to ask for that one's.
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

fn with<T>(ask: impl FnOnce(&Own) -> T) -> Option<T> {
    let make = || Own {
        watcher: Watcher::of_this_thread().ok(),
        delay: RunDelay::of_this_thread().ok(),
        waited_ns: Cell::new(0),
    };
    OWN.try_with(|own| ask(own.get_or_init(make))).ok()
}

impl Own {
    /// How long it waited for a CPU since this was last asked; none where the kernel does not count.
    fn waited_ns(&self) -> Option<u64> {
        let now_ns = self.delay.as_ref()?.read().ok()?.run_delay_ns;
        Some(now_ns.saturating_sub(self.waited_ns.replace(now_ns)))
    }
}

/// Makes what is needed for the calling thread: the only allocation.
pub(super) fn prepare() {
    mark();
}

/// From here on a preemption is seen, and waiting is counted anew.
pub(super) fn mark() {
    with(|own| {
        own.waited_ns();
        arm(own);
    });
}

fn arm(own: &Own) {
    if let Some(watcher) = &own.watcher {
        watcher.arm();
    }
}

/// Who kept the thread from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nobody inside the guest.
    Not,
    /// Somebody inside the guest, for so many nanoseconds since the mark.
    For(u64),
    /// Not known.
    Unknown,
}

/// Who kept the thread from running since the mark, which is set anew.
pub(super) fn kept() -> Kept {
    let ask = |own: &Own| {
        let serves = SERVES.load(Ordering::Relaxed) == YES;
        let is_intact = own.watcher.as_ref().is_some_and(Watcher::intact);
        if serves && is_intact {
            return Kept::Not;
        }
        let kept = own.waited_ns().map_or(Kept::Unknown, Kept::For);
        arm(own);
        kept
    };
    with(ask).unwrap_or(Kept::Unknown)
}

/// Who made a sleep end so much too late.
pub(super) fn label_of_sleep(late_ns: u64) -> Label {
    match with(Own::waited_ns).flatten() {
        Some(waited_ns) if waited_ns >= late_ns / 2 => Label::Preempted,
        Some(_) => Label::Foreign,
        None => Label::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_of_itself() {
        std::thread::spawn(|| {
            prepare();
            try_mark();
            mark();
            assert_ne!(kept(), Kept::Unknown, "this kernel counts");
            std::thread::sleep(std::time::Duration::from_millis(1));
            // A sleep that is said to be ten seconds late was not ten seconds in the queue.
            assert_eq!(label_of_sleep(10_000_000_000), Label::Foreign);
        })
        .join()
        .unwrap();
    }
}
