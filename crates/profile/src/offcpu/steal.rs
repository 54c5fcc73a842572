//! Steal: the kernel's records show a thread on the CPU, but the hypervisor does not run this CPU.
//! The sampling clock continues, so a late sample shows the steal.
//! Only steal that delays a sample is visible: at 99 Hz, one in ten steals of 1 ms.

use std::collections::BTreeMap;

use super::cpus::Cpus;
use super::interval::{Edges, OffCpuInterval, Reason, events_named};
use crate::recording::{Recording, Sample, Span};

/// A sample that comes later than this was delayed by steal.
const LATE_LEAST_NS: u64 = 500_000;
/// The schedule of a clock is accepted if at least this share of its samples is on time.
const ON_TIME_SHARE: f64 = 0.6;
/// A sample is on time if it is off by at most this share of the period.
const ON_TIME_OF_PERIOD: f64 = 0.02;
/// If a CPU has fewer samples, its clock has no schedule.
const SAMPLES_LEAST: usize = 20;

/// The steal intervals that late samples show. Each interval starts when its sample was due, because the true start is unknown.
/// Empty unless a CPU clock triggers the samples periodically.
pub(super) fn intervals(recording: &Recording, cpus: &Cpus) -> Vec<OffCpuInterval> {
    let clocks = events_named(recording, &["cpu-clock"]);
    let mut by_cpu: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
    for sample in recording.samples.iter().filter(|sample| clocks.contains(&sample.event)) {
        by_cpu.entry(sample.cpu).or_default().push(sample);
    }
    let mut intervals = Vec::new();
    for (cpu, samples) in by_cpu {
        let times: Vec<u64> = samples.iter().map(|sample| sample.at_ns).collect();
        let Some(clock) = Clock::from_times(&times) else { continue };
        for sample in samples.iter().filter(|sample| sample.tid != 0) {
            let late_ns = clock.late_ns(sample.at_ns);
            let span = Span { start_ns: sample.at_ns - late_ns, end_ns: sample.at_ns };
            // If the thread got the CPU after the due time, steal did not delay this thread.
            if late_ns < LATE_LEAST_NS || !cpus.had_all_along(cpu, sample.tid, span) {
                continue;
            }
            let (pid, tid, stack) = (sample.pid, sample.tid, Some(sample.stack));
            let (edges, reason) = (Edges::FromBefore, Reason::Steal);
            intervals.push(OffCpuInterval { pid, tid, cpu, span, edges, reason, stack, ..OffCpuInterval::default() });
        }
    }
    intervals
}

/// The sampling timer of one CPU. The timer is periodic, and a late sample does not delay the next sample.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Clock {
    /// The period in nanoseconds. The fraction matters, because it adds up over an hour of periods.
    period_ns: f64,
    first_ns: u64,
}

impl Clock {
    fn from_times(times: &[u64]) -> Option<Clock> {
        if times.len() < SAMPLES_LEAST {
            return None;
        }
        let clock = Clock { period_ns: period_ns(times)?, first_ns: times[0] };
        let mut phases: Vec<u64> = times.iter().map(|at_ns| clock.late_ns(*at_ns)).collect();
        phases.sort_unstable();
        // The widest gap between phases ends where the timer is due. Late samples have later phases.
        let after_last = (phases[0] + clock.period_ns as u64).saturating_sub(phases[phases.len() - 1]);
        let stretches = phases.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
        let (_, due) = stretches.chain([(after_last, phases[0])]).max_by_key(|(gap_ns, _)| *gap_ns)?;
        let clock = Clock { first_ns: times[0] + due, ..clock };
        let most_ns = (clock.period_ns * ON_TIME_OF_PERIOD) as u64;
        let on_time = times.iter().filter(|at_ns| clock.late_ns(**at_ns) <= most_ns).count();
        (on_time as f64 >= times.len() as f64 * ON_TIME_SHARE).then_some(clock)
    }

    /// How long after its due time a sample came.
    fn late_ns(self, at_ns: u64) -> u64 {
        let since = at_ns as f64 - self.first_ns as f64;
        since.rem_euclid(self.period_ns) as u64
    }
}

/// The median of the distances between samples. Each distance is divided by the number of periods in it.
/// A late sample does not move the median.
fn period_ns(times: &[u64]) -> Option<f64> {
    let mut period_ns = 0.0;
    let mut stride = 1;
    while stride <= times.len() / 2 {
        let pairs = times.iter().zip(&times[stride..]);
        let each = pairs.map(|(one, other)| {
            let apart = other.saturating_sub(*one) as f64;
            let turns = if stride == 1 { 1.0 } else { (apart / period_ns).round().max(1.0) };
            apart / turns
        });
        let mut each: Vec<f64> = each.collect();
        each.sort_unstable_by(f64::total_cmp);
        period_ns = each[each.len() / 2];
        if period_ns < 1.0 {
            return None;
        }
        stride *= 4;
    }
    Some(period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_one_is_found_among_those_on_time() {
        let mut times: Vec<u64> = (0..100).map(|turn| 5_000 + turn * 10_101_010 + turn % 7 * 1_000).collect();
        times[40] += 3_000_000;
        let clock = Clock::from_times(&times).unwrap();
        assert!(clock.late_ns(times[40]).abs_diff(3_000_000) < 20_000, "{clock:?}");
        assert!(clock.late_ns(times[41]) < 20_000, "{clock:?}");
    }

    #[test]
    fn a_timer_that_starts_anew_each_time_is_not_followed() {
        let times: Vec<u64> = (0..100_u64).map(|turn| turn * 10_000_000 + turn * turn * 77_777 % 9_000_000).collect();
        assert_eq!(Clock::from_times(&times), None);
        assert_eq!(Clock::from_times(&[5, 5, 5]), None);
        assert_eq!(Clock::from_times(&[5; 30]), None);
    }
}
