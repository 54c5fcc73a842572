//! Counters of the kernel and the drivers: lost packets and where they were lost, CPUs that served interrupts, remote memory.
//! Counters change by themselves, so two probes of one machine differ in them. A capture contains the values of one moment.
//! Each file is read once per probe, because a second reading would differ.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{field, parse_per_cpu, under_name};
use serde::{Deserialize, Serialize};

use super::network::Network;
use super::numa::Numa;
use crate::fact::Fact;
use crate::probe::Probe;

/// The maximum number of lines, columns or counters of one file. A machine with 4,096 CPUs has fewer.
const ITEMS_MAX: usize = 8192;

/// Counts since boot, or for UDP since the network namespace was created.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// How each CPU took packets from its queues.
    pub softnet: Fact<Vec<CpuSoftnet>>,
    /// UDP over IPv4.
    pub udp: Fact<UdpCounters>,
    /// UDP over IPv6.
    pub udp6: Fact<UdpCounters>,
    /// Memory of all UDP sockets. Unlike the other fields, this is a current value.
    pub udp_memory: Fact<UdpMemory>,
    /// How often each CPU served each interrupt of a network interface.
    pub irqs: Fact<Vec<IrqCounts>>,
    /// Where memory came from, by node.
    pub nodes: Fact<Vec<NodeCounters>>,
    /// The loss counters of each driver. Only interfaces with hardware are listed.
    pub nics: Vec<NicCounters>,
}

/// A line of /proc/net/softnet_stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSoftnet {
    /// The CPU. Kernels that do not print it list CPUs in order.
    pub cpu: usize,
    /// Packets that the CPU processed.
    pub processed: u64,
    /// Packets dropped because the CPU's backlog was full.
    pub dropped: u64,
    /// How often the CPU stopped with packets left, because its budget or its time was used up.
    pub time_squeeze: u64,
}

/// Packets that UDP lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpCounters {
    /// Packets that arrived but were not delivered, except packets for a port without a listener.
    /// Includes `rcvbuf_errors` and `mem_errors`.
    pub in_errors: u64,
    /// Datagrams for a port without a listener.
    pub no_ports: u64,
    /// Datagrams that were dropped because a socket buffer was full.
    pub rcvbuf_errors: u64,
    /// Datagrams that were not sent because no buffer was free.
    pub sndbuf_errors: u64,
    /// Datagrams that were dropped because all UDP sockets together held the maximum.
    /// Old kernels (before about 5.12) do not report this count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_errors: Option<u64>,
}

/// The UDP line of /proc/net/sockstat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpMemory {
    /// Sockets.
    pub sockets: u64,
    /// Pages in the buffers of all UDP sockets.
    pub pages: u64,
}

/// An interrupt with its count on each CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqCounts {
    /// Its number.
    pub number: u32,
    /// By CPU, without zeros.
    pub by_cpu: BTreeMap<usize, u64>,
}

/// `numastat` of a memory node, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounters {
    /// The node.
    pub node: u32,
    /// Memory wanted from this node and taken here.
    pub numa_hit: u64,
    /// Memory taken here, although another node was wanted.
    pub numa_miss: u64,
    /// Memory wanted here, but taken elsewhere.
    pub numa_foreign: u64,
    /// Memory taken here by an interleaving policy.
    pub interleave_hit: u64,
    /// Memory taken here by a process that ran here.
    pub local_node: u64,
    /// Memory taken here by a process that ran elsewhere.
    pub other_node: u64,
}

/// The counters of a driver.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NicCounters {
    /// The interface.
    pub name: String,
    /// The loss counters, by the driver's names.
    pub losses: Fact<BTreeMap<String, u64>>,
}

