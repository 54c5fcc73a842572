//! Reads the counters of the host.

use std::collections::BTreeMap;

use evenkeel_host::facts::{UdpCounters, parse_losses, parse_snmp, parse_snmp6, parse_softnet};
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{
    DiskCounts, Pairs, parse_disks, parse_fields, parse_interfaces, parse_pairs, parse_per_cpu, parse_run_queues,
    parse_stat, under_name,
};
use evenkeel_measure::meters::rates::stalls;

use super::busiest::Busiest;
use super::read::{absent, odd, parsed, refused};
use crate::sample::{
    Counted, GroupsSample, HostSample, IdleSample, InterfaceSample, InterruptsSample, MemorySample, PagingSample,
    PressureSample, SoftnetSample, StatSample, UdpSample,
};

const CPUS_DIR: &str = "/sys/devices/system/cpu";
/// The maximum number of CPUs whose frequency and idle states are read, because each has several files.
const FILES_OF_CPUS_MAX: usize = 64;
const IDLE_STATES_MAX: usize = 16;
/// The maximum number of interrupts, interfaces and disks to list.
const SOURCES_MAX: usize = 256;
const INTERFACES_MAX: usize = 64;
const DISKS_MAX: usize = 64;

/// Which interfaces and disks are listed if there are more than the limit.
#[derive(Debug, Default)]
pub(super) struct Devices {
    interfaces: Busiest<String>,
    disks: Busiest<String>,
}

/// Reads all counters of the host. `process` is the folder in /proc of a process in the host's network namespace.
pub(super) fn read(root: &Root, process: &str, groups: Counted<GroupsSample>, devices: &mut Devices) -> HostSample {
    let (interfaces, interfaces_beyond) = listed(interfaces(root, process, &mut devices.interfaces));
    let (disks, disks_beyond) = listed(disks(root, &mut devices.disks));
    let stat = stat(root);
    let cpus: Vec<usize> = stat.as_ref().map(|stat| stat.cpus.keys().copied().collect()).unwrap_or_default();
    let pressure = |name: &str| stalls(root, &format!("/proc/pressure/{name}")).into_result();
    HostSample {
        run_queues: parsed(root, "/proc/schedstat", "the counts of run queues", parse_run_queues),
        pressure: PressureSample { cpu: pressure("cpu"), memory: pressure("memory"), io: pressure("io") },
        groups,
        frequency_khz: frequency(root, &cpus),
        idle: idle(root, &cpus),
        interrupts: parsed(root, "/proc/interrupts", "columns of CPUs", interrupts),
        softnet: parsed(root, &format!("{process}/net/softnet_stat"), "hexadecimal counts", softnet),
        udp: udp(root, process),
        interfaces,
        interfaces_beyond,
        memory: parsed(root, "/proc/meminfo", "names with numbers", parse_fields).map(|fields| memory(&fields)),
        paging: parsed(root, "/proc/vmstat", "names with numbers", parse_pairs).map(|pairs| paging(&pairs)),
        disks,
        disks_beyond,
        clock_source: parsed(
            root,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "a name",
            |text| Some(text.trim().to_owned()).filter(|name| !name.is_empty()),
        ),
        stat,
    }
}

fn stat(root: &Root) -> Counted<StatSample> {
    let stat = parsed(root, "/proc/stat", "the times of CPUs", parse_stat)?;
    Ok(StatSample {
        cpus: stat.cpus.into_iter().collect(),
        context_switches: stat.context_switches,
        interrupts: stat.interrupts,
        forks: stat.forks,
    })
}

/// Keeps an idle time that the kernel set back a little.
/// The kernel corrects idle times when a thread that waits for a disk moves to another CPU.
/// Prometheus would take the decrease for a restart, and add the whole count.
/// A larger decrease means a new count, for example of a CPU that was offline.
pub(super) fn keep_idle_times(before: &HostSample, now: &mut HostSample) {
    /// Three seconds in units of 10 ms, as in node_exporter.
    const SET_BACK_MAX: u64 = 300;
    let (Ok(then), Ok(now)) = (&before.stat, &mut now.stat) else { return };
    for (cpu, now) in &mut now.cpus {
        let Some(then) = then.cpus.get(cpu) else { continue };
        if (1..=SET_BACK_MAX).contains(&then.idle.saturating_sub(now.idle)) {
            now.idle = then.idle;
        }
    }
}

