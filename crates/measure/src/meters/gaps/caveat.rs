//! `GapsCaveat`: what a gaps measurement could not record, and limits that apply to the meter itself.

use std::fmt;

use evenkeel_sys::Errno;
use serde::{Serialize, Serializer};

use super::cause::Class;
use super::limit::Limit;
use super::probe::ProbeResult;
use super::settings::{Mode, Settings};

/// A share gets a caveat if its interval is wider than this in either direction.
const WIDE: f64 = 0.05;
/// The report has a caveat if threads certainly took more than this share but samples cannot name them.
const THREADS_MIN: f64 = 0.01;

/// A caveat of a report.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum GapsCaveat {
    /// A CPU was not watched to the end.
    Ended { why: String },
    /// The kernel does not report which threads ran instead.
    TakersUnknown { errno: Errno },
    /// The kernel does not report which interrupts caused the gaps.
    InterruptsUnknown { why: String },
    /// A probe was moved to another CPU.
    Moved { cpu: usize, times: u64 },
    /// A probe never ran.
    NeverRan { cpu: usize, is_limited: bool },
    /// A limit on CPU time applies to the meter.
    Limited(Limit),
    /// The CPUs were watched one after another, or there is only one.
    OneAtATime,
    /// No window of a CPU was sampled.
    NoWindow { cpu: usize },
    /// Too few windows of a CPU were sampled, so the interval of its missing share is wide.
    FewWindows { cpu: usize, windows: u64, low: f64, high: f64, enough_s: f64 },
    /// Samples do not show which threads took the time of a CPU.
    ThreadsUnknown { cpu: usize },
    /// The probes were real-time.
    RealTime,
}

/// Prints one sentence, without a full stop.
impl fmt::Display for GapsCaveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GapsCaveat::Ended { why } => f.write_str(why),
            GapsCaveat::TakersUnknown { errno } => write!(
                f,
                "the thread that ran instead is unknown, because the kernel refused its switch records ({errno}); run it as root"
            ),
            GapsCaveat::InterruptsUnknown { why } => write!(
                f,
                "interrupts and their deferred work are one cause, and are reported by CPU instead of by gap: {why}"
            ),
            GapsCaveat::Moved { cpu, times } => {
                write!(f, "CPU {cpu}: the probe was moved to another CPU {times} times and returned")
            }
            GapsCaveat::NeverRan { cpu, is_limited } => {
                let why = match is_limited {
                    false => "it was stopped early, or others had the CPU all the time",
                    true => "the limit of the control group left it no time",
                };
                write!(f, "CPU {cpu}: the probe never ran: {why}")
            }
            GapsCaveat::Limited(Limit { group, cpus, period_us }) => write!(
                f,
                "a CPU limit applies to the meter itself: {group} may use {cpus:.2} CPUs (period {period_us} us)"
            ),
            GapsCaveat::OneAtATime => {
                f.write_str("with one CPU at a time, a pause of the whole machine looks like a pause of one CPU")
            }
            GapsCaveat::NoWindow { cpu } => {
                write!(f, "CPU {cpu}: it had no window; measure for longer")
            }
            GapsCaveat::FewWindows { cpu, windows, low, high, enough_s } => write!(
                f,
                "CPU {cpu}: {windows} windows give only an interval of {:.0} to {:.0} %; --seconds {enough_s:.0} would give about ±5 points",
                low * 100.0,
                high * 100.0
            ),
            GapsCaveat::ThreadsUnknown { cpu } => write!(
                f,
                "CPU {cpu}: samples do not show which threads took it, nor what an always busy thread would lose; measure both without --sample"
            ),
            GapsCaveat::RealTime => f.write_str(
                "the probes were real-time: own-real-time-throttle is the kernel's limit on them, not a problem of the machine",
            ),
        }
    }
}

/// The JSON form of a caveat is its sentence.
impl Serialize for GapsCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The caveats of a measurement.
pub(super) fn caveats(
    settings: &Settings,
    seen: &[(usize, ProbeResult)],
    limits: &[Limit],
    all_at_once: bool,
) -> Vec<GapsCaveat> {
    let ended = seen.iter().filter_map(|(_, seen)| seen.ended.clone());
    let mut caveats: Vec<GapsCaveat> = ended.map(|why| GapsCaveat::Ended { why }).collect();
    if settings.mode == Mode::Spin {
        let unseen = seen.iter().find_map(|(_, seen)| seen.takers.as_ref().err());
        caveats.extend(unseen.map(|errno| GapsCaveat::TakersUnknown { errno: *errno }));
        let refusal = seen.iter().find_map(|(_, seen)| seen.traced.as_ref().err());
        caveats.extend(refusal.map(|why| GapsCaveat::InterruptsUnknown { why: why.clone() }));
    }
    let whole = || seen.iter().filter(|(_, seen)| seen.ended.is_none());
    let moved = whole().filter(|(_, seen)| seen.moved > 0);
    caveats.extend(moved.map(|(cpu, seen)| GapsCaveat::Moved { cpu: *cpu, times: seen.moved }));
    let never_ran = whole().filter(|(_, seen)| seen.watched_ns == 0 && seen.sums.is_none());
    caveats.extend(never_ran.map(|(cpu, _)| GapsCaveat::NeverRan { cpu: *cpu, is_limited: !limits.is_empty() }));
    caveats.extend(limits.iter().cloned().map(GapsCaveat::Limited));
    if settings.mode == Mode::Spin && (!all_at_once || seen.len() < 2) {
        caveats.push(GapsCaveat::OneAtATime);
    }
    if settings.mode == Mode::Sample {
        whole().for_each(|(cpu, seen)| of_samples(settings, *cpu, seen, &mut caveats));
    }
    if settings.class == Class::Fifo {
        caveats.push(GapsCaveat::RealTime);
    }
    caveats
}

/// Adds the caveats about the limits of one CPU's samples.
fn of_samples(settings: &Settings, cpu: usize, seen: &ProbeResult, caveats: &mut Vec<GapsCaveat>) {
    let Some(sampled) = seen.sums.and_then(|sums| sums.sampled()) else {
        caveats.push(GapsCaveat::NoWindow { cpu });
        return;
    };
    let (share, low, high) = (sampled.missing.share, sampled.missing.low, sampled.missing.high);
    let half = (high - share).max(share - low);
    if half > WIDE {
        let enough_s = enough_s(settings.length_ns as f64 / 1e9, half);
        caveats.push(GapsCaveat::FewWindows { cpu, windows: sampled.windows, low, high, enough_s });
    }
    if sampled.by_threads.low > THREADS_MIN {
        caveats.push(GapsCaveat::ThreadsUnknown { cpu });
    }
}

/// The time for an interval that is not wide, from the interval of a measurement of this length.
/// The interval shrinks with the square root of the time.
fn enough_s(length_s: f64, half: f64) -> f64 {
    (length_s * (half / WIDE).powi(2)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: after 10 s, the meter advised `--seconds 10`.
    #[test]
    fn more_time_is_advised_than_was_measured() {
        assert_eq!([enough_s(10.0, 0.1), enough_s(10.0, 0.0501), enough_s(1.0, 0.5)], [40.0, 11.0, 100.0]);
    }
}
