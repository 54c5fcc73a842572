//! The threads of a server, and the busiest among them.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{self, ProcessStat};
use evenkeel_sys::{clock, schedstat, thread};

use super::stream::CHILDREN_MAX;
use crate::{MeterError, Watch};

/// The maximum number of threads to watch.
pub const THREADS_MAX: usize = 64;
/// The maximum number of threads to examine. Each takes some 10 us.
const LOOKED_AT_MAX: usize = 20_000;
/// How long to compare the CPU time of threads, if there are more threads than the meter can watch.
const COMPARED_NS: u64 = 700_000_000;
const STEP_NS: u64 = 50_000_000;
/// The maximum number of names to list when a name is not found.
const NAMED_MAX: usize = 8;

/// Which threads to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// These threads, each as process number and thread number.
    Threads(Vec<(u32, u32)>),
    /// These threads, and new threads of their processes.
    Growing(Vec<(u32, u32)>),
}

/// The threads of a process, each as the process number and the thread number. Empty if the process does not exist.
pub fn tasks(pid: u32) -> Vec<(u32, u32)> {
    proc::threads(pid).take(LOOKED_AT_MAX).map(|tid| (pid, tid)).collect()
}

/// The threads of `pids` to watch: all threads, or the busiest if there are too many. With `name`, only threads of that name.
///
/// # Errors
/// Fails if no process exists, or no thread has that name.
pub fn worth_watching(pids: &[u32], name: Option<&str>, watch: &Watch<'_>) -> Result<Watched, MeterError> {
    let what = format!("watch the threads of {}", named(pids));
    let all: Vec<(u32, u32)> = pids.iter().flat_map(|pid| tasks(*pid)).take(LOOKED_AT_MAX).collect();
    if all.is_empty() {
        let why = "there is no such process; was it started, and is this its number?";
        return Err(MeterError::not_possible(what, why));
    }
    let Some(name) = name else { return Ok(Watched::Growing(busiest(all, watch))) };
    let (called, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, tid)| thread::name_of(*tid).as_deref() == Some(name));
    if called.is_empty() {
        let mut known: Vec<String> = others.iter().filter_map(|(_, tid)| thread::name_of(*tid)).collect();
        known.sort_unstable();
        known.dedup();
        known.truncate(NAMED_MAX);
        let why = format!("no thread is called {name}; its threads are {}", known.join(", "));
        return Err(MeterError::wrong_use(what, why));
    }
    Ok(Watched::Threads(busiest(called, watch)))
}

/// The child processes of `pids`, without the processes in `pids`.
pub(super) fn children(pids: &[u32]) -> Vec<u32> {
    let is_child = |pid: &u32| ProcessStat::read(*pid).is_some_and(|stat| pids.contains(&stat.parent));
    let others = proc::processes().take(LOOKED_AT_MAX).filter(|pid| !pids.contains(pid));
    let mut children: Vec<u32> = others.filter(is_child).take(CHILDREN_MAX).collect();
    children.sort_unstable();
    children
}

/// The threads with the busiest first. The result has all threads if the meter can watch that many.
fn busiest(mut threads: Vec<(u32, u32)>, watch: &Watch<'_>) -> Vec<(u32, u32)> {
    if threads.len() <= THREADS_MAX {
        return threads;
    }
    watch.progress(0.0, "comparing the server's threads");
    let ran = |threads: &[(u32, u32)]| -> BTreeMap<u32, u64> {
        // Without schedstat every count is 0. Then all threads are equal, and the meter watches the first few threads.
        threads.iter().map(|(_, tid)| (*tid, schedstat::of_thread(*tid).unwrap_or_default().0)).collect()
    };
    let before = ran(&threads);
    sleep(COMPARED_NS, watch);
    let after = ran(&threads);
    let since = |tid: &u32| after[tid].saturating_sub(before[tid]);
    threads.sort_by_key(|(_, tid)| (std::cmp::Reverse(since(tid)), *tid));
    threads
}

pub(super) fn sleep(for_ns: u64, watch: &Watch<'_>) {
    let due_ns = clock::monotonic_ns() + for_ns;
    while clock::monotonic_ns() < due_ns && !watch.stopped() {
        clock::sleep_until_ns(due_ns.min(clock::monotonic_ns() + STEP_NS));
    }
}

pub(super) fn named(pids: &[u32]) -> String {
    match pids {
        [one] => format!("process {one}"),
        many => format!("processes {}", many.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}
