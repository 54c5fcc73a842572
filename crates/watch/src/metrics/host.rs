//! The metrics of the host.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{CpuTicks, DiskCounts, TICK_NS};
use evenkeel_sys::stall::Stalls;

use super::family::{Family, Labels};
use crate::model::Model;
use crate::sample::{Counted, GapsSample, GroupSample, HostSample, InterfaceSample, SoftnetSample};

const US: f64 = 1e6;

type TimeOf = fn(&CpuTicks) -> u64;

pub(super) fn families(model: &Model) -> Vec<Family> {
    let host = &model.sample.host;
    let mut families = cpus(host);
    families.extend(groups(host));
    families.extend(network(host));
    families.extend(memory_and_disks(host));
    families.extend(settings(model));
    families.extend(collector(model));
    if let Some(recorder) = &model.sample.recorder {
        families
            .push(Family::counter("evenkeel_dumps", "Dumps that the flight recorder wrote.").one(Some(recorder.dumps)));
    }
    if let Some(Ok(seen)) = &model.sample.gaps {
        families.extend(gaps(seen));
    }
    families
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 * TICK_NS as f64 / 1e9
}

fn label(name: &'static str, value: impl ToString) -> Labels {
    vec![(name, value.to_string())]
}

/// The series of a table, one for each key.
fn by_key<'a, K: ToString + 'a, T: 'a>(
    table: &'a Counted<BTreeMap<K, T>>,
    name: &'static str,
    of: impl Fn(&T) -> Option<f64> + 'a,
) -> impl Iterator<Item = (Labels, Option<f64>)> + 'a {
    table.iter().flatten().map(move |(key, entry)| (label(name, key.to_string()), of(entry)))
}

fn cpus(host: &HostSample) -> Vec<Family> {
    // `iowait` is left out: it is a part of the idle time, and the kernel may decrease it. Prometheus would take a decrease for a restart.
    const MODES: [(&str, TimeOf); 6] = [
        ("user", |times| times.user),
        ("system", |times| times.system),
        ("irq", |times| times.irq),
        ("softirq", |times| times.softirq),
        ("steal", |times| times.steal),
        ("idle", |times| times.idle),
    ];
    let times = host.stat.iter().flat_map(|stat| &stat.cpus).flat_map(|(cpu, times)| {
        MODES.map(|(mode, of)| (vec![("cpu", cpu.to_string()), ("mode", mode.to_owned())], Some(seconds(of(times)))))
    });
    let idle = host.idle.iter().flatten().flat_map(|(cpu, states)| {
        states.iter().map(|(state, idle)| {
            (vec![("cpu", cpu.to_string()), ("state", state.clone())], Some(idle.time_us as f64 / US))
        })
    });
    let interrupts = host.interrupts.iter().flat_map(|interrupts| &interrupts.by_cpu);
    let sources = host.interrupts.iter().flat_map(|interrupts| &interrupts.by_source);
    let stat = host.stat.as_ref().ok();
    vec![
        Family::counter("evenkeel_host_cpu", "CPU time by mode.").seconds().many(times),
        Family::counter("evenkeel_host_run_delay", "Time that threads were ready but did not run.")
            .seconds()
            .many(by_key(&host.run_queues, "cpu", |queue| Some(queue.waited_ns as f64 / 1e9))),
        Family::counter("evenkeel_host_pressure", "Time that threads waited for a resource: at least one, or all.")
            .seconds()
            .many(pressure(host)),
        Family::counter("evenkeel_host_context_switches", "Switches between threads.")
            .one(stat.and_then(|stat| stat.context_switches)),
        Family::counter("evenkeel_host_forks", "Created processes and threads.").one(stat.and_then(|stat| stat.forks)),
        Family::counter("evenkeel_host_interrupts", "Interrupts by CPU.")
            .many(interrupts.map(|(cpu, count)| (label("cpu", cpu), Some(*count)))),
        Family::counter("evenkeel_host_interrupts_by_source", "Interrupts by source, on all CPUs.")
            .many(sources.map(|(source, count)| (label("source", source), Some(*count)))),
        Family::gauge("evenkeel_host_cpu_frequency_hertz", "Frequency of a CPU now.").many(by_key(
            &host.frequency_khz,
            "cpu",
            |khz| Some(*khz as f64 * 1000.0),
        )),
        Family::counter("evenkeel_host_idle_state", "Time of a CPU in an idle state.").seconds().many(idle),
        Family::gauge("evenkeel_host_clock_source_info", "The clock source in use.")
            .many(host.clock_source.iter().map(|name| (label("source", name), Some(1.0)))),
    ]
}

