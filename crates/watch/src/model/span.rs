//! `Span`: the time between two samples, which turns counters into rates.
//! If a counter decreased, the result is the reason instead of a number.

use evenkeel_measure::meters::rates::Measured;

use crate::sample::{Counted, Sample};

/// If the two clocks differ by more than this in a gap between samples, the host booted in this gap.
const CLOCKS_DIFFER_NS: u64 = 30_000_000_000;

/// Whether the host booted in a gap between two stored samples.
/// `Span::between` finds a boot if the monotonic clock went back.
/// If the monotonic clock did not go back, the clock since boot and the time of day advanced by different times.
/// The samples of a running collector are only about an interval apart.
/// A difference then means that the clock was set, and the counters are comparable.
fn has_booted(before: &Sample, after: &Sample, elapsed_ns: u64) -> bool {
    let is_gap = elapsed_ns > before.asked.interval_ns.max(after.asked.interval_ns).saturating_mul(3);
    let since_boot = i128::from(after.at.boottime_ns) - i128::from(before.at.boottime_ns);
    let by_day = i128::from(after.at.realtime_ns) - i128::from(before.at.realtime_ns);
    is_gap && since_boot.abs_diff(by_day) > u128::from(CLOCKS_DIFFER_NS)
}

/// The time between two samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The elapsed time in nanoseconds, or the reason why no rate can be computed.
    elapsed_ns: Result<u64, &'static str>,
}

impl Span {
    pub(super) fn between(before: &Sample, after: &Sample) -> Span {
        let elapsed_ns = match after.at.monotonic_ns.checked_sub(before.at.monotonic_ns) {
            _ if !after.is_live => Err("a captured host has the counters of one moment"),
            Some(0) => Err("a rate needs an earlier sample, and there is none"),
            Some(elapsed_ns) if has_booted(before, after, elapsed_ns) => {
                Err("the host booted between the samples, or its clock was set meanwhile")
            }
            Some(elapsed_ns) => Ok(elapsed_ns),
            None => Err("the host booted between the samples"),
        };
        Span { elapsed_ns }
    }

    /// The elapsed time in nanoseconds. 0 if the time is unknown.
    pub(super) fn elapsed_ns(self) -> u64 {
        self.elapsed_ns.unwrap_or(0)
    }

    /// The increase of a counter between the samples.
    pub(super) fn increase(self, name: &str, before: u64, after: u64) -> Measured<u64> {
        match self.elapsed_ns {
            Ok(_) => Measured::increase(name, before, after),
            Err(why) => Measured::odd(why),
        }
    }

    /// The increase of a counter per second.
    pub(super) fn per_s(self, name: &str, before: u64, after: u64) -> Measured<f64> {
        self.increase(name, before, after).map(|grown| grown as f64 * 1e9 / self.elapsed_ns() as f64)
    }

    /// The increase per second of a counter that some kernels do not have.
    pub(super) fn maybe_per_s(self, name: &str, before: Option<u64>, after: Option<u64>) -> Measured<f64> {
        match before.zip(after) {
            Some((before, after)) => self.per_s(name, before, after),
            None => Measured::absent(format!("this kernel does not count {name}")),
        }
    }

    /// The increase of a time counter as a share of the elapsed time.
    pub(super) fn share(self, name: &str, before: u64, after: u64, unit_ns: u64) -> Measured<f64> {
        self.per_s(name, before, after).map(|per_s| per_s * unit_ns as f64 / 1e9)
    }
}

/// A count in both samples, if it is known in both.
pub(super) fn both<'a, T>(before: &'a Counted<T>, after: &'a Counted<T>) -> Measured<(&'a T, &'a T)> {
    // If both counts are unknown, return the later reason, because the user can still fix the later problem.
    match (before, after) {
        (_, Err(unknown)) | (Err(unknown), _) => Measured::Unknown(unknown.clone()),
        (Ok(before), Ok(after)) => Measured::Known((before, after)),
    }
}
