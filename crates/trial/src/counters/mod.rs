//! The kernel's counters that show whether a knob was engaged.
//! The file has the values that belong to each [`Counter`], and the parsers of their text.
//! The trial reads only the counters of its knobs, twice a window.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::{Action, Counter, Plan, knobs};
use evenkeel_hostfs::{Root, proc};

mod idle;

pub(crate) use idle::{IDLE_STATES, IdleEntries, Idled};

const NETSTAT: &str = "/proc/net/netstat";
const SNMP: &str = "/proc/net/snmp";
const SOFTNET: &str = "/proc/net/softnet_stat";
const VMSTAT: &str = "/proc/vmstat";
const MEMINFO: &str = "/proc/meminfo";
const INTERRUPTS: &str = "/proc/interrupts";
const DISKSTATS: &str = "/proc/diskstats";
const CONNTRACK: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

/// The columns of /proc/net/softnet_stat that are read: position and name.
const SOFTNET_COLUMNS: [(usize, &str); 4] =
    [(0, "softnet_processed"), (1, "softnet_dropped"), (2, "softnet_time_squeeze"), (9, "softnet_received_rps")];

/// The fields of /proc/net/snmp that are read: the kernel's name, and the name in windows.
const SNMP_FIELDS: [(&str, &str); 3] =
    [("udp_rcvbuf_errors", "RcvbufErrors"), ("udp_mem_errors", "MemErrors"), ("udp_in_datagrams", "InDatagrams")];

/// Names of counters that several places in the code use.
const BUSY_POLLED: &str = "BusyPollRxPackets";
const DISK_REQUESTS: &str = "disk_requests";
const HUGE_PAGES: &str = "huge_pages_in_use";
const TRACKED: &str = "nf_conntrack_count";
pub(crate) const FREQUENCY: &str = "frequency_khz";
const COMPACTION: &[&str] = &["compact_migrate_scanned", "compact_daemon_migrate_scanned"];
const RECLAIM: &[&str] = &["pgscan_kswapd", "pgscan_direct", "pswpin", "pswpout"];

/// The prefix of the names of counters that count the interrupts of one CPU.
const INTERRUPTS_OF: &str = "interrupts_cpu";

/// The counter of a knob. None if the knob has none.
pub(crate) fn counter_of(knob: &str) -> Option<Counter> {
    knobs::find(knob).ok()?.extras.counter
}

/// A number of the kernel at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// A value that only grows. Its increase in a window is reported.
    Count(u64),
    /// A current value, which may also fall.
    Level(f64),
}

/// The counters to read, and the devices from which to read them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    kinds: Vec<Counter>,
    /// The interrupts that the plans concern.
    irqs: Vec<String>,
    /// The disks that the plans concern.
    disks: Vec<String>,
}

impl Wanted {
    /// The counters of the knobs in these plans.
    pub(crate) fn from_plans(plans: &[Plan], counter: impl Fn(&str) -> Option<Counter>) -> Wanted {
        let mut wanted = Wanted::default();
        for step in plans.iter().flat_map(|plan| &plan.steps) {
            let Some(kind) = counter(&step.knob) else { continue };
            if !wanted.kinds.contains(&kind) {
                wanted.kinds.push(kind);
            }
            match (kind, &step.action) {
                (Counter::InterruptsByCpu, Action::Write { .. }) => wanted.irqs.push(step.place.clone()),
                (Counter::DiskRequests, Action::Write { .. }) => wanted.disks.push(step.place.clone()),
                _ => {}
            }
        }
        wanted
    }

    /// Whether counters of this kind are read.
    pub(crate) fn has(&self, kind: Counter) -> bool {
        self.kinds.contains(&kind)
    }

    /// Reads the current values. If the kernel does not report a value, it is absent.
    pub(crate) fn read(&self, root: &Root) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        for kind in &self.kinds {
            self.read_one(root, *kind, &mut values);
        }
        values
    }

    fn read_one(&self, root: &Root, kind: Counter, values: &mut BTreeMap<String, Value>) {
        let text = |path: &str| root.text(path).unwrap_or_default();
        let mut count = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                values.insert(name.to_owned(), Value::Count(value));
            }
        };
        match Sign::from_counter(kind).table {
            Table::Conditions => {}
            Table::Netstat => count(BUSY_POLLED, under(&text(NETSTAT), "TcpExt", BUSY_POLLED)),
            Table::Softnet => {
                let table = text(SOFTNET);
                for (column, name) in SOFTNET_COLUMNS {
                    count(name, proc::hex_column(&table, column));
                }
            }
            Table::Snmp => {
                let table = text(SNMP);
                for (name, field) in SNMP_FIELDS {
                    count(name, under(&table, "Udp", field));
                }
            }
            Table::Interrupts => {
                for (cpu, sum) in interrupts_by_cpu(&text(INTERRUPTS), &self.irqs) {
                    count(&format!("{INTERRUPTS_OF}{cpu}"), Some(sum));
                }
            }
            Table::Disks => count(DISK_REQUESTS, disk_requests(&text(DISKSTATS), &self.disks)),
            Table::Vmstat(names) => {
                let table = text(VMSTAT);
                for name in names {
                    count(name, proc::count(&table, name));
                }
            }
            Table::HugePagePool => {
                let table = text(MEMINFO);
                let of = |name| proc::amount(&table, name);
                if let Some((total, free)) = of("HugePages_Total").zip(of("HugePages_Free")) {
                    values.insert(HUGE_PAGES.into(), Value::Level(total.saturating_sub(free) as f64));
                }
            }
            Table::Conntrack => {
                if let Ok(tracked) = text(CONNTRACK).trim().parse::<u32>() {
                    values.insert(TRACKED.into(), Value::Level(f64::from(tracked)));
                }
            }
            Table::Frequency => {
                if let Some(khz) = mean_frequency_khz(root) {
                    values.insert(FREQUENCY.into(), Value::Level(khz));
                }
            }
        }
    }
}

