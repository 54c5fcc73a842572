//! `Chosen`: which of the records of whole CPUs are of those that are to be recorded. Who belongs to them changes while it runs: threads are
//! made, and named.

use std::collections::HashSet;

use crate::perf::record::{Record, What};

/// Whose samples and switches are kept. What is mapped and named is kept of all: it is little, and who belongs here may turn out later.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// Everybody's.
    All,
    /// Those of processes, and of those that they start.
    Processes(HashSet<u32>),
    /// Those of threads of a name.
    Named {
        name: Vec<u8>,
        /// Their processes; all if there are none.
        pids: HashSet<u32>,
        /// Those that have it now.
        tids: HashSet<u32>,
    },
}

impl Chosen {
    /// Learns who belongs here from a record of anybody.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        match (self, &record.what) {
            (Chosen::Processes(pids), What::Forked { pid, parent_pid, .. }) if pids.contains(parent_pid) => {
                pids.insert(*pid);
            }
            (Chosen::Named { tids, .. }, What::Forked { tid, parent_tid, .. }) if tids.contains(parent_tid) => {
                tids.insert(*tid);
            }
            (Chosen::Named { name, pids, tids }, What::Named { pid, tid, name: new, .. }) => {
                if name == new && (pids.is_empty() || pids.contains(pid)) {
                    tids.insert(*tid);
                } else {
                    tids.remove(tid);
                }
            }
            (Chosen::Named { tids, .. }, What::Ended { tid, .. }) => {
                tids.remove(tid);
            }
            _ => {}
        }
    }

    /// Whether this thread is one of them; of processes, whether it is their first.
    pub(super) fn has_thread(&self, tid: u32) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Processes(pids) => pids.contains(&tid),
            Chosen::Named { tids, .. } => tids.contains(&tid),
        }
    }

    /// Whether a thread's samples and switches are kept.
    pub(super) fn has(&self, pid: u32, tid: u32) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Processes(pids) => pids.contains(&pid),
            Chosen::Named { tids, .. } => tids.contains(&tid),
        }
    }
}