/// The metrics of the CPUs' missing time, as the gap meter estimates it.
fn gaps(seen: &GapsSample) -> Vec<Family> {
    let missing = seen.cpus.iter().flat_map(|(cpu, gaps)| {
        let of = |by: &str, ns: u64| (vec![("cpu", cpu.to_string()), ("by", by.to_owned())], Some(ns as f64 / 1e9));
        [of("threads", gaps.by_threads_ns), of("nobody", gaps.by_nobody_ns)]
    });
    let covered = seen.cpus.iter().map(|(cpu, gaps)| (label("cpu", cpu), Some(gaps.covered_ns as f64 / 1e9)));
    vec![
        Family::counter(
            "evenkeel_host_cpu_missing",
            "Estimated time in which a thread could not run on a CPU: others had it, or nobody.",
        )
        .seconds()
        .many(missing),
        Family::counter("evenkeel_host_cpu_sampled", "Time of a CPU for which the windows of the gap meter stand.")
            .seconds()
            .many(covered),
        Family::counter("evenkeel_host_pauses", "Pauses of the whole machine.").one(Some(seen.pauses)),
        Family::counter("evenkeel_host_paused", "Time in pauses of the whole machine, at the least.")
            .seconds()
            .one(Some(seen.paused_ns as f64 / 1e9)),
    ]
}

fn pressure(host: &HostSample) -> Vec<(Labels, Option<f64>)> {
    let of = |resource: &'static str, stalls: &Counted<Stalls>| {
        let labels = |kind: &str| vec![("resource", resource.to_owned()), ("kind", kind.to_owned())];
        let stalls = stalls.as_ref().ok();
        let full_us = stalls.and_then(|stalls| stalls.full_us);
        [
            (labels("some"), stalls.map(|stalls| stalls.some_us as f64 / US)),
            (labels("full"), full_us.map(|us| us as f64 / US)),
        ]
    };
    let pressure = &host.pressure;
    [of("cpu", &pressure.cpu), of("memory", &pressure.memory), of("io", &pressure.io)].concat()
}

fn groups(host: &HostSample) -> Vec<Family> {
    let of = |of: fn(&GroupSample) -> Option<f64>| {
        let limited = host.groups.iter().flat_map(|groups| &groups.limited);
        limited.map(move |(group, counts)| (label("group", group), of(counts)))
    };
    vec![
        Family::gauge("evenkeel_host_group_limit_cpus", "CPUs that the limit of a control group allows.")
            .many(of(|group| Some(group.limit_cpus))),
        Family::counter("evenkeel_host_group_throttled", "Time that a control group was throttled, summed over CPUs.")
            .seconds()
            .many(of(|group| group.throttled_us.map(|us| us as f64 / US))),
        Family::counter("evenkeel_host_group_throttled_periods", "Periods in which a control group was throttled.")
            .many(of(|group| group.throttled_periods.map(|periods| periods as f64))),
    ]
}

