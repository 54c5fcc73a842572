//! The counters of the host at one moment.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{CpuTicks, DiskCounts, InterfaceCounts, RunQueueCounts};
use evenkeel_sys::stall::Stalls;
use serde::{Deserialize, Serialize};

use super::counted::Counted;

/// The counters of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// CPU times and sums from /proc/stat.
    pub stat: Counted<StatSample>,
    /// The run queue of each CPU, from /proc/schedstat.
    pub run_queues: Counted<BTreeMap<usize, RunQueueCounts>>,
    /// The time in which tasks waited for resources.
    pub pressure: PressureSample,
    /// Control groups with a limit on CPU time.
    pub groups: Counted<GroupsSample>,
    /// The frequency of each CPU in kHz.
    pub frequency_khz: Counted<BTreeMap<usize, u64>>,
    /// The idle states of each CPU, by the state's name.
    pub idle: Counted<BTreeMap<usize, BTreeMap<String, IdleSample>>>,
    /// Interrupts.
    pub interrupts: Counted<InterruptsSample>,
    /// The packets that each CPU took from its queues.
    pub softnet: Counted<BTreeMap<usize, SoftnetSample>>,
    /// Counts of UDP, over IPv4 and IPv6 together.
    pub udp: Counted<UdpSample>,
    /// Network interfaces by name.
    pub interfaces: Counted<BTreeMap<String, InterfaceSample>>,
    /// The number of further interfaces that are not listed because of the limit.
    #[serde(default)]
    pub interfaces_beyond: usize,
    /// The use of memory.
    pub memory: Counted<MemorySample>,
    /// Page faults and swapping.
    pub paging: Counted<PagingSample>,
    /// Disks by name.
    pub disks: Counted<BTreeMap<String, DiskCounts>>,
    /// The number of further disks that are not listed because of the limit.
    #[serde(default)]
    pub disks_beyond: usize,
    /// The clock source in use.
    pub clock_source: Counted<String>,
}

/// The contents of /proc/stat. A number is None if its line is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatSample {
    /// The times of each online CPU.
    pub cpus: BTreeMap<usize, CpuTicks>,
    /// Switches between threads.
    pub context_switches: Option<u64>,
    /// Interrupts of all kinds.
    pub interrupts: Option<u64>,
    /// Created processes and threads.
    pub forks: Option<u64>,
}

/// The time in which tasks waited for each resource, since boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PressureSample {
    pub cpu: Counted<Stalls>,
    pub memory: Counted<Stalls>,
    pub io: Counted<Stalls>,
}

/// Control groups with a limit on CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupsSample {
    /// The groups with a limit, by their path below the mount. Only groups with a limit can be throttled.
    pub limited: BTreeMap<String, GroupSample>,
    /// The number of groups that were examined.
    pub examined: usize,
    /// Whether the limits left out some groups: groups that were not examined, or groups with a limit that are not listed.
    pub is_cut: bool,
}

impl GroupsSample {
    /// Whether the group `own` is the group `above`, or below it. The limit of a group applies to all groups below it.
    pub fn is_in(own: &str, above: &str) -> bool {
        own.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A control group with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupSample {
    /// The number of CPUs that the limit allows.
    pub limit_cpus: f64,
    /// The number of the limit's periods in which the group ran.
    pub periods: Option<u64>,
    /// The number of periods in which the group was throttled.
    pub throttled_periods: Option<u64>,
    /// How long the group was throttled, in microseconds, summed over CPUs.
    pub throttled_us: Option<u64>,
}

/// An idle state of a CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleSample {
    /// The time in this state, in microseconds.
    pub time_us: u64,
    /// How often the CPU entered this state.
    pub entries: u64,
}

/// Interrupts since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptsSample {
    /// All interrupts, by CPU.
    pub by_cpu: BTreeMap<usize, u64>,
    /// The interrupts of each source on all CPUs together. A source is a number or letters with the name of the device (`38 eth0-Tx-Rx-0`).
    /// Sources without interrupts are left out.
    pub by_source: BTreeMap<String, u64>,
    /// The number of further sources beyond the maximum.
    pub sources_beyond: usize,
}

/// The packets that a CPU took from its queues since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetSample {
    /// Packets that the CPU processed.
    pub processed: u64,
    /// Packets that were dropped because the CPU's backlog was full.
    pub dropped: u64,
    /// How often the CPU stopped although packets were left in its queue.
    pub squeezed: u64,
}

/// Counts of UDP datagrams since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpSample {
    /// Datagrams that were delivered.
    pub in_datagrams: Option<u64>,
    /// Datagrams that were sent.
    pub out_datagrams: Option<u64>,
    /// Datagrams that were not delivered, including datagrams for a full buffer, but without datagrams that had no listener.
    pub in_errors: u64,
    /// Datagrams that were dropped because a socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Datagrams that were not sent because no buffer was free.
    pub send_buffer_errors: u64,
    /// Datagrams for a port without a listener.
    pub no_ports: u64,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "those of InterfaceCounts")]
pub struct InterfaceSample {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_drops: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_drops: u64,
    /// Packets that the cloud dropped or delayed because the instance exceeded an allowance. The keys are the driver's names (ENA).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allowances: BTreeMap<String, u64>,
}

impl From<InterfaceCounts> for InterfaceSample {
    fn from(counts: InterfaceCounts) -> InterfaceSample {
        let InterfaceCounts { rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops } = counts;
        let allowances = BTreeMap::new();
        InterfaceSample { rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops, allowances }
    }
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct MemorySample {
    pub total_bytes: Option<u64>,
    pub available_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
}

/// Page faults and swapping since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagingSample {
    /// Page faults that waited for a disk or for swap.
    pub major_faults: Option<u64>,
    /// The number of pages that were read from swap.
    pub swap_ins: Option<u64>,
    /// The number of pages that were written to swap.
    pub swap_outs: Option<u64>,
    /// The number of processes that the OOM killer ended.
    pub oom_kills: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_in_those_above_it() {
        let table = [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("", "", true),
            ("/a", "", true),
        ];
        for (own, above, expected) in table {
            assert_eq!(GroupsSample::is_in(own, above), expected, "{own} {above}");
        }
    }
}
