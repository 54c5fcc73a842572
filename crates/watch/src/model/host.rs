//! The host between two samples.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::CpuTicks;
use evenkeel_measure::meters::rates::{Measured, cpu_time};
use evenkeel_sys::stall::Stalls;
use serde::Serialize;

use super::devices::{DiskModel, InterfaceModel, disks, interfaces};
use super::span::{Span, both};
use crate::sample::{
    Counted, GroupSample, GroupsSample, HostSample, IdleSample, MemorySample, PagingSample, SoftnetSample, StatSample,
    UdpSample,
};

/// The maximum number of interrupt sources to list, the most frequent first.
const SOURCES_LISTED: usize = 16;

/// The host between two samples. Shares are of the elapsed time, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostModel {
    /// The use of all CPUs together that were online at both samples.
    pub all: Measured<CpuUse>,
    /// The use of each CPU.
    pub cpus: Measured<Vec<CpuModel>>,
    /// How long threads were ready but did not run, in seconds per second, summed over all threads.
    pub run_delay: Measured<f64>,
    /// Pressure on CPUs.
    pub cpu_pressure: StallShares,
    /// Pressure on memory.
    pub memory_pressure: StallShares,
    /// Pressure on disks.
    pub io_pressure: StallShares,
    /// The control groups with a limit on CPU time.
    pub groups: Measured<GroupsModel>,
    /// Switches between threads.
    pub context_switches_per_s: Measured<f64>,
    /// Interrupts of all kinds.
    pub interrupts_per_s: Measured<f64>,
    /// Processes and threads that were created.
    pub forks_per_s: Measured<f64>,
    /// The most frequent sources of interrupts, at most 16.
    pub interrupt_sources: Measured<Vec<SourceRate>>,
    /// The rates of packets that CPUs took from their queues.
    pub softnet: SoftnetRates,
    /// The rates of UDP datagrams, over IPv4 and IPv6.
    pub udp: UdpRates,
    /// Network interfaces.
    pub interfaces: Measured<Vec<InterfaceModel>>,
    /// The number of further interfaces that are not listed because of the limit. Those with drops and packets are listed first.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub interfaces_beyond: usize,
    /// Memory.
    pub memory: MemoryModel,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Pages read from swap.
    pub swap_ins_per_s: Measured<f64>,
    /// Pages written to swap.
    pub swap_outs_per_s: Measured<f64>,
    /// The number of processes that the OOM killer ended.
    pub oom_kills: Measured<u64>,
    /// Disks.
    pub disks: Measured<Vec<DiskModel>>,
    /// The number of further disks that are not listed because of the limit. The busiest are listed first.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub disks_beyond: usize,
    /// The clock source in use.
    pub clock_source: Measured<String>,
}

/// How CPU time was spent. All shares except `iowait` and `counted` add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuUse {
    /// The share in user space.
    pub user: f64,
    /// The share in the kernel.
    pub system: f64,
    /// The share in interrupts.
    pub irq: f64,
    /// The share in softirqs.
    pub softirq: f64,
    /// The share that the hypervisor reports as stolen.
    pub steal: f64,
    /// The idle share.
    pub idle: f64,
    /// The part of `idle` in which a thread waited for a disk.
    pub iowait: f64,
    /// The share of the elapsed time that the kernel counted. If it is far below 1, the CPU was offline or the machine was paused.
    pub counted: f64,
}

impl CpuUse {
    /// The share that was neither idle nor stolen.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// The use of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuModel {
    /// The number of the CPU.
    pub cpu: usize,
    /// How the CPU's time was spent.
    #[serde(rename = "use")]
    pub time: Measured<CpuUse>,
    /// How long threads were ready on this CPU but did not run, in seconds per second, summed over threads.
    pub run_delay: Measured<f64>,
    /// The frequency of the CPU at the later sample.
    pub frequency_khz: Measured<u64>,
    /// The idle states of the CPU.
    pub idle_states: Measured<Vec<IdleModel>>,
    /// Interrupts that the CPU served.
    pub interrupts_per_s: Measured<f64>,
    /// Packets that the CPU took from its queue.
    pub packets_per_s: Measured<f64>,
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleModel {
    /// The name of the idle state.
    pub name: String,
    /// The share of the time that the CPU was in this state.
    pub share: Measured<f64>,
    /// How often the CPU entered this state.
    pub entries_per_s: Measured<f64>,
}

/// Pressure on a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallShares {
    /// The share of the time in which at least one thread waited.
    pub some: Measured<f64>,
    /// The share of the time in which all non-idle threads waited.
    pub full: Measured<f64>,
}

