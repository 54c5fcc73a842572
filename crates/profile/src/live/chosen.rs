//! `Chosen`: which of the records of whole CPUs are of those that are to be recorded. Who belongs to them changes while it runs: threads are
//! made, and named.

use std::collections::{HashMap, HashSet};

use crate::perf::record::{Record, What};

/// Whose samples and switches are kept. What is mapped and named is kept of all: it is little, and who belongs here may turn out later.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// Everybody's.
    All,
    /// Those of processes, and of those that they start.
    Processes {
        /// With how many threads each has.
        pids: HashMap<u32, u32>,
        /// All their threads.
        tids: HashSet<u32>,
    },
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
    /// These processes, with their threads.
    pub(super) fn processes(threads: impl IntoIterator<Item = (u32, u32)>) -> Chosen {
        let (mut pids, mut tids) = (HashMap::new(), HashSet::new());
        for (pid, tid) in threads {
            if tids.insert(tid) {
                *pids.entry(pid).or_default() += 1;
            }
        }
        Chosen::Processes { pids, tids }
    }

    /// Learns who belongs here from a record of anybody.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        match (self, &record.what) {
            (Chosen::Processes { pids, tids }, What::Forked { pid, parent_pid, tid, .. })
                if pids.contains_key(parent_pid) =>
            {
                if tids.insert(*tid) {
                    *pids.entry(*pid).or_default() += 1;
                }
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
            (_, _) => {}
        }
    }

    /// Forgets a thread that has ended: its number will be another's. Only when all that was recorded before its end was seen.
    pub(super) fn forget(&mut self, record: &Record<'_>) {
        match (self, &record.what) {
            (Chosen::Processes { pids, tids }, What::Ended { pid, tid }) => {
                if tids.remove(tid)
                    && let Some(count) = pids.get_mut(pid)
                {
                    *count = count.saturating_sub(1);
                    pids.retain(|_, count| *count > 0);
                }
            }
            (Chosen::Named { tids, .. }, What::Ended { tid, .. }) => {
                tids.remove(tid);
            }
            (_, _) => {}
        }
    }

    /// Whether a thread's samples and switches are kept.
    pub(super) fn has(&self, pid: u32, tid: u32) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Processes { pids, .. } => pids.contains_key(&pid),
            Chosen::Named { tids, .. } => tids.contains(&tid),
        }
    }

    /// Whether a thread is one of them.
    pub(super) fn has_thread(&self, tid: u32) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Processes { tids, .. } | Chosen::Named { tids, .. } => tids.contains(&tid),
        }
    }

    /// Whether it may be asked what a process has mapped: nobody asks of others.
    pub(super) fn may_have(&self, pid: u32) -> bool {
        match self {
            Chosen::Processes { pids, .. } => pids.contains_key(&pid),
            Chosen::Named { pids, .. } if !pids.is_empty() => pids.contains(&pid),
            Chosen::All | Chosen::Named { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::record::Id;

    fn said(what: What<'_>) -> Record<'_> {
        Record { id: Id::default(), what }
    }

    #[test]
    fn who_is_made_by_them_belongs_to_them() {
        let mut chosen = Chosen::processes([(7, 7), (7, 8)]);
        chosen.learn(&said(What::Forked { pid: 7, parent_pid: 7, tid: 9, parent_tid: 8 }));
        chosen.learn(&said(What::Forked { pid: 20, parent_pid: 7, tid: 20, parent_tid: 9 }));
        chosen.learn(&said(What::Forked { pid: 21, parent_pid: 20, tid: 21, parent_tid: 20 }));
        chosen.learn(&said(What::Forked { pid: 30, parent_pid: 1, tid: 30, parent_tid: 1 }));
        let has = |pid, tid| (chosen.has(pid, tid), chosen.has_thread(tid));
        assert_eq!([has(7, 9), has(20, 20), has(21, 21)], [(true, true); 3]);
        assert_eq!(has(30, 30), (false, false));
        assert!(chosen.may_have(21) && !chosen.may_have(30));
        chosen.forget(&said(What::Ended { pid: 7, tid: 9 }));
        assert!(!chosen.has_thread(9) && chosen.has(7, 9), "its process is there still");
        chosen.forget(&said(What::Ended { pid: 20, tid: 20 }));
        assert!(!chosen.has(20, 20), "its number may be another's from now on");
    }

    #[test]
    fn who_takes_the_name_belongs_to_them_and_who_drops_it_does_not() {
        let named = |pid, tid, name| said(What::Named { pid, tid, name, is_exec: false });
        for (pids, others) in [(HashSet::new(), true), ([7].into(), false)] {
            let mut chosen = Chosen::Named { name: b"game".to_vec(), pids, tids: [8].into() };
            chosen.learn(&named(7, 9, b"game"));
            chosen.learn(&named(3, 4, b"game"));
            chosen.learn(&said(What::Forked { pid: 7, parent_pid: 7, tid: 10, parent_tid: 8 }));
            assert!(chosen.has(7, 9) && chosen.has(7, 10), "it has its maker's name until it takes another");
            assert_eq!(chosen.has(3, 4), others);
            chosen.learn(&named(7, 10, b"worker"));
            assert!(!chosen.has(7, 10));
        }
    }
}
