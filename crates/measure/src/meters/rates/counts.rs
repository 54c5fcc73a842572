//! One reading of all counts at one moment. Whatever cannot be read carries its reason.

use std::collections::BTreeMap;

use evenkeel_hostfs::cgroup::Place;
use evenkeel_hostfs::proc::{
    Pairs, ProcessStat, Stat, field, parse_fields, parse_pairs, parse_process, parse_stat, parse_switches,
};
use evenkeel_hostfs::{Refusal, Root, Why};
use evenkeel_sys::cpu_limit::parse_cpu_max;
use evenkeel_sys::stall::{Stalls, parse_stalls};
use evenkeel_sys::{Errno, schedstat};
use serde::{Deserialize, Serialize};

use super::group::{MemoryLimit, Places, memory_limit};
use super::measured::Measured;
use super::report::Quota;
use super::settings::Target;

/// The maximum number of threads of a process to read each time. A thread has two files, which take some 20 us together.
pub const THREADS_MAX: usize = 1024;

/// The resources that threads can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Memory, Resource::Io];

    /// The name of the kernel's file.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::Io => "io",
        }
    }
}

/// All counts at one moment.
#[derive(Clone, Debug)]
pub struct Counts {
    /// When the counts were read, on the monotonic clock.
    pub at_ns: u64,
    /// /proc/stat.
    pub stat: Measured<Stat>,
    /// /proc/vmstat.
    pub vmstat: Measured<Pairs>,
    /// /proc/meminfo, in bytes.
    pub meminfo: Measured<Pairs>,
    /// /proc/pressure.
    pub pressure: [Measured<Stalls>; 3],
    /// The counts of the group.
    pub group: GroupCounts,
    /// The counts of the process. None without a watched process.
    pub process: Option<Measured<ProcessCounts>>,
}

/// The counts of a control group.
#[derive(Clone, Debug)]
pub struct GroupCounts {
    /// The group and its ancestors, with the innermost first.
    pub levels: Measured<Vec<LevelCounts>>,
    /// The pressure in the group.
    pub pressure: [Measured<Stalls>; 3],
    /// The memory that the group uses, in bytes.
    pub used_bytes: Measured<u64>,
    /// The tightest memory limit that applies to the group.
    pub limit: Measured<Option<MemoryLimit>>,
    /// memory.stat.
    pub memory: Measured<Pairs>,
}

/// The CPU counts of a group.
#[derive(Clone, Debug)]
pub struct LevelCounts {
    /// The group's directory.
    pub directory: String,
    /// The group's limit on CPU time. `None` means no limit.
    pub quota: Measured<Option<Quota>>,
    /// cpu.stat.
    pub stat: Measured<Pairs>,
}

/// The counts of a process.
#[derive(Clone, Debug)]
pub struct ProcessCounts {
    /// The process's number.
    pub pid: u32,
    /// When the counts were read, on the monotonic clock.
    pub at_ns: u64,
    /// The process's name, which may contain any character.
    pub name: String,
    /// /proc/PID/stat.
    pub stat: ProcessStat,
    /// /proc/PID/status.
    pub status: Measured<Pairs>,
    /// The process's threads, by their number.
    pub threads: Measured<BTreeMap<u32, ThreadCounts>>,
    /// The number of threads that were not read, because `THREADS_MAX` were read already.
    pub threads_beyond: usize,
}

/// The counts of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounts {
    /// The thread's name.
    pub name: String,
    /// How long the thread has run, in nanoseconds, up to the kernel's last tick.
    pub cpu_ns: u64,
    /// How long the thread was ready but did not run, in nanoseconds.
    pub run_delay_ns: u64,
    /// The thread's voluntary switches.
    pub voluntary_switches: u64,
    /// The thread's involuntary switches.
    pub involuntary_switches: u64,
}