/// The control groups with a limit on CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupsModel {
    /// The groups with a limit, the most throttled first.
    pub limited: Vec<GroupModel>,
    /// The number of groups that were examined.
    pub examined: usize,
    /// Whether there are more groups than are examined or listed.
    pub is_cut: bool,
}

/// A control group with a limit on CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupModel {
    /// The path of the group below the mount.
    pub group: String,
    /// The number of CPUs that the limit allows.
    pub limit_cpus: f64,
    /// The rate of periods in which the group was throttled.
    pub throttled_periods_per_s: Measured<f64>,
    /// How long the group was throttled, in seconds per second, summed over CPUs.
    pub throttled: Measured<f64>,
}

/// A source of interrupts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceRate {
    /// The number or letters of the source, with the name of the device.
    pub source: String,
    /// The rate of the source's interrupts on all CPUs together.
    pub per_s: f64,
}

/// Packets that CPUs took from their queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SoftnetRates {
    /// Packets that CPUs processed.
    pub processed_per_s: Measured<f64>,
    /// Packets dropped because a CPU's backlog was full.
    pub dropped_per_s: Measured<f64>,
    /// How often a CPU stopped although packets were left in its queue.
    pub squeezed_per_s: Measured<f64>,
}

/// The rates of UDP datagrams.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpRates {
    /// Delivered datagrams.
    pub in_per_s: Measured<f64>,
    /// Sent datagrams.
    pub out_per_s: Measured<f64>,
    /// Datagrams that were not delivered, except datagrams without a listener.
    pub in_errors_per_s: Measured<f64>,
    /// Datagrams that were dropped because a socket's receive buffer was full.
    pub receive_buffer_errors_per_s: Measured<f64>,
    /// Datagrams for a port without a listener.
    pub no_ports_per_s: Measured<f64>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryModel {
    /// The total memory.
    pub total_bytes: Measured<u64>,
    /// Available without swapping, by the kernel's estimate.
    pub available_bytes: Measured<u64>,
    /// The used part of swap.
    pub swap_used_bytes: Measured<u64>,
}

pub(super) fn host(before: &HostSample, after: &HostSample, span: Span) -> HostModel {
    let stat = both(&before.stat, &after.stat);
    let of_stat = |name: &str, of: fn(&StatSample) -> Option<u64>| {
        stat.and_then(|(before, after)| span.maybe_per_s(name, of(before), of(after)))
    };
    let paging = both(&before.paging, &after.paging);
    let page = |name: &str, of: fn(&PagingSample) -> Option<u64>| {
        paging.and_then(|(before, after)| span.maybe_per_s(name, of(before), of(after)))
    };
    let queues = both(&before.run_queues, &after.run_queues);
    let softnet = both(&before.softnet, &after.softnet);
    let packets = |name: &str, of: fn(&SoftnetSample) -> u64| {
        softnet.and_then(|(before, after)| span.per_s(name, sum(before, of), sum(after, of)))
    };
    HostModel {
        all: stat.and_then(|(before, after)| all_cpus(before, after, span)),
        cpus: stat.clone().map(|(_, now)| now.cpus.keys().map(|cpu| one_cpu(*cpu, before, after, span)).collect()),
        run_delay: queues.and_then(|(before, after)| {
            span.share("run-queue delay", sum(before, |queue| queue.waited_ns), sum(after, |queue| queue.waited_ns), 1)
        }),
        cpu_pressure: pressure("CPUs", &before.pressure.cpu, &after.pressure.cpu, span),
        memory_pressure: pressure("memory", &before.pressure.memory, &after.pressure.memory, span),
        io_pressure: pressure("disks", &before.pressure.io, &after.pressure.io, span),
        groups: both(&before.groups, &after.groups).map(|(before, after)| groups(before, after, span)),
        context_switches_per_s: of_stat("context switches", |stat| stat.context_switches),
        interrupts_per_s: of_stat("interrupts", |stat| stat.interrupts),
        forks_per_s: of_stat("created processes", |stat| stat.forks),
        interrupt_sources: sources(before, after, span),
        softnet: SoftnetRates {
            processed_per_s: packets("packets", |cpu| cpu.processed),
            dropped_per_s: packets("packets dropped by the backlog", |cpu| cpu.dropped),
            squeezed_per_s: packets("squeezes", |cpu| cpu.squeezed),
        },
        udp: udp(before, after, span),
        interfaces: both(&before.interfaces, &after.interfaces)
            .map(|(then, now)| interfaces(then, now, before.interfaces_beyond > 0, span)),
        interfaces_beyond: after.interfaces_beyond,
        memory: memory(after),
        major_faults_per_s: page("major page faults", |paging| paging.major_faults),
        swap_ins_per_s: page("pages read from swap", |paging| paging.swap_ins),
        swap_outs_per_s: page("pages written to swap", |paging| paging.swap_outs),
        oom_kills: paging.and_then(|(before, after)| match before.oom_kills.zip(after.oom_kills) {
            Some((before, after)) => span.increase("OOM kills", before, after),
            None => Measured::absent("this kernel does not count OOM kills"),
        }),
        disks: both(&before.disks, &after.disks).map(|(then, now)| disks(then, now, before.disks_beyond > 0, span)),
        disks_beyond: after.disks_beyond,
        clock_source: after.clock_source.clone().into(),
    }
}

