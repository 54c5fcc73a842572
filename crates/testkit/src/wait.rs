//! Waiting for a condition instead of a time.

use std::time::{Duration, Instant};

/// The time limit for a hang. No test comes near it, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Polls until `found` returns something.
///
/// # Panics
/// If `found` returns nothing for a minute.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Polls until `is_so` is true.
///
/// # Panics
/// If `is_so` stays false for a minute.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
