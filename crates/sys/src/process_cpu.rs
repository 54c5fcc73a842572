//! How much CPU time another process has used, all its threads together, those that have ended included: what a server under load costs. Its
//! own clock is read (clock_getcpuclockid(3)), which is exact where /proc counts in hundredths of a second; a thread that runs just now
//! is counted to the scheduler's last tick.

use crate::errno::Errno;

/// CPU time of the process in nanoseconds. Needs no right.
///
/// # Errors
/// `ESRCH` if there is no such process.
pub fn cpu_ns_of(pid: u32) -> Result<u64, Errno> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Errno::SRCH)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: it writes one clock's number to the place given, and keeps no pointer.
    let code = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if code != 0 {
        return Err(Errno::from(&std::io::Error::from_raw_os_error(code)));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `struct timespec` and keeps no pointer.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        // It ended between the two calls, which the kernel calls a clock that does not exist.
        return Err(Errno::SRCH);
    }
    let (seconds, ns) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn it_is_what_the_process_itself_reads() {
        let before_ns = clock::process_cpu_ns();
        let mut sum = 0_u64;
        while clock::process_cpu_ns() < before_ns + 10_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        // Of the process that asks the kernel counts the running thread too.
        let from_outside_ns = cpu_ns_of(std::process::id()).unwrap();
        assert!(from_outside_ns >= before_ns + 5_000_000 && from_outside_ns <= clock::process_cpu_ns());
    }

    #[test]
    fn a_child_is_counted_until_it_has_been_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        assert!(cpu_ns_of(pid).is_ok());
        child.wait().unwrap();
        assert_eq!(cpu_ns_of(pid), Err(Errno::SRCH));
        assert_eq!(cpu_ns_of(0), Err(Errno::SRCH));
        assert_eq!(cpu_ns_of(u32::MAX), Err(Errno::SRCH));
    }
}
