//! Sets the CPUs of a running process in all its threads, and restores them.
//! The kernel forgets these CPUs when the process ends, so no journal records them.
//! Instead, a helper process restores them, also after SIGKILL.

use std::collections::BTreeSet;

use evenkeel_hostfs::proc::{self, ProcessStat};
use evenkeel_sys::{CpuSet, Errno, thread};

/// The maximum number of threads of one process.
const THREADS_MAX: usize = 4096;
/// How many times to look for new threads.
/// A process may start threads while evenkeel sets the CPUs,
/// and a new thread inherits the CPUs of the thread that created it.
const LOOKS_MAX: usize = 8;

/// A running process, with the CPUs of its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCpus {
    /// Its pid.
    pub pid: u32,
    /// When the process started, in the kernel's ticks.
    /// Together with the pid, this identifies the process, even if a later process gets the same pid.
    pub start_ticks: u64,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// Why the CPUs of a process can't be set. The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessCpusError {
    /// The process has ended, or another process now has its pid.
    #[error("place process {0}: it does not run")]
    Gone(u32),
    /// The threads may use different CPUs, so the process itself pins them.
    #[error(
        "place process {pid}: one thread may use CPU {one}, and another CPU {other}, so the process places its threads itself"
    )]
    Differ {
        /// Its pid.
        pid: u32,
        /// The CPUs of its first thread.
        one: CpuSet,
        /// The CPUs of another thread.
        other: CpuSet,
    },
    /// The process has too many threads, or starts and ends threads too fast.
    #[error("place process {0}: it has more than {THREADS_MAX} threads, or they come and go too fast")]
    Threads(u32),
    /// The kernel refuses.
    #[error("place thread {tid} of process {pid}: {errno}")]
    Refused {
        /// Its pid.
        pid: u32,
        /// The number of the thread.
        tid: u32,
        /// The kernel's error.
        errno: Errno,
    },
    /// The kernel removed CPUs from the set.
    #[error(
        "place process {pid}: it may use CPU {found} afterwards instead of {wanted}, because its control group allows no others"
    )]
    ReadsOtherwise {
        /// Its pid.
        pid: u32,
        /// The CPUs that the threads have.
        found: CpuSet,
        /// The CPUs that were set.
        wanted: CpuSet,
    },
}

