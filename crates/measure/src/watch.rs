//! `Watch`: how a meter reports its progress and receives the request to stop. Meters run from seconds to hours.

use std::sync::atomic::{AtomicBool, Ordering};

/// The observer of a running meter. The meter's threads share it. A check for a stop is cheap.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    report: &'a (dyn Fn(f64, &str) + Sync),
}

impl<'a> Watch<'a> {
    /// When `stop` becomes true, the measurement ends with its data so far.
    /// `report` receives the share that is done, from 0 to 1, and a text about the current work.
    pub fn new(stop: &'a AtomicBool, report: &'a (dyn Fn(f64, &str) + Sync)) -> Watch<'a> {
        Watch { stop, report }
    }

    /// Whether to stop now, with the data recorded so far.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports the progress.
    pub fn progress(&self, share: f64, doing: &str) {
        (self.report)(share.clamp(0.0, 1.0), doing);
    }

    /// A watch for one stage of the measurement, whose progress goes from `from` to `to`.
    pub fn part<T>(&self, from: f64, to: f64, run: impl FnOnce(&Watch<'_>) -> T) -> T {
        let report = |share: f64, doing: &str| self.progress(from + share * (to - from), doing);
        run(&Watch { stop: self.stop, report: &report })
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("stopped", &self.stopped()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_part_fills_its_share() {
        let (stop, reported) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let report = |share: f64, doing: &str| reported.lock().unwrap().push(format!("{share} {doing}"));
        let watch = Watch::new(&stop, &report);
        let seen = watch.part(0.5, 1.0, |part| {
            part.progress(0.5, "half of it");
            part.progress(7.0, "all");
            stop.store(true, Ordering::Relaxed);
            part.stopped()
        });
        assert!(seen);
        assert_eq!(*reported.lock().unwrap(), ["0.75 half of it", "1 all"]);
    }
}
