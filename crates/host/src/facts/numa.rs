//! Memory nodes, their CPUs, and how far they are from each other.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::memory::parse_mem_total;
use crate::fact::Fact;
use crate::probe::Probe;

/// The memory nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Numa {
    /// Each online node, ascending; absent where the kernel is built without NUMA.
    pub nodes: Fact<Vec<Node>>,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Its number.
    pub node: u32,
    /// The CPUs that are nearest to it.
    pub cpus: Fact<CpuSet>,
    /// The distance to each node in order, by the firmware's table; 10 is itself.
    pub distances: Fact<Vec<u32>>,
    /// Its memory, in bytes.
    pub memory_bytes: Fact<u64>,
}

impl Numa {
    pub(super) fn probe(probe: Probe<'_>) -> Numa {
        // Node lists are spelled as lists of CPUs are, and are as bounded.
        let online = probe.cpu_list("/sys/devices/system/node/online");
        Numa { nodes: online.map(|nodes| nodes.iter().map(|node| probe_node(probe, node)).collect()) }
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

fn parse_distances(text: &str) -> Option<Vec<u32>> {
    let distances: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    distances.filter(|distances| !distances.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
