//! `Spin`: a thread that does nothing but read the cycle counter sees every moment in which it did not run, to some nanoseconds and
//! without any right. What takes the time (an interrupt, another thread, a limit, the hypervisor) makes no difference to it.

use evenkeel_sys::tsc::{self, Scale};

/// A stretch of time that a spinning thread did not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// When it began, on the cycle counter: the last reading before it.
    pub start_ticks: u64,
    /// The first reading after it.
    pub end_ticks: u64,
}

impl Missing {
    /// Its length in ticks of the counter. A counter that steps back, as between CPUs that are not in step, makes it 0.
    pub fn ticks(&self) -> u64 {
        self.end_ticks.saturating_sub(self.start_ticks)
    }
}

/// From one look at whether to stop to the next: about a millisecond.
const READINGS_TO_A_STOP: u64 = 1 << 15;

/// How to spin.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    /// What one tick of the counter lasts.
    pub scale: Scale,
    /// The shortest stretch that is told of, in nanoseconds.
    pub threshold_ns: u64,
}

impl Spin {
    /// Spins until the counter reads `until_ticks`, and tells of each stretch at once; ends sooner when `on_missing` says so by giving
    /// false. What `on_missing` itself takes is no gap: the next reading starts anew after it. Gives how often the counter was read.
    pub fn until(&self, until_ticks: u64, on_missing: impl FnMut(Missing) -> bool) -> u64 {
        self.until_stopped(until_ticks, &|| false, on_missing)
    }

    /// The same; ends within some milliseconds once `stop` gives true, on a machine without any gap too.
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
        // With a threshold of nothing every reading is told of; what is done then is left out of the next.
        let every = Spin { scale, threshold_ns: 0 };
        let mut told = 0;
        every.until(u64::MAX, |missing| {
            assert!(missing.ticks() > 0);
            told += 1;
            told < 10
        });
        assert_eq!(told, 10);
        let readings = spin.until_stopped(u64::MAX, &|| true, |_| panic!("nothing takes five seconds"));
        assert_eq!(readings, READINGS_TO_A_STOP);
    }
}