fn sum<T>(cpus: &BTreeMap<usize, T>, of: impl Fn(&T) -> u64) -> u64 {
    cpus.values().map(of).fold(0, u64::saturating_add)
}

/// The use of one CPU, or of `cpus` CPUs together, between two readings. If a counter decreased, the result is unknown.
/// Idle time is excepted, because some kernels correct it.
fn cpu_use(what: &str, before: CpuTicks, after: CpuTicks, cpus: u64, span: Span) -> Measured<CpuUse> {
    // If no time passed between the samples, there are no rates.
    let shares = span
        .increase(&format!("user time of {what}"), before.user, after.user)
        .and_then(|_| cpu_time(what, &before, &after, span.elapsed_ns().saturating_mul(cpus)));
    shares.map(|shares| CpuUse {
        user: shares.user,
        system: shares.system,
        irq: shares.irq,
        softirq: shares.softirq,
        steal: shares.steal,
        idle: shares.idle,
        iowait: shares.iowait.known().map_or(0.0, |iowait| iowait.min(shares.idle)),
        counted: shares.counted,
    })
}

fn all_cpus(before: &StatSample, after: &StatSample, span: Span) -> Measured<CpuUse> {
    let (mut first, mut last, mut cpus) = (CpuTicks::default(), CpuTicks::default(), 0);
    for (cpu, now) in &after.cpus {
        if let Some(then) = before.cpus.get(cpu) {
            first.add(then);
            last.add(now);
            cpus += 1;
        }
    }
    cpu_use("all CPUs", first, last, cpus, span)
}

fn one_cpu(cpu: usize, before: &HostSample, after: &HostSample, span: Span) -> CpuModel {
    let not_read = |what: &str| format!("{what} of CPU {cpu} was not read at both samples");
    CpuModel {
        cpu,
        time: both(&before.stat, &after.stat).and_then(|(before, after)| {
            let times = before.cpus.get(&cpu).zip(after.cpus.get(&cpu));
            times.map_or_else(
                || Measured::absent(not_read("the time")),
                |(before, after)| cpu_use(&format!("CPU {cpu}"), *before, *after, 1, span),
            )
        }),
        run_delay: of_cpu(&before.run_queues, &after.run_queues, cpu, |before, after| {
            span.share("run-queue delay", before.waited_ns, after.waited_ns, 1)
        }),
        interrupts_per_s: both(&before.interrupts, &after.interrupts).and_then(|(before, after)| {
            let counts = before.by_cpu.get(&cpu).zip(after.by_cpu.get(&cpu));
            counts.map_or_else(
                || Measured::absent(not_read("the count of interrupts")),
                |(before, after)| span.per_s("interrupts", *before, *after),
            )
        }),
        packets_per_s: of_cpu(&before.softnet, &after.softnet, cpu, |before, after| {
            span.per_s("packets", before.processed, after.processed)
        }),
        idle_states: of_cpu(&before.idle, &after.idle, cpu, |before, after| {
            Measured::Known(idle_states(before, after, span))
        }),
        frequency_khz: of_cpu(&after.frequency_khz, &after.frequency_khz, cpu, |_, khz| Measured::Known(*khz)),
    }
}

/// Applies `of` to the entries of this CPU in both samples.
fn of_cpu<T, U>(
    before: &Counted<BTreeMap<usize, T>>,
    after: &Counted<BTreeMap<usize, T>>,
    cpu: usize,
    of: impl Fn(&T, &T) -> Measured<U>,
) -> Measured<U> {
    both(before, after).and_then(|(before, after)| match before.get(&cpu).zip(after.get(&cpu)) {
        Some((before, after)) => of(before, after),
        None => Measured::absent(format!("it was not read for CPU {cpu} at both samples")),
    })
}

