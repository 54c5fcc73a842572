//! Finds the processes, threads, CPUs or groups to record, and chooses how the kernel watches them.

use std::collections::HashSet;
use std::path::Path;

use evenkeel_hostfs::cgroup;
use evenkeel_sys::perf_sampler::{Group, Whose, files_allowed};
use evenkeel_sys::{CpuSet, Errno};

use super::already;
use super::chosen::Chosen;
use super::config::{RecordConfig, Switches, Targets};
use super::error::LiveError;
use super::events::Plan;
use super::summary::numbers;

/// The maximum number of open files. If single threads need more, evenkeel records whole CPUs, or only some of the threads.
const FILES_MAX: u64 = 4096;
/// The number of open files that remain for other purposes.
const FILES_FREE: u64 = 64;

/// What the kernel records.
#[derive(Debug)]
pub(super) enum Watch {
    /// All threads on whole CPUs.
    Everybody,
    /// A control group, on each CPU.
    Group(Group),
    /// Single threads, with the threads that they create.
    Threads(Threads),
}

/// Threads that are recorded individually.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    tids: Vec<u32>,
    pids: Vec<u32>,
    name: Option<Vec<u8>>,
}

impl Watch {
    /// The threads whose events are opened on each CPU.
    pub(super) fn whose(&self) -> Vec<Whose<'_>> {
        match self {
            Watch::Everybody => vec![Whose::Everybody],
            Watch::Group(group) => vec![Whose::Group(group)],
            Watch::Threads(threads) => threads.tids.iter().map(|tid| Whose::Thread(*tid)).collect(),
        }
    }

    /// The processes whose earlier state must be written.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Watch::Everybody | Watch::Group(_) => already::processes(),
            Watch::Threads(threads) => threads.pids.clone(),
        }
    }

    /// Updates the list of threads.
    pub(super) fn renew(&mut self) {
        if let Watch::Threads(threads) = self {
            let room = threads.tids.len().max(1) * 2;
            threads.tids = tids_of(&threads.pids, threads.name.as_deref());
            threads.tids.truncate(room);
        }
    }
}

/// The targets that were found, and how they are recorded.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) watch: Watch,
    pub(super) chosen: Chosen,
    pub(super) plan: Plan,
    pub(super) unseen: Vec<String>,
}

impl Found {
    fn new(watch: Watch, chosen: Chosen, plan: Plan) -> Found {
        let unseen = plan.unseen.clone();
        Found { watch, chosen, plan, unseen }
    }

    fn and_unseen(mut self, more: Vec<String>) -> Found {
        self.unseen.extend(more);
        self
    }
}

/// The selected CPUs that are online.
pub(super) fn cpus(config: &RecordConfig) -> CpuSet {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let online = CpuSet::parse_list(online.trim()).unwrap_or_default();
    match &config.targets {
        Targets::Cpus(wanted) => online.and(wanted),
        _ => online,
    }
}

/// Finds the targets.
///
/// # Errors
/// [`LiveError`] if a target does not exist, or if the user lacks a privilege.
pub(super) fn find(config: &RecordConfig) -> Result<Found, LiveError> {
    let cpus = cpus(config);
    if cpus.is_empty() {
        let why = "none of these CPUs is online".to_owned();
        return Err(LiveError::NotThere { whom: whom(config), why });
    }
    let absent = absent(config)?;
    by_targets(config, &cpus).map(|found| found.and_unseen(absent))
}

/// A text for each process that does not exist, if at least one of the processes exists.
fn absent(config: &RecordConfig) -> Result<Vec<String>, LiveError> {
    const NO_SUCH: &str = "there is no such process";
    let named = config.named();
    let absent: Vec<u32> = named.iter().copied().filter(|pid| already::threads(*pid).is_empty()).collect();
    if !named.is_empty() && absent.len() == named.len() {
        let whom = match config.targets {
            Targets::Processes(_) | Targets::Threads { .. } => whom(config),
            _ => format!("process {}", numbers(named)),
        };
        return Err(LiveError::NotThere { whom, why: NO_SUCH.to_owned() });
    }
    Ok(absent.iter().map(|pid| format!("process {pid}: {NO_SUCH}")).collect())
}

