//! `quantum`: takes CPUs away in fixed slots, as a hypervisor does when it runs another guest.
//! Each CPU has one [`RtHog`].
//! All hogs use the same period, and each hog is shifted by a phase against the previous one.

use evenkeel_hostfs::Root;
use evenkeel_sys::{CpuSet, clock};
use serde::Serialize;

use super::rt_hog::{Account, RtHog, Schedule};
use super::worker_group::{check_cpus, no_real_time};
use crate::error::MeterError;
use crate::{Lost, Samples, Unit};

/// The time from the start to the first slot. It is enough for every thread to reach its CPU.
const LEAD_NS: u64 = 20_000_000;

/// The bounds of a period. In shorter periods the scheduler's own work would blur the slots.
/// In longer periods the disturber could not be stopped soon.
pub const PERIOD_NS: std::ops::RangeInclusive<u64> = 200_000..=1_000_000_000;

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The CPUs to take away.
    #[serde(serialize_with = "super::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The time from the beginning of one slot to the beginning of the next, in nanoseconds.
    pub period_ns: u64,
    /// The share of each period that the disturber leaves to others, between 0 and 1. A meter of the quantum reports this share.
    pub share_left: f64,
    /// The phase shift from each CPU to the next, in nanoseconds.
    pub phase_ns: u64,
    /// Each slot begins up to this much early or late, in nanoseconds.
    pub jitter_ns: u64,
    /// Whether each slot is timed from the previous one, so that the jitter adds up.
    pub jitter_adds_up: bool,
    /// The period is longer by this many parts per million.
    pub drift_ppm: f64,
    /// The real-time priority, 1 to 99.
    pub priority: u8,
    /// The seed of the jitter.
    pub seed: u64,
}

/// The report of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The time that was taken from each CPU.
    pub cpus: Vec<Cpu>,
}

/// The time that was taken from one CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: usize,
    /// The number of slots that the disturber took.
    pub turns: u64,
    /// Slots that the disturber missed completely because another thread had the CPU.
    pub missed_turns: u64,
    /// CPU time of the real-time thread, by its thread clock, in nanoseconds.
    pub taken_ns: u64,
    /// The CPU time taken, divided by the length of all periods.
    pub share_taken: f64,
    /// The share of the time that the disturber left to others: 1 minus `share_taken`.
    pub share_left: f64,
    /// The mean time from one slot to the next, in nanoseconds. None with fewer than two slots.
    pub period_ns_mean: Option<f64>,
    /// When the first slot began on the monotonic clock, in nanoseconds.
    pub start_ns: u64,
    /// How late each slot began.
    pub late: Samples,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    settings: Settings,
    start_ns: u64,
    hogs: Vec<(usize, RtHog)>,
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if a CPU does not exist or is not allowed, if the thread may not be real-time, or if the settings leave nothing or take nothing.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    refuse(settings, real_time_limit())?;
    check_cpus(&settings.cpus)?;
    let start_ns = clock::monotonic_ns() + LEAD_NS;
    let mut running = Running { settings: settings.clone(), start_ns, hogs: Vec::new() };
    for (at, cpu) in settings.cpus.iter().enumerate() {
        let schedule = Schedule {
            start_ns: start_ns + settings.phase_ns * at as u64 % settings.period_ns,
            period_ns: settings.period_ns,
            busy_ns: busy_ns(settings),
            jitter_ns: settings.jitter_ns,
            jitter_adds_up: settings.jitter_adds_up,
            drift_ppm: settings.drift_ppm,
            seed: settings.seed.wrapping_add(at as u64),
        };
        let hog = RtHog::start(cpu, settings.priority, schedule, until_ns).map_err(|error| match error {
            MeterError::Refused { what, errno } => no_real_time(&what, errno),
            other => other,
        })?;
        running.hogs.push((cpu, hog));
    }
    Ok(running)
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        for (_, hog) in &self.hogs {
            hog.ask_to_end();
        }
        let (phase_ns, period_ns) = (self.settings.phase_ns, self.settings.period_ns);
        let cpus = self.hogs.into_iter().enumerate().map(|(at, (cpu, hog))| {
            let start_ns = self.start_ns + phase_ns * at as u64 % period_ns;
            cpu_report(cpu, start_ns, &hog.finish())
        });
        Report { cpus: cpus.collect() }
    }
}

