//! Reads the counters of a server's process. A thread's counters disappear when it ends, so their sums are kept here and never decrease.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::parse_process;
use evenkeel_measure::meters::rates::{ProcessCounts, ThreadCounts};

use super::groups::group_of;
use crate::sample::{Counted, ProcessSample, ThreadSums};

/// The maximum number of threads to list. Threads that ran and waited most since the last sample come first.
const THREADS_LISTED: usize = 16;

/// What is known of the threads of one process so far.
#[derive(Debug, Default)]
pub(super) struct Threads {
    start_ticks: Option<u64>,
    before: BTreeMap<u32, ThreadCounts>,
    sums: ThreadSums,
}

impl Threads {
    /// The counts of the process now.
    pub(super) fn read(&mut self, root: &Root, pid: u32, now_ns: u64) -> Counted<ProcessSample> {
        let counts = ProcessCounts::read(root, pid, &|| now_ns).into_result()?;
        if self.start_ticks.replace(counts.stat.start_ticks) != Some(counts.stat.start_ticks) {
            // The kernel has reused the number of the process.
            (self.before, self.sums) = (BTreeMap::new(), ThreadSums::default());
        }
        let listed = counts.threads.into_result().map(|threads| self.take(threads, counts.threads_beyond > 0));
        Ok(ProcessSample {
            name: counts.name.chars().take(64).collect(),
            start_ticks: counts.stat.start_ticks,
            cpu_ticks: counts.stat.cpu_ticks,
            minor_faults: counts.stat.minor_faults,
            major_faults: counts.stat.major_faults,
            resident_bytes: counts.status.known().and_then(|pairs| pairs.get("VmRSS").copied()),
            group: group_of(root, pid).ok(),
            thread_sums: listed.as_ref().map(|_| self.sums).map_err(Clone::clone),
            thread_cpus: listed
                .iter()
                .flat_map(|threads| threads.keys())
                .filter_map(|tid| cpu_of(root, pid, *tid))
                .collect(),
            threads: listed.unwrap_or_default(),
            threads_beyond: counts.threads_beyond,
        })
    }

    /// Adds what the threads did since the last sample. Returns the busiest threads.
    fn take(&mut self, threads: BTreeMap<u32, ThreadCounts>, is_cut: bool) -> BTreeMap<u32, ThreadCounts> {
        let is_first = self.before.is_empty();
        let mut weights = Vec::new();
        for (tid, now) in &threads {
            // A new thread had counters of zero at the last sample, unless the last sample left out threads beyond the limit.
            let zero = ThreadCounts {
                cpu_ns: 0,
                run_delay_ns: 0,
                voluntary_switches: 0,
                involuntary_switches: 0,
                ..now.clone()
            };
            let before = self.before.get(tid).unwrap_or(if is_first || is_cut { now } else { &zero });
            let grown = |of: fn(&ThreadCounts) -> u64| of(now).saturating_sub(of(before));
            let (ran, waited) = (grown(|thread| thread.cpu_ns), grown(|thread| thread.run_delay_ns));
            self.sums.run_delay_ns = self.sums.run_delay_ns.saturating_add(waited);
            let voluntary = grown(|thread| thread.voluntary_switches);
            self.sums.voluntary_switches = self.sums.voluntary_switches.saturating_add(voluntary);
            let involuntary = grown(|thread| thread.involuntary_switches);
            self.sums.involuntary_switches = self.sums.involuntary_switches.saturating_add(involuntary);
            weights.push((ran.saturating_add(waited), *tid));
        }
        weights.sort_unstable_by(|one, other| other.cmp(one));
        weights.truncate(THREADS_LISTED);
        let listed = weights.iter().filter_map(|(_, tid)| Some((*tid, threads.get(tid)?.clone()))).collect();
        self.before = threads;
        listed
    }
}

/// The CPU on which a thread last ran.
fn cpu_of(root: &Root, pid: u32, tid: u32) -> Option<(u32, usize)> {
    let text = root.text(&format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Some((tid, parse_process(&text)?.0.cpu?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(list: &[(u32, u64)]) -> BTreeMap<u32, ThreadCounts> {
        let one = |(tid, count): &(u32, u64)| {
            let count = *count;
            let name = format!("t{tid}");
            (
                *tid,
                ThreadCounts {
                    name,
                    cpu_ns: count,
                    run_delay_ns: count,
                    voluntary_switches: count,
                    involuntary_switches: 0,
                },
            )
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn sums_never_go_back_when_threads_end() {
        let mut one = Threads::default();
        one.take(threads(&[(1, 100), (2, 50)]), false);
        assert_eq!(one.sums.run_delay_ns, 0, "what was before the first sample does not count");
        one.take(threads(&[(1, 110), (3, 5)]), false);
        assert_eq!(one.sums.run_delay_ns, 15, "a new thread counts from its start");
        one.take(threads(&[(1, 110), (4, 1000)]), true);
        assert_eq!(one.sums.run_delay_ns, 15, "one that may have been beyond the limit does not");
        let many: Vec<(u32, u64)> = (0..500).map(|tid| (tid, u64::from(tid))).collect();
        assert_eq!(Threads::default().take(threads(&many), false).len(), THREADS_LISTED);
    }
}
