//! Processes in /proc: which processes belong to a program that evenkeel started, and how much they use in a window.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_hostfs::proc::{self, ProcessStat, Switches, parse_switches};
use evenkeel_sys::{clock, foreign_process, schedstat};

use crate::workload::Sample;

/// The maximum number of processes to read.
const PROCESSES_MAX: usize = 65_536;
/// The maximum number of threads of one process whose context switches are counted.
const THREADS_MAX: usize = 4096;

/// All visible processes.
pub(crate) fn all() -> Vec<ProcessStat> {
    proc::processes().take(PROCESSES_MAX).filter_map(ProcessStat::read).collect()
}

/// The name of an environment variable that identifies the programs that evenkeel starts. Their children inherit it.
/// So evenkeel finds a process even if the process has left its parent, group and session.
pub(crate) const MARK: &str = "EVENKEEL_WORKLOAD";
/// The maximum number of program files to remember for one command.
const FILES_MAX: usize = 64;
/// The maximum length of an environment to search for the mark, in bytes.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// A value of the mark that no other program of this run has.
pub(crate) fn fresh_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes of a program that evenkeel started as a group leader: the program itself,
/// all descendants, its group, and former members that now have another parent.
/// Orphans are found only if [`foreign_process::adopt_orphans`] was called before.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    root: u32,
    mark: String,
    /// The start time of each member, by process number.
    seen: BTreeMap<u32, u64>,
    /// The program files that members run.
    files: BTreeSet<PathBuf>,
    /// Whether each orphan without a mark must be a member, because orphans of other programs cannot become children of evenkeel.
    knows_orphans: bool,
    takes_orphans: bool,
}

impl Family {
    /// The family of process `root`, which leads its group and has `mark` in its environment.
    /// Set `knows_orphans` only if there were no [others' children](has_others_children) just before the process was started.
    pub(crate) fn new(root: u32, mark: String, knows_orphans: bool) -> Family {
        let seen = ProcessStat::read(root).map(|stat| (root, stat.start_ticks)).into_iter().collect();
        let files = file_of(root).into_iter().collect();
        Family { root, mark, seen, files, knows_orphans, takes_orphans: false }
    }

    /// From now on also includes unmarked orphans. These processes became children of evenkeel since the first process began.
    /// Unmarked orphans have left parent, group and session, and have neither the mark nor a known program file.
    /// Unmarked orphans belong to this program only if everything else that evenkeel started in that time has ended.
    /// If orphans of other programs may become children of evenkeel too, no orphan is included.
    pub(crate) fn take_orphans(&mut self) {
        self.takes_orphans = self.knows_orphans;
    }

    /// The living members, with the first process first. New members are remembered.
    pub(crate) fn alive(&mut self, all: &[ProcessStat]) -> Vec<ProcessStat> {
        let Some(first_started) = self.seen.get(&self.root).copied() else { return Vec::new() };
        let us = std::process::id();
        let our_session = all.iter().find(|stat| stat.pid == us).map_or(0, |stat| stat.session);
        let known: Vec<&ProcessStat> =
            all.iter().filter(|stat| self.seen.get(&stat.pid) == Some(&stat.start_ticks)).collect();
        let mut ours: BTreeSet<u32> = known.iter().map(|stat| stat.pid).collect();
        // After the last process of a group has ended, the kernel may reuse the number of the group.
        let group_is_ours = known.iter().any(|stat| stat.group == self.root);
        let younger: Vec<&ProcessStat> = all.iter().filter(|stat| stat.start_ticks >= first_started).collect();
        // Each pass adds a generation of children, so the loop ends after the last generation.
        loop {
            let belongs = |stat: &ProcessStat| {
                let orphan = stat.parent == us && stat.session != our_session && self.is_marked(stat.pid);
                (group_is_ours && stat.group == self.root) || ours.contains(&stat.parent) || orphan
            };
            let more: Vec<&ProcessStat> =
                younger.iter().filter(|stat| !ours.contains(&stat.pid) && belongs(stat)).copied().collect();
            if more.is_empty() {
                break;
            }
            for stat in more {
                ours.insert(stat.pid);
                self.seen.insert(stat.pid, stat.start_ticks);
            }
        }
        let mut alive: Vec<ProcessStat> =
            all.iter().filter(|stat| ours.contains(&stat.pid) && stat.is_alive()).copied().collect();
        alive.sort_by_key(|stat| (stat.pid != self.root, stat.pid));
        if self.files.len() < FILES_MAX {
            self.files.extend(alive.iter().filter_map(|stat| file_of(stat.pid)));
        }
        alive
    }

