//! One reading of the kernel's counts by CPU and by thread.
//! The parsers accept any text, because other programs choose the names of threads and interrupts.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{self, CpuTicks, ProcessStat, Row, parse_per_cpu, parse_stat};
use evenkeel_sys::clock;

/// The maximum number of threads in one reading. Each thread takes some 10 us.
const THREADS_MAX: usize = 20_000;
/// The maximum number of interrupts and kinds of softirq in one reading.
const SOURCES_MAX: usize = 4096;

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTicks {
    /// The thread's process.
    pub pid: u32,
    /// The thread's name, up to 15 characters.
    pub name: String,
    /// When the thread started, in ticks since boot. Another thread may get the same number later.
    pub started: u64,
    /// CPU time in user space and the kernel, in ticks.
    pub ran: u64,
    /// The CPU on which the thread last ran.
    pub cpu: usize,
}

/// Counts of one source by CPU. A source is an interrupt or a kind of softirq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The source's name: the words after the counts in the kernel's file, or the label if no words follow.
    pub name: String,
    /// The counts by CPU number, as in the header of the kernel's file.
    pub counts: BTreeMap<usize, u64>,
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The time of the reading on the monotonic clock.
    pub at_ns: u64,
    /// The CPU times, by CPU number.
    pub cpus: BTreeMap<usize, CpuTicks>,
    /// The threads, by their number.
    pub threads: BTreeMap<u32, ThreadTicks>,
    /// The interrupts, by their label: a number, or letters such as `LOC`.
    pub irqs: BTreeMap<String, Source>,
    /// The softirqs, by name.
    pub softirqs: BTreeMap<String, Source>,
    /// Threads that existed but were not read.
    pub unseen_threads: u64,
}

impl Reading {
    /// Reads the counts of the machine now. Counts that cannot be read are empty.
    pub fn now(root: &Root) -> Reading {
        let text = |path: &str| root.text(path).unwrap_or_default();
        let (threads, unseen_threads) = threads();
        Reading {
            at_ns: clock::monotonic_ns(),
            cpus: parse_stat(&text("/proc/stat")).unwrap_or_default().cpus,
            threads,
            irqs: sources(&text("/proc/interrupts")),
            softirqs: sources(&text("/proc/softirqs")),
            unseen_threads,
        }
    }
}

/// The sources in /proc/interrupts or /proc/softirqs.
pub fn sources(text: &str) -> BTreeMap<String, Source> {
    let table = parse_per_cpu(text);
    let source = |row: Row<'_>| {
        let counts: BTreeMap<usize, u64> = table.cpus.iter().copied().zip(row.counts()).collect();
        let name = Some(row.name()).filter(|name| !name.is_empty()).unwrap_or(row.label).to_owned();
        // ERR and MIS have one number each, which belongs to no CPU.
        (counts.len() == table.cpus.len() && !counts.is_empty())
            .then(|| (row.label.to_owned(), Source { name, counts }))
    };
    table.rows().take(SOURCES_MAX).filter_map(source).collect()
}

/// The times of a thread, from its `stat`. On a real machine, every `stat` has the CPU.
pub(super) fn thread_of(pid: u32, (stat, name): (ProcessStat, &str)) -> Option<ThreadTicks> {
    let name = name.chars().take(64).collect();
    Some(ThreadTicks { pid, name, started: stat.start_ticks, ran: stat.cpu_ticks, cpu: stat.cpu? })
}

/// All threads of the machine that this process can see, and how many were left out.
fn threads() -> (BTreeMap<u32, ThreadTicks>, u64) {
    let (mut threads, mut unseen) = (BTreeMap::new(), 0);
    for pid in proc::processes() {
        for tid in proc::threads(pid) {
            if threads.len() >= THREADS_MAX {
                unseen += 1;
                continue;
            }
            // A thread that has ended in the meantime does not count as lost, because the next reading does not have this thread either.
            let read = ProcessStat::read_thread(pid, tid);
            threads.extend(read.and_then(|(stat, name)| Some((tid, thread_of(pid, (stat, &name))?))));
        }
    }
    (threads, unseen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interrupts_have_their_devices_names() {
        let text = "\
            CPU0       CPU3
  38:          5      52702 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 LOC:    4970506    6527556   Local timer interrupts
 ERR:          0
  NET_RX:     12         13
";
        let counts = sources(text);
        assert_eq!(counts["38"].name, "virtio2-input.0");
        assert_eq!(counts["38"].counts, BTreeMap::from([(0, 5), (3, 52702)]));
        assert_eq!(counts["LOC"].name, "Local timer interrupts");
        assert_eq!(counts["NET_RX"].name, "NET_RX");
        assert_eq!(counts.len(), 3);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,300}", table in "( CPU[0-9]{1,2}){0,4}\n([A-Z0-9]{1,3}:( [0-9]{1,20}){0,5}( [a-z]*)?\n){0,4}") {
            for text in [&text, &table] {
                let _ = sources(text);
            }
        }
    }

    #[test]
    fn this_machine_is_read() {
        let reading = Reading::now(&Root::live());
        assert!(!reading.cpus.is_empty() && !reading.softirqs.is_empty(), "{reading:?}");
        let us = reading.threads.values().any(|thread| thread.pid == std::process::id());
        assert!(us && reading.unseen_threads == 0);
    }
}