impl ProcessCpus {
    /// Reads the CPUs of the process with this pid.
    ///
    /// # Errors
    /// If the process does not run, or its threads have different CPUs.
    pub fn read(pid: u32) -> Result<ProcessCpus, ProcessCpusError> {
        let stat = ProcessStat::read(pid).filter(ProcessStat::is_alive).ok_or(ProcessCpusError::Gone(pid))?;
        let cpus = thread::affinity_of(pid).map_err(|errno| refused(pid, pid, errno))?;
        let read = ProcessCpus { pid, start_ticks: stat.start_ticks, cpus };
        for tid in read.threads()? {
            match thread::affinity_of(tid) {
                Ok(other) if other != read.cpus => {
                    return Err(ProcessCpusError::Differ { pid, one: read.cpus, other });
                }
                Err(errno) if !errno.is_absence() => return Err(refused(pid, tid, errno)),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Gives all threads other CPUs, and reads the CPUs back.
    ///
    /// # Errors
    /// If the process has ended, or the kernel refuses or removes CPUs.
    /// Some threads may then have the new CPUs: call [`put_back`](ProcessCpus::put_back).
    pub fn set(&self, wanted: &CpuSet) -> Result<(), ProcessCpusError> {
        if !self.is_there() {
            return Err(ProcessCpusError::Gone(self.pid));
        }
        self.each_thread(|tid| {
            thread::set_affinity_of(tid, wanted)?;
            let found = thread::affinity_of(tid)?;
            if found != *wanted {
                // Restore this thread now, because `put_back` restores only threads with exactly the requested CPUs.
                thread::set_affinity_of(tid, &self.cpus)?;
            }
            Ok(found)
        })?
        .into_iter()
        .find(|found| found != wanted)
        .map_or(Ok(()), |found| Err(ProcessCpusError::ReadsOtherwise { pid: self.pid, found, wanted: wanted.clone() }))
    }

    /// Restores the CPUs of the threads that still have the CPUs `placed`: another program may have changed them since.
    /// A process that has ended needs no restore.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn put_back(&self, placed: &CpuSet) -> Result<(), ProcessCpusError> {
        if !self.is_there() {
            return Ok(());
        }
        self.each_thread(|tid| {
            let now = thread::affinity_of(tid)?;
            if now == *placed {
                thread::set_affinity_of(tid, &self.cpus)?;
            }
            Ok(now)
        })
        .map(drop)
    }

    /// Whether the process still runs. Returns `false` if its pid belongs to another process by now.
    pub fn is_there(&self) -> bool {
        ProcessStat::read(self.pid).is_some_and(|stat| stat.is_alive() && stat.start_ticks == self.start_ticks)
    }

    fn threads(&self) -> Result<BTreeSet<u32>, ProcessCpusError> {
        let threads: BTreeSet<u32> = proc::threads(self.pid).take(THREADS_MAX + 1).collect();
        if threads.len() > THREADS_MAX { Err(ProcessCpusError::Threads(self.pid)) } else { Ok(threads) }
    }

    /// Calls `act` once for each thread, also for threads that start meanwhile. Skips threads that end meanwhile.
    fn each_thread(&self, act: impl Fn(u32) -> Result<CpuSet, Errno>) -> Result<Vec<CpuSet>, ProcessCpusError> {
        let (mut done, mut found) = (BTreeSet::new(), Vec::new());
        for _ in 0..LOOKS_MAX {
            let fresh: Vec<u32> = self.threads()?.into_iter().filter(|tid| !done.contains(tid)).collect();
            if fresh.is_empty() {
                return Ok(found);
            }
            for tid in fresh {
                done.insert(tid);
                match act(tid) {
                    Ok(cpus) => found.push(cpus),
                    Err(errno) if errno.is_absence() => {}
                    Err(errno) => return Err(refused(self.pid, tid, errno)),
                }
            }
        }
        Err(ProcessCpusError::Threads(self.pid))
    }
}

fn refused(pid: u32, tid: u32, errno: Errno) -> ProcessCpusError {
    if errno.is_absence() { ProcessCpusError::Gone(pid) } else { ProcessCpusError::Refused { pid, tid, errno } }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use evenkeel_sys::process;

    use super::*;

    #[test]
    fn a_process_is_placed_and_put_back() {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        let mut child = process::die_with_parent(&mut command).spawn().unwrap();
        let before = ProcessCpus::read(child.id()).unwrap();
        let one: CpuSet = before.cpus.first().into_iter().collect();
        before.set(&one).unwrap();
        assert_eq!(ProcessCpus::read(child.id()).unwrap().cpus, one);
        // evenkeel must not touch another process that has the same pid later.
        let other = ProcessCpus { start_ticks: before.start_ticks + 1, ..before.clone() };
        assert_eq!(other.put_back(&one), Ok(()));
        assert_eq!(other.set(&before.cpus), Err(ProcessCpusError::Gone(child.id())));
        assert_eq!(ProcessCpus::read(child.id()).unwrap().cpus, one);
        before.put_back(&one).unwrap();
        assert_eq!(ProcessCpus::read(child.id()).unwrap(), before);
        // No machine has CPU 1023, so the kernel refuses a set with only CPU 1023.
        assert!(matches!(before.set(&CpuSet::from_iter([1023])), Err(ProcessCpusError::Refused { .. })));
        // If a set also has other CPUs, the kernel removes CPU 1023.
        let wanted = CpuSet::from_iter(one.iter().chain([1023]));
        let error = ProcessCpusError::ReadsOtherwise { pid: child.id(), found: one.clone(), wanted: wanted.clone() };
        assert_eq!(before.set(&wanted), Err(error));
        assert_eq!(ProcessCpus::read(child.id()).unwrap(), before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before.put_back(&one), Ok(()));
        assert_eq!(ProcessCpus::read(child.id()), Err(ProcessCpusError::Gone(child.id())));
    }

    #[test]
    fn threads_that_the_process_places_itself_are_left_alone() {
        let all = thread::process_affinity().unwrap();
        let (Some(first), true) = (all.first(), all.len() > 1) else {
            return evenkeel_testkit::skipped("this process has one CPU");
        };
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let pinned = std::thread::spawn(move || {
            thread::set_affinity(&[first].into_iter().collect()).unwrap();
            ready.send(()).unwrap();
            let _ = ended.recv();
        });
        is_ready.recv().unwrap();
        assert!(matches!(ProcessCpus::read(std::process::id()), Err(ProcessCpusError::Differ { .. })));
        drop(end);
        pinned.join().unwrap();
    }
}