    /// Reaps members that became children of evenkeel and have ended. No other code waits for them.
    pub(crate) fn reap(&self, all: &[ProcessStat]) {
        let us = std::process::id();
        for stat in all.iter().filter(|stat| stat.parent == us && !stat.is_alive() && stat.pid != self.root) {
            if self.seen.get(&stat.pid) == Some(&stat.start_ticks) {
                foreign_process::reap(stat.pid);
            }
        }
    }

    /// Whether an orphan belongs to this family, by its mark.
    /// A program that changes its title overwrites its environment. Such an orphan is recognized by its program file.
    fn is_marked(&self, pid: u32) -> bool {
        match mark_of(pid) {
            Ok(Some(mark)) => mark == self.mark.as_bytes(),
            Ok(None) => file_of(pid).is_some_and(|file| {
                // A process in another session that runs evenkeel's own program is the guard, which outlives the processes that it guards.
                self.files.contains(&file) || (self.takes_orphans && file_of(std::process::id()) != Some(file))
            }),
            Err(_) => false,
        }
    }
}

/// Whether orphans of other programs may become children of evenkeel.
/// The first process of a container gets all orphans of the container.
/// A shell that became this process by exec may have left children.
/// Check this before a program is started, because the program may leave an orphan at once.
pub(crate) fn has_others_children(all: &[ProcessStat]) -> bool {
    let us = std::process::id();
    let prefix = format!("{us}-");
    let program = file_of(us);
    let is_ours = |pid: u32| {
        let is_marked = mark_of(pid).ok().flatten().is_some_and(|mark| mark.starts_with(prefix.as_bytes()));
        // The guard runs evenkeel's own program.
        is_marked || file_of(pid) == program
    };
    us == 1 || all.iter().any(|stat| stat.parent == us && stat.is_alive() && !is_ours(stat.pid))
}

/// The value of the mark in a process's environment. None if it has no mark.
fn mark_of(pid: u32) -> std::io::Result<Option<Vec<u8>>> {
    let mut environment = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ"))?;
    file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment)?;
    let name = format!("{MARK}=");
    let mut entries = environment.split(|byte| *byte == 0);
    Ok(entries.find_map(|entry| entry.strip_prefix(name.as_bytes())).map(<[u8]>::to_vec))
}

