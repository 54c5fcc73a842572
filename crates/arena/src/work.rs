//! Work a tick does beside the game, in amounts that can be asked for: tests of rewound hitboxes against rays, which is
//! what lag compensation costs a real server. Fixed in steps, not in time, so that time stolen from it shows.

use std::hint::black_box;

use crate::clock::now_ns;

/// 32,768 hitboxes of 8 bytes: 256 KiB, so that it feels a neighbour in the cache, as a history of players would.
const HITBOXES: usize = 32_768;
/// Hitboxes a unit of work tests.
const UNIT_HITBOXES: usize = 64;
const CALIBRATION_ROUNDS: u32 = 40;
const CALIBRATION_UNITS: u64 = 200;

/// Hitboxes of the past, and how fast this machine tests them.
#[derive(Debug)]
pub struct Work {
    hitboxes: Vec<(i32, i32)>,
    cursor: usize,
    units_per_us: f64,
}

impl Work {
    /// Fills the history and times it: the fastest of 40 rounds, since anything slower was disturbed. Takes some milliseconds.
    pub fn calibrated() -> Self {
        let mut work = Self {
            hitboxes: (0..HITBOXES as i32)
                .map(|n| (n.wrapping_mul(7_919) % 64_000, n.wrapping_mul(104_729) % 64_000))
                .collect(),
            cursor: 0,
            units_per_us: 1.0,
        };
        let round_ns = |work: &mut Self| {
            let start = now_ns();
            work.run(CALIBRATION_UNITS);
            now_ns() - start
        };
        let best_ns = (0..CALIBRATION_ROUNDS).map(|_| round_ns(&mut work)).min();
        let best_us = best_ns.unwrap_or(1).max(1) as f64 / 1_000.0;
        work.units_per_us = CALIBRATION_UNITS as f64 / best_us;
        work
    }

    /// The units that take `us` microseconds when nothing disturbs.
    pub fn units(&self, us: u32) -> u64 {
        (f64::from(us) * self.units_per_us).round() as u64
    }

    /// Units done in a microsecond, as found at the start.
    pub fn units_per_us(&self) -> f64 {
        self.units_per_us
    }

    /// Does `units` of work.
    pub fn run(&mut self, units: u64) {
        for _ in 0..units {
            // A stride that is prime to the length visits all of the history.
            self.cursor = (self.cursor + 4_099 * UNIT_HITBOXES) % HITBOXES;
            let hits = self.hitboxes[self.cursor..][..UNIT_HITBOXES]
                .iter()
                .filter(|(x, y)| {
                    let across = i64::from(*x) * 3 - i64::from(*y) * 5;
                    across * across <= 90_000 * 34
                })
                .count();
            black_box(hits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_scale_with_the_time_asked_for() {
        let mut work = Work::calibrated();
        assert!(work.units_per_us() > 0.0);
        assert_eq!(work.units(0), 0);
        let ratio = work.units(1_000) as f64 / work.units(100).max(1) as f64;
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
        let fastest_ns = |work: &mut Work, units| {
            let once = |work: &mut Work| {
                let start = now_ns();
                work.run(units);
                now_ns() - start
            };
            (0..20).map(|_| once(work)).min().unwrap()
        };
        let (little, much) = (work.units(50), work.units(500));
        // Ten times the work in one run: a ratio far from ten means that the units are not what takes the time.
        let ratio = fastest_ns(&mut work, much) as f64 / fastest_ns(&mut work, little) as f64;
        assert!((4.0..25.0).contains(&ratio), "{ratio}");
    }
}
