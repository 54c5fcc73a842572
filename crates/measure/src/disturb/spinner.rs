//! `spinner`: ordinary threads that keep CPUs busy: always, for a share of the time, or on and off at random as a neighbour does.
//! The report compares the CPU time that they requested with the CPU time that the scheduler gave them.

use evenkeel_sys::{CpuSet, clock};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::worker_group::{Class, End, Post, THREADS_MAX, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;

/// The bounds of a stretch of work or rest.
const STRETCH_NS: std::ops::RangeInclusive<u64> = 10_000..=60_000_000_000;

/// When a thread is busy.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Duty {
    /// The thread is always busy.
    Always,
    /// The thread is busy for the first part of every period.
    Share {
        /// The share, between 0 and 1.
        share_busy: f64,
        /// The period, in nanoseconds.
        period_ns: u64,
    },
    /// The thread is busy and idle in turn, for random lengths (exponential).
    Random {
        /// The mean of the busy times, in nanoseconds.
        busy_ns_mean: u64,
        /// The mean of the idle times, in nanoseconds.
        idle_ns_mean: u64,
        /// The seed of the lengths.
        seed: u64,
    },
}

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// Thread number n runs on the n-th of these CPUs. After the last CPU, the numbering starts over.
    /// With an empty list, the scheduler places the threads.
    #[serde(serialize_with = "super::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The number of threads.
    pub threads: usize,
    /// The nice value, from -20 to 19. Values below 0 need privileges.
    pub nice: i32,
    /// When the threads are busy.
    pub duty: Duty,
}

/// The report of the threads.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The work of each thread.
    pub threads: Vec<Thread>,
}

/// The work of one thread.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The CPU that the thread was pinned to. None if it was not pinned.
    pub cpu: Option<usize>,
    /// How long the thread existed, busy or idle, in nanoseconds.
    pub elapsed_ns: u64,
    /// How long the thread wanted to be busy, in nanoseconds.
    pub wanted_ns: u64,
    /// CPU time that the disturbing thread got, in nanoseconds.
    pub taken_ns: u64,
    /// CPU time divided by run time.
    pub share_taken: f64,
    /// How often the thread became busy.
    pub turns: u64,
    /// Whether the CPU that the thread was pinned to went offline, which ended the thread.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    workers: WorkerGroup<Thread>,
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if a CPU does not exist, a nice value is refused, or a duty is invalid.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    refuse(settings)?;
    let held: Vec<usize> = settings.cpus.iter().collect();
    if !held.is_empty() {
        check_cpus(&settings.cpus)?;
    }
    let cpu_of = move |at: usize| if held.is_empty() { None } else { Some(held[at % held.len()]) };
    let class = Class::Ordinary { nice: settings.nice };
    let posts: Vec<Post> =
        (0..settings.threads).map(|at| Post { cpus: cpu_of(at).into_iter().collect(), class }).collect();
    let duty = settings.duty;
    let workers =
        WorkerGroup::start("spinner", &posts, &End::new(until_ns), move |at, end| spin(at, cpu_of(at), duty, end))?;
    Ok(Running { workers })
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        Report { threads: self.workers.stop() }
    }
}

fn refuse(settings: &Settings) -> Result<(), MeterError> {
    if !(1..=THREADS_MAX).contains(&settings.threads) {
        let why = format!("{} are not between 1 and {THREADS_MAX}", settings.threads);
        return Err(MeterError::wrong_use("choose how many threads", why));
    }
    if !(-20..=19).contains(&settings.nice) {
        return Err(MeterError::wrong_use(
            "choose a nice value",
            format!("{} is not between -20 and 19", settings.nice),
        ));
    }
    match settings.duty {
        Duty::Share { share_busy, .. } if !(share_busy > 0.0 && share_busy < 1.0) => {
            let why = "expected a share between 0 and 1; without --busy the threads are always busy";
            Err(MeterError::wrong_use(format!("be busy for {share_busy} of each period"), why))
        }
        Duty::Share { period_ns: length, .. } if !STRETCH_NS.contains(&length) => Err(not_a_length(length)),
        Duty::Random { busy_ns_mean, idle_ns_mean, .. } => {
            let odd = [busy_ns_mean, idle_ns_mean].into_iter().find(|length| !STRETCH_NS.contains(length));
            odd.map_or(Ok(()), |length| Err(not_a_length(length)))
        }
        _ => Ok(()),
    }
}

