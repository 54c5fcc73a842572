//! Waits for conditions instead of for fixed times.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The time limit that detects a hang. No test takes nearly as long, even on a machine that pauses.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `is_so` returns true.
///
/// # Panics
/// With the text `what`, if `is_so` stays false for [`PATIENCE`].
pub(crate) fn until(what: impl Display, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The CPU time that a process has used so far, in nanoseconds. 0 after its end.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}