fn network(host: &HostSample) -> Vec<Family> {
    let softnet = |of: fn(&SoftnetSample) -> u64| by_key(&host.softnet, "cpu", move |cpu| Some(of(cpu) as f64));
    let interface =
        |of: fn(&InterfaceSample) -> u64| by_key(&host.interfaces, "interface", move |one| Some(of(one) as f64));
    let allowances = host.interfaces.iter().flatten().flat_map(|(name, interface)| {
        let labels = |allowance: &str| vec![("interface", name.clone()), ("allowance", allowance.to_owned())];
        interface.allowances.iter().map(move |(allowance, count)| (labels(allowance), Some(*count)))
    });
    let udp = host.udp.as_ref().ok();
    vec![
        Family::counter("evenkeel_host_softnet_packets", "Packets that a CPU took from its queues.")
            .many(softnet(|cpu| cpu.processed)),
        Family::counter("evenkeel_host_softnet_dropped_packets", "Packets dropped because a CPU's backlog was full.")
            .many(softnet(|cpu| cpu.dropped)),
        Family::counter("evenkeel_host_softnet_squeezes", "How often a CPU stopped with packets left.")
            .many(softnet(|cpu| cpu.squeezed)),
        Family::counter("evenkeel_host_udp_received_datagrams", "Delivered UDP datagrams.")
            .one(udp.and_then(|udp| udp.in_datagrams)),
        Family::counter("evenkeel_host_udp_sent_datagrams", "Sent UDP datagrams.")
            .one(udp.and_then(|udp| udp.out_datagrams)),
        Family::counter("evenkeel_host_udp_in_errors", "UDP datagrams that were not delivered.")
            .one(udp.map(|udp| udp.in_errors)),
        Family::counter("evenkeel_host_udp_receive_buffer_errors", "UDP datagrams dropped because a buffer was full.")
            .one(udp.map(|udp| udp.receive_buffer_errors)),
        Family::counter("evenkeel_host_udp_no_ports", "UDP datagrams for a port that nobody listens at.")
            .one(udp.map(|udp| udp.no_ports)),
        Family::counter("evenkeel_host_network_receive", "Received bytes.").bytes().many(interface(|one| one.rx_bytes)),
        Family::counter("evenkeel_host_network_receive_packets", "Received packets.")
            .many(interface(|one| one.rx_packets)),
        Family::counter("evenkeel_host_network_receive_drops", "Received packets that were dropped.")
            .many(interface(|one| one.rx_drops)),
        Family::counter("evenkeel_host_network_transmit", "Sent bytes.").bytes().many(interface(|one| one.tx_bytes)),
        Family::counter("evenkeel_host_network_transmit_packets", "Sent packets.")
            .many(interface(|one| one.tx_packets)),
        Family::counter("evenkeel_host_network_transmit_drops", "Packets that were dropped instead of sent.")
            .many(interface(|one| one.tx_drops)),
        Family::counter(
            "evenkeel_host_network_allowance_exceeded",
            "Packets dropped or delayed because an allowance of the instance was exceeded.",
        )
        .many(allowances),
        left_out(host),
    ]
}

/// How many devices have no series, because there are too many.
fn left_out(host: &HostSample) -> Family {
    let of = |kind: &str, count: Option<usize>| (label("kind", kind), count.map(|count| count as u64));
    let sources = host.interrupts.as_ref().ok().map(|interrupts| interrupts.sources_beyond);
    let counts = [
        of("interface", host.interfaces.as_ref().ok().map(|_| host.interfaces_beyond)),
        of("disk", host.disks.as_ref().ok().map(|_| host.disks_beyond)),
        of("interrupt source", sources),
    ];
    Family::gauge(
        "evenkeel_host_left_out",
        "Devices without series, because there are too many. The busiest have series.",
    )
    .many(counts)
}