/// The table in which a counter is found.
#[derive(Clone, Copy)]
enum Table {
    /// No table: the counter is among the conditions of every window, or the server reports it.
    Conditions,
    Netstat,
    Softnet,
    Snmp,
    Interrupts,
    Disks,
    Vmstat(&'static [&'static str]),
    HugePagePool,
    Conntrack,
    Frequency,
}

/// How a counter shows that its knob was engaged.
pub(crate) struct Sign {
    table: Table,
    /// If any of these values moved, the knob was engaged. Empty if the check is more complex.
    pub(crate) moved: &'static [&'static str],
    /// The message if none of these values moved.
    pub(crate) stood_still: &'static str,
}

impl Sign {
    pub(crate) fn from_counter(kind: Counter) -> Sign {
        let (table, moved, stood_still): (Table, &[&str], &str) = match kind {
            Counter::IdleStates | Counter::DevicePackets | Counter::WaitingThreads | Counter::ReadBack => {
                (Table::Conditions, &[], "")
            }
            Counter::BusyPolling => {
                (Table::Netstat, &[BUSY_POLLED], "no packet was taken by busy polling: BusyPollRxPackets stood still")
            }
            Counter::SteeredPackets => (
                Table::Softnet,
                &["softnet_received_rps"],
                "no packet was handed to another CPU: received_rps stood still",
            ),
            Counter::Backlog => (
                Table::Softnet,
                &["softnet_received_rps", "softnet_dropped"],
                "packets of a network device pass the queue that it limits only when one CPU hands them to another, and none did",
            ),
            Counter::PacketBudget => {
                (Table::Softnet, &["softnet_time_squeeze"], "no CPU ever used its budget up: time_squeeze stood still")
            }
            Counter::ReceiveBuffers => (
                Table::Snmp,
                &["udp_rcvbuf_errors", "udp_mem_errors"],
                "no datagram found a socket's buffer full: RcvbufErrors and MemErrors stood still",
            ),
            Counter::UdpDatagrams => (Table::Snmp, &["udp_in_datagrams"], "no datagram arrived"),
            Counter::InterruptsByCpu => (Table::Interrupts, &[], ""),
            Counter::TrackedConnections => (Table::Conntrack, &[TRACKED], "no connection was tracked"),
            Counter::HugePageFaults => (
                Table::Vmstat(&["thp_fault_alloc", "thp_fault_fallback", "thp_collapse_alloc", "compact_stall"]),
                &["thp_fault_alloc", "thp_fault_fallback", "thp_collapse_alloc"],
                "nobody was given a huge page, or refused one, while it was measured",
            ),
            Counter::HugePagesInUse => (Table::HugePagePool, &[HUGE_PAGES], "nobody used a huge page of the pool"),
            Counter::Compaction => {
                (Table::Vmstat(COMPACTION), COMPACTION, "no memory was compacted while it was measured")
            }
            Counter::Reclaim => {
                (Table::Vmstat(RECLAIM), RECLAIM, "memory was never short: no page was looked at for reclaim")
            }
            Counter::NumaHinting => (
                Table::Vmstat(&["numa_pte_updates", "numa_hint_faults", "numa_pages_migrated"]),
                &["numa_pte_updates"],
                "no page was looked at to move it nearer",
            ),
            Counter::WrittenPages => {
                (Table::Vmstat(&["nr_dirtied", "nr_written"]), &["nr_written"], "no page was written to a disk")
            }
            Counter::DiskRequests => (Table::Disks, &[DISK_REQUESTS], "the disk was not asked for anything"),
            Counter::Frequency => (Table::Frequency, &[], ""),
        };
        Sign { table, moved, stood_still }
    }