impl Counters {
    pub(super) fn probe(probe: Probe<'_>, numa: &Numa, network: &Network, interrupts: &Fact<String>) -> Counters {
        // Do not read /proc/net. It is a link to the reading process, which does not exist in a mounted root.
        let net = format!("{}/net", probe.process());
        let numbers = network.hardware().flat_map(|nic| nic.irqs.iter().map(|irq| irq.number));
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        let nics = network.hardware().map(|nic| NicCounters {
            losses: probe.parse(&format!("@ethtool/{}/stats", nic.name), "counters", parse_losses),
            name: nic.name.clone(),
        });
        Counters {
            softnet: probe.parse(&format!("{net}/softnet_stat"), "hexadecimal counts, one line per CPU", parse_softnet),
            udp: probe.parse(&format!("{net}/snmp"), "a line of names and one of numbers for Udp", parse_snmp),
            udp6: probe.parse(&format!("{net}/snmp6"), "one name and number per line", parse_snmp6),
            udp_memory: probe.parse(&format!("{net}/sockstat"), "sockets and pages of UDP", parse_sockstat),
            irqs: interrupts.clone().map(|text| irq_counts(&text, &numbers)),
            nodes: numa
                .nodes
                .clone()
                .map(|nodes| nodes.iter().filter_map(|node| probe_node(probe, node.node)).collect()),
            nics: nics.collect(),
        }
    }

    /// The number of packets that sockets lost in one way, over IPv4 and IPv6. `None` if the kernel does not report it.
    pub fn udp_sum(&self, of: impl Fn(&UdpCounters) -> Option<u64>) -> Option<u64> {
        // A kernel without IPv6 has lost no packets over IPv6.
        let over_6 = self.udp6.known().and_then(&of).unwrap_or_default();
        Some(of(self.udp.known()?)?.saturating_add(over_6))
    }

    /// A count of all CPUs together.
    pub fn softnet_sum(&self, of: impl Fn(&CpuSoftnet) -> u64) -> Option<u64> {
        Some(self.softnet.known()?.iter().map(of).fold(0, u64::saturating_add))
    }

    /// The counters of losses of one interface.
    pub fn losses_of(&self, interface: &str) -> Option<&Fact<BTreeMap<String, u64>>> {
        self.nics.iter().find(|nic| nic.name == interface).map(|nic| &nic.losses)
    }
}

/// The text `; NAME reads N since boot: …`, which is added to a reason.
/// `none` explains a count of 0, and `some` explains any other count. Empty if the counter is unknown.
/// A count describes the past, so it never changes advice.
pub(crate) fn reads(name: &str, count: Option<u64>, none: &str, some: &str) -> String {
    match count {
        None => String::new(),
        Some(0) => format!("; {name} reads 0 since boot: {none}"),
        Some(count) => format!("; {name} reads {count} since boot: {some}"),
    }
}

/// /proc/net/softnet_stat.
pub fn parse_softnet(text: &str) -> Option<Vec<CpuSoftnet>> {
    /// The column with the CPU's number, on kernels that have it (`softnet_seq_show` of `net/core/net-procfs.c`).
    const CPU_COLUMN: usize = 12;
    let line = |(at, line): (usize, &str)| {
        let columns: Option<Vec<u64>> =
            line.split_whitespace().take(64).map(|word| u64::from_str_radix(word, 16).ok()).collect();
        let columns = columns?;
        let cpu = columns.get(CPU_COLUMN).map_or(Some(at), |cpu| usize::try_from(*cpu).ok())?;
        let [processed, dropped, time_squeeze] = *columns.first_chunk::<3>()?;
        Some(CpuSoftnet { cpu, processed, dropped, time_squeeze })
    };
    text.lines().take(ITEMS_MAX).enumerate().map(line).collect()
}

/// `Udp: InDatagrams NoPorts …`, and on the next line `Udp: 305758 126 …`.
pub fn parse_snmp(text: &str) -> Option<UdpCounters> {
    let number = |name: &str| under_name(text, Some("Udp"), name)?.parse().ok();
    udp_counters(number)
}

/// `Udp6InErrors 0`, with spaces and a tab between.
pub fn parse_snmp6(text: &str) -> Option<UdpCounters> {
    udp_counters(|name| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
        let (_, number) = pairs.find(|(key, _)| key.strip_prefix("Udp6") == Some(name))?;
        number.trim().parse().ok()
    })
}

fn udp_counters(number: impl Fn(&str) -> Option<u64>) -> Option<UdpCounters> {
    Some(UdpCounters {
        in_errors: number("InErrors")?,
        no_ports: number("NoPorts")?,
        rcvbuf_errors: number("RcvbufErrors")?,
        sndbuf_errors: number("SndbufErrors")?,
        mem_errors: number("MemErrors"),
    })
}