fn memory_and_disks(host: &HostSample) -> Vec<Family> {
    let memory = host.memory.as_ref().ok();
    let swap_used = memory.and_then(|memory| Some(memory.swap_bytes?.saturating_sub(memory.swap_free_bytes?)));
    let paging = host.paging.as_ref().ok();
    let disk = |of: fn(&DiskCounts) -> f64| by_key(&host.disks, "disk", move |disk| Some(of(disk)));
    vec![
        Family::gauge("evenkeel_host_memory_size", "Memory.").bytes().one(memory.and_then(|memory| memory.total_bytes)),
        Family::gauge("evenkeel_host_memory_available", "Memory available without swapping.")
            .bytes()
            .one(memory.and_then(|memory| memory.available_bytes)),
        Family::gauge("evenkeel_host_swap_used", "Memory in swap.").bytes().one(swap_used),
        Family::counter("evenkeel_host_major_page_faults", "Page faults that waited for a disk or for swap.")
            .one(paging.and_then(|paging| paging.major_faults)),
        Family::counter("evenkeel_host_swapped_in_pages", "Pages read from swap.")
            .one(paging.and_then(|paging| paging.swap_ins)),
        Family::counter("evenkeel_host_swapped_out_pages", "Pages written to swap.")
            .one(paging.and_then(|paging| paging.swap_outs)),
        Family::counter("evenkeel_host_oom_kills", "Processes that the OOM killer ended.")
            .one(paging.and_then(|paging| paging.oom_kills)),
        Family::counter("evenkeel_host_disk_reads", "Completed reads.").many(disk(|disk| disk.reads as f64)),
        Family::counter("evenkeel_host_disk_read", "Read bytes.").bytes().many(disk(|disk| disk.read_bytes as f64)),
        Family::counter("evenkeel_host_disk_writes", "Completed writes.").many(disk(|disk| disk.writes as f64)),
        Family::counter("evenkeel_host_disk_written", "Written bytes.")
            .bytes()
            .many(disk(|disk| disk.written_bytes as f64)),
        Family::counter("evenkeel_host_disk_busy", "Time with at least one request.")
            .seconds()
            .many(disk(|disk| disk.busy_ms as f64 / 1e3)),
    ]
}

fn settings(model: &Model) -> Vec<Family> {
    let settings = model.settings.known();
    let findings = settings.into_iter().flat_map(|settings| &settings.findings);
    let credits = model.credits.as_ref();
    let left_s =
        credits.and_then(|credits| credits.minutes_left.known().copied().flatten()).map(|minutes| minutes * 60.0);
    let drift = settings.filter(|settings| settings.holds.is_some());
    vec![
        Family::gauge("evenkeel_settings_holding", "Applied values that hold.")
            .one(settings.and_then(|settings| settings.holds).map(|count| count as u64)),
        Family::gauge("evenkeel_settings_drift", "Applied values that do not hold any more.")
            .one(drift.map(|settings| settings.drift.len().saturating_add(settings.drift_beyond) as u64)),
        Family::gauge("evenkeel_audit_findings", "Findings of the audit by level, when the collector started.")
            .many(findings.map(|(level, count)| (label("level", level), Some(*count as u64)))),
        Family::gauge("evenkeel_credits_balance", "Modelled CPU credits of the instance, in minutes of a CPU.")
            .one(credits.map(|credits| credits.balance)),
        Family::gauge("evenkeel_credits_left", "Time until the CPU credits run out at the use of the last interval.")
            .seconds()
            .one(left_s),
    ]
}

fn collector(model: &Model) -> Vec<Family> {
    let sample = &model.sample;
    vec![
        Family::counter("evenkeel_collector_cpu", "CPU time of the collector.")
            .seconds()
            .one(Some(sample.collector.cpu_ns as f64 / 1e9)),
        Family::gauge("evenkeel_collector_late", "How late the last sample began.")
            .seconds()
            .one(sample.collector.late_ns.map(|ns| ns as f64 / 1e9)),
        Family::gauge("evenkeel_collector_sample_timestamp", "When the last sample was taken, since 1970 UTC.")
            .seconds()
            .one(Some(sample.at.realtime_ns as f64 / 1e9)),
        Family::gauge("evenkeel_collector_unreadable", "Sources that this user may not read.")
            .one(Some(sample.unreadable.len() as u64)),
    ]
}
