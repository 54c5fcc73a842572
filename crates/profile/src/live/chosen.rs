//! `Chosen`: selects the records of the wanted threads from recordings of whole CPUs. The selection changes when threads start or get a name.

use std::collections::{HashMap, HashSet};

use crate::perf::record::{Record, What};

/// The maximum number of generations that are resolved within one read. One ring may report a child before another ring reports its parent.
const GENERATIONS_MAX: usize = 64;

/// The threads whose samples and switches are kept.
/// Mappings and names of all threads are kept: they are small, and a thread may be selected later.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// All threads.
    All,
    /// These processes and their children.
    Processes {
        /// The number of threads of each selected process.
        pids: HashMap<u32, u32>,
        /// All threads of the selected processes.
        tids: HashSet<u32>,
    },
    /// Threads with a given name.
    Named {
        name: Vec<u8>,
        /// The processes whose threads may be selected. Empty means all processes.
        pids: HashSet<u32>,
        /// The threads that currently have the name.
        tids: HashSet<u32>,
    },
}

impl Chosen {
    /// Selects these threads with their processes.
    pub(super) fn processes(threads: impl IntoIterator<Item = (u32, u32)>) -> Chosen {
        let (mut pids, mut tids) = (HashMap::new(), HashSet::new());
        for (pid, tid) in threads {
            if tids.insert(tid) {
                *pids.entry(pid).or_default() += 1;
            }
        }
        Chosen::Processes { pids, tids }
    }

    /// Updates the selection from the new and ended threads of one read. `ended` are threads that ended in the previous read.
    pub(super) fn learn_all(&mut self, lives: &[Record<'_>], ended: &mut Vec<(u32, u32)>) {
        let made = lives.iter().filter_map(|record| match record.what {
            What::Forked { tid, .. } => Some(tid),
            _ => None,
        });
        let made: HashSet<u32> = made.collect();
        for (pid, tid) in ended.extract_if(.., |(_, tid)| made.contains(tid)) {
            // A new thread now has the number of an ended thread.
            self.forget(pid, tid);
        }
        for _ in 0..GENERATIONS_MAX {
            let before = self.count();
            lives.iter().for_each(|record| self.learn(record));
            if self.count() == before || !matches!(self, Chosen::Processes { .. }) {
                break;
            }
        }
    }

    /// Drops threads that ended in the previous read, and remembers the threads that ended in this read.
    /// Another CPU's ring may deliver the last records of an ended thread only in the next read.
    pub(super) fn forget_all(&mut self, lives: &[Record<'_>], ended: &mut Vec<(u32, u32)>) {
        for (pid, tid) in ended.drain(..) {
            self.forget(pid, tid);
        }
        ended.extend(lives.iter().filter_map(|record| match record.what {
            What::Ended { pid, tid } => Some((pid, tid)),
            _ => None,
        }));
    }

    fn count(&self) -> usize {
        match self {
            Chosen::All => 0,
            Chosen::Processes { tids, .. } | Chosen::Named { tids, .. } => tids.len(),
        }
    }

    fn learn(&mut self, record: &Record<'_>) {
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

    /// Drops an ended thread, because the kernel will reuse its number.
    fn forget(&mut self, pid: u32, tid: u32) {
        match self {
            Chosen::Processes { pids, tids } => {
                if tids.remove(&tid)
                    && let Some(count) = pids.get_mut(&pid)
                {
                    *count = count.saturating_sub(1);
                    pids.retain(|_, count| *count > 0);
                }
            }
            Chosen::Named { tids, .. } => {
                tids.remove(&tid);
            }
            Chosen::All => {}
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

    /// Whether a thread with this number is selected.
    pub(super) fn has_thread(&self, tid: u32) -> bool {
        match self {
            Chosen::All => true,
            Chosen::Processes { tids, .. } | Chosen::Named { tids, .. } => tids.contains(&tid),
        }
    }

    /// Whether the mappings of a process are needed.
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
    fn children_are_selected_with_their_parents() {
        let mut chosen = Chosen::processes([(7, 7), (7, 8)]);
        chosen.learn(&said(What::Forked { pid: 7, parent_pid: 7, tid: 9, parent_tid: 8 }));
        chosen.learn(&said(What::Forked { pid: 20, parent_pid: 7, tid: 20, parent_tid: 9 }));
        chosen.learn(&said(What::Forked { pid: 21, parent_pid: 20, tid: 21, parent_tid: 20 }));
        chosen.learn(&said(What::Forked { pid: 30, parent_pid: 1, tid: 30, parent_tid: 1 }));
        let has = |pid, tid| (chosen.has(pid, tid), chosen.has_thread(tid));
        assert_eq!([has(7, 9), has(20, 20), has(21, 21)], [(true, true); 3]);
        assert_eq!(has(30, 30), (false, false));
        assert!(chosen.may_have(21) && !chosen.may_have(30));
        chosen.forget(7, 9);
        assert!(!chosen.has_thread(9) && chosen.has(7, 9), "its process is there still");
        chosen.forget(20, 20);
        assert!(!chosen.has(20, 20), "its number may be another's from now on");
    }

    fn forked(pid: u32, parent: u32) -> Record<'static> {
        said(What::Forked { pid, parent_pid: parent, tid: pid, parent_tid: parent })
    }

    /// Records of one moment are in several rings, which the recorder reads one after another.
    #[test]
    fn threads_recorded_before_their_parent_or_after_it_ended_are_found() {
        let mut chosen = Chosen::processes([(7, 7)]);
        let mut ended = Vec::new();
        // The rings deliver the third generation first.
        let lives = [forked(22, 21), forked(21, 20), forked(20, 7), said(What::Ended { pid: 20, tid: 20 })];
        chosen.learn_all(&lives, &mut ended);
        chosen.forget_all(&lives, &mut ended);
        assert!([20, 21, 22].iter().all(|pid| chosen.has(*pid, *pid)));
        let late = [forked(23, 20), said(What::Ended { pid: 22, tid: 22 })];
        chosen.learn_all(&late, &mut ended);
        chosen.forget_all(&late, &mut ended);
        assert!(chosen.has(23, 23), "its parent had ended in the read before");
        assert!(!chosen.has(20, 20), "its end has been read by now");
        // The kernel reuses the number of an ended thread: first for an unrelated thread, then for a child.
        let anew = [forked(22, 1), said(What::Ended { pid: 21, tid: 21 })];
        chosen.learn_all(&anew, &mut ended);
        assert!(!chosen.has(22, 22));
        chosen.forget_all(&anew, &mut ended);
        let again = [forked(21, 7)];
        chosen.learn_all(&again, &mut ended);
        chosen.forget_all(&again, &mut ended);
        assert!(chosen.has(21, 21) && ended.is_empty());
    }

    #[test]
    fn threads_are_selected_while_they_have_the_name() {
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
