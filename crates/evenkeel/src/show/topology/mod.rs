//! Draws the machine: sockets, memory nodes, cores with their threads, caches, and the CPUs that serve the network.
//! The text and the SVG use the same model.

mod lines;
mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::Facts;
use evenkeel_host::facts::{Cache, Cpu, Irq, Nic};
use evenkeel_sys::CpuSet;

use crate::show::units::bytes;

pub(crate) use svg::draw as svg;
pub(crate) use text::draw as text;

/// The elements of the drawing.
struct Topology<'a> {
    /// Hypervisor, instance type and processor, if known.
    title: String,
    /// The caches that belong to one core each, such as `L1d 32 KiB, L2 1 MiB`.
    core_caches: String,
    regions: Vec<Region>,
    nics: Vec<NicView<'a>>,
}

/// The part of a memory node that is in one socket. On most machines, that is the whole node.
struct Region {
    /// A name such as `socket 0, node 0 (30 GiB)`.
    name: String,
    domains: Vec<Domain>,
}

/// Cores that share a cache.
struct Domain {
    /// The cache, such as `L3 25 MiB`. Empty if the cores share no cache, or if the cache is unknown.
    cache: String,
    cores: Vec<Core>,
}

/// A core.
struct Core {
    /// The threads of the core by CPU number. The first is thread A, and the second is thread B.
    threads: Vec<Thread>,
}

/// A CPU.
struct Thread {
    cpu: usize,
    is_online: bool,
    /// The network interrupts that the CPU serves.
    irqs: Vec<u32>,
}

struct NicView<'a> {
    nic: &'a Nic,
    irqs: Vec<Served<'a>>,
}

/// A network interrupt.
struct Served<'a> {
    irq: &'a Irq,
    by: By<'a>,
}

/// The CPU that serves an interrupt.
enum By<'a> {
    Cpu(usize),
    /// One of these CPUs. The kernel does not report which CPU.
    AnyOf(&'a CpuSet),
    Unknown,
}

impl<'a> Topology<'a> {
    fn from_facts(facts: &'a Facts) -> Topology<'a> {
        let nics: Vec<NicView<'a>> = facts.network.hardware().map(NicView::from_nic).collect();
        let mut irqs: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for served in nics.iter().flat_map(|nic| &nic.irqs) {
            if let By::Cpu(cpu) = served.by {
                irqs.entry(cpu).or_default().push(served.irq.number);
            }
        }
        Topology { title: title(facts), core_caches: core_caches(facts), regions: regions(facts, &irqs), nics }
    }
}

impl<'a> NicView<'a> {
    fn from_nic(nic: &'a Nic) -> NicView<'a> {
        let by = |irq: &'a Irq| match (irq.effective.known(), irq.affinity.known()) {
            (Some(cpus), _) if cpus.len() == 1 => By::Cpu(cpus.first().unwrap_or_default()),
            // Kernels before 4.15 report only the requested CPUs.
            // If only one CPU is requested, it serves the interrupt.
            (_, Some(cpus)) if cpus.len() == 1 => By::Cpu(cpus.first().unwrap_or_default()),
            (Some(cpus), _) | (None, Some(cpus)) if !cpus.is_empty() => By::AnyOf(cpus),
            _ => By::Unknown,
        };
        NicView { nic, irqs: nic.irqs.iter().map(|irq| Served { irq, by: by(irq) }).collect() }
    }

    /// A title such as `ens5: ena, up, queues: 2 receive, 2 transmit, node 0`.
    fn title(&self) -> String {
        let nic = self.nic;
        let known = |fact: &evenkeel_host::Fact<String>| fact.known().cloned().unwrap_or_else(|| "?".to_owned());
        let queues = match nic.queues.known() {
            Some(queues) => format!("queues: {} receive, {} transmit", queues.rx, queues.tx),
            None => "queues: not known".to_owned(),
        };
        let node = nic.numa_node.known().filter(|node| **node >= 0).map(|node| format!(", node {node}"));
        format!("{}: {}, {}, {queues}{}", nic.name, known(&nic.driver), known(&nic.state), node.unwrap_or_default())
    }