impl Counts {
    /// Reads all counts. `now_ns` is the monotonic clock.
    pub fn read(root: &Root, target: &Target, now_ns: &dyn Fn() -> u64) -> Counts {
        let (places, process) = match target {
            Target::Machine => (Places::of_process(root, "self"), None),
            Target::Process(pid) => (Places::of_process(root, &pid.to_string()), Some(*pid)),
            Target::Group(name) => (Places::named(root, name), None),
        };
        Counts {
            at_ns: now_ns(),
            stat: read(root, "/proc/stat", "the times of CPUs", parse_stat),
            vmstat: read(root, "/proc/vmstat", "names with numbers", parse_pairs),
            pressure: Resource::ALL.map(|one| stalls(root, &format!("/proc/pressure/{}", one.name()))),
            process: process.map(|pid| ProcessCounts::read(root, pid, now_ns)),
            meminfo: read(root, "/proc/meminfo", "names with numbers", parse_fields),
            group: GroupCounts::read(root, &places),
        }
    }
}

/// The result of `parse` on a file.
pub fn read<T>(root: &Root, path: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Measured<T> {
    match root.text(path) {
        Ok(text) => match parse(&text) {
            Some(value) => Measured::Known(value),
            None => Measured::odd(format!("{path} does not hold {what}")),
        },
        Err(refusal) => Measured::refused(&refusal),
    }
}

/// A file of pressure.
pub fn stalls(root: &Root, path: &str) -> Measured<Stalls> {
    match root.text(path) {
        // With psi=0 the files exist, but a read fails.
        Err(Refusal { why: Why::Errno(errno), .. }) if errno == Errno::OPNOTSUPP => {
            Measured::absent(format!("read {path}: the kernel does not count pressure (psi=1 on its command line)"))
        }
        Err(refusal) => Measured::refused(&refusal),
        Ok(text) => match parse_stalls(&text) {
            Some(stalls) => Measured::Known(stalls),
            None => Measured::odd(format!("{path} does not hold the totals of stalls")),
        },
    }
}

impl GroupCounts {
    fn read(root: &Root, places: &Places) -> GroupCounts {
        let file = |place: &Measured<Place>, v1: &str, v2: &str| {
            place.clone().map(|place| format!("{}/{}", place.directory(), if place.is_v2 { v2 } else { v1 }))
        };
        let pressure = Resource::ALL.map(|resource| {
            let name = format!("{}.pressure", resource.name());
            file(&places.pressure, "", &name).and_then(|path| stalls(root, path))
        });
        let used = file(&places.memory, "memory.usage_in_bytes", "memory.current");
        let memory = file(&places.memory, "memory.stat", "memory.stat");
        GroupCounts {
            levels: places.cpu.and_then(|place| levels(root, place)),
            pressure,
            used_bytes: used.and_then(|path| read(root, path, "a number", |text| text.trim().parse().ok())),
            limit: places.memory.and_then(|place| memory_limit(root, place)),
            memory: memory.and_then(|path| read(root, path, "names with numbers", parse_pairs)),
        }
    }
}

fn levels(root: &Root, place: &Place) -> Measured<Vec<LevelCounts>> {
    let level = |directory: String| {
        let stat = read(root, &format!("{directory}/cpu.stat"), "names with numbers", parse_pairs);
        let quota = if place.is_v2 { quota_v2(root, &directory) } else { quota_v1(root, &directory) };
        LevelCounts { directory, quota, stat }
    };
    let levels: Vec<LevelCounts> = place.levels().unwrap_or_default().into_iter().map(level).collect();
    // A container with control groups of version 1 does not show the inner groups of the host's path.
    match levels.iter().position(|level| level.stat.known().is_some()) {
        Some(first) => Measured::Known(levels.into_iter().skip(first).collect()),
        None => match levels.into_iter().next() {
            Some(level) => level.stat.map(|_| Vec::new()),
            None => Measured::absent("the control group has no place"),
        },
    }
}

/// Reads `50000 100000`, or `max 100000`. The root group has no such file, because nothing limits it.
pub fn quota_v2(root: &Root, directory: &str) -> Measured<Option<Quota>> {
    let path = format!("{directory}/cpu.max");
    match root.text(&path) {
        Ok(text) => match parse_cpu_max(&text) {
            Some((quota_us, period_us)) => Measured::Known(quota_us.map(|quota_us| Quota { quota_us, period_us })),
            None => Measured::odd(format!("{path} is not a quota and period")),
        },
        Err(Refusal { why: Why::Errno(errno), .. }) if errno.is_absence() => Measured::Known(None),
        Err(refusal) => Measured::refused(&refusal),
    }
}

/// Reads the two files of version 1.
pub fn quota_v1(root: &Root, directory: &str) -> Measured<Option<Quota>> {
    let number = |name: &str| read(root, &format!("{directory}/{name}"), "a number", |text| text.trim().parse().ok());
    let quota: Measured<i64> = number("cpu.cfs_quota_us");
    quota.and_then(|quota_us| match u64::try_from(*quota_us) {
        Ok(quota_us) => number("cpu.cfs_period_us").and_then(|period_us| match u64::try_from(*period_us) {
            Ok(period_us) => Measured::Known(Some(Quota { quota_us, period_us })),
            Err(_) => Measured::odd(format!("{directory}/cpu.cfs_period_us is {period_us}")),
        }),
        Err(_) => Measured::Known(None),
    })
}

impl ProcessCounts {
    /// The counts of one process. Unknown if it does not exist or has ended.
    pub fn read(root: &Root, pid: u32, now_ns: &dyn Fn() -> u64) -> Measured<ProcessCounts> {
        let at_ns = now_ns();
        let named = |text: &str| parse_process(text).map(|(stat, name)| (stat, name.to_owned()));
        read(root, &format!("/proc/{pid}/stat"), "what is counted of a process", named).and_then(|(stat, name)| {
            if !stat.is_alive() {
                return Measured::absent(format!("process {pid} ({name}) has ended"));
            }
            let (stat, name) = (*stat, name.clone());
            let status = read(root, &format!("/proc/{pid}/status"), "names with numbers", parse_fields);
            let (threads, threads_beyond) = threads(root, pid);
            Measured::Known(ProcessCounts { pid, at_ns, name, stat, status, threads, threads_beyond })
        })
    }
}

/// The threads of a process. Threads that end during the reading are left out.
fn threads(root: &Root, pid: u32) -> (Measured<BTreeMap<u32, ThreadCounts>>, usize) {
    let names = match root.entries(&format!("/proc/{pid}/task")) {
        Ok(names) => names,
        Err(refusal) => return (Measured::refused(&refusal), 0),
    };
    let mut threads = BTreeMap::new();
    let mut denied = None;
    for tid in names.iter().take(THREADS_MAX).filter_map(|name| name.parse::<u32>().ok()) {
        match thread(root, pid, tid) {
            Measured::Known(counts) => drop(threads.insert(tid, counts)),
            unknown => denied = Some(unknown),
        }
    }
    let beyond = names.len().saturating_sub(THREADS_MAX);
    match denied {
        Some(unknown) if threads.is_empty() => (unknown.map(|_| BTreeMap::new()), beyond),
        _ => (Measured::Known(threads), beyond),
    }
}

fn thread(root: &Root, pid: u32, tid: u32) -> Measured<ThreadCounts> {
    let dir = format!("/proc/{pid}/task/{tid}");
    let delays =
        read(root, &format!("{dir}/schedstat"), "three numbers", |text| schedstat::parse_schedstat(text.as_bytes()));
    delays.and_then(|(cpu_ns, run_delay_ns, _)| {
        read(root, &format!("{dir}/status"), "how often it was switched", |text| {
            let switches = parse_switches(text)?;
            Some(ThreadCounts {
                name: field(text, "Name", ':')?.to_owned(),
                cpu_ns: *cpu_ns,
                run_delay_ns: *run_delay_ns,
                voluntary_switches: switches.voluntary,
                involuntary_switches: switches.involuntary,
            })
        })
    })
}

/// The memory of a process (/proc/PID/smaps_rollup), in bytes.
/// To report the memory, the kernel walks all pages of the process and delays its page faults in the meantime. So do not read it often.
pub(super) fn pages(root: &Root, pid: u32) -> Measured<Pairs> {
    read(root, &format!("/proc/{pid}/smaps_rollup"), "names with numbers", parse_fields)
}
