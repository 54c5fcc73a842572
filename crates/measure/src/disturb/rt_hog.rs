//! `RtHog`: a real-time thread that takes one CPU away at known times.
//! An ordinary thread on that CPU loses it as if the hypervisor ran another guest.
//! The hog records the time that it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel_stats::Histogram;
use evenkeel_sys::{CpuSet, clock, sched, thread};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::worker_group::is_off;
use crate::error::MeterError;
use crate::pinned::not_there;

/// The maximum number of stretches in the hog's record: a quarter of an hour at a period of 1 ms.
const TAKEN_MAX: usize = 1 << 20;

/// When the hog takes the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The beginning of the first stretch, on the monotonic clock.
    pub start_ns: u64,
    /// The time from the beginning of one stretch to the beginning of the next.
    pub period_ns: u64,
    /// The length of a stretch.
    pub busy_ns: u64,
    /// Each stretch begins up to this much early or late, uniformly distributed.
    pub jitter_ns: u64,
    /// Whether each stretch is timed from the previous one. Then the jitter adds up and no fixed times remain.
    pub jitter_adds_up: bool,
    /// The period grows by this many parts per million, because a hypervisor has its own clock.
    pub drift_ppm: f64,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Schedule {
    /// The beginning of stretch `turn` without its jitter.
    pub fn beginning_ns(&self, turn: u64) -> u64 {
        let period_ns = self.period_ns as f64 * (1.0 + self.drift_ppm / 1e6);
        self.start_ns + (turn as f64 * period_ns).round() as u64
    }
}

/// One stretch in which the hog had the CPU, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When the hog began to run.
    pub start_ns: u64,
    /// When the hog released the CPU.
    pub end_ns: u64,
}

/// The totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The stretches that the hog took, at most a million.
    pub taken: Vec<Taken>,
    /// How many stretches the hog took.
    pub turns: u64,
    /// Stretches that the hog missed completely because another thread had the CPU.
    pub missed: u64,
    /// Missed stretches between the first and the last stretch that the hog took.
    pub missed_between: u64,
    /// Missed stretches before the first stretch that the hog took.
    pub missed_before: u64,
    /// How late each taken stretch began, in nanoseconds.
    pub late_ns: Histogram,
    /// CPU time that the hog used, by its thread clock.
    pub cpu_ns: u64,
    /// When the first stretch that the hog took began.
    pub first_start_ns: u64,
    /// When the last stretch that the hog took began.
    pub last_start_ns: u64,
    /// The total length of the periods in which the hog took or missed a stretch.
    pub covered_ns: u64,
    /// Whether the hog ended because its CPU went offline.
    pub was_moved: bool,
}

/// A running hog. Dropping this value stops the hog.
#[derive(Debug)]
pub struct RtHog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Account>>,
}

