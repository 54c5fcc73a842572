//! Extra work of each tick, in a chosen amount: shots judged against rewound hit boxes.
//! This work is the cost of lag compensation on a server with many players. It is split into a thousand jobs.
//! The number of steps is fixed rather than the time, so stolen time shows.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::game::history::Figure;
use crate::game::math::{Look, Vector};
use crate::game::shape::Ray;
use crate::game::skeleton::Pose;
use crate::time::now_ns;
use crate::worker_group::WorkerGroup;

/// The number of jobs per tick, or of units if there are fewer.
pub const JOBS: u64 = 1_024;
/// The number of bodies, as 64 players have in 13 ticks.
/// The bodies take 300 KiB, so a neighbour that uses the cache slows this work as it slows a real history.
const FIGURES: usize = 832;
const CALIBRATION_ROUNDS: u32 = 40;
const CALIBRATION_UNITS: u64 = 1_500;

/// Bodies of the past, and how fast this machine tests them.
#[derive(Debug)]
pub struct Work {
    figures: Vec<Figure>,
    /// The number of the unit with which the next tick begins. It selects the body and the ray.
    turn: u64,
    hits: AtomicU64,
    units_per_us: f64,
}

impl Work {
    /// Fills the history and times it on one thread. The fastest of 40 rounds counts, since slower ones were disturbed.
    /// This takes some milliseconds.
    pub fn calibrated() -> Self {
        let mut work = Self { figures: figures(), turn: 0, hits: AtomicU64::new(0), units_per_us: 1.0 };
        let mut alone = WorkerGroup::default();
        let mut round_ns = |work: &mut Self| {
            let start = now_ns();
            work.run(CALIBRATION_UNITS, &mut alone);
            now_ns() - start
        };
        let best_ns = (0..CALIBRATION_ROUNDS).map(|_| round_ns(&mut work)).min();
        let best_us = best_ns.unwrap_or(1).max(1) as f64 / 1_000.0;
        work.units_per_us = CALIBRATION_UNITS as f64 / best_us;
        work
    }

    /// The number of units that take `us` microseconds on one thread without disturbance.
    pub fn units(&self, us: u32) -> u64 {
        (f64::from(us) * self.units_per_us).round() as u64
    }

    /// Units per microsecond, as measured at the start.
    pub fn units_per_us(&self) -> f64 {
        self.units_per_us
    }

    /// The number of shots that hit so far. After the same units, this number is the same with any number of workers.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Does `units` of work. Each unit judges one shot against all eleven hit boxes of one past body.
    pub fn run(&mut self, units: u64, group: &mut WorkerGroup) {
        let jobs = units.min(JOBS);
        if jobs == 0 {
            return;
        }
        let first = self.turn;
        group.each_apart(jobs as usize, |job| {
            let (from, to) = (job as u64 * units / jobs, (job as u64 + 1) * units / jobs);
            let hits = (from..to).filter(|unit| self.is_hit(first.wrapping_add(*unit))).count();
            self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        });
        self.turn = self.turn.wrapping_add(units);
    }

    fn is_hit(&self, unit: u64) -> bool {
        // A stride that is coprime to the length visits all bodies.
        let figure = &self.figures[(unit.wrapping_mul(331) % FIGURES as u64) as usize];
        let look = Look { yaw: (unit.wrapping_mul(40_503) >> 3) as u16, pitch: (unit % 512) as i16 - 256 };
        let way = look.direction();
        // The shot comes from 8 m away, and passes the body or hits it.
        let off = (unit % 97) as i32 * 12 - 576;
        let from = Vector::new(figure.middle.x - way.x / 2 + off, figure.middle.y - way.y / 2, figure.middle.z);
        let ray = Ray { from, toward: way };
        figure.bones.iter().filter_map(|bone| bone.hit_mm(&ray)).reduce(f64::min).is_some()
    }
}

/// Bodies in various poses of walking, turning and ducking.
fn figures() -> Vec<Figure> {
    let pose = |n: i32| Pose {
        x_mm: n.wrapping_mul(7_919) % 64_000,
        y_mm: n.wrapping_mul(104_729) % 64_000,
        look: Look { yaw: (n * 977) as u16, pitch: (n * 37 % 4_096) as i16 },
        gait: (n * 1_543) as u16,
        stride: (n % 256) as u8,
        stance: (n % 16) as u8,
    };
    (0..FIGURES as i32).map(|n| Figure { life: 1, middle: pose(n).middle(), bones: pose(n).bones() }).collect()
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
        assert!((8.0..12.0).contains(&ratio), "{ratio}");
        let fastest_ns = |work: &mut Work, units| {
            let once = |work: &mut Work| {
                let start = now_ns();
                work.run(units, &mut WorkerGroup::default());
                now_ns() - start
            };
            (0..20).map(|_| once(work)).min().unwrap()
        };
        let (little, much) = (work.units(50), work.units(500));
        // One run has ten times the work of the other. If the ratio is far from ten, the units do not determine the time.
        let ratio = fastest_ns(&mut work, much) as f64 / fastest_ns(&mut work, little) as f64;
        assert!((4.0..25.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_same_work_is_done_whoever_does_it() {
        let hits = |workers| {
            let mut group = WorkerGroup::new(workers).unwrap();
            let mut work = Work { figures: figures(), turn: 0, hits: AtomicU64::new(0), units_per_us: 1.0 };
            for units in [0, 1, 7, 1_023, 1_024, 1_025, 20_000] {
                work.run(units, &mut group);
            }
            work.hits()
        };
        assert_eq!(hits(0), hits(2));
        assert!((2_000..22_000).contains(&hits(0)), "{} of 23,080 met somebody", hits(0));
    }
}
