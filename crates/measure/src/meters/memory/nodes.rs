//! Latency between NUMA nodes: a CPU of one node uses the memory of another node, for every pair.

use evenkeel_hostfs::Root;
use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::latency;
use crate::pinned;
use crate::{Lost, MeterError, Samples, Unit, Watch};

/// The maximum number of pairs to measure. A machine with 16 nodes has 256 pairs.
const PAIRS_MAX: usize = 256;

/// One pair.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The node of the CPU.
    pub cpu_node: usize,
    /// The node of the memory.
    pub memory_node: usize,
    /// The distance of the two nodes by the firmware, where 10 is the node itself. None if the firmware reports no distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// The latency of a load, with small pages.
    pub latency: Samples,
}

/// The NUMA nodes of this machine.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nodes {
    /// How many nodes have memory. Missing if the kernel has no NUMA support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_memory: Option<usize>,
    /// The pairs. Empty on a machine with only one node.
    pub pairs: Vec<Pair>,
    /// Pairs that were not measured.
    pub lost: Lost,
}

/// A node that has memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    number: usize,
    cpus: CpuSet,
    distances: Vec<u32>,
}

pub(crate) fn measure(bytes: usize, for_ns: u64, root: &Root, watch: &Watch<'_>) -> Result<Nodes, MeterError> {
    let Some(nodes) = nodes(root) else { return Ok(Nodes::default()) };
    let mut seen = Nodes { with_memory: Some(nodes.len()), ..Nodes::default() };
    if nodes.len() < 2 {
        return Ok(seen);
    }
    let allowed: CpuSet = pinned::allowed()?.into_iter().collect();
    let (mut lost, mut why) = (0, String::new());
    for (at, (cpu_node, memory_node, cpu)) in pairs(&nodes, &allowed).enumerate() {
        watch.progress(at as f64 / (nodes.len() * nodes.len()) as f64, "NUMA nodes");
        let Some(cpu) = cpu.filter(|_| at < PAIRS_MAX && !watch.stopped()) else {
            (lost, why) = (lost + 1, "no CPU of the node that we may run on, or no time".to_owned());
            continue;
        };
        let conditions = [("cpu", cpu.to_string()), ("working_set_bytes", bytes.to_string())];
        let mut samples = Samples::new("load_latency_ps", Unit::Ps, conditions);
        let made = pinned::on_cpu(cpu, || {
            let mut ring = latency::ring_on_node(bytes, memory_node.number, root)?;
            latency::chase(&mut ring, for_ns, &mut samples, watch);
            Ok::<(), MeterError>(())
        });
        if let Err(error) = made.and_then(|made| made) {
            (lost, why) = (lost + 1, error.to_string());
            continue;
        }
        let distance = cpu_node.distances.get(memory_node.number).copied();
        seen.pairs.push(Pair {
            cpu_node: cpu_node.number,
            memory_node: memory_node.number,
            distance,
            latency: samples,
        });
    }
    seen.lost = Lost::new(lost, &why);
    Ok(seen)
}

/// Every pair of a CPU node and a memory node, with the CPU that measures. None if the process may use no CPU of the node.
fn pairs<'a>(nodes: &'a [Node], allowed: &'a CpuSet) -> impl Iterator<Item = (&'a Node, &'a Node, Option<usize>)> + 'a {
    nodes.iter().flat_map(move |cpu_node| {
        let cpu = cpu_node.cpus.and(allowed).first();
        nodes.iter().map(move |memory_node| (cpu_node, memory_node, cpu))
    })
}

/// The nodes with memory. None if the kernel was built without NUMA.
fn nodes(root: &Root) -> Option<Vec<Node>> {
    let folder = "/sys/devices/system/node";
    let text = |path: String| root.text(&path).ok();
    let numbers = text(format!("{folder}/has_memory")).or_else(|| text(format!("{folder}/online")))?;
    let node = |number: usize| {
        let cpus = CpuSet::parse_list(&text(format!("{folder}/node{number}/cpulist"))?)?;
        let distances = text(format!("{folder}/node{number}/distance")).unwrap_or_default();
        let distances = distances.split_ascii_whitespace().map_while(|distance| distance.parse().ok()).collect();
        Some(Node { number, cpus, distances })
    };
    Some(CpuSet::parse_list(&numbers)?.iter().filter_map(node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(host: &str) -> Root {
        let path = format!("{}/../../hosts/{host}.txt", env!("CARGO_MANIFEST_DIR"));
        Root::captured(evenkeel_hostfs::Capture::parse(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// `CPU's node, memory's node, CPU, distance` for every pair of the captured hosts. Some CPUs of these hosts are not allowed.
    #[test]
    fn pairs_of_captured_hosts() {
        let pairs_of = |host: &str, allowed: &str| -> Vec<String> {
            let (nodes, allowed) = (nodes(&captured(host)).unwrap(), CpuSet::parse_list(allowed).unwrap());
            let word = |(from, memory, cpu): (&Node, &Node, Option<usize>)| {
                let cpu = cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
                format!("{}-{} by {cpu} at {}", from.number, memory.number, from.distances[memory.number])
            };
            pairs(&nodes, &allowed).map(word).collect()
        };
        let bare = "qemu-as-bare-metal-2-nodes-6.1";
        assert_eq!(pairs_of(bare, "0-15"), ["0-0 by 0 at 10", "0-1 by 0 at 21", "1-0 by 8 at 21", "1-1 by 8 at 10"]);
        assert_eq!(pairs_of(bare, "3,5"), ["0-0 by 3 at 10", "0-1 by 3 at 21", "1-0 by - at 21", "1-1 by - at 10"]);
        let arm = pairs_of("qemu-arm64-2-nodes-6.12", "0-63");
        assert!(arm.len() == 4 && arm[0].starts_with("0-0 by 0 at 10"), "{arm:?}");
        assert_eq!(pairs_of("qemu-4-nodes-6.1", "0-63").len(), 16);
        assert_eq!(
            pairs_of("firecracker-2vcpu-6.18", "0-1").len(),
            1,
            "one node, which is not measured against itself"
        );
    }

    #[test]
    fn nodes_are_read_with_their_distances() {
        let nodes = nodes(&captured("qemu-4-nodes-6.1")).unwrap();
        assert_eq!(nodes.len(), 4, "{nodes:?}");
        assert!(nodes.iter().all(|node| node.distances.len() == 4 && node.distances[node.number] == 10), "{nodes:?}");
        assert!(nodes.iter().all(|node| !node.cpus.is_empty()), "{nodes:?}");
        let none = Root::from(std::collections::BTreeMap::new());
        assert_eq!(super::nodes(&none), None);
    }
}