/// `UDP: inuse 2 mem 5`.
fn parse_sockstat(text: &str) -> Option<UdpMemory> {
    let line = field(text, "UDP", ':')?;
    let number = |name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse().ok()
    };
    Some(UdpMemory { sockets: number("inuse")?, pages: number("mem")? })
}

/// The counts of the interrupts with these numbers, ascending.
fn irq_counts(text: &str, numbers: &[u32]) -> Vec<IrqCounts> {
    let table = parse_per_cpu(text);
    let counts = table.rows().filter_map(|row| {
        let number = row.label.parse().ok().filter(|number| numbers.binary_search(number).is_ok())?;
        let by_cpu = table.cpus.iter().copied().zip(row.counts()).filter(|(_, count)| *count > 0).collect();
        Some(IrqCounts { number, by_cpu })
    });
    counts.collect()
}

fn probe_node(probe: Probe<'_>, node: u32) -> Option<NodeCounters> {
    let path = format!("/sys/devices/system/node/node{node}/numastat");
    let counters = probe.parse(&path, "one name and count of pages per line", |text| parse_numastat(node, text));
    counters.known().copied()
}

fn parse_numastat(node: u32, text: &str) -> Option<NodeCounters> {
    let number = |name: &str| field(text, name, ' ')?.parse().ok();
    Some(NodeCounters {
        node,
        numa_hit: number("numa_hit")?,
        numa_miss: number("numa_miss")?,
        numa_foreign: number("numa_foreign")?,
        interleave_hit: number("interleave_hit")?,
        local_node: number("local_node")?,
        other_node: number("other_node")?,
    })
}