fn frequency(root: &Root, cpus: &[usize]) -> Counted<BTreeMap<usize, u64>> {
    let mut found = BTreeMap::new();
    let mut why = None;
    for cpu in cpus.iter().take(FILES_OF_CPUS_MAX) {
        let path = format!("{CPUS_DIR}/cpu{cpu}/cpufreq/scaling_cur_freq");
        match parsed(root, &path, "a number of kHz", |text| text.trim().parse().ok()) {
            Ok(khz) => drop(found.insert(*cpu, khz)),
            Err(unknown) => {
                why = why.or(Some(unknown));
                // If CPU 0 has no frequency file, as on virtual machines, no CPU has one.
                if found.is_empty() {
                    break;
                }
            }
        }
    }
    if found.is_empty() { Err(why.unwrap_or_else(|| odd("no CPU is known"))) } else { Ok(found) }
}

fn idle(root: &Root, cpus: &[usize]) -> Counted<BTreeMap<usize, BTreeMap<String, IdleSample>>> {
    let mut found = BTreeMap::new();
    for cpu in cpus.iter().take(FILES_OF_CPUS_MAX) {
        let folder = format!("{CPUS_DIR}/cpu{cpu}/cpuidle");
        let names = match root.entries(&folder) {
            Ok(names) => names,
            Err(refusal) if found.is_empty() => return Err(refused(&refusal)),
            Err(_) => continue,
        };
        let mut states = BTreeMap::new();
        for name in names.iter().filter(|name| name.starts_with("state")).take(IDLE_STATES_MAX) {
            let number = |file: &str| {
                parsed(root, &format!("{folder}/{name}/{file}"), "a number", |text| text.trim().parse().ok())
            };
            let title = root.text(&format!("{folder}/{name}/name")).map_err(|refusal| refused(&refusal))?;
            states.insert(title.trim().to_owned(), IdleSample { time_us: number("time")?, entries: number("usage")? });
        }
        found.insert(*cpu, states);
    }
    if found.is_empty() { Err(odd("no CPU is known")) } else { Ok(found) }
}

fn interrupts(text: &str) -> Option<InterruptsSample> {
    let table = parse_per_cpu(text);
    let mut sums = vec![0_u64; table.cpus.len()];
    let mut sample = InterruptsSample::default();
    let mut sources = Vec::new();
    for row in table.rows() {
        let mut total = 0_u64;
        let mut columns = 0;
        let counts: Vec<u64> = row.counts().collect();
        for (sum, count) in sums.iter_mut().zip(&counts) {
            total = total.saturating_add(*count);
            columns += 1;
            // The lines ERR and MIS have only one number, which belongs to no CPU.
            if counts.len() == table.cpus.len() {
                *sum = sum.saturating_add(*count);
            }
        }
        if columns == 0 || total == 0 {
            continue;
        }
        let name = format!("{} {}", row.label, row.name());
        sources.push((total, name.trim_end().chars().take(80).collect::<String>()));
    }
    // The most frequent come first. On machines with many CPUs, each device has a source for each CPU.
    sources.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    sample.sources_beyond = sources.len().saturating_sub(SOURCES_MAX);
    sample.by_source = sources.into_iter().take(SOURCES_MAX).map(|(total, name)| (name, total)).collect();
    sample.by_cpu = table.cpus.iter().copied().zip(sums).collect();
    (!sample.by_cpu.is_empty()).then_some(sample)
}

fn softnet(text: &str) -> Option<BTreeMap<usize, SoftnetSample>> {
    let counts = parse_softnet(text.trim())?.into_iter();
    let by_cpu = counts.map(|line| {
        let (processed, dropped, squeezed) = (line.processed, line.dropped, line.time_squeeze);
        (line.cpu, SoftnetSample { processed, dropped, squeezed })
    });
    Some(by_cpu.collect())
}

