//! `Preemptions`: how often the kernel preempted the calling thread inside the guest. A check costs about a nanosecond.
//! All users of one thread share one count. Otherwise, a user that resets the mark would hide preemptions from the others.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::OnceLock;

use evenkeel_sys::rseq::Watcher;
use evenkeel_sys::sched;

/// Whether the kernel reports preemptions on this machine. We test this once per process.
static SERVES: OnceLock<bool> = OnceLock::new();

thread_local! {
    static OWN: OnceCell<Option<Rc<Preemptions>>> = const { OnceCell::new() };
}

/// The preemptions of one thread.
#[derive(Debug)]
pub(crate) struct Preemptions {
    watcher: Watcher,
    count: Cell<u64>,
}

impl Preemptions {
    /// The count of the calling thread. `None` if the kernel or the C library does not report preemptions.
    /// The first call of a process takes up to 0.3 s.
    pub(crate) fn of_this_thread() -> Option<Rc<Preemptions>> {
        if !*SERVES.get_or_init(serves) {
            return None;
        }
        let made = || {
            let watcher = Watcher::of_this_thread().ok()?;
            watcher.arm();
            Some(Rc::new(Preemptions { watcher, count: Cell::new(0) }))
        };
        OWN.try_with(|own| own.get_or_init(made).clone()).ok().flatten()
    }

    /// How often the thread was preempted so far. Several preemptions between two calls count as one.
    #[inline(always)]
    pub(crate) fn count(&self) -> u64 {
        if !self.watcher.intact() {
            self.count.set(self.count.get() + 1);
            self.watcher.arm();
        }
        self.count.get()
    }
}

/// Tests in a separate thread whether the kernel reports preemptions.
/// The caller may be real-time, or pinned to CPUs where the test must not disturb other threads.
fn serves() -> bool {
    let body = || {
        sched::set_ordinary(None).is_ok() && Watcher::of_this_thread().is_ok_and(|watcher| watcher.self_test().is_ok())
    };
    std::thread::Builder::new().spawn(body).is_ok_and(|tried| tried.join().unwrap_or(false))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_seen_by_all_who_count() {
        let body = || {
            let (Some(one), Some(other)) = (Preemptions::of_this_thread(), Preemptions::of_this_thread()) else {
                evenkeel_testkit::skipped("the kernel does not report a thread's preemptions here");
                return;
            };
            let (before, seen) = (one.count(), other.count());
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                one.count();
            }
            // If no other thread is ready, the kernel may resume this thread without clearing the mark, but not twenty times in a row.
            assert!(one.count() > before && other.count() > seen);
            // Do not compare the counts themselves: a preemption may come between two reads.
            assert!(Rc::ptr_eq(&one, &other));
        };
        std::thread::spawn(body).join().unwrap();
    }
}
