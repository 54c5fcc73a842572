//! Memory nodes, their CPUs, and how far they are from each other.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::memory::parse_mem_total;
use crate::fact::Fact;
use crate::probe::Probe;

/// The memory nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Numa {
    /// Each online node, ascending. Absent if the kernel is built without NUMA.
    pub nodes: Fact<Vec<Node>>,
    /// How the kernel brings threads and their memory together. Empty if the kernel does not do this.
    pub balancing: Fact<Vec<Balancing>>,
    /// How a full node reclaims memory before the kernel uses another node's. Empty if it does not.
    pub zone_reclaim: Fact<Vec<Reclaim>>,
}

/// A bit of `kernel.numa_balancing`, which is a set of bits since Linux 6.1 and was 0 or 1 before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Balancing {
    /// Threads and pages are moved to each other (1).
    Nodes,
    /// Pages that are used move from slow memory to fast (2).
    Tiers,
}

/// A bit of `vm.zone_reclaim_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reclaim {
    /// Clean pages of the node are dropped (1).
    Clean,
    /// Dirty pages of the node are written out (2).
    Write,
    /// Mapped pages of the node are swapped out (4).
    Swap,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Its number.
    pub node: u32,
    /// Its local CPUs.
    pub cpus: Fact<CpuSet>,
    /// The distance to each node in order, by the firmware's table. 10 means the node itself.
    pub distances: Fact<Vec<u32>>,
    /// Its memory, in bytes.
    pub memory_bytes: Fact<u64>,
}

impl Numa {
    pub(super) fn probe(probe: Probe<'_>) -> Numa {
        // Lists of nodes have the same form and limits as lists of CPUs.
        let online = probe.cpu_list("/sys/devices/system/node/online");
        let (ways, levels) = ([Balancing::Nodes, Balancing::Tiers], [Reclaim::Clean, Reclaim::Write, Reclaim::Swap]);
        Numa {
            nodes: online.map(|nodes| nodes.iter().map(|node| probe_node(probe, node)).collect()),
            balancing: probe
                .parse("/proc/sys/kernel/numa_balancing", "bits from 0 to 3", |text| parse_bits(text, &ways)),
            zone_reclaim: probe
                .parse("/proc/sys/vm/zone_reclaim_mode", "bits from 0 to 7", |text| parse_bits(text, &levels)),
        }
    }
}

fn probe_node(probe: Probe<'_>, node: usize) -> Node {
    let dir = format!("/sys/devices/system/node/node{node}");
    Node {
        node: u32::try_from(node).unwrap_or(u32::MAX),
        cpus: probe.cpu_list(&format!("{dir}/cpulist")),
        distances: probe.parse(&format!("{dir}/distance"), "a distance to each node", parse_distances),
        memory_bytes: probe.parse(&format!("{dir}/meminfo"), "a MemTotal in kB", parse_mem_total),
    }
}

/// The meanings of the set bits. An unknown bit makes the whole value invalid.
fn parse_bits<T: Copy>(text: &str, meanings: &[T]) -> Option<Vec<T>> {
    let bits: u32 = text.parse().ok()?;
    let is_set = |at: &usize| bits >> at & 1 == 1;
    let known = bits >> meanings.len() == 0;
    known.then(|| (0..meanings.len()).filter(is_set).map(|at| meanings[at]).collect())
}

fn parse_distances(text: &str) -> Option<Vec<u32>> {
    let distances: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    distances.filter(|distances| !distances.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_meanings_or_are_odd() {
        let of = |text| parse_bits(text, &["a", "b", "c"]).map(|found| found.concat());
        let table =
            [("0", Some("")), ("1", Some("a")), ("6", Some("bc")), ("7", Some("abc")), ("8", None), ("-1", None)];
        for (text, expected) in table {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn distances_are_numbers_and_nothing_else() {
        let table: [(&str, Option<&[u32]>); 6] = [
            ("10", Some(&[10])),
            ("10 20\n", Some(&[10, 20])),
            ("21 10 ", Some(&[21, 10])),
            ("", None),
            ("10 -1", None),
            ("10 far", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_distances(text).as_deref(), expected, "{text:?}");
        }
    }
}
