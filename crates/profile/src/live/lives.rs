//! `Lives`: whether a recorded process, or a recorded child of such a process, still runs.
//! The recording ends early after the last of these processes has ended.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hostfs::proc::{self, ProcessStat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A start time that no real process has, for a pid without a process.
const NEVER: u64 = u64::MAX;

/// The processes that keep the recording going.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Processes that may still run. A process's start time distinguishes it from later processes with the same pid.
    here: BTreeMap<u32, u64>,
    /// Processes that had ended at the last read of the rings. The rings may still contain records of their children.
    gone: BTreeSet<u32>,
}

impl Lives {
    /// Starts with these processes.
    pub(super) fn new(pids: &[u32]) -> Lives {
        Lives { here: pids.iter().map(|pid| (*pid, started(*pid))).collect(), gone: BTreeSet::new() }
    }

    /// Adds new processes, each with its parent. The ring of one CPU may report a child before another ring reports its parent.
    pub(super) fn learn(&mut self, mut forks: Vec<(u32, u32)>) {
        loop {
            let before = forks.len();
            forks.retain(|(pid, parent)| {
                let is_of_ours = self.here.contains_key(parent) || self.gone.contains(parent);
                if is_of_ours {
                    // A process that has already ended may have started children earlier.
                    self.here.insert(*pid, started(*pid));
                }
                !is_of_ours
            });
            if forks.len() == before {
                return;
            }
        }
    }

    /// Whether all known processes seem to have ended.
    pub(super) fn seem_over(&mut self) -> bool {
        while let Some((pid, started)) = self.here.first_key_value() {
            if runs(*pid, *started) {
                return false;
            }
            self.gone.extend(self.here.pop_first().map(|(pid, _)| pid));
        }
        true
    }

    /// Call this after one more read of the rings since the processes ended. Returns true if no new children appeared.
    pub(super) fn settle(&mut self) -> bool {
        self.gone.clear();
        self.here.is_empty()
    }
}

/// A process's start time in kernel ticks since boot.
fn started(pid: u32) -> u64 {
    ProcessStat::read(pid).map_or(NEVER, |stat| stat.start_ticks)
}

fn runs(pid: u32, started: u64) -> bool {
    match ProcessStat::read(pid) {
        Some(stat) if stat.start_ticks != started => false,
        Some(stat) if stat.is_alive() => true,
        // The first thread of a process may end before the other threads.
        Some(_) => proc::threads(pid)
            .any(|tid| ProcessStat::read_thread(pid, tid).is_some_and(|(thread, _)| thread.is_alive())),
        // /proc may hide other users' processes (hidepid).
        None => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_zombie_does_not_run() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lives = Lives::new(&[child.id()]);
        assert!(!lives.seem_over());
        drop(child.stdin.take());
        while !lives.seem_over() {
            std::thread::yield_now();
        }
        // For this test, this process is a grandchild of the child. It is reported before its own parent.
        let own = std::process::id();
        lives.learn(vec![(own, 5_000_001), (5_000_001, child.id()), (5_000_002, 5_000_003)]);
        assert!(!lives.settle() && !lives.seem_over());
        assert!(!lives.here.contains_key(&5_000_002), "its parent is nobody's");
        child.wait().unwrap();
        let mut lives = Lives::new(&[child.id()]);
        assert!(lives.seem_over() && lives.settle());
        // Another process with the same number is a different process.
        let mut lives = Lives { here: [(own, 1)].into(), ..Lives::default() };
        assert!(lives.seem_over());
    }
}