fn udp(root: &Root, process: &str) -> Counted<UdpSample> {
    let path = format!("{process}/net/snmp");
    let (v4, datagrams) = parsed(root, &path, "lines for Udp", |text| {
        let number = |name: &str| under_name(text, Some("Udp"), name)?.parse::<u64>().ok();
        Some((parse_snmp(text)?, [number("InDatagrams"), number("OutDatagrams")]))
    })?;
    // A kernel without IPv6 does not have this file, and has lost no datagrams over IPv6.
    let v6 = root.text(&format!("{process}/net/snmp6")).ok();
    let sum = |of: fn(&UdpCounters) -> u64| {
        let other = v6.as_deref().and_then(parse_snmp6).map_or(0, |counters| of(&counters));
        of(&v4).saturating_add(other)
    };
    let with_v6 = |count: Option<u64>, name: &str| {
        let pairs = v6.as_deref().unwrap_or_default().lines().filter_map(|line| line.split_once(char::is_whitespace));
        let mut other = pairs.filter(|(found, _)| *found == name).filter_map(|(_, number)| number.trim().parse().ok());
        Some(count?.saturating_add(other.next().unwrap_or(0)))
    };
    let [received, sent] = datagrams;
    Ok(UdpSample {
        in_datagrams: with_v6(received, "Udp6InDatagrams"),
        out_datagrams: with_v6(sent, "Udp6OutDatagrams"),
        in_errors: sum(|udp| udp.in_errors),
        receive_buffer_errors: sum(|udp| udp.rcvbuf_errors),
        send_buffer_errors: sum(|udp| udp.sndbuf_errors),
        no_ports: sum(|udp| udp.no_ports),
    })
}

/// The entries by name, and the number of those that are left out.
type Listed<T> = Counted<(BTreeMap<String, T>, usize)>;

fn listed<T>(found: Listed<T>) -> (Counted<BTreeMap<String, T>>, usize) {
    match found {
        Ok((table, beyond)) => (Ok(table), beyond),
        Err(unknown) => (Err(unknown), 0),
    }
}

/// The interfaces. If there are too many, those with drops and packets come first.
fn interfaces(root: &Root, process: &str, busiest: &mut Busiest<String>) -> Listed<InterfaceSample> {
    let all: Vec<(String, InterfaceSample)> =
        parsed(root, &format!("{process}/net/dev"), "counts of interfaces", |text| {
            Some(parse_interfaces(text).map(|(name, counts)| (name.to_owned(), counts.into())).collect())
        })?;
    let weight = |one: &InterfaceSample| {
        [one.rx_drops.saturating_add(one.tx_drops), one.rx_packets.saturating_add(one.tx_packets)]
    };
    let (found, beyond) = busiest.choose(all, INTERFACES_MAX, weight, weight);
    let mut found: BTreeMap<String, InterfaceSample> = found.into_iter().collect();
    for (name, interface) in &mut found {
        // Only some drivers report statistics, and only Amazon's driver has these counters.
        let Ok(text) = root.text(&format!("@ethtool/{name}/stats")) else { continue };
        let losses = parse_losses(&text).unwrap_or_default();
        interface.allowances = losses.into_iter().filter(|(name, _)| name.ends_with("_allowance_exceeded")).collect();
    }
    Ok((found, beyond))
}

fn memory(fields: &Pairs) -> MemorySample {
    let of = |name: &str| fields.get(name).copied();
    MemorySample {
        total_bytes: of("MemTotal"),
        available_bytes: of("MemAvailable"),
        swap_bytes: of("SwapTotal"),
        swap_free_bytes: of("SwapFree"),
    }
}

fn paging(pairs: &Pairs) -> PagingSample {
    let of = |name: &str| pairs.get(name).copied();
    PagingSample {
        major_faults: of("pgmajfault"),
        swap_ins: of("pswpin"),
        swap_outs: of("pswpout"),
        oom_kills: of("oom_kill"),
    }
}