    /// Receive queues whose packets the kernel forwards to other CPUs, such as `rx-0 to CPUs 2-3`.
    fn steered(&self) -> Vec<String> {
        let queues = self.nic.rx_queues.iter().filter_map(|queue| {
            let cpus = queue.steering_cpus.known().filter(|cpus| !cpus.is_empty())?;
            Some(format!("rx-{} to CPUs {cpus}", queue.index))
        });
        queues.collect()
    }
}

fn title(facts: &Facts) -> String {
    let word = |value: Option<String>| value.unwrap_or_default();
    let parts = [
        word(facts.machine.instance_type.known().cloned()),
        word(facts.cpus.model.known().cloned()),
        word(facts.cpus.online.known().map(|online| match online.len() {
            1 => "1 CPU".to_owned(),
            count => format!("{count} CPUs"),
        })),
        word(facts.memory.total_bytes.known().map(|size| bytes(*size))),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The cores by socket and memory node. In each region, cores that share their largest common cache form one domain.
fn regions(facts: &Facts, irqs: &BTreeMap<usize, Vec<u32>>) -> Vec<Region> {
    type Key = (Option<i32>, Option<u32>);
    let mut regions: BTreeMap<Key, BTreeMap<(usize, String), Vec<Core>>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for cpu in &facts.cpus.cpus {
        if seen.contains(&cpu.cpu) {
            continue;
        }
        let alone = || CpuSet::from_iter([cpu.cpu]);
        let siblings = cpu.siblings.known().cloned().filter(|set| set.contains(cpu.cpu)).unwrap_or_else(alone);
        let threads = siblings.iter().filter(|sibling| seen.insert(*sibling)).map(|sibling| Thread {
            cpu: sibling,
            is_online: facts.cpus.online.known().is_none_or(|online| online.contains(sibling)),
            irqs: irqs.get(&sibling).cloned().unwrap_or_default(),
        });
        let core = Core { threads: threads.collect() };
        let shared = shared_cache(cpu, &siblings);
        let first = shared.and_then(|cache| cache.shared_by.known()?.first()).unwrap_or(usize::MAX);
        let domain = (first, shared.map(cache_name).unwrap_or_default());
        let key = (cpu.package.known().copied(), node_of(facts, cpu.cpu));
        regions.entry(key).or_default().entry(domain).or_default().push(core);
    }
    let domains = |domains: BTreeMap<(usize, String), Vec<Core>>| {
        domains.into_iter().map(|((_, cache), cores)| Domain { cache, cores }).collect()
    };
    regions.into_iter().map(|(key, of)| Region { name: region_name(facts, key), domains: domains(of) }).collect()
}

fn region_name(facts: &Facts, (package, node): (Option<i32>, Option<u32>)) -> String {
    let socket = package.map_or_else(|| "socket unknown".to_owned(), |package| format!("socket {package}"));
    let Some(node) = node else { return socket };
    let nodes = facts.numa.nodes.known().map(Vec::as_slice).unwrap_or_default();
    let memory = nodes.iter().find(|found| found.node == node).and_then(|node| node.memory_bytes.known());
    format!("{socket}, node {node}{}", memory.map(|size| format!(" with {}", bytes(*size))).unwrap_or_default())
}

fn node_of(facts: &Facts, cpu: usize) -> Option<u32> {
    let holds = |cpus: &CpuSet| cpus.contains(cpu);
    facts.numa.nodes.known()?.iter().find(|node| node.cpus.known().is_some_and(holds)).map(|node| node.node)
}

/// The largest cache that a CPU shares with other cores.
fn shared_cache<'a>(cpu: &'a Cpu, siblings: &CpuSet) -> Option<&'a Cache> {
    let is_shared = |cache: &&Cache| cache.shared_by.known().is_some_and(|by| by.len() > siblings.len());
    cpu.caches.iter().filter(is_shared).max_by_key(|cache| cache.level.known().copied())
}

fn cache_name(cache: &Cache) -> String {
    let kind = match cache.kind.known().map(String::as_str) {
        Some("Data") => "d",
        Some("Instruction") => "i",
        _ => "",
    };
    let level = cache.level.known().map_or_else(|| "?".to_owned(), u32::to_string);
    let size = cache.size_bytes.known().map_or_else(|| "of unknown size".to_owned(), |size| bytes(*size));
    format!("L{level}{kind} {size}")
}

/// The caches of the first CPU's core. On a cloud machine, all cores have the same caches.
fn core_caches(facts: &Facts) -> String {
    let Some(cpu) = facts.cpus.cpus.first() else { return String::new() };
    let siblings = cpu.siblings.known().map_or(1, CpuSet::len);
    let is_own = |cache: &&Cache| cache.shared_by.known().is_none_or(|by| by.len() <= siblings);
    cpu.caches.iter().filter(is_own).map(cache_name).collect::<Vec<_>>().join(", ")
}

/// `A` for the first thread of a core, `B` for the second.
fn letter(thread: usize) -> char {
    char::from(b'A'.saturating_add(u8::try_from(thread).unwrap_or(u8::MAX)).min(b'Z'))
}
