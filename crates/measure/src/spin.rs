//! `Spin`: a thread that only reads the cycle counter.
//! The thread detects every moment in which it did not run, to a few nanoseconds and without privileges.
//! The thread detects the loss whatever the cause is: an interrupt, another thread, a limit, or the hypervisor.

use evenkeel_sys::tsc::{self, Scale};

/// A stretch of time in which a spinning thread did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The last reading of the cycle counter before the stretch.
    pub start_ticks: u64,
    /// The first reading of the cycle counter after the stretch.
    pub end_ticks: u64,
}

impl Missing {
    /// The length of the stretch in ticks of the counter. It is 0 if the counter stepped back, as between CPUs whose counters differ.
    pub fn ticks(&self) -> u64 {
        self.end_ticks.saturating_sub(self.start_ticks)
    }
}

/// The number of readings between two checks for a stop. The checks come about once a millisecond.
const READINGS_TO_A_STOP: u64 = 1 << 15;

/// How to spin.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    /// The length of one counter tick.
    pub scale: Scale,
    /// The shortest stretch to report, in nanoseconds.
    pub threshold_ns: u64,
}

impl Spin {
    /// Spins until the counter reads `until_ticks`, and reports each missing stretch at once.
    /// The loop ends earlier when `on_missing` returns false.
    /// The time in `on_missing` itself is not a gap, because the next reading starts after it.
    /// Returns how often the counter was read.
    pub fn until(&self, until_ticks: u64, on_missing: impl FnMut(Missing) -> bool) -> u64 {
        self.until_stopped(until_ticks, &|| false, on_missing)
    }

    /// Like [`until`](Spin::until), but also ends within some milliseconds once `stop` returns true, even if no gap occurs.
    pub fn until_stopped(
        &self,
        until_ticks: u64,
        stop: &dyn Fn() -> bool,
        mut on_missing: impl FnMut(Missing) -> bool,
    ) -> u64 {
        let threshold = self.scale.ticks(self.threshold_ns).max(1);
        let (mut last, mut readings) = (tsc::ticks(), 0_u64);
        while last < until_ticks {
            let now = tsc::ticks();
            readings += 1;
            if now.wrapping_sub(last) >= threshold && now > last {
                if !on_missing(Missing { start_ticks: last, end_ticks: now }) {
                    break;
                }
                last = tsc::ticks();
            } else if readings.is_multiple_of(READINGS_TO_A_STOP) && stop() {
                break;
            } else {
                last = now;
            }
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_in_the_loop_is_no_gap_of_the_machine() {
        let scale = Scale::measured();
        let spin = Spin { scale, threshold_ns: 5_000_000_000 };
        let start = tsc::ticks();
        let until = start + scale.ticks(3_000_000);
        let readings = spin.until(until, |_| panic!("nothing takes five seconds"));
        assert!(readings > 0 && tsc::ticks() >= until);
        // A threshold of 0 reports every reading. The time spent in the callback must not count as missing.
        let every = Spin { scale, threshold_ns: 0 };
        let mut reported = 0;
        every.until(u64::MAX, |missing| {
            assert!(missing.ticks() > 0);
            reported += 1;
            reported < 10
        });
        assert_eq!(reported, 10);
        let readings = spin.until_stopped(u64::MAX, &|| true, |_| panic!("nothing takes five seconds"));
        assert_eq!(readings, READINGS_TO_A_STOP);
    }
}