/// Kills the servers that process `owner` started and left behind, with all their descendants. The mark identifies these servers.
///
/// # Errors
/// Returns the numbers of the processes that are still alive after `limit`.
pub fn end_left_by(owner: u32, limit: Duration) -> Result<(), Vec<u32>> {
    let until = Instant::now() + limit;
    let prefix = format!("{owner}-");
    let is_left = |stat: &ProcessStat| {
        let mark = mark_of(stat.pid).ok().flatten();
        stat.is_alive() && mark.is_some_and(|mark| mark.starts_with(prefix.as_bytes()))
    };
    loop {
        let left: Vec<ProcessStat> = all().into_iter().filter(is_left).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(left.iter().map(|stat| stat.pid).collect());
        }
        for stat in &left {
            let is_it = || ProcessStat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
            let _ = foreign_process::signal_if(stat.pid, foreign_process::Signal::KILL, is_it);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn file_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// How much each of these processes has used since its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    at_ns: u64,
    of: BTreeMap<(u32, u64), Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    cpu_ns: Option<u64>,
    /// The switches of each thread. A sum alone would decrease when a thread ends, which would hide the switches of the other threads.
    switches: Option<BTreeMap<u32, Switches>>,
    minor_faults: u64,
    major_faults: u64,
}

impl Used {
    /// The usage of these processes so far.
    /// A process that has ended in the meantime is left out, so that servers which start many processes can be measured.
    pub(crate) fn until_now(of: &[ProcessStat]) -> Used {
        let counts = |stat: &ProcessStat| {
            let (cpu_ns, switches) = (foreign_process::cpu_ns(stat.pid).ok(), switches_of(stat.pid));
            let is_read = cpu_ns.is_some() && switches.is_some();
            let is_here =
                || ProcessStat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks && now.is_alive());
            let counts = Counts { cpu_ns, switches, minor_faults: stat.minor_faults, major_faults: stat.major_faults };
            (is_read || is_here()).then_some(counts)
        };
        let of = of.iter().filter_map(|stat| Some(((stat.pid, stat.start_ticks), counts(stat)?))).collect();
        Used { at_ns: clock::monotonic_ns(), of }
    }

    /// The CPU time since `before`, in nanoseconds. None if the CPU time of any process is unknown.
    pub(crate) fn cpu_ns_since(&self, before: &Used) -> Option<u64> {
        self.sum_since(before, |counts| counts.cpu_ns)
    }

    /// Adds the usage since `before` to a sample. Processes that have ended since then are left out.
    pub(crate) fn put_since(&self, before: &Used, sample: &mut Sample) {
        let span_s = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        if span_s <= 0.0 || self.of.is_empty() {
            return;
        }
        if let Some(cpu_ns) = self.cpu_ns_since(before) {
            sample.insert("cpu_us".into(), cpu_ns as f64 / 1e3);
            sample.insert("cpu_share".into(), cpu_ns as f64 / 1e9 / span_s);
        }
        let rates: [(&str, Option<u64>); 4] = [
            ("switches_voluntary_per_s", self.switches_since(before, |switches| switches.voluntary)),
            ("switches_involuntary_per_s", self.switches_since(before, |switches| switches.involuntary)),
            ("faults_minor_per_s", self.sum_since(before, |counts| Some(counts.minor_faults))),
            ("faults_major_per_s", self.sum_since(before, |counts| Some(counts.major_faults))),
        ];
        for (name, sum) in rates {
            if let Some(sum) = sum {
                sample.insert(name.into(), sum as f64 / span_s);
            }
        }
    }

    fn sum_since(&self, before: &Used, count: impl Fn(&Counts) -> Option<u64>) -> Option<u64> {
        let since = |(who, counts): (&(u32, u64), &Counts)| {
            let before = before.of.get(who).map_or(Some(0), &count)?;
            Some(count(counts)?.saturating_sub(before))
        };
        self.of.iter().map(since).sum()
    }

    /// The number of switches of one kind since `before`. None if the switches of any process are unknown.
    /// Threads that have ended are left out.
    fn switches_since(&self, before: &Used, kind: impl Fn(&Switches) -> u64) -> Option<u64> {
        let since = |(who, counts): (&(u32, u64), &Counts)| {
            let before = match before.of.get(who) {
                Some(counts) => Some(counts.switches.as_ref()?),
                None => None,
            };
            let of_thread = |(tid, now): (&u32, &Switches)| {
                kind(now).saturating_sub(before.and_then(|before| before.get(tid)).map_or(0, &kind))
            };
            Some(counts.switches.as_ref()?.iter().map(of_thread).sum::<u64>())
        };
        self.of.iter().map(since).sum()
    }
}

/// The switches of all living threads of a process. None if they cannot be read. The map is empty if the process has ended.
fn switches_of(pid: u32) -> Option<BTreeMap<u32, Switches>> {
    let mut switches = BTreeMap::new();
    for tid in proc::threads(pid).take(THREADS_MAX) {
        // A thread may have ended since its folder was listed. That is no error.
        let Ok(status) = fs::read(format!("/proc/{pid}/task/{tid}/status")) else { continue };
        switches.insert(tid, parse_switches(&String::from_utf8_lossy(&status))?);
    }
    (!switches.is_empty()).then_some(switches)
}

