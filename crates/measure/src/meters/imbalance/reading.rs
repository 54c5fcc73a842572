//! One reading of the kernel's counts by CPU and by thread. The parsers accept any text, because other programs choose the names of threads
//! and interrupts.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use evenkeel_sys::clock;

/// The most threads that one reading covers: some 10 us each.
const THREADS_MAX: usize = 20_000;
/// The most interrupts and kinds of softirq that one reading holds.
const SOURCES_MAX: usize = 4096;

/// The times of one CPU since boot, in the kernel's user-space ticks (10 ms on all common machines).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In user space, nice or not.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// In interrupts.
    pub irq: u64,
    /// In softirqs.
    pub softirq: u64,
    /// Stolen by the hypervisor, as far as it reports.
    pub steal: u64,
    /// Idle, including waiting for disks.
    pub idle: u64,
}

impl CpuTicks {
    /// The sum.
    pub fn total(&self) -> u64 {
        let CpuTicks { user, system, irq, softirq, steal, idle } = *self;
        [user, system, irq, softirq, steal, idle].into_iter().fold(0, u64::saturating_add)
    }

    /// The increase since `before`.
    pub fn since(&self, before: &CpuTicks) -> CpuTicks {
        CpuTicks {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTicks {
    /// Its process.
    pub pid: u32,
    /// Its name, up to 15 characters.
    pub name: String,
    /// When it started, in ticks since boot: another thread may get the same number later.
    pub started: u64,
    /// CPU time in user space and the kernel, in ticks.
    pub ran: u64,
    /// The CPU that it last ran on.
    pub cpu: usize,
}

/// Counts of one source by CPU: an interrupt, or a kind of softirq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name: the kernel's words after the counts, or the label if there are none.
    pub name: String,
    /// By column of the file, whose header names the CPUs.
    pub counts: BTreeMap<usize, u64>,
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The reading of the monotonic clock.
    pub at_ns: u64,
    /// By CPU.
    pub cpus: BTreeMap<usize, CpuTicks>,
    /// By the thread's number.
    pub threads: BTreeMap<u32, ThreadTicks>,
    /// By its label: a number, or letters such as `LOC`.
    pub irqs: BTreeMap<String, Source>,
    /// By its name.
    pub softirqs: BTreeMap<String, Source>,
    /// Threads that existed but were not read.
    pub unseen_threads: u64,
}

impl Reading {
    /// Reads the machine now. Whatever cannot be read is empty.
    pub fn now(root: &Root) -> Reading {
        let text = |path: &str| root.text(path).unwrap_or_default();
        let (threads, unseen_threads) = threads();
        Reading {
            at_ns: clock::monotonic_ns(),
            cpus: parse_stat(&text("/proc/stat")),
            threads,
            irqs: parse_counts(&text("/proc/interrupts")),
            softirqs: parse_counts(&text("/proc/softirqs")),
            unseen_threads,
        }
    }
}

/// The lines `cpuN …` of /proc/stat.
pub fn parse_stat(text: &str) -> BTreeMap<usize, CpuTicks> {
    let mut cpus = BTreeMap::new();
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|word| word.strip_prefix("cpu")).and_then(|number| number.parse().ok());
        let Some(cpu) = number.filter(|cpu: &usize| *cpu < evenkeel_sys::MAX_CPUS) else { continue };
        let counts: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let count = |at: usize| counts.get(at).copied().unwrap_or(0);
        // The columns are user nice system idle iowait irq softirq steal. The time of this machine's guests is already in user.
        let ticks = CpuTicks {
            user: count(0).saturating_add(count(1)),
            system: count(2),
            irq: count(5),
            softirq: count(6),
            steal: count(7),
            idle: count(3).saturating_add(count(4)),
        };
        cpus.insert(cpu, ticks);
    }
    cpus
}

