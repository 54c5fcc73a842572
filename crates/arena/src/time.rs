//! Time as the kernel's timers measure it, in nanoseconds of the clock by which ticks are due.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The current time on `CLOCK_MONOTONIC`, in nanoseconds.
pub fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time of all threads of this process so far, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    to_ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// Nanoseconds as the kernel's `timespec`.
pub(crate) fn to_timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: i64::try_from(ns / SECOND_NS).unwrap_or(i64::MAX), tv_nsec: (ns % SECOND_NS) as _ }
}

/// These clocks count up from zero, so neither field is ever negative.
fn to_ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timespec_splits_at_the_second() {
        let time = to_timespec(3 * SECOND_NS + 7);
        assert_eq!((time.tv_sec, time.tv_nsec, to_ns(time)), (3, 7, 3 * SECOND_NS + 7));
    }
}