/// The disks that were used, the busiest first if there are too many. Partitions are left out, because their requests are also counted for
/// the disk.
fn disks(root: &Root, busiest: &mut Busiest<String>) -> Listed<DiskCounts> {
    let whole = root.entries("/sys/block").ok();
    let is_disk = |name: &str| whole.as_ref().is_none_or(|whole| whole.iter().any(|disk| disk == name));
    let all: Vec<(String, DiskCounts)> = parsed(root, "/proc/diskstats", "counts of disks", |text| {
        let rows = parse_disks(text).filter(|(name, counts)| is_disk(name) && (counts.reads > 0 || counts.writes > 0));
        Some(rows.map(|(name, counts)| (name.to_owned(), counts)).collect())
    })?;
    if all.is_empty() {
        return Err(absent("/proc/diskstats has no disk that was used"));
    }
    let weight = |disk: &DiskCounts| [disk.busy_ms, disk.reads.saturating_add(disk.writes)];
    let (found, beyond) = busiest.choose(all, DISKS_MAX, weight, weight);
    Ok((found.into_iter().collect(), beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_do_not_go_back_a_little() {
        let host = |idle: u64| {
            let files = [("/proc/stat".to_owned(), format!("cpu0 10 0 10 {idle} 0 0 0 0 0 0\n"))];
            read(&Root::from(BTreeMap::from(files)), "/proc/self", Err(absent("")), &mut Devices::default())
        };
        let idle = |before: u64, now: u64| {
            let mut now = host(now);
            keep_idle_times(&host(before), &mut now);
            now.stat.unwrap().cpus[&0].idle
        };
        assert_eq!(
            [(1000, 1001), (1000, 998), (1000, 700), (1000, 699)].map(|(then, now)| idle(then, now)),
            [1001, 1000, 1000, 699]
        );
    }

    #[test]
    fn interrupts_are_summed_both_ways() {
        let text = "           CPU0       CPU1\n  0:         10          5  IO-APIC  2-edge  timer\n \
                    38:          0        100 PCI-MSIX-0000:00:05.0   1-edge      eth0-Tx-Rx-0\n \
                    39:          0          0 PCI-MSIX-0000:00:05.0   2-edge      eth0-Tx-Rx-1\n\
                    LOC:        50         60   Local timer interrupts\nERR:          3\n";
        let sample = interrupts(text).unwrap();
        assert_eq!(sample.by_cpu, BTreeMap::from([(0, 60), (1, 165)]));
        let sources: Vec<(&str, u64)> = sample.by_source.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(
            sources,
            [("0 timer", 15), ("38 eth0-Tx-Rx-0", 100), ("ERR", 3), ("LOC Local timer interrupts", 110)]
        );
        assert_eq!(interrupts("rubbish"), None);
        let many: String = (0..300).map(|irq| format!("{irq}: 1 x\n")).collect();
        let sample = interrupts(&format!("CPU0\n{many}")).unwrap();
        assert_eq!((sample.by_source.len(), sample.sources_beyond), (256, 44));
        // The most frequent are listed, wherever they are in the table.
        let sample = interrupts(&format!("CPU0\n{many}999: 70 x\n")).unwrap();
        assert_eq!((sample.by_source.values().max(), sample.sources_beyond), (Some(&70), 45));
    }

    #[test]
    fn the_worst_interfaces_and_the_busiest_disks_are_listed_and_the_others_counted() {
        let host = |devices: &mut Devices, drops_of_last: u64| {
            let row = |at: u64, drops: u64| format!(" veth{at}: 100 10 0 {drops} 0 0 0 0 100 10 0 0 0 0 0 0\n");
            let interfaces: String = (0..70).map(|at| row(at, if at == 69 { drops_of_last } else { 0 })).collect();
            let disk = |at: u64| format!(" 254 {at} vd{at} {} 0 8 4 1 0 0 0 0 {} 0\n", at + 1, at * 100);
            let files = [
                ("/proc/self/net/dev", format!("head\nhead\n{interfaces}")),
                ("/proc/diskstats", (0..66).map(disk).collect()),
            ];
            let files = files.map(|(path, text)| (path.to_owned(), text));
            read(&Root::from(BTreeMap::from(files)), "/proc/self", Err(absent("")), devices)
        };
        let mut devices = Devices::default();
        host(&mut devices, 0);
        let now = host(&mut devices, 3);
        let (interfaces, disks) = (now.interfaces.unwrap(), now.disks.unwrap());
        assert!(interfaces.contains_key("veth69"));
        assert_eq!((interfaces.len(), now.interfaces_beyond), (INTERFACES_MAX, 6));
        assert!(disks.contains_key("vd65") && !disks.contains_key("vd0"));
        assert_eq!((disks.len(), now.disks_beyond), (DISKS_MAX, 2));
    }
}