/// `NAME=COUNT` per line. A driver may have no counter of losses.
pub fn parse_losses(text: &str) -> Option<BTreeMap<String, u64>> {
    let pair = |line: &str| {
        let (name, count) = line.split_once('=')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    text.lines().take(ITEMS_MAX).map(pair).collect()
}

/// A machine with this value in every counter, for the tests of knobs.
#[cfg(test)]
pub(crate) fn all_counted(count: u64) -> impl Fn(&mut super::Facts) {
    let udp = UdpCounters {
        in_errors: count,
        no_ports: count,
        rcvbuf_errors: count,
        sndbuf_errors: count,
        mem_errors: Some(count),
    };
    let softnet = CpuSoftnet { cpu: 0, processed: 1, dropped: count, time_squeeze: count };
    move |facts| {
        facts.counters.udp = Fact::Known(udp);
        facts.counters.softnet = Fact::Known(vec![softnet]);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::facts::Facts;

    const CAPTURE: &str = "evenkeel-capture 1
/proc/self/cgroup = 0::/
/proc/self/net/softnet_stat =
| 00026d8d 00000002 000000ff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
| 0002aa2a 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000003
/proc/self/net/snmp =
| Ip: Forwarding DefaultTTL
| Ip: 1 64
| Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
| Udp: 305758 126 9 306148 7 1 0 0 2
| UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
| UdpLite: 1 1 1 1 1 1 1 1 1
/proc/self/net/snmp6 =
| Ip6InReceives                   \t1
| Udp6NoPorts                     \t0
| Udp6InErrors                    \t3
| Udp6RcvbufErrors                \t3
| Udp6SndbufErrors                \t0
/proc/self/net/sockstat =
| sockets: used 19
| UDP: inuse 2 mem 5
| UDPLITE: inuse 0
/proc/interrupts =
|            CPU0       CPU3
|  24:          9          0  IO-APIC   5-edge      ACPI:Ged
|  38:          0       4380  PCI-MSIX-0000:00:05.0   1-edge      ens5-Tx-Rx-0
| NMI:          0          0  Non-maskable interrupts
/sys/class/net/ens5 -> ../../devices/pci0000:00/0000:00:05.0/net/ens5
/sys/class/net/ens5/mtu = 9001
@ethtool/ens5/stats =
| bw_in_allowance_exceeded=0
| pps_allowance_exceeded=12
/sys/devices/system/node/online = 0
/sys/devices/system/node/node0/numastat =
| numa_hit 46861524
| numa_miss 1
| numa_foreign 2
| interleave_hit 1127
| local_node 46861520
| other_node 4
end
";

    #[test]
    fn counts_are_read_from_a_capture() {
        let facts = Facts::probe(&Root::captured(Capture::parse(CAPTURE).unwrap()));
        let counters = &facts.counters;
        expect![[r#"{"softnet":[{"cpu":0,"processed":159117,"dropped":2,"time_squeeze":255},{"cpu":3,"processed":174634,"dropped":0,"time_squeeze":1}],"udp":{"in_errors":9,"no_ports":126,"rcvbuf_errors":7,"sndbuf_errors":1,"mem_errors":2},"udp6":{"in_errors":3,"no_ports":0,"rcvbuf_errors":3,"sndbuf_errors":0},"udp_memory":{"sockets":2,"pages":5},"irqs":[{"number":38,"by_cpu":{"3":4380}}],"nodes":[{"node":0,"numa_hit":46861524,"numa_miss":1,"numa_foreign":2,"interleave_hit":1127,"local_node":46861520,"other_node":4}],"nics":[{"name":"ens5","losses":{"bw_in_allowance_exceeded":0,"pps_allowance_exceeded":12}}]}"#]]
        .assert_eq(&serde_json::to_string(counters).unwrap());
        assert_eq!(counters.udp_sum(|udp| Some(udp.rcvbuf_errors)), Some(10));
        assert_eq!(counters.udp_sum(|udp| udp.mem_errors), Some(2));
        assert_eq!(counters.softnet_sum(|cpu| cpu.time_squeeze), Some(256));
        let json = serde_json::to_value(&facts).unwrap();
        assert!(json.get("counters").is_none(), "counters move, so that no answer has them unasked");
    }

    #[test]
    fn old_kernels_tell_less() {
        let softnet = parse_softnet("0000000a 00000000 00000001 0 0 0 0 0 0 0 0\n00000001 0 0").unwrap();
        assert_eq!(softnet.iter().map(|line| (line.cpu, line.processed)).collect::<Vec<_>>(), [(0, 10), (1, 1)]);
        let udp = parse_snmp("Udp: NoPorts InErrors RcvbufErrors SndbufErrors\nUdp: 1 2 3 4\n").unwrap();
        assert_eq!(
            udp,
            UdpCounters { in_errors: 2, no_ports: 1, rcvbuf_errors: 3, sndbuf_errors: 4, mem_errors: None }
        );
        for text in ["", "1 2", "x 1 2", "0 0 0 0 0 0 0 0 0 0 0 0 fffffffffffffffff"] {
            assert!(text.is_empty() || parse_softnet(text).is_none(), "{text}");
        }
        assert_eq!(parse_snmp("Udp: NoPorts\n"), None);
        assert_eq!(parse_sockstat("UDP: inuse 2\n"), None);
        assert_eq!(parse_numastat(0, "numa_hit 1\n"), None);
        assert_eq!(parse_losses("rx_drops=0\nrubbish"), None);
        assert_eq!(parse_losses(""), Some(BTreeMap::new()));
    }

    #[test]
    fn counters_are_shown_with_their_meaning() {
        assert_eq!(reads("MemErrors", None, "a", "b"), "");
        assert_eq!(
            reads("MemErrors", Some(0), "none was lost so", "b"),
            "; MemErrors reads 0 since boot: none was lost so"
        );
        assert_eq!(
            reads("MemErrors", Some(3), "a", "this many were"),
            "; MemErrors reads 3 since boot: this many were"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(
            text in "((Udp:|UDP:|Udp6InErrors|CPU[0-9]{1,22}|numa_hit|24:|inuse|mem|a=|[0-9a-f]{1,18})[ \t\n]{0,2}){0,12}|.{0,30}"
        ) {
            let _ = (parse_softnet(&text), parse_snmp(&text), parse_snmp6(&text), parse_sockstat(&text));
            let _ = (irq_counts(&text, &[24]), parse_numastat(0, &text), parse_losses(&text));
        }
    }
}