    /// The names of this counter's values in windows that read all of `counted`.
    pub(crate) fn names<'c>(&self, counted: impl Iterator<Item = &'c String>) -> Vec<String> {
        let fixed: Vec<&str> = match self.table {
            Table::Conditions => Vec::new(),
            Table::Netstat => vec![BUSY_POLLED],
            Table::Softnet => SOFTNET_COLUMNS.iter().map(|(_, name)| *name).collect(),
            Table::Snmp => SNMP_FIELDS.iter().map(|(name, _)| *name).collect(),
            Table::Disks => vec![DISK_REQUESTS],
            Table::Vmstat(names) => names.to_vec(),
            Table::HugePagePool => vec![HUGE_PAGES],
            Table::Conntrack => vec![TRACKED],
            Table::Frequency => vec![FREQUENCY],
            Table::Interrupts => {
                let of_cpus: BTreeSet<&String> = counted.filter(|name| name.starts_with(INTERRUPTS_OF)).collect();
                return of_cpus.into_iter().cloned().collect();
            }
        };
        fixed.into_iter().map(str::to_owned).collect()
    }
}

/// The change of each value between two readings of one machine.
pub(crate) fn between(start: &BTreeMap<String, Value>, end: &BTreeMap<String, Value>) -> BTreeMap<String, f64> {
    let passed = |(name, end): (&String, &Value)| match (start.get(name), end) {
        (Some(Value::Count(start)), Value::Count(end)) => Some((name.clone(), end.saturating_sub(*start) as f64)),
        (_, Value::Level(level)) => Some((name.clone(), *level)),
        _ => None,
    };
    end.iter().filter_map(passed).collect()
}

fn under(text: &str, group: &str, name: &str) -> Option<u64> {
    proc::under_name(text, Some(group), name)?.parse().ok()
}

/// How often each CPU got the interrupts with these numbers.
fn interrupts_by_cpu(text: &str, irqs: &[String]) -> BTreeMap<usize, u64> {
    let table = proc::parse_per_cpu(text);
    let mut sums: BTreeMap<usize, u64> = table.cpus.iter().map(|cpu| (*cpu, 0)).collect();
    for row in table.rows().filter(|row| irqs.iter().any(|wanted| wanted == row.label)) {
        for (cpu, count) in table.cpus.iter().zip(row.counts()) {
            sums.entry(*cpu).and_modify(|sum| *sum = sum.saturating_add(count));
        }
    }
    sums
}

/// The number of reads and writes that the disks with these names completed.
fn disk_requests(text: &str, disks: &[String]) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(8).collect();
        let [_, _, name, reads, _, _, _, writes] = words[..] else { continue };
        if disks.iter().any(|disk| disk == name) {
            let both = reads.parse::<u64>().ok()?.saturating_add(writes.parse().ok()?);
            sum = Some(sum.unwrap_or(0_u64).saturating_add(both));
        }
    }
    sum
}

fn mean_frequency_khz(root: &Root) -> Option<f64> {
    let policies = root.entries(POLICIES).ok()?;
    let of =
        |policy: &String| root.text(&format!("{POLICIES}/{policy}/scaling_cur_freq")).ok()?.trim().parse::<f64>().ok();
    let all: Vec<f64> = policies.iter().filter_map(of).filter(|khz| khz.is_finite()).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read_by_name() {
        let snmp = "Ip: a b\nIp: 1 2\nUdp: InDatagrams RcvbufErrors\nUdp: 10 x\n";
        assert_eq!((under(snmp, "Udp", "InDatagrams"), under(snmp, "Udp", "RcvbufErrors")), (Some(10), None));
        let interrupts =
            "           CPU0       CPU2\n 34:  615  7  PCI 1-edge  virtio4-input\n 36:  1 2 x\nNMI: 0 0 Non\n";
        assert_eq!(interrupts_by_cpu(interrupts, &["34".into(), "36".into()]), [(0, 616), (2, 9)].into());
        assert_eq!(interrupts_by_cpu("", &["34".into()]), [].into());
        let disks = "7 0 loop0 1 0 0 0 1 0\n254 0 vda 100 0 8 9 50 0 0\n";
        assert_eq!(disk_requests(disks, &["vda".into()]), Some(150));
        assert_eq!(disk_requests(disks, &["sda".into()]), None);
    }

    #[test]
    fn counts_are_of_what_passed_and_levels_of_what_is() {
        let of = |count, level| {
            BTreeMap::from([("c".to_owned(), Value::Count(count)), ("l".to_owned(), Value::Level(level))])
        };
        let passed = between(&of(10, 1.0), &of(25, 3.0));
        assert_eq!(passed, BTreeMap::from([("c".to_owned(), 15.0), ("l".to_owned(), 3.0)]));
        assert_eq!(between(&of(10, 1.0), &of(4, 3.0))["c"], 0.0, "a counter that was reset");
        assert_eq!(between(&BTreeMap::new(), &of(4, 3.0)).get("c"), None);
    }
}
