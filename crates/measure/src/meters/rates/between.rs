//! Computes rates from two readings, without I/O.
//! A counter that went back gives a reason instead of a number:
//! two readings do not show whether the counter wrapped, was reset, or is wrong.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{CpuTicks, Pairs, Stat, TICK_NS};
use evenkeel_sys::stall::Stalls;

use super::counts::{Counts, GroupCounts, LevelCounts, ProcessCounts, Resource, ThreadCounts};
use super::measured::{Kind, Measured};
use super::report::{
    CpuShares, Group, Level, Memory, Pressure, ProcessMemory, ProcessRates, Rates, Shares, System, ThreadRates,
};
use super::settings::Pages;
use crate::Lost;

/// How far a CPU's counts may exceed the time that passed. Eight kinds of time are rounded, and earlier steal may be counted late.
const SURPLUS_NS: u64 = 500_000_000;
/// The maximum number of threads to report.
const THREADS_SHOWN: usize = 16;

/// The memory of a process, which the meter reads only once.
#[derive(Clone, Debug)]
pub struct PagesSeen {
    /// The contents of smaps_rollup.
    pub rollup: Measured<Pairs>,
    /// Whether the meter cleared the marks at the beginning.
    pub pages: Pages,
}

/// The rates between two readings.
pub fn between(before: &Counts, after: &Counts, pages: Option<&PagesSeen>) -> Rates {
    let elapsed_ns = after.at_ns.saturating_sub(before.at_ns);
    let process = match (&before.process, &after.process) {
        (Some(before), Some(last)) => {
            Some(before.and_then(|before| last.and_then(|last| process(before, last, after, pages))))
        }
        _ => None,
    };
    Rates { system: system(before, after, elapsed_ns), group: group(&before.group, &after.group, elapsed_ns), process }
}

/// The increase of a counter.
fn delta<P>(before: &Measured<P>, after: &Measured<P>, name: &str, of: impl Fn(&P) -> Option<u64>) -> Measured<u64> {
    before.and_then(|before| {
        after.and_then(|after| match (of(before), of(after)) {
            (Some(before), Some(after)) => Measured::increase(name, before, after),
            _ => Measured::absent(format!("this kernel does not count {name}")),
        })
    })
}

fn per_second(count: Measured<u64>, elapsed_ns: u64) -> Measured<f64> {
    count.and_then(|count| share(*count as f64 * 1e9, elapsed_ns))
}

/// Returns `of / elapsed_ns`. Unknown if no time passed.
fn share(of: f64, elapsed_ns: u64) -> Measured<f64> {
    if elapsed_ns == 0 {
        return Measured::odd("no time passed between the readings");
    }
    Measured::Known(of / elapsed_ns as f64)
}

fn system(before: &Counts, after: &Counts, elapsed_ns: u64) -> System {
    let stat =
        |name: &str, of: fn(&Stat) -> Option<u64>| per_second(delta(&before.stat, &after.stat, name, of), elapsed_ns);
    let vm_count = |name: &str, of: &dyn Fn(&Pairs) -> Option<u64>| delta(&before.vmstat, &after.vmstat, name, of);
    let vm = |name: &str| {
        per_second(vm_count(&format!("{name} of /proc/vmstat"), &|pairs| pairs.get(name).copied()), elapsed_ns)
    };
    let minor = |pairs: &Pairs| pairs.get("pgfault")?.checked_sub(*pairs.get("pgmajfault")?);
    let (all, cpus) = cpu_shares(&before.stat, &after.stat, elapsed_ns);
    System {
        cpu_time_unit_ms: (TICK_NS / 1_000_000) as u32,
        all,
        cpus,
        context_switches_per_s: stat("ctxt of /proc/stat", |stat| stat.context_switches),
        interrupts_per_s: stat("intr of /proc/stat", |stat| stat.interrupts),
        softirqs_per_s: stat("softirq of /proc/stat", |stat| stat.softirqs),
        forks_per_s: stat("processes of /proc/stat", |stat| stat.forks),
        minor_faults_per_s: per_second(vm_count("pgfault less pgmajfault of /proc/vmstat", &minor), elapsed_ns),
        major_faults_per_s: vm("pgmajfault"),
        swap_ins_per_s: vm("pswpin"),
        swap_outs_per_s: vm("pswpout"),
        direct_reclaims_per_s: per_second(
            vm_count("allocstall of /proc/vmstat", &|pairs| sum(pairs, "allocstall")),
            elapsed_ns,
        ),
        refaults_per_s: per_second(
            vm_count("workingset_refault of /proc/vmstat", &|pairs| sum(pairs, "workingset_refault")),
            elapsed_ns,
        ),
        oom_kills: vm_count("oom_kill of /proc/vmstat", &|pairs| pairs.get("oom_kill").copied()),
        pressure: pressure(&before.pressure, &after.pressure, elapsed_ns),
        memory: memory(&after.meminfo),
    }
}

