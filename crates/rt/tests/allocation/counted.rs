//! Counts the allocations of a part of a test. The counter is for the whole process. Threads that are just starting allocate too.
//! The harness's own thread also allocates while it starts a test or prints a warning.

use std::alloc::System;
use std::fs::read_to_string;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Only one test runs at a time. Waiting tests sleep, and allocate nothing.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The allocations of `body` in all threads. If the harness's thread ran meanwhile, this runs `body` again.
/// If the harness's thread ran, either `body` or that thread may have allocated.
pub(crate) fn count(mut body: impl FnMut()) -> Stats {
    for _ in 0..5 {
        settle();
        let before = harness();
        let region = Region::new(COUNTING);
        body();
        let change = region.change();
        if harness() == before {
            return change;
        }
    }
    panic!("the harness' thread ran each time");
}

/// Waits until several checks have found all other threads asleep. By then, threads that were starting have started.
fn settle() {
    let (mut looks, mut asleep) = (0, 0);
    while asleep < 3 {
        assert!(looks < 2_000, "other threads are busy");
        std::thread::sleep(Duration::from_millis(10));
        asleep = if others_sleep() { asleep + 1 } else { 0 };
        looks += 1;
    }
}

fn others_sleep() -> bool {
    let own = evenkeel_sys::thread::id().to_string();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.flatten().filter(|thread| thread.file_name() != own.as_str()).all(|thread| {
        // A thread that has ended meanwhile does not count as asleep, so check again.
        read_to_string(thread.path().join("status")).is_ok_and(|status| status.contains("\nState:\tS"))
    })
}

/// The state of the harness's thread, which is the first thread, and its number of switches. If both are unchanged, it slept all the time.
fn harness() -> Vec<String> {
    let status = read_to_string(format!("/proc/self/task/{}/status", std::process::id())).unwrap_or_default();
    let says = |line: &&str| line.starts_with("State:") || line.contains("ctxt_switches:");
    status.lines().filter(says).map(str::to_owned).collect()
}