fn by_targets(config: &RecordConfig, cpus: &CpuSet) -> Result<Found, LiveError> {
    let not_there = |why: &str| LiveError::NotThere { whom: whom(config), why: why.to_owned() };
    let everybody = |chosen| {
        let plan = Plan::probe(config, Whose::Everybody, cpus).map_err(|errno| refused(config, errno))?;
        Ok(Found::new(Watch::Everybody, chosen, plan))
    };
    match &config.targets {
        Targets::Machine | Targets::Cpus(_) => everybody(Chosen::All),
        Targets::Processes(pids) => {
            let tids = tids_of(pids, None);
            let chosen = Chosen::processes(threads_of(pids));
            if tids.is_empty() {
                return Err(not_there("there is no such process"));
            }
            let threads = Threads { tids, pids: pids.clone(), name: None };
            one_by_one(config, threads, everybody(chosen), cpus)
        }
        Targets::Threads { name, pids } => {
            let name = name.as_bytes().to_vec();
            let among = if pids.is_empty() { already::processes() } else { pids.clone() };
            let tids = tids_of(&among, Some(&name));
            let within: HashSet<u32> = pids.iter().copied().collect();
            let chosen = Chosen::Named { name: name.clone(), pids: within, tids: tids.iter().copied().collect() };
            match everybody(chosen) {
                Ok(found) => Ok(found),
                Err(refusal) if tids.is_empty() => {
                    let _ = refusal;
                    Err(not_there("no thread has this name, or you may not see it"))
                }
                Err(refusal) => {
                    let threads = Threads { tids, pids: among, name: Some(name) };
                    one_by_one(config, threads, Err(refusal), cpus)
                }
            }
        }
        Targets::Group(path) => {
            let group = Group::open(path).map_err(|errno| not_there(&format!("{}: {errno}", path.display())))?;
            match Plan::probe(config, Whose::Group(&group), cpus) {
                Ok(plan) => Ok(Found::new(Watch::Group(group), Chosen::All, plan)),
                // The perf_event controller does not have this group, so record the group's processes.
                Err(errno) if !errno.is_denial() => of_group(path, &everybody),
                Err(errno) => Err(refused(config, errno)),
            }
        }
    }
}

fn of_group(path: &Path, everybody: &dyn Fn(Chosen) -> Result<Found, LiveError>) -> Result<Found, LiveError> {
    let pids: Vec<u32> = cgroup::members(path).into_iter().filter_map(|pid| u32::try_from(pid).ok()).collect();
    if pids.is_empty() {
        let whom = format!("the group {}", path.display());
        return Err(LiveError::NotThere { whom, why: "it is not a control group, or it has no process".to_owned() });
    }
    let mut found = everybody(Chosen::processes(threads_of(&pids)))?;
    found.unseen.push(format!(
        "processes that enter {} later, because the perf_event controller does not cover that group",
        path.display()
    ));
    Ok(found)
}

/// Records single threads. Records whole CPUs if there are too many threads, or if the configuration needs whole CPUs.
fn one_by_one(
    config: &RecordConfig,
    mut threads: Threads,
    everybody: Result<Found, LiveError>,
    cpus: &CpuSet,
) -> Result<Found, LiveError> {
    let takes_cpus = config.switches != Switches::None || config.wakes;
    let more = [config.switches == Switches::WithStacks, config.faults, config.wakes].map(u64::from);
    let events = 1 + (config.clock_hz.iter().count() + config.probes.len()) as u64 + more.iter().sum::<u64>();
    let room = files_allowed().saturating_sub(FILES_FREE).min(FILES_MAX) / (cpus.len() as u64 * events);
    let count = threads.tids.len() as u64;
    if (takes_cpus || count > room)
        && let Ok(found) = everybody
    {
        return Ok(found);
    }
    // The first thread may have ended, so try the next thread.
    let planned = threads.tids.iter().find_map(|tid| match Plan::probe(config, Whose::Thread(*tid), cpus) {
        Err(Errno::SRCH) => None,
        planned => Some(planned),
    });
    let planned = planned.unwrap_or(Err(Errno::SRCH));
    let plan = planned.map_err(|errno| refused(config, errno))?;
    // If not all threads can be recorded, choose the threads with most CPU time.
    if count > room {
        threads.tids.sort_by_cached_key(|tid| std::cmp::Reverse(already::cpu_ns(*tid)));
    }
    threads.tids.truncate(usize::try_from(room).unwrap_or(usize::MAX).max(1));
    let left_out = count.saturating_sub(threads.tids.len() as u64);
    let mut found = Found::new(Watch::Threads(threads), Chosen::All, plan);
    if left_out > 0 {
        found.unseen.push(format!(
            "{left_out} of {count} threads (those that worked least), because each needs {events} open files on each CPU, and you may not record whole CPUs"
        ));
    }
    Ok(found)
}