/// The sum of the counters with this prefix. Newer kernels split them by zone or kind of page.
fn sum(pairs: &Pairs, prefix: &str) -> Option<u64> {
    let mut found = pairs.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, number)| *number).peekable();
    found.peek()?;
    found.try_fold(0_u64, u64::checked_add)
}

fn memory(meminfo: &Measured<Pairs>) -> Memory {
    let field = |name: &str| {
        meminfo.and_then(|fields| match fields.get(name) {
            Some(bytes) => Measured::Known(*bytes),
            None => Measured::absent(format!("/proc/meminfo has no {name}")),
        })
    };
    let free = field("SwapFree");
    let swap = field("SwapTotal");
    let used = swap.and_then(|swap| free.and_then(|free| Measured::Known(swap.saturating_sub(*free))));
    Memory {
        total_bytes: field("MemTotal"),
        available_bytes: field("MemAvailable"),
        swap_bytes: swap,
        swap_used_bytes: used,
    }
}

fn pressure(before: &[Measured<Stalls>; 3], after: &[Measured<Stalls>; 3], elapsed_ns: u64) -> Vec<Pressure> {
    let one = |(resource, (before, after)): (Resource, (&Measured<Stalls>, &Measured<Stalls>))| {
        let name = resource.name();
        let of = |kind: &str, of: fn(&Stalls) -> Option<u64>| {
            let stalled = delta(before, after, &format!("the total of {kind} pressure on {name}"), of);
            stalled.and_then(|stalled_us| share(*stalled_us as f64 * 1e3, elapsed_ns))
        };
        Pressure {
            resource: name,
            some: of("some", |stalls| Some(stalls.some_us)),
            full: of("full", |stalls| stalls.full_us),
        }
    };
    Resource::ALL.into_iter().zip(before.iter().zip(after)).map(one).collect()
}

/// The shares of all CPUs together, and the shares of each CPU.
fn cpu_shares(before: &Measured<Stat>, after: &Measured<Stat>, elapsed_ns: u64) -> (Measured<Shares>, Vec<CpuShares>) {
    let (before, after) = match (before, after) {
        (Measured::Known(before), Measured::Known(after)) => (before, after),
        (Measured::Unknown(unknown), _) | (_, Measured::Unknown(unknown)) => {
            return (Measured::Unknown(unknown.clone()), Vec::new());
        }
    };
    let mut cpus = Vec::new();
    let (mut sum, mut summed) = (Spent::default(), 0_u64);
    for (&cpu, first) in &before.cpus {
        let spent = match after.cpus.get(&cpu) {
            Some(last) => spent(&format!("CPU {cpu}"), first, last, elapsed_ns),
            None => Measured::absent(format!("CPU {cpu} went offline meanwhile")),
        };
        if let Measured::Known(spent) = &spent {
            sum.add(spent);
            summed += 1;
        }
        cpus.push(CpuShares {
            cpu,
            shares: spent.and_then(|spent| spent.shares(elapsed_ns, &format!("iowait of CPU {cpu}"))),
        });
    }
    for &cpu in after.cpus.keys().filter(|cpu| !before.cpus.contains_key(cpu)) {
        cpus.push(CpuShares { cpu, shares: Measured::absent(format!("CPU {cpu} came online meanwhile")) });
    }
    cpus.sort_unstable_by_key(|shares| shares.cpu);
    if summed == 0 {
        return (Measured::odd("no CPU was counted at both readings"), cpus);
    }
    (sum.shares(elapsed_ns.saturating_mul(summed), "the sum of iowait"), cpus)
}

