//! `Tracker`: follows known slots gap by gap, for as long as a server runs. It takes a dozen operations per gap, and no allocation.

use super::Slots;

/// The share of a gap's lateness that corrects the phase, and the share that corrects the period.
/// The share for the period is far smaller, because a period hardly changes.
const PHASE_GAIN: f64 = 0.1;
const PERIOD_GAIN: f64 = 0.004;
/// A gap belongs to the slots if it ends within this share of the period around the predicted time.
const GATE: f64 = 0.12;
/// How fast older gaps lose weight in the share of fitting gaps.
const MEMORY: f64 = 0.02;

/// The slots that a server follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracker {
    period_ns: f64,
    /// The last slice start, observed or predicted, in whole nanoseconds plus a fraction.
    start_ns: u64,
    rest_ns: f64,
    fits: f64,
}

impl Tracker {
    /// Starts from the result of [`detect`](super::detect).
    pub fn new(slots: &Slots) -> Tracker {
        Tracker { period_ns: slots.period_ns, start_ns: slots.share_start_ns, rest_ns: 0.0, fits: 1.0 }
    }

    /// Records a gap that ended at `end_ns`. Report gaps in order of time.
    /// The caller decides which gaps to report (long enough, foreign). A gap that does not fit only lowers the confidence.
    /// A gap that goes back in time is ignored.
    pub fn observe(&mut self, end_ns: u64) {
        let Some(since) = end_ns.checked_sub(self.start_ns) else { return };
        let since = since as f64 - self.rest_ns;
        let turns = (since / self.period_ns).round();
        let late = since - turns * self.period_ns;
        let does_fit = late.abs() <= GATE * self.period_ns;
        self.fits += MEMORY * (f64::from(u8::from(does_fit)) - self.fits);
        if !does_fit || turns < 1.0 {
            return;
        }
        let moved = self.rest_ns + turns * self.period_ns + PHASE_GAIN * late;
        self.start_ns = self.start_ns.saturating_add_signed(moved.floor() as i64);
        self.rest_ns = moved - moved.floor();
        // After a long time without a gap, a small error of the period is a large error of the phase.
        self.period_ns += PERIOD_GAIN * late / turns;
    }

    /// The first slice start at `ns` or later.
    pub fn next_start_ns(&self, ns: u64) -> u64 {
        let since = ns as f64 - self.start_ns as f64 - self.rest_ns;
        let turns = (since / self.period_ns).ceil();
        self.start_ns.saturating_add_signed((self.rest_ns + turns * self.period_ns).round() as i64)
    }

    /// The current period, in nanoseconds.
    pub fn period_ns(&self) -> f64 {
        self.period_ns
    }

    /// The share of the last fifty or so gaps that came at the predicted time, from 0 to 1. If it is below one half, detect again.
    pub fn fits(&self) -> f64 {
        self.fits
    }
}
