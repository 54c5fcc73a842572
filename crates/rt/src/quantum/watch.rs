//! `Watch`: learns about the CPU from short sleeps in idle time. A sleep that ends on time shows that the CPU was available.
//! A late sleep shows a time at which the CPU was gone, and to the microsecond when it came back.
//!
//! A sleep costs a hundredth of a spin of the same length, and takes no CPU time from other threads. It sees the same gaps as a server's thread.
//! A thread that has slept gets the CPU at once, ahead of an ordinary thread, so that thread causes no gaps here.
//! A spinning thread would see gaps from the ordinary thread every few milliseconds.

use evenkeel_stats::periodicity::{Gap, Label, Window};

/// The maximum number of gaps that one search keeps: ten gaps per tick of 4 ms for 1.5 seconds.
const GAPS_MAX: usize = 4096;
/// The maximum number of watched intervals that one search keeps: one per tick.
const WINDOWS_MAX: usize = 2048;
/// A sleep that ends this much later than usual has met a gap, in nanoseconds.
const LATE_NS: u64 = 150_000;
/// Upper limit of the estimated usual lateness, in nanoseconds: a CPU that is away half of the time is not usual.
const USUAL_MAX_NS: f64 = 150_000.0;
/// How far one wake-up moves the estimate of the usual lateness, in nanoseconds. The estimate converges to the median.
const USUAL_STEP_NS: f64 = 2_000.0;

/// The watched intervals, with their gaps.
#[derive(Debug)]
pub(super) struct Watch {
    windows: Vec<Window>,
    gaps: Vec<Gap>,
    /// The interval under observation. It ends at the last time when the CPU was known to be available.
    open: Option<Window>,
    usual_ns: f64,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch {
            windows: Vec::with_capacity(WINDOWS_MAX),
            gaps: Vec::with_capacity(GAPS_MAX),
            open: None,
            usual_ns: 50_000.0,
        }
    }

    /// The maximum number of windows and gaps of a watch.
    pub(super) fn room() -> (usize, usize) {
        (WINDOWS_MAX, GAPS_MAX)
    }

    pub(super) fn clear(&mut self) {
        self.windows.clear();
        self.gaps.clear();
        self.open = None;
    }

    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    pub(super) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub(super) fn is_full(&self) -> bool {
        self.windows.len() == WINDOWS_MAX || self.gaps.len() == GAPS_MAX
    }

    /// The thread runs at `ns`: starts to watch from here.
    pub(super) fn open(&mut self, ns: u64) {
        self.close();
        self.open = Some(Window { start_ns: ns, end_ns: ns });
    }

    /// Ends the observed interval at the last wake-up, because the thread does something else.
    pub(super) fn close(&mut self) {
        if let Some(window) = self.open.take()
            && window.end_ns > window.start_ns
            && self.windows.len() < WINDOWS_MAX
        {
            self.windows.push(window);
        }
    }

    /// A sleep should have ended at `wanted_ns` and ended at `woke_ns`. Returns the gap in it, if any. `label` says who took the CPU.
    pub(super) fn woke(&mut self, wanted_ns: u64, woke_ns: u64, label: impl FnOnce(u64) -> Label) -> Option<Gap> {
        let late_ns = woke_ns.saturating_sub(wanted_ns);
        let is_gap = late_ns as f64 >= self.usual_ns + LATE_NS as f64;
        let step = if late_ns as f64 > self.usual_ns { USUAL_STEP_NS } else { -USUAL_STEP_NS };
        self.usual_ns = (self.usual_ns + step).clamp(0.0, USUAL_MAX_NS);
        let window = self.open.as_mut()?;
        let asleep_ns = wanted_ns.saturating_sub(window.end_ns);
        let from_ns = window.end_ns;
        window.end_ns = woke_ns.max(from_ns);
        if !is_gap {
            return None;
        }
        // The gap began at an unknown time during the sleep. The middle of the sleep is right on average.
        let start_ns = (wanted_ns - asleep_ns / 2).max(from_ns);
        let gap = Gap { start_ns, length_ns: woke_ns.saturating_sub(start_ns), label: label(late_ns) };
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        }
        Some(gap)
    }

    /// The thread ran until `to_ns`, except during `gap`.
    pub(super) fn ran(&mut self, to_ns: u64, gap: Option<Gap>) {
        let Some(window) = self.open.as_mut() else { return };
        window.end_ns = to_ns.max(window.end_ns);
        self.gaps.extend(gap.filter(|_| self.gaps.len() < GAPS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_end_of_a_sleep_is_a_gap() {
        let mut watch = Watch::new();
        let foreign = |_| Label::Foreign;
        assert_eq!(watch.woke(100, 900_000, foreign), None, "nothing is watched yet");
        watch.open(1_000_000);
        assert_eq!(watch.woke(1_500_000, 1_560_000, foreign), None);
        let gap = watch.woke(2_060_000, 5_000_000, foreign).unwrap();
        assert_eq!((gap.start_ns, gap.start_ns + gap.length_ns), (1_810_000, 5_000_000));
        watch.close();
        watch.open(9_000_000);
        watch.close();
        assert_eq!(watch.windows(), [Window { start_ns: 1_000_000, end_ns: 5_000_000 }]);
        assert_eq!(watch.gaps(), [gap]);
    }

    #[test]
    fn usual_lateness_is_no_gap_and_memory_does_not_grow() {
        let mut watch = Watch::new();
        watch.open(0);
        for at in 1..10_000_u64 {
            // Every sleep ends 0.2 ms late: a machine with coarse timers.
            watch.woke(at * 500_000, at * 500_000 + 200_000, |_| Label::Unknown);
        }
        assert!(watch.gaps().len() < 60, "{}", watch.gaps().len());
        for at in 10_000..20_000_u64 {
            watch.woke(at * 500_000, at * 500_000 + 400_000, |_| Label::Unknown);
            watch.open(at * 500_000 + 400_000);
        }
        assert!(watch.is_full());
        assert_eq!((watch.gaps().len(), watch.windows().len()), (GAPS_MAX, WINDOWS_MAX));
    }
}