/// A table of counts by CPU: /proc/interrupts or /proc/softirqs.
pub fn parse_counts(text: &str) -> BTreeMap<String, Source> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<usize> = header.map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut sources = BTreeMap::new();
    for line in lines.take(SOURCES_MAX) {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let label = label.trim();
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let numbers = words.iter().map_while(|word| word.parse::<u64>().ok());
        let counts: BTreeMap<usize, u64> = cpus.iter().copied().zip(numbers).collect();
        // ERR and MIS have one number, which belongs to no CPU.
        if counts.len() < cpus.len() || counts.is_empty() {
            continue;
        }
        let words = &words[counts.len()..];
        // For a device's interrupt the last word is its name, after the controller's. For the kernel's own interrupts all words are the
        // name.
        let is_device = label.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_device { words.last().copied().unwrap_or(label).to_owned() } else { words.join(" ") };
        let name = if name.is_empty() { label.to_owned() } else { name };
        sources.insert(label.to_owned(), Source { name, counts });
    }
    sources
}

/// A thread's `stat`. The name stands in parentheses and may contain any character.
pub fn parse_thread(text: &str, pid: u32) -> Option<ThreadTicks> {
    let (before, rest) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field here is the third of proc_pid_stat(5).
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(ThreadTicks {
        pid,
        name: name.chars().take(64).collect(),
        started: number(22)?,
        ran: number(14)?.saturating_add(number(15)?),
        cpu: usize::try_from(number(39)?).ok()?,
    })
}

/// All threads of the machine that are visible to us, and how many were left out.
fn threads() -> (BTreeMap<u32, ThreadTicks>, u64) {
    let numbers = |dir: &str| -> Vec<u32> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let (mut threads, mut unseen) = (BTreeMap::new(), 0);
    for pid in numbers("/proc") {
        for tid in numbers(&format!("/proc/{pid}/task")) {
            if threads.len() >= THREADS_MAX {
                unseen += 1;
                continue;
            }
            // If a thread ended meanwhile, nothing is lost: the next reading does not have it either.
            let Ok(text) = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")) else { continue };
            if let Some(thread) = parse_thread(&String::from_utf8_lossy(&text), pid) {
                threads.insert(tid, thread);
            }
        }
    }
    (threads, unseen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cpus_line_is_read_whole_or_short() {
        let text = "cpu  9 9 9 9\ncpu0 10 1 5 100 7 2 3 4 0 0\ncpu12 1 2 3 4\ncpux 1\nintr 5\ncpu3 1 1 1 1\n";
        let cpus = parse_stat(text);
        let ticks = CpuTicks { user: 11, system: 5, irq: 2, softirq: 3, steal: 4, idle: 107 };
        assert_eq!(cpus[&0], ticks);
        assert_eq!(cpus[&12], CpuTicks { user: 3, system: 3, idle: 4, ..CpuTicks::default() });
        assert_eq!(cpus.len(), 2, "{cpus:?}");
        assert_eq!(ticks.total(), 132);
    }

    #[test]
    fn interrupts_have_their_devices_names() {
        let text = "\
            CPU0       CPU3
  38:          5      52702 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 LOC:    4970506    6527556   Local timer interrupts
 ERR:          0
  NET_RX:     12         13
";
        let counts = parse_counts(text);
        assert_eq!(counts["38"].name, "virtio2-input.0");
        assert_eq!(counts["38"].counts, BTreeMap::from([(0, 5), (3, 52702)]));
        assert_eq!(counts["LOC"].name, "Local timer interrupts");
        assert_eq!(counts["NET_RX"].name, "NET_RX");
        assert_eq!(counts.len(), 3);
    }

    #[test]
    fn a_threads_name_may_hold_anything() {
        let rest = "S 1 1 1 0 -1 4194560 1 0 0 0 300 25 0 0 20 0 1 0 777 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 0 0";
        let thread = parse_thread(&format!("12 (a) R (b c) {rest}"), 9).unwrap();
        assert_eq!(thread, ThreadTicks { pid: 9, name: "a) R (b c".to_owned(), started: 777, ran: 325, cpu: 1 });
        for odd in ["", "12", "12 (a", "12 a) S", "12 (a) S 1 2"] {
            assert_eq!(parse_thread(odd, 1), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,300}", table in "( CPU[0-9]{1,2}){0,4}\n([A-Z0-9]{1,3}:( [0-9]{1,20}){0,5}( [a-z]*)?\n){0,4}") {
            for text in [&text, &table] {
                let _ = parse_stat(&format!("cpu0 {text}"));
                let _ = parse_counts(text);
                let _ = parse_thread(&format!("1 ({text}"), 1);
                let _ = parse_thread(text, 1);
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