/// The time that CPUs spent between the readings.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ticks: CpuTicks,
    /// Whether the count of iowait went back. The kernel sometimes decreases this count, which is then unknown.
    iowait_went_back: bool,
}

impl Spent {
    fn add(&mut self, other: &Spent) {
        self.ticks.add(&other.ticks);
        self.iowait_went_back |= other.iowait_went_back;
    }

    fn shares(&self, elapsed_ns: u64, iowait_name: &str) -> Measured<Shares> {
        let ticks = &self.ticks;
        let total = ticks.total();
        if total == 0 || elapsed_ns == 0 {
            return Measured::odd(
                "nothing was counted: less than the unit of 10 ms passed, or it was offline throughout",
            );
        }
        let of = |ticks: u64| ticks as f64 / total as f64;
        Measured::Known(Shares {
            user: of(ticks.user),
            system: of(ticks.system),
            irq: of(ticks.irq),
            softirq: of(ticks.softirq),
            steal: of(ticks.steal),
            idle: of(ticks.idle),
            iowait: match self.iowait_went_back {
                false => Measured::Known(of(ticks.iowait)),
                true => Measured::odd(format!("{iowait_name} went back, as the kernel lets it")),
            },
            counted: total as f64 * TICK_NS as f64 / elapsed_ns as f64,
        })
    }
}