/// Lists the threads again. Threads may have started or got a name before the events were opened.
pub(super) fn look_again(chosen: &mut Chosen) {
    match chosen {
        Chosen::All => {}
        Chosen::Processes { pids, tids } => {
            let before: Vec<u32> = pids.keys().copied().collect();
            for (pid, tid) in threads_of(&before) {
                if tids.insert(tid) {
                    *pids.entry(pid).or_default() += 1;
                }
            }
        }
        Chosen::Named { name, pids, tids } => {
            let among = if pids.is_empty() { already::processes() } else { pids.iter().copied().collect() };
            tids.extend(tids_of(&among, Some(name)));
        }
    }
}

/// The threads of these processes, each with its process.
fn threads_of(pids: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    pids.iter().flat_map(|pid| already::threads(*pid).into_iter().map(|tid| (*pid, tid)))
}

fn tids_of(pids: &[u32], name: Option<&[u8]>) -> Vec<u32> {
    let of = |pid: &u32| {
        let pid = *pid;
        let threads = already::threads(pid).into_iter();
        threads.filter(move |tid| name.is_none_or(|name| already::name(pid, *tid).as_deref() == Some(name)))
    };
    pids.iter().flat_map(of).collect()
}

fn whom(config: &RecordConfig) -> String {
    match &config.targets {
        Targets::Machine => "the machine".to_owned(),
        Targets::Cpus(cpus) => format!("CPUs {cpus}"),
        Targets::Processes(pids) => format!("process {}", numbers(pids)),
        Targets::Threads { name, pids } if pids.is_empty() => format!("the threads named {name}"),
        Targets::Threads { name, pids } => format!("the threads named {name} of process {}", numbers(pids)),
        Targets::Group(path) => format!("the group {}", path.display()),
    }
}

/// The kernel's error, with a remedy.
pub(super) fn refused(config: &RecordConfig, errno: Errno) -> LiveError {
    let whom = whom(config);
    match errno {
        errno if errno.is_denial() => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
            let level = level.and_then(|text| text.trim().parse::<i32>().ok());
            let needs = match (&config.targets, config.wakes) {
                (_, true) => -1,
                (Targets::Processes(_) | Targets::Threads { .. }, false) => 2,
                _ => 0,
            };
            match level {
                Some(level) if level > needs => LiveError::Denied {
                    whom,
                    errno,
                    why: format!("kernel.perf_event_paranoid is {level}"),
                    mend: format!(
                        "run it with sudo; on a machine of your own, `sysctl kernel.perf_event_paranoid={needs}` allows it to all users"
                    ),
                },
                _ => LiveError::Denied {
                    whom,
                    errno,
                    why: "it belongs to another user".to_owned(),
                    mend: "run it with sudo".to_owned(),
                },
            }
        }
        Errno::SRCH => LiveError::NotThere { whom, why: "there is no such process".to_owned() },
        Errno::MFILE => LiveError::Refused { what: format!("record {whom}: open its events"), errno },
        errno => LiveError::Refused { what: format!("record {whom}"), errno },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The thread starts after the first listing, and gets its name before the rings are open.
    #[test]
    fn a_thread_that_starts_before_the_rings_open_is_found() {
        let us = std::process::id();
        for pids in [HashSet::from([us]), HashSet::new()] {
            let among: Vec<u32> = pids.iter().copied().collect();
            let tids = tids_of(&[us], Some(b"came-late")).into_iter().collect::<HashSet<_>>();
            let mut named = Chosen::Named { name: b"came-late".to_vec(), pids, tids };
            let mut processes = Chosen::processes(threads_of(&[us]));
            let (sender, receiver) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let late = move || {
                // The kernel's number of this thread: a link such as 7/task/9.
                let own = std::fs::read_link("/proc/thread-self").unwrap();
                sender.send(own.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
                let _ = ended.recv();
            };
            let thread = std::thread::Builder::new().name("came-late".to_owned()).spawn(late).unwrap();
            let tid = receiver.recv().unwrap();
            assert!(!named.has_thread(tid) && !processes.has_thread(tid), "{among:?}");
            look_again(&mut named);
            look_again(&mut processes);
            assert!(named.has_thread(tid) && processes.has_thread(tid), "{among:?}");
            assert!(!named.has_thread(us), "it is the thread that has the name, and not its process");
            drop(end);
            thread.join().unwrap();
        }
    }
}