impl RtHog {
    /// Takes `cpu` away by `schedule`, with this real-time priority, until the hog is stopped or the monotonic clock reaches `until_ns`.
    ///
    /// # Errors
    /// Fails if the thread may not be real-time, may not run there, or the schedule leaves no time to others.
    pub fn start(cpu: usize, priority: u8, schedule: Schedule, until_ns: u64) -> Result<RtHog, MeterError> {
        if schedule.busy_ns >= schedule.period_ns {
            let why = format!("{} ns of every {} ns leave no time to others", schedule.busy_ns, schedule.period_ns);
            return Err(MeterError::wrong_use("take a CPU away", why));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let stopped = Arc::clone(&stop);
        let body = move || {
            let set: CpuSet = [cpu].into_iter().collect();
            let made = thread::set_affinity(&set)
                .map_err(|errno| not_there(format!("run the real-time thread on CPU {cpu}"), errno))
                .and_then(|()| {
                    sched::set_fifo(priority).map_err(|errno| MeterError::refused("make the thread real-time", errno))
                });
            let is_made = made.is_ok();
            let _ = ready.send(made);
            if is_made { take(cpu, &schedule, until_ns, &stopped) } else { Account::default() }
        };
        let thread = std::thread::Builder::new().name("evenkeel-rt-hog".into()).spawn(body);
        let thread = thread.map_err(|error| MeterError::refused("start the real-time thread", &error))?;
        let hog = RtHog { stop, thread: Some(thread) };
        match is_ready.recv() {
            Ok(made) => made.map(|()| hog),
            Err(_) => Err(MeterError::not_possible("start the real-time thread", "its thread ended at once")),
        }
    }

    /// Stops the hog and returns the stretches that it took.
    pub fn stop(self) -> Vec<Taken> {
        self.finish().taken
    }

    /// Stops the hog and returns the full account.
    pub fn finish(mut self) -> Account {
        self.end()
    }

    /// Asks the hog to end at its next stretch, and does not wait for the end. So several hogs can be stopped together.
    pub fn ask_to_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn end(&mut self) -> Account {
        self.ask_to_end();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for RtHog {
    fn drop(&mut self) {
        self.end();
    }
}

fn take(cpu: usize, schedule: &Schedule, until_ns: u64, stop: &AtomicBool) -> Account {
    let mut chance = ChaCha8Rng::seed_from_u64(schedule.seed);
    let mut account = Account { taken: Vec::with_capacity(4096), ..Account::default() };
    let cpu_before_ns = clock::thread_cpu_ns();
    let mut adds_up_to_ns = 0_i64;
    for turn in 0.. {
        let jitter_ns =
            chance.random_range(0..=schedule.jitter_ns * 2).cast_signed() - schedule.jitter_ns.cast_signed();
        let at_ns = schedule.beginning_ns(turn).saturating_add_signed(adds_up_to_ns + jitter_ns);
        if schedule.jitter_adds_up {
            adds_up_to_ns += jitter_ns;
        }
        account.covered_ns = schedule.beginning_ns(turn) - schedule.start_ns;
        if at_ns >= until_ns || stop.load(Ordering::Relaxed) {
            break;
        }
        clock::sleep_until_ns(at_ns);
        account.was_moved = is_off(cpu);
        if stop.load(Ordering::Relaxed) || account.was_moved {
            break;
        }
        let start_ns = clock::monotonic_ns();
        // Do not make up for a late start. Otherwise the hog would take the CPU for two stretches in a row.
        let end_ns = (at_ns + schedule.busy_ns).min(until_ns);
        while clock::monotonic_ns() < end_ns {
            std::hint::spin_loop();
        }
        if start_ns < end_ns {
            account.note(Taken { start_ns, end_ns: clock::monotonic_ns() }, start_ns - at_ns.min(start_ns));
        } else {
            account.missed += 1;
        }
    }
    account.cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    account
}

impl Account {
    fn note(&mut self, taken: Taken, late_ns: u64) {
        if self.turns == 0 {
            self.first_start_ns = taken.start_ns;
            self.missed_before = self.missed;
        }
        self.turns += 1;
        self.missed_between = self.missed - self.missed_before;
        self.last_start_ns = taken.start_ns;
        self.late_ns.record(late_ns);
        if self.taken.len() < TAKEN_MAX {
            self.taken.push(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_stretches_count_only_between_those_that_were_taken() {
        let mut account = Account { missed: 2, ..Account::default() };
        for (missed, between) in [(2, 0), (5, 3), (5, 3)] {
            account.missed = missed;
            account.note(Taken { start_ns: 0, end_ns: 1 }, 0);
            assert_eq!(account.missed_between, between);
        }
    }

    #[test]
    fn beginnings_drift_as_configured() {
        let schedule = Schedule {
            start_ns: 5,
            period_ns: 10_000_000,
            busy_ns: 1,
            jitter_ns: 0,
            jitter_adds_up: false,
            drift_ppm: 100.0,
            seed: 1,
        };
        assert_eq!(schedule.beginning_ns(0), 5);
        assert_eq!(schedule.beginning_ns(1000), 10_001_000_005);
    }

    #[test]
    fn a_hog_that_leaves_no_time_is_refused() {
        let schedule = Schedule {
            start_ns: 0,
            period_ns: 10,
            busy_ns: 10,
            jitter_ns: 0,
            jitter_adds_up: false,
            drift_ppm: 0.0,
            seed: 1,
        };
        let refused = RtHog::start(0, 50, schedule, u64::MAX).unwrap_err();
        assert_eq!(refused.to_string(), "take a CPU away: 10 ns of every 10 ns leave no time to others");
    }

    #[test]
    fn it_takes_what_it_reports() {
        let cpu = thread::affinity().unwrap().first().unwrap();
        // The hog skips a stretch that is over before the thread runs. If the machine stalls, it may skip all stretches, so try again.
        let is_taken = (0..5).any(|_| {
            let start_ns = clock::monotonic_ns() + 2_000_000;
            let (period_ns, busy_ns, jitter_ns) = (5_000_000, 200_000, 100_000);
            let schedule =
                Schedule { start_ns, period_ns, busy_ns, jitter_ns, jitter_adds_up: false, drift_ppm: 0.0, seed: 7 };
            let hog = match RtHog::start(cpu, 50, schedule, start_ns + 100_000_000) {
                Ok(hog) => hog,
                Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                    println!("skipped: this user may not have real-time threads");
                    return true;
                }
                Err(other) => panic!("{other}"),
            };
            clock::sleep_until_ns(start_ns + 110_000_000);
            let taken = hog.stop();
            assert!(taken.len() <= 21, "{taken:?}");
            for (one, next) in taken.iter().zip(taken.iter().skip(1)) {
                assert!(one.start_ns < one.end_ns && one.end_ns <= next.start_ns, "{taken:?}");
            }
            !taken.is_empty()
        });
        assert!(is_taken);
    }
}
