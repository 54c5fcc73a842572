//! Manages processes that we did not create. This module signals a process group, or a process that is certainly still the same.
//! The module also adopts orphans, and reads the CPU time of a process, to the nanosecond.

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};

use crate::errno::Errno;

/// A signal that asks a program to end, or forces it to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(rustix::process::Signal);

const NAMES: [(&str, rustix::process::Signal); 8] = [
    ("HUP", rustix::process::Signal::HUP),
    ("INT", rustix::process::Signal::INT),
    ("QUIT", rustix::process::Signal::QUIT),
    ("KILL", rustix::process::Signal::KILL),
    ("USR1", rustix::process::Signal::USR1),
    ("USR2", rustix::process::Signal::USR2),
    ("TERM", rustix::process::Signal::TERM),
    ("WINCH", rustix::process::Signal::WINCH),
];

impl Signal {
    /// Asks the process to end. The process can catch this signal and end in good order.
    pub const TERM: Signal = Signal(rustix::process::Signal::TERM);
    /// Continues a stopped process.
    pub const CONT: Signal = Signal(rustix::process::Signal::CONT);
    /// Forces the process to end. The process cannot catch this signal.
    pub const KILL: Signal = Signal(rustix::process::Signal::KILL);

    /// The signal with this name, with or without `SIG`, in upper or lower case. It knows only signals that ask a program to end.
    pub fn of_name(name: &str) -> Option<Signal> {
        let name = name.to_ascii_uppercase();
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        NAMES.iter().find(|(known, _)| *known == short).map(|(_, signal)| Signal(*signal))
    }

    /// The names that [`of_name`](Signal::of_name) accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

fn pid_of(pid: u32) -> Result<Pid, Errno> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)
}

/// Sends a signal to every process of a group.
///
/// # Errors
/// `ESRCH` if no process is left, `EPERM` if we may signal none of them.
pub fn signal_group(group: u32, signal: Signal) -> Result<(), Errno> {
    // Group 1 is the group of init, and 0 means the caller's own group. No child leads either group.
    if group <= 1 {
        return Err(Errno::INVAL);
    }
    Ok(rustix::process::kill_process_group(pid_of(group)?, signal.0)?)
}

/// Sends a signal to one process if `is_it` confirms its identity while the pidfd is open. The kernel cannot reuse the number before that.
///
/// # Errors
/// `ESRCH` if the process has ended or was replaced, `EPERM` if we may not signal it.
pub fn signal_if(pid: u32, signal: Signal, is_it: impl FnOnce() -> bool) -> Result<(), Errno> {
    if pid <= 1 {
        return Err(Errno::INVAL);
    }
    let held = rustix::process::pidfd_open(pid_of(pid)?, PidfdFlags::empty())?;
    if !is_it() {
        return Err(Errno::SRCH);
    }
    Ok(rustix::process::pidfd_send_signal(&held, signal.0)?)
}

/// Makes orphaned descendants our children. So a process that goes into the background stays visible to us.
///
/// # Errors
/// The kernel's error; no case is known.
pub fn adopt_orphans() -> Result<(), Errno> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Reaps a child that has ended. Call it only if no other code waits for the child.
pub fn reap(pid: u32) {
    if let Ok(pid) = pid_of(pid) {
        let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// The CPU time that a process has used, with all its threads, in nanoseconds.
///
/// # Errors
/// `EINVAL` or `ESRCH` if there is no such process.
pub fn cpu_ns(pid: u32) -> Result<u64, Errno> {
    let pid = i32::try_from(pid).map_err(|_| Errno::INVAL)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the C library writes one number to our variable, and keeps no pointer.
    let code = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if code != 0 {
        return Err(Errno::from(&std::io::Error::from_raw_os_error(code)));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `struct timespec` to our variable, and keeps no pointer.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(Errno::from(&std::io::Error::last_os_error()));
    }
    let number = |part: i64| u64::try_from(part).unwrap_or(0);
    Ok(number(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(number(time.tv_nsec)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;
    use crate::clock;

    #[test]
    fn signals_have_names() {
        for name in ["TERM", "term", "SIGTERM", "sigTerm"] {
            assert_eq!(Signal::of_name(name), Some(Signal::TERM), "{name}");
        }
        for odd in ["", "SIG", "STOP", "SIGSIGTERM", "15", "SEGV"] {
            assert_eq!(Signal::of_name(odd), None, "{odd}");
        }
        assert!(Signal::names().all(|name| Signal::of_name(name).is_some()));
    }

    #[test]
    fn a_group_is_ended_as_a_whole() {
        let mut leader = Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).process_group(0).spawn().unwrap();
        signal_group(leader.id(), Signal::KILL).unwrap();
        assert_eq!(leader.wait().unwrap().signal(), Some(9));
        for group in [0, 1, u32::MAX] {
            assert_eq!(signal_group(group, Signal::TERM), Err(Errno::INVAL));
        }
    }

    #[test]
    fn a_process_that_is_another_one_by_now_is_left_alone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(signal_if(child.id(), Signal::KILL, || false), Err(Errno::SRCH));
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(signal_if(child.id(), Signal::TERM, || true), Ok(()));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(signal_if(child.id(), Signal::TERM, || true).is_err(), "it is gone");
        assert_eq!(signal_if(1, Signal::TERM, || true), Err(Errno::INVAL));
    }

    #[test]
    fn the_cpu_time_of_a_process_is_that_of_all_its_threads() {
        let before_ns = cpu_ns(std::process::id()).unwrap();
        let until_ns = clock::thread_cpu_ns() + 5_000_000;
        while clock::thread_cpu_ns() < until_ns {}
        let used_ns = cpu_ns(std::process::id()).unwrap() - before_ns;
        assert!(used_ns >= 5_000_000, "{used_ns}");
        assert!(cpu_ns(u32::MAX).is_err());
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert!(cpu_ns(ended.id()).is_err());
    }
}
