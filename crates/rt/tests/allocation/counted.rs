//! What a stretch of a test allocates. The counter is of the whole process: threads that only just begin allocate too, and so does the
//! harness' own thread while it starts a test, or says that it takes long.

use std::alloc::System;
use std::fs::read_to_string;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: those that wait for their turn sleep, and allocate nothing.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `body` allocates, in whichever thread. It is run again if the harness' thread ran meanwhile: then nobody knows whose it was.
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

/// Waits until all other threads sleep, at several looks: those that begin have begun by then.
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
        // One that has ended meanwhile is none that sleeps: looked at again.
        read_to_string(thread.path().join("status")).is_ok_and(|status| status.contains("\nState:\tS"))
    })
}

/// The state of the harness' thread, which is the first, and how often it gave its CPU away: the same again if it slept all the time.
fn harness() -> Vec<String> {
    let status = read_to_string(format!("/proc/self/task/{}/status", std::process::id())).unwrap_or_default();
    let says = |line: &&str| line.starts_with("State:") || line.contains("ctxt_switches:");
    status.lines().filter(says).map(str::to_owned).collect()
}
