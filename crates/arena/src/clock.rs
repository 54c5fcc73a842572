//! Time as the kernel's timers see it: nanoseconds of `CLOCK_MONOTONIC`, and deadlines that do not drift.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Now on `CLOCK_MONOTONIC`, in nanoseconds.
pub fn now_ns() -> u64 {
    to_ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time this process has used so far, all its threads together, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    to_ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// Sleeps until `deadline_ns` of `CLOCK_MONOTONIC`, and returns earlier only when a signal handler ran.
///
/// One plain `clock_nanosleep(TIMER_ABSTIME)` and nothing else, so that the thread's timer slack has its full effect.
pub fn sleep_until(deadline_ns: u64) -> Result<(), Errno> {
    clock_nanosleep_absolute(ClockId::Monotonic, &to_timespec(deadline_ns))
}

/// Nanoseconds as the kernel's `timespec`.
pub fn to_timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: i64::try_from(ns / SECOND_NS).unwrap_or(i64::MAX), tv_nsec: (ns % SECOND_NS) as _ }
}

/// These clocks count up from zero, so neither field is ever negative.
fn to_ns(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_nsec.unsigned_abs()
}

/// Deadlines one period apart, each computed from the first: a late tick does not move the ticks after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    deadline_ns: u64,
    period_ns: u64,
}

/// When to start, and how often to tick.
#[derive(Debug, Clone, Copy)]
pub struct Rhythm {
    /// First deadline on `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// Time between deadlines; 0 is taken as 1.
    pub period_ns: u64,
}

impl Schedule {
    /// A schedule whose first deadline is `rhythm.first_ns`.
    pub fn new(rhythm: Rhythm) -> Self {
        Self { deadline_ns: rhythm.first_ns, period_ns: rhythm.period_ns.max(1) }
    }

    /// The deadline being waited for.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Moves on to the first deadline after `now_ns`, and returns how many deadlines were skipped because they had already
    /// passed. Skipping keeps an overrun from being paid for by a burst of ticks that are late in their turn.
    pub fn advance(&mut self, now_ns: u64) -> u64 {
        let next = self.deadline_ns + self.period_ns;
        let skipped = if now_ns < next { 0 } else { (now_ns - next) / self.period_ns + 1 };
        self.deadline_ns = next + skipped * self.period_ns;
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_skips_what_has_passed_and_keeps_the_phase() {
        // (done at, skipped, next deadline), from a deadline at 100 with a period of 20
        for (now_ns, skipped, next) in
            [(100, 0, 120), (119, 0, 120), (120, 1, 140), (139, 1, 140), (140, 2, 160), (1_000, 45, 1_020)]
        {
            let mut schedule = Schedule::new(Rhythm { first_ns: 100, period_ns: 20 });
            assert_eq!(schedule.advance(now_ns), skipped, "done at {now_ns}");
            assert_eq!(schedule.deadline_ns(), next, "done at {now_ns}");
        }
    }

    #[test]
    fn sleeping_ends_at_the_deadline_or_later() {
        let deadline = now_ns() + 2_000_000;
        while sleep_until(deadline).is_err() {}
        assert!(now_ns() >= deadline);
    }

    #[test]
    fn a_timespec_splits_at_the_second() {
        let time = to_timespec(3 * SECOND_NS + 7);
        assert_eq!((time.tv_sec, time.tv_nsec), (3, 7));
    }
}