fn not_a_length(length_ns: u64) -> MeterError {
    MeterError::wrong_use("choose a length of time", format!("{length_ns} ns is not between 10 us and 60 s"))
}

fn spin(at: usize, cpu: Option<usize>, duty: Duty, end: &End) -> Thread {
    let (start_ns, cpu_before_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let seed = if let Duty::Random { seed, .. } = duty { seed.wrapping_add(at as u64) } else { 0 };
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let (mut turns, mut wanted_ns, mut from_ns) = (0_u64, 0_u64, start_ns);
    // A thread that is not pinned may run on every CPU.
    let has_lost_its_cpu = || cpu.is_some_and(is_off);
    let mut went_offline = false;
    while !went_offline && !end.is_now() {
        let (busy_ns, whole_ns) = match duty {
            Duty::Always => (u64::MAX, u64::MAX),
            Duty::Share { share_busy, period_ns } => ((period_ns as f64 * share_busy) as u64, period_ns),
            Duty::Random { busy_ns_mean, idle_ns_mean, .. } => {
                let busy_ns = exponential_ns(busy_ns_mean, &mut chance);
                (busy_ns, busy_ns.saturating_add(exponential_ns(idle_ns_mean, &mut chance)))
            }
        };
        turns += 1;
        let (busy_until_ns, mut now_ns) = (from_ns.saturating_add(busy_ns), clock::monotonic_ns());
        while now_ns < busy_until_ns && !end.is_at(now_ns) && !went_offline {
            std::hint::spin_loop();
            now_ns = clock::monotonic_ns();
            went_offline = has_lost_its_cpu();
        }
        wanted_ns += busy_until_ns.min(now_ns.max(from_ns)) - from_ns;
        // Do not make up for a late start: a neighbour whose work was delayed does not do the work twice.
        from_ns = from_ns.saturating_add(whole_ns).max(now_ns);
        end.sleep_until_ns(from_ns);
    }
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    let share_taken = taken_ns as f64 / elapsed_ns.max(1) as f64;
    Thread { cpu, elapsed_ns, wanted_ns, taken_ns, share_taken, turns, went_offline }
}

/// A random length with this mean. It is at most ten times the mean, so that no draw outlasts the run.
fn exponential_ns(mean_ns: u64, chance: &mut ChaCha8Rng) -> u64 {
    let uniform: f64 = chance.random_range(f64::EPSILON..1.0);
    (-uniform.ln() * mean_ns as f64).min(mean_ns as f64 * 10.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let with = |duty, threads, nice| Settings { cpus: CpuSet::default(), threads, nice, duty };
        let share = |share_busy, period_ns| Duty::Share { share_busy, period_ns };
        let random = |busy_ns_mean, idle_ns_mean| Duty::Random { busy_ns_mean, idle_ns_mean, seed: 1 };
        let table = [
            (with(Duty::Always, 2, 5), "well"),
            (with(share(0.5, 10_000_000), 1, 0), "well"),
            (with(random(1_000_000, 2_000_000), 1, 0), "well"),
            (with(Duty::Always, 0, 0), "choose how many threads: 0 are not between 1 and 1024"),
            (with(Duty::Always, 1, 20), "choose a nice value: 20 is not between -20 and 19"),
            (
                with(share(1.0, 10_000_000), 1, 0),
                "be busy for 1 of each period: expected a share between 0 and 1; without --busy the threads are always busy",
            ),
            (with(share(0.5, 5), 1, 0), "choose a length of time: 5 ns is not between 10 us and 60 s"),
            (with(random(0, 2_000_000), 1, 0), "choose a length of time: 0 ns is not between 10 us and 60 s"),
        ];
        for (settings, expected) in table {
            let refused = refuse(&settings);
            assert_eq!(refused.map_or_else(|error| error.to_string(), |()| "well".to_owned()), expected);
        }
    }

    #[test]
    fn random_lengths_have_their_mean_and_their_seed() {
        let lengths = |seed| {
            let mut chance = ChaCha8Rng::seed_from_u64(seed);
            (0..20_000).map(|_| exponential_ns(1_000_000, &mut chance)).collect::<Vec<_>>()
        };
        let mean_ns = lengths(3).iter().sum::<u64>() as f64 / 20_000.0;
        assert!((mean_ns / 1e6 - 1.0).abs() < 0.03, "{mean_ns}");
        assert_eq!(lengths(3), lengths(3));
        assert_ne!(lengths(3), lengths(4));
    }
}
