//! Functions that read clocks without an allocation, and a sleep to an absolute time.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_getres, clock_gettime};

const NS: u64 = 1_000_000_000;

/// The monotonic clock, in nanoseconds since an unspecified start. It stops while the machine is suspended.
///
/// ```
/// let began_ns = evenkeel_sys::clock::monotonic_ns();
/// println!("{} ns", evenkeel_sys::clock::monotonic_ns() - began_ns);
/// ```
pub fn monotonic_ns() -> u64 {
    to_ns(clock_gettime(rustix::time::ClockId::Monotonic))
}

/// The time since boot, including the time in suspend, in nanoseconds.
pub fn boottime_ns() -> u64 {
    to_ns(clock_gettime(rustix::time::ClockId::Boottime))
}

/// The wall clock, in nanoseconds since 1970 UTC; 0 before that.
pub fn realtime_ns() -> u64 {
    to_ns(clock_gettime(rustix::time::ClockId::Realtime))
}

/// CPU time that the calling process has used in all its threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    to_ns(clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    to_ns(clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// One tick of the kernel's timer, in nanoseconds: the resolution of the kernel's coarse clocks.
/// `KTIME_LOW_RES` of the kernel's `kernel/time/posix-timers.c` is `TICK_NSEC`.
/// Every kernel provides this value to every user, unlike the file with `CONFIG_HZ`.
pub fn kernel_tick_ns() -> u64 {
    to_ns(clock_getres(rustix::time::ClockId::MonotonicCoarse))
}

/// Sleeps until the monotonic clock reaches `deadline_ns`, and ignores signals. Returns at once if that time has passed.
pub fn sleep_until_ns(deadline_ns: u64) {
    while !sleep_until_ns_or_signal(deadline_ns) {}
}

/// Like [`sleep_until_ns`], but if the calling thread handles a signal, ends early and returns false.
pub fn sleep_until_ns_or_signal(deadline_ns: u64) -> bool {
    let deadline = Timespec {
        // 2^63 ns are 292 years, so the quotient always fits.
        tv_sec: (deadline_ns / NS).cast_signed(),
        tv_nsec: (deadline_ns % NS).cast_signed(),
    };
    clock_nanosleep_absolute(ClockId::Monotonic, &deadline) != Err(rustix::io::Errno::INTR)
}

fn to_ns(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NS).saturating_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        let deadline_ns = monotonic_ns() + 2_000_000;
        sleep_until_ns(deadline_ns);
        assert!(monotonic_ns() >= deadline_ns);
        sleep_until_ns(0);
    }

    #[test]
    fn work_uses_cpu_time() {
        let before_ns = process_cpu_ns();
        let thread_before_ns = thread_cpu_ns();
        let mut sum = 0_u64;
        while process_cpu_ns() == before_ns || thread_cpu_ns() == thread_before_ns {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_cpu_ns() <= process_cpu_ns());
        assert!(realtime_ns() > 1_700_000_000 * NS);
    }
}