fn idle_states(
    before: &BTreeMap<String, IdleSample>,
    after: &BTreeMap<String, IdleSample>,
    span: Span,
) -> Vec<IdleModel> {
    let one = |(name, now): (&String, &IdleSample)| {
        let then = before.get(name)?;
        Some(IdleModel {
            name: name.clone(),
            share: span.share("time in the idle state", then.time_us, now.time_us, 1000),
            entries_per_s: span.per_s("entries of the idle state", then.entries, now.entries),
        })
    };
    after.iter().filter_map(one).collect()
}

fn pressure(name: &str, before: &Counted<Stalls>, after: &Counted<Stalls>, span: Span) -> StallShares {
    let stalls = both(before, after);
    StallShares {
        some: stalls.and_then(|(before, after)| {
            span.share(&format!("pressure on {name}"), before.some_us, after.some_us, 1000)
        }),
        full: stalls.and_then(|(before, after)| match before.full_us.zip(after.full_us) {
            Some((before, after)) => span.share(&format!("full pressure on {name}"), before, after, 1000),
            None => Measured::absent(format!("this kernel does not count full pressure on {name}")),
        }),
    }
}

fn groups(before: &GroupsSample, after: &GroupsSample, span: Span) -> GroupsModel {
    let one = |(path, now): (&String, &GroupSample)| {
        let then = before.limited.get(path);
        let of = |name: &str, of: fn(&GroupSample) -> Option<u64>| match then {
            Some(then) => span.maybe_per_s(name, of(then), of(now)),
            None => Measured::absent("the group is new, or its limit is"),
        };
        GroupModel {
            group: path.clone(),
            limit_cpus: now.limit_cpus,
            throttled_periods_per_s: of("throttled periods", |group| group.throttled_periods),
            throttled: of("throttled time", |group| group.throttled_us).map(|us_per_s| us_per_s / 1e6),
        }
    };
    let mut limited: Vec<GroupModel> = after.limited.iter().map(one).collect();
    let throttled = |group: &GroupModel| group.throttled.known().copied().unwrap_or(-1.0);
    limited.sort_by(|one, other| throttled(other).total_cmp(&throttled(one)));
    GroupsModel { limited, examined: after.examined, is_cut: after.is_cut }
}

fn sources(before: &HostSample, after: &HostSample, span: Span) -> Measured<Vec<SourceRate>> {
    both(&before.interrupts, &after.interrupts).and_then(|(before, after)| {
        // If no time passed between the samples, there are no rates.
        if let Measured::Unknown(unknown) = span.increase("interrupts", 0, 0) {
            return Measured::Unknown(unknown);
        }
        let one = |(source, now): (&String, &u64)| {
            // If a source had no interrupts at the earlier sample, that sample does not have the source.
            let then = before.by_source.get(source).copied().unwrap_or(0);
            let per_s = *span.per_s(source, then, *now).known()?;
            (per_s > 0.0).then(|| SourceRate { source: source.clone(), per_s })
        };
        let mut rates: Vec<SourceRate> = after.by_source.iter().filter_map(one).collect();
        rates.sort_by(|one, other| other.per_s.total_cmp(&one.per_s));
        rates.truncate(SOURCES_LISTED);
        Measured::Known(rates)
    })
}

fn udp(before: &HostSample, after: &HostSample, span: Span) -> UdpRates {
    let udp = both(&before.udp, &after.udp);
    let of = |name: &str, of: fn(&UdpSample) -> Option<u64>| {
        udp.and_then(|(before, after)| span.maybe_per_s(name, of(before), of(after)))
    };
    UdpRates {
        in_per_s: of("received datagrams", |udp| udp.in_datagrams),
        out_per_s: of("sent datagrams", |udp| udp.out_datagrams),
        in_errors_per_s: of("UDP errors", |udp| Some(udp.in_errors)),
        receive_buffer_errors_per_s: of("full UDP buffers", |udp| Some(udp.receive_buffer_errors)),
        no_ports_per_s: of("datagrams without a port", |udp| Some(udp.no_ports)),
    }
}

fn memory(after: &HostSample) -> MemoryModel {
    let memory = Measured::from(after.memory.clone());
    let memory_of = |name: &str, of: fn(&MemorySample) -> Option<u64>| {
        memory.and_then(|memory| match of(memory) {
            Some(bytes) => Measured::Known(bytes),
            None => Measured::absent(format!("/proc/meminfo has no {name}")),
        })
    };
    MemoryModel {
        total_bytes: memory_of("MemTotal", |memory| memory.total_bytes),
        available_bytes: memory_of("MemAvailable", |memory| memory.available_bytes),
        swap_used_bytes: memory_of("SwapFree", |memory| {
            Some(memory.swap_bytes?.saturating_sub(memory.swap_free_bytes?))
        }),
    }
}