fn spent(what: &str, before: &CpuTicks, after: &CpuTicks, elapsed_ns: u64) -> Measured<Spent> {
    type Kind = (&'static str, fn(&CpuTicks) -> u64);
    let kinds: [Kind; 6] = [
        ("user", |ticks| ticks.user),
        ("system", |ticks| ticks.system),
        ("irq", |ticks| ticks.irq),
        ("softirq", |ticks| ticks.softirq),
        ("steal", |ticks| ticks.steal),
        // Waiting for a disk is a kind of idling, and the kernel moves time between the two counts.
        ("idle and iowait", |ticks| ticks.idle),
    ];
    let mut counted_ns = 0;
    for (name, of) in kinds {
        match Measured::increase(&format!("{name} of {what}"), of(before), of(after)) {
            // The increase of a wrong counter may overflow.
            Measured::Known(grown) => counted_ns += u128::from(grown) * u128::from(TICK_NS),
            Measured::Unknown(unknown) => return Measured::Unknown(unknown),
        }
    }
    let passed_ns = u128::from(elapsed_ns);
    if counted_ns > passed_ns + passed_ns / 4 + u128::from(SURPLUS_NS) {
        let ms = |ns: u128| ns / 1_000_000;
        return Measured::odd(format!("{what} counted {} ms while {} ms passed", ms(counted_ns), ms(passed_ns)));
    }
    Measured::Known(Spent { ticks: after.since(before), iowait_went_back: after.iowait < before.iowait })
}

/// The shares of one CPU, or of several CPUs whose times are summed. `elapsed_ns` is a sum over the CPUs too.
pub fn cpu_time(what: &str, before: &CpuTicks, after: &CpuTicks, elapsed_ns: u64) -> Measured<Shares> {
    spent(what, before, after, elapsed_ns).and_then(|spent| spent.shares(elapsed_ns, &format!("iowait of {what}")))
}

fn group(before: &GroupCounts, after: &GroupCounts, elapsed_ns: u64) -> Group {
    let levels = before.levels.and_then(|before| {
        after.levels.and_then(|after| Measured::Known(after.iter().map(|after| level(before, after)).collect()))
    });
    let memory = |name: &str, of: &dyn Fn(&Pairs) -> Option<u64>| {
        per_second(delta(&before.memory, &after.memory, &format!("{name} of memory.stat"), of), elapsed_ns)
    };
    // In version 1 the plain name counts the group alone. The name with `total_` includes the child groups.
    let faults = |pairs: &Pairs| pairs.get("total_pgmajfault").or_else(|| pairs.get("pgmajfault")).copied();
    Group {
        levels,
        pressure: pressure(&before.pressure, &after.pressure, elapsed_ns),
        used_bytes: after.used_bytes.clone(),
        limit: after.limit.clone(),
        major_faults_per_s: memory("pgmajfault", &faults),
        refaults_per_s: memory("workingset_refault", &|pairs| sum(pairs, "workingset_refault")),
    }
}

fn level(before: &[LevelCounts], after: &LevelCounts) -> Level {
    let grown = |name: &str, of: &dyn Fn(&Pairs) -> Option<u64>| match before
        .iter()
        .find(|before| before.directory == after.directory)
    {
        Some(before) => delta(&before.stat, &after.stat, &format!("{name} of {}/cpu.stat", after.directory), of),
        None => Measured::absent(format!("{} was not there at the first reading", after.directory)),
    };
    // The unit is nanoseconds in version 1, and microseconds in version 2.
    let throttled_ns = |pairs: &Pairs| {
        let ns = pairs.get("throttled_time").copied();
        ns.or_else(|| pairs.get("throttled_usec")?.checked_mul(1000))
    };
    Level {
        directory: after.directory.clone(),
        quota: after.quota.clone(),
        periods: grown("nr_periods", &|pairs| pairs.get("nr_periods").copied()),
        throttled_periods: grown("nr_throttled", &|pairs| pairs.get("nr_throttled").copied()),
        throttled_ns: grown("throttled time", &throttled_ns),
    }
}

fn process(
    before: &ProcessCounts,
    after: &ProcessCounts,
    machine: &Counts,
    pages: Option<&PagesSeen>,
) -> Measured<ProcessRates> {
    if before.stat.start_ticks != after.stat.start_ticks {
        return Measured::odd(format!("process {} ended, and another has its number now", before.pid));
    }
    let elapsed_ns = after.at_ns.saturating_sub(before.at_ns);
    let grown =
        |name: &str, before: u64, after: u64| Measured::increase(&format!("{name} of the process"), before, after);
    let major = grown("major faults", before.stat.major_faults, after.stat.major_faults);
    let minor = grown("minor faults", before.stat.minor_faults, after.stat.minor_faults);
    let ticks = grown("CPU time", before.stat.cpu_ticks, after.stat.cpu_ticks);
    let (threads, mut lost) = threads(before, after);
    let sum = |of: fn(&ThreadCounts) -> u64| {
        threads.clone().map(|threads| threads.values().map(of).fold(0, u64::saturating_add))
    };
    if after.threads_beyond > 0 {
        let count = lost.count.saturating_add(after.threads_beyond as u64);
        lost = Lost::new(count, "threads that ended meanwhile, or beyond the most that are read");
    }
    Measured::Known(ProcessRates {
        pid: after.pid,
        name: after.name.clone(),
        elapsed_ns,
        ended: None,
        cpu: ticks.and_then(|ticks| share(*ticks as f64 * TICK_NS as f64, elapsed_ns)),
        minor_faults_per_s: per_second(minor, elapsed_ns),
        major_faults_per_s: per_second(major.clone(), elapsed_ns),
        major_faults: major,
        voluntary_switches_per_s: per_second(sum(|thread| thread.voluntary_switches), elapsed_ns),
        involuntary_switches_per_s: per_second(sum(|thread| thread.involuntary_switches), elapsed_ns),
        run_delay: sum(|thread| thread.run_delay_ns).and_then(|ns| share(*ns as f64, elapsed_ns)),
        threads: threads.known().map(|threads| longest(threads, elapsed_ns)).unwrap_or_default(),
        memory: process_memory(before, after, machine, pages),
        lost,
    })
}

/// The rates of each thread between the readings. All counts of a new thread belong to this time. The counts of an ended thread are lost.
fn threads(before: &ProcessCounts, after: &ProcessCounts) -> (Measured<BTreeMap<u32, ThreadCounts>>, Lost) {
    let mut gone = 0;
    let threads = before.threads.and_then(|before| {
        after.threads.and_then(|after| {
            gone = before.keys().filter(|tid| !after.contains_key(tid)).count() as u64;
            let since = |(tid, now): (&u32, &ThreadCounts)| {
                let then = before.get(tid);
                // A reused thread number counts from 0 again, so this is a new thread.
                let is_same = then.is_some_and(|then| {
                    then.cpu_ns <= now.cpu_ns
                        && then.run_delay_ns <= now.run_delay_ns
                        && then.voluntary_switches <= now.voluntary_switches
                        && then.involuntary_switches <= now.involuntary_switches
                });
                let less = |of: fn(&ThreadCounts) -> u64| of(now) - then.filter(|_| is_same).map_or(0, of);
                let grown = ThreadCounts {
                    name: now.name.clone(),
                    cpu_ns: less(|thread| thread.cpu_ns),
                    run_delay_ns: less(|thread| thread.run_delay_ns),
                    voluntary_switches: less(|thread| thread.voluntary_switches),
                    involuntary_switches: less(|thread| thread.involuntary_switches),
                };
                (*tid, grown)
            };
            Measured::Known(after.iter().map(since).collect())
        })
    });
    (threads, Lost::new(gone, "threads that ended meanwhile: their activity since the previous reading is unknown"))
}

fn longest(threads: &BTreeMap<u32, ThreadCounts>, elapsed_ns: u64) -> Vec<ThreadRates> {
    let mut longest: Vec<(&u32, &ThreadCounts)> = threads.iter().collect();
    longest.sort_by_key(|(_, thread)| std::cmp::Reverse((thread.run_delay_ns, thread.cpu_ns)));
    longest.truncate(THREADS_SHOWN);
    let of = |number: u64| number as f64 / elapsed_ns.max(1) as f64;
    let per_s = |count: u64| count as f64 * 1e9 / elapsed_ns.max(1) as f64;
    let rates = |(tid, thread): (&u32, &ThreadCounts)| ThreadRates {
        tid: *tid,
        name: thread.name.clone(),
        cpu: of(thread.cpu_ns),
        run_delay: of(thread.run_delay_ns),
        voluntary_switches_per_s: per_s(thread.voluntary_switches),
        involuntary_switches_per_s: per_s(thread.involuntary_switches),
    };
    longest.into_iter().map(rates).collect()
}

fn process_memory(
    before: &ProcessCounts,
    after: &ProcessCounts,
    machine: &Counts,
    pages: Option<&PagesSeen>,
) -> ProcessMemory {
    let field = |of: &Measured<Pairs>, name: &str| {
        of.and_then(|fields| match fields.get(name) {
            Some(bytes) => Measured::Known(*bytes),
            None => Measured::absent(format!("the kernel does not report {name}")),
        })
    };
    let rolled_up = |name: &str| match pages {
        Some(pages) => field(&pages.rollup, name),
        None => Measured::absent("it is read once, at the end"),
    };
    let swap = field(&after.status, "VmSwap");
    let swap_grown = field(&before.status, "VmSwap").and_then(|before| {
        let grown = |after: &u64| i64::try_from(i128::from(*after) - i128::from(*before));
        swap.and_then(|after| {
            grown(after).map_or_else(|_| Measured::odd("VmSwap is beyond all reason"), Measured::Known)
        })
    });
    let (limit_bytes, limit_by) = match &machine.group.limit {
        Measured::Known(Some(limit)) => (Measured::Known(limit.bytes), limit.directory.clone()),
        Measured::Unknown(unknown) if unknown.unknown != Kind::Absent => {
            (Measured::Unknown(unknown.clone()), "its control group".to_owned())
        }
        Measured::Known(None) | Measured::Unknown(_) => (memory(&machine.meminfo).total_bytes, "all memory".to_owned()),
    };
    let rss = field(&after.status, "VmRSS");
    let needs = rss.and_then(|rss| swap.and_then(|swap| Measured::Known(rss.saturating_add(*swap))));
    ProcessMemory {
        pss_bytes: rolled_up("Pss"),
        swap_grown_bytes: swap_grown,
        referenced_bytes: rolled_up("Referenced"),
        referenced_since: match pages.map(|pages| pages.pages) {
            Some(Pages::ClearReferenced) => "the measurement began",
            _ => "its pages were mapped, or somebody cleared the marks",
        },
        share_of_limit: needs.and_then(|needs| limit_bytes.and_then(|limit| share(*needs as f64, *limit))),
        rss_bytes: rss,
        swap_bytes: swap,
        limit_bytes,
        limit_by,
    }
}
