//! What a thread may set for itself without privileges: its CPUs and its timer slack. Also the CPUs of threads of other processes.

use std::num::NonZeroU64;

use crate::cpuset::CpuSet;
use crate::errno::Errno;

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// The kernel's error: `EINVAL` with more than 1,024 CPUs.
pub fn affinity() -> Result<CpuSet, Errno> {
    affinity_in(None)
}

/// The CPUs that the thread with this number may run on.
///
/// # Errors
/// `ESRCH` if the thread does not exist; otherwise the kernel's error.
pub fn affinity_of(tid: u32) -> Result<CpuSet, Errno> {
    affinity_in(Some(pid_of(tid)?))
}

/// Restricts the thread with this number to `cpus`.
///
/// # Errors
/// `EPERM` for another user's thread without CAP_SYS_NICE; `ESRCH` if the thread does not exist; otherwise as [`set_affinity`].
pub fn set_affinity_of(tid: u32, cpus: &CpuSet) -> Result<(), Errno> {
    Ok(rustix::thread::sched_setaffinity(Some(pid_of(tid)?), &kernel_set(cpus)?)?)
}

/// Zero would mean the calling thread, so refuse zero.
fn pid_of(tid: u32) -> Result<rustix::process::Pid, Errno> {
    i32::try_from(tid).ok().and_then(rustix::process::Pid::from_raw).ok_or(Errno::SRCH)
}

fn affinity_in(pid: Option<rustix::process::Pid>) -> Result<CpuSet, Errno> {
    let set = rustix::thread::sched_getaffinity(pid)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The CPUs that the process's first thread may run on. These are all CPUs of the process, unless that thread was pinned.
///
/// # Errors
/// The kernel's error.
pub fn process_affinity() -> Result<CpuSet, Errno> {
    affinity_in(Some(rustix::process::getpid()))
}

/// The number of CPUs that the process may use, by the cpuset of its control group. The calling thread may have fewer.
///
/// # Errors
/// The kernel's error.
pub fn allowed_cpus() -> Result<usize, Errno> {
    // A thread that pinned itself does not show the CPUs of the process. So ask the first thread, whose number is the process's number.
    Ok(process_affinity()?.iter().count())
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// `EINVAL` if none of the CPUs is online and in the thread's cpuset, or if a number is 1,024 or more.
pub fn set_affinity(cpus: &CpuSet) -> Result<(), Errno> {
    Ok(rustix::thread::sched_setaffinity(None, &kernel_set(cpus)?)?)
}

/// Converts the set to the form of the system call.
pub(crate) fn kernel_set(cpus: &CpuSet) -> Result<rustix::thread::CpuSet, Errno> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(cpu);
    }
    Ok(set)
}

/// The CPU that the calling thread runs on. Unless the thread is pinned, it may have moved by the time this call returns.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The calling thread's number, as in the kernel's records.
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// The name of the thread with this number. `None` if the thread has ended or is hidden.
pub fn name_of(tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// Sets the calling thread's nice value, -20 to 19. Other threads of the process keep theirs.
///
/// # Errors
/// `EACCES` for a lower value than the current value, without CAP_SYS_NICE.
pub fn set_nice(nice: i32) -> Result<(), Errno> {
    // Without a process number, the kernel changes only the calling thread, contrary to the standard.
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// How late the kernel may end a sleep of the calling thread, in nanoseconds (`PR_GET_TIMERSLACK`).
///
/// # Errors
/// The kernel's error.
pub fn timer_slack_ns() -> Result<u64, Errno> {
    Ok(rustix::thread::current_timer_slack()?)
}

/// Sets the calling thread's timer slack (`PR_SET_TIMERSLACK`). `None` restores the value that the thread started with.
///
/// # Errors
/// The kernel's error.
pub fn set_timer_slack_ns(ns: Option<NonZeroU64>) -> Result<(), Errno> {
    Ok(rustix::thread::set_current_timer_slack(ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_thread_end_with_it() {
        let set = std::thread::spawn(|| {
            let first: CpuSet = affinity().unwrap().first().into_iter().collect();
            set_affinity(&first).unwrap();
            assert_eq!(affinity().unwrap(), first);
            assert_eq!(Some(current_cpu()), first.first());
            set_nice(3).unwrap();
            set_timer_slack_ns(NonZeroU64::new(1)).unwrap();
            timer_slack_ns().unwrap()
        });
        assert_eq!(set.join().unwrap(), 1);
        assert_ne!(timer_slack_ns().unwrap(), 1);
        assert_ne!(rustix::process::getpriority_process(None).unwrap(), 3);
    }

    #[test]
    fn another_thread_is_pinned_as_one_s_own() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            sender.send(id()).unwrap();
            let _ = ended.recv();
            affinity().unwrap()
        });
        let tid = receiver.recv().unwrap();
        let first: CpuSet = affinity().unwrap().first().into_iter().collect();
        set_affinity_of(tid, &first).unwrap();
        assert_eq!(affinity_of(tid), Ok(first.clone()));
        drop(end);
        assert_eq!(other.join().unwrap(), first);
        assert_eq!(affinity_of(0), Err(Errno::SRCH), "no number is not ourselves");
    }

    #[test]
    fn an_impossible_set_is_refused() {
        assert_eq!(set_affinity(&CpuSet::default()), Err(Errno::INVAL));
        assert_eq!(set_affinity(&CpuSet::from_iter([5000])), Err(Errno::INVAL));
    }
}