/// The run time of each thread of these processes in nanoseconds, by thread number. The figures may be one scheduler tick old.
pub(crate) fn ran_ns(of: &[ProcessStat]) -> BTreeMap<u32, u64> {
    let threads = of.iter().flat_map(|stat| proc::threads(stat.pid).take(THREADS_MAX));
    threads.filter_map(|tid| Some((tid, schedstat::of_thread(tid)?.0))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn all_processes_are_read() {
        // The state and the page faults of process 1 may change between two readings, so compare only these fields.
        let first = ProcessStat::read(1).unwrap();
        assert!(all().iter().any(|stat| (stat.pid, stat.start_ticks) == (1, first.start_ticks)));
        assert!(switches_of(std::process::id()).unwrap().values().any(|switches| switches.voluntary > 0));
    }

    fn until(mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_family_is_its_group_its_descendants_and_its_background_processes() {
        foreign_process::adopt_orphans().unwrap();
        let mark = fresh_mark();
        let script = "sleep 60 & setsid sh -c 'sleep 61 & exec sleep 62' & (setsid sleep 63 &); exec sleep 64";
        let mut root = Command::new("sh").args(["-c", script]).env(MARK, &mark).process_group(0).spawn().unwrap();
        let mut family = Family::new(root.id(), mark, true);
        // While the command starts, it briefly has five other processes, so compare the command lines.
        let command =
            |stat: &ProcessStat| fs::read_to_string(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
        let mut alive = Vec::new();
        until(|| {
            alive = family.alive(&all());
            let mut commands: Vec<String> = alive.iter().map(command).collect();
            commands.sort();
            commands == [60, 61, 62, 63, 64].map(|argument| format!("sleep\0{argument}\0"))
        });
        assert_eq!(alive[0].pid, root.id());
        let other = Command::new("sleep").arg("65").spawn().unwrap();
        family.takes_orphans = true;
        assert!(
            family.alive(&all()).iter().all(|stat| stat.pid != other.id()),
            "a child of this process that is not of the family"
        );
        // A child of this process that has no mark may also leave orphans.
        assert!(has_others_children(&all()));
        for stat in &alive {
            foreign_process::signal_if(stat.pid, foreign_process::Signal::KILL, || true).unwrap();
        }
        root.wait().unwrap();
        until(|| {
            family.reap(&all());
            !all()
                .iter()
                .any(|stat| alive.iter().any(|ended| (ended.pid, ended.start_ticks) == (stat.pid, stat.start_ticks)))
        });
        assert_eq!(family.alive(&all()), []);
        let mut other = other;
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_thread_that_ends_hides_no_switches_of_the_others() {
        let used = |at_ns, threads: &[(u32, u64)]| {
            let switches = threads.iter().map(|(tid, count)| (*tid, Switches { voluntary: *count, involuntary: 0 }));
            let counts = Counts { switches: Some(switches.collect()), ..Counts::default() };
            Used { at_ns, of: [((7, 1), counts)].into() }
        };
        let before = used(0, &[(7, 100), (8, 5000)]);
        let after = used(1_000_000_000, &[(7, 130), (9, 12)]);
        let mut sample = Sample::new();
        after.put_since(&before, &mut sample);
        assert_eq!(sample["switches_voluntary_per_s"], 42.0);
    }

    #[test]
    fn the_usage_of_processes_is_counted() {
        let us = [ProcessStat::read(std::process::id()).unwrap()];
        let before = Used::until_now(&us);
        let until_ns = clock::thread_cpu_ns() + 20_000_000;
        while clock::thread_cpu_ns() < until_ns {}
        std::thread::sleep(Duration::from_millis(1));
        let mut sample = Sample::new();
        Used::until_now(&us).put_since(&before, &mut sample);
        assert!(sample["cpu_us"] >= 20_000.0 && sample["cpu_share"] > 0.0, "{sample:?}");
        assert!(sample["switches_voluntary_per_s"] > 0.0, "{sample:?}");
        assert!(ran_ns(&us).values().any(|ran_ns| *ran_ns >= 10_000_000));
        let mut none = Sample::new();
        Used::until_now(&[]).put_since(&before, &mut none);
        assert_eq!(none, Sample::new(), "of nobody nothing is known");
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let ended = ProcessStat::read(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut sample = Sample::new();
        Used::until_now(&[us[0], ended]).put_since(&before, &mut sample);
        assert!(
            sample["cpu_us"] >= 20_000.0,
            "one that ended after it was listed takes nothing from the others: {sample:?}"
        );
    }
}
