//! Waiting for a condition instead of for a time.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The time limit for a hang. Nothing takes nearly as long, even on a machine that pauses.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `is_so` returns true.
///
/// # Panics
/// With `what`, if that never happens.
pub(crate) fn until(what: impl Display, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// CPU time that a process has had so far, in nanoseconds; 0 after its end.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}