fn cpu_report(cpu: usize, start_ns: u64, account: &Account) -> Cpu {
    let mut late = Samples::new("slot_late_ns", Unit::Ns, [("cpu", cpu.to_string())]);
    late.histogram = account.late_ns.clone();
    late.lost = Lost::new(account.missed, "something else had the CPU for the whole slot");
    let turns = account.turns;
    let span_ns = account.last_start_ns.saturating_sub(account.first_start_ns);
    // Missed slots lie between two taken slots, so they count as steps of the grid.
    let steps = (turns + account.missed_between).saturating_sub(1);
    let share_taken = account.cpu_ns as f64 / account.covered_ns.max(1) as f64;
    Cpu {
        cpu,
        turns,
        missed_turns: account.missed,
        taken_ns: account.cpu_ns,
        share_taken,
        share_left: 1.0 - share_taken,
        period_ns_mean: (turns > 1 && steps > 0).then(|| span_ns as f64 / steps as f64),
        start_ns,
        late,
        went_offline: account.was_moved,
    }
}

fn busy_ns(settings: &Settings) -> u64 {
    (settings.period_ns as f64 * (1.0 - settings.share_left)).round() as u64
}

fn refuse(settings: &Settings, limit: Option<f64>) -> Result<(), MeterError> {
    let left = settings.share_left;
    let tried = format!("leave {left} of each period");
    if !(left > 0.0 && left < 1.0) {
        let why = "expected a share between 0 and 1: 0 would leave nothing, 1 would take nothing";
        return Err(MeterError::wrong_use(tried, why));
    }
    if let Some(limit) = limit.filter(|limit| 1.0 - left > *limit) {
        let why = format!("the kernel stops real-time threads at {limit} (kernel.sched_rt_runtime_us); leave more");
        return Err(MeterError::wrong_use(tried, why));
    }
    if !PERIOD_NS.contains(&settings.period_ns) {
        let why = format!("{} ns is not between 0.2 ms and 1 s", settings.period_ns);
        return Err(MeterError::wrong_use("choose a period", why));
    }
    if settings.jitter_ns.saturating_mul(2) >= settings.period_ns {
        let why = format!("{} ns in either direction exceed the period", settings.jitter_ns);
        return Err(MeterError::wrong_use("choose a jitter", why));
    }
    if !settings.drift_ppm.is_finite() || settings.drift_ppm.abs() > 100_000.0 {
        return Err(MeterError::wrong_use("choose a drift", "expected at most 100000 ppm in either direction"));
    }
    if !(1..=99).contains(&settings.priority) {
        return Err(MeterError::wrong_use("choose a real-time priority", "expected 1 to 99"));
    }
    Ok(())
}

/// How much of each second real-time threads may have. None without a limit, or if the limit cannot be read.
fn real_time_limit() -> Option<f64> {
    let root = Root::live();
    let read = |name: &str| root.text(&format!("/proc/sys/kernel/{name}")).ok()?.trim().parse::<f64>().ok();
    let (runtime, period) = (read("sched_rt_runtime_us")?, read("sched_rt_period_us")?);
    (runtime >= 0.0 && period > 0.0).then(|| runtime / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(share_left: f64) -> Settings {
        Settings {
            cpus: [0].into_iter().collect(),
            period_ns: 10_000_000,
            share_left,
            phase_ns: 0,
            jitter_ns: 0,
            jitter_adds_up: false,
            drift_ppm: 0.0,
            priority: 50,
            seed: 1,
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        let well = settings(0.4);
        let wanted = "expected a share between 0 and 1: 0 would leave nothing, 1 would take nothing";
        let [one, none, odd] = [1.0, 0.0, f64::NAN].map(|share| format!("leave {share} of each period: {wanted}"));
        let table = [
            (well.clone(), "well"),
            (settings(1.0), &one),
            (settings(0.0), &none),
            (settings(f64::NAN), &odd),
            (
                settings(0.03),
                "leave 0.03 of each period: the kernel stops real-time threads at 0.95 (kernel.sched_rt_runtime_us); leave more",
            ),
            (Settings { period_ns: 5, ..well.clone() }, "choose a period: 5 ns is not between 0.2 ms and 1 s"),
            (
                Settings { jitter_ns: 5_000_000, ..well.clone() },
                "choose a jitter: 5000000 ns in either direction exceed the period",
            ),
            (Settings { priority: 0, ..well }, "choose a real-time priority: expected 1 to 99"),
        ];
        for (settings, expected) in table {
            let refused = refuse(&settings, Some(0.95));
            assert_eq!(refused.map_or_else(|error| error.to_string(), |()| "well".to_owned()), expected);
        }
    }
}
