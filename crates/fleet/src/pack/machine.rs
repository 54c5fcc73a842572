//! A machine as a tree: nodes contain caches, caches contain cores, and cores contain CPUs.
//! Made from facts, or by hand in tests and simulations.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::facts::{Cache, Container, Cpu, CpuLimit, MemoryLimit};
use evenkeel_host::{CpuSet, Fact, Facts};

/// If many facts are unknown for one reason, the caveat names this many CPUs.
const NAMED_MAX: usize = 4;

/// The facts about a machine that a placement needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The CPUs that run, ascending.
    pub cpus: Vec<MachineCpu>,
    /// The nodes that have CPUs.
    pub nodes: Vec<MachineNode>,
    /// The last-level caches. If the caches of CPUs are unknown, the CPUs of a node share one cache of unknown size.
    pub caches: Vec<MachineCache>,
    /// The quota of the control group, in CPUs; none if there is no quota or it is not known.
    pub quota_cpus: Option<f64>,
    /// The memory limit of the control group, in bytes; none if there is no limit or it is not known.
    pub memory_limit_bytes: Option<u64>,
    /// The slice whose limits these are; none for the control group of evenkeel.
    pub slice: Option<String>,
    /// The unknown facts, each in a sentence.
    pub caveats: Vec<String>,
}

/// A CPU, and where it is in the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineCpu {
    /// The kernel's number of the CPU.
    pub cpu: usize,
    /// The index of the CPU's node in [`Machine::nodes`].
    pub node: usize,
    /// The index of the CPU's cache in [`Machine::caches`]. All CPUs of a cache are in one node.
    pub cache: usize,
    /// A number that the CPU shares with its siblings. All CPUs of a core share one cache.
    pub core: usize,
    /// Whether the control group may use the CPU.
    pub is_allowed: bool,
    /// Whether the scheduler leaves the CPU alone (`isolcpus=`).
    pub is_isolated: bool,
    /// Whether the CPU serves an interrupt of a network interface.
    pub serves_interrupts: bool,
}

/// A memory node with CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineNode {
    /// The kernel's number of the node; none if the machine's nodes are not known.
    pub node: Option<u32>,
    /// The memory of the node, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineCache {
    /// The size of the cache, in bytes.
    pub size_bytes: Option<u64>,
}

impl Machine {
    /// The machine that facts describe. Each unknown fact becomes a caveat.
    pub fn from_facts(facts: &Facts) -> Machine {
        let mut machine = Machine::default();
        let Some(online) = facts.cpus.online.known() else {
            machine.unknown("which CPUs run", &facts.cpus.online);
            return machine;
        };
        let allowed = facts.limits.cpus_allowed.known();
        if allowed.is_none() && !facts.limits.cpus_allowed.is_absent() {
            machine.unknown("which CPUs the control group may use", &facts.limits.cpus_allowed);
        }
        if !facts.cpus.isolated.is_absent() && facts.cpus.isolated.known().is_none() {
            machine.unknown("which CPUs are isolated", &facts.cpus.isolated);
        }
        let interrupts = interrupt_cpus(facts, &mut machine.caveats);
        let nodes = machine.add_nodes(facts, online);
        let mut places = Places::default();
        for cpu in facts.cpus.cpus.iter().filter(|cpu| online.contains(cpu.cpu)) {
            let Some(node) = nodes.get(&cpu.cpu).copied() else { continue };
            let (cache, core) = places.place(cpu, node, &mut machine.caches);
            machine.cpus.push(MachineCpu {
                cpu: cpu.cpu,
                node,
                cache,
                core,
                is_allowed: allowed.is_none_or(|allowed| allowed.contains(cpu.cpu)),
                is_isolated: facts.cpus.isolated.known().is_some_and(|isolated| isolated.contains(cpu.cpu)),
                serves_interrupts: interrupts.contains(cpu.cpu),
            });
        }
        places.add_caveats(&mut machine.caveats);
        match facts.limits.cpu.known() {
            Some(CpuLimit::Quota { quota_us, period_us }) => {
                machine.quota_cpus = Some(*quota_us as f64 / (*period_us).max(1) as f64);
            }
            Some(CpuLimit::Unlimited) => {}
            None => machine.unknown("the CPU quota of the control group", &facts.limits.cpu),
        }
        let is_container = facts.machine.container.known().is_some_and(|container| *container != Container::None);
        match facts.limits.memory.known() {
            Some(MemoryLimit::Bytes(bytes)) => machine.memory_limit_bytes = Some(*bytes),
            Some(MemoryLimit::Unlimited) => {}
            // Captures of earlier versions do not have the limit. Outside of containers there is most often none.
            None if is_container || !facts.limits.memory.is_absent() => {
                machine.unknown("the memory limit of the control group", &facts.limits.memory);
            }
            None => {}
        }
        machine
    }

    fn unknown<T>(&mut self, what: &str, fact: &Fact<T>) {
        self.caveats.push(unknown(what, fact));
    }

    /// Adds the nodes with running CPUs, and returns the index of each CPU's node.
    fn add_nodes(&mut self, facts: &Facts, online: &CpuSet) -> BTreeMap<usize, usize> {
        let known = facts.numa.nodes.known().map(Vec::as_slice).unwrap_or_default();
        let mut of_cpu = BTreeMap::new();
        for node in known {
            let Some(cpus) = node.cpus.known().map(|cpus| cpus.and(online)).filter(|cpus| !cpus.is_empty()) else {
                continue;
            };
            let memory_bytes = node.memory_bytes.known().copied();
            if memory_bytes.is_none() {
                self.unknown(&format!("the memory of node {}", node.node), &node.memory_bytes);
            }
            of_cpu.extend(cpus.iter().map(|cpu| (cpu, self.nodes.len())));
            self.nodes.push(MachineNode { node: Some(node.node), memory_bytes });
        }
        if of_cpu.len() == online.len() && self.nodes.len() > 1 {
            return of_cpu;
        }
        // There is one node, or no node is known. It has all of the machine's memory.
        let node = self.nodes.first().and_then(|node| node.node).filter(|_| of_cpu.len() == online.len());
        if node.is_none() && !facts.numa.nodes.is_absent() {
            let why = facts.numa.nodes.unknown_why().unwrap_or("some CPUs are in no node");
            self.caveats.push(format!("the memory nodes are not known ({why}); the machine counts as one node"));
        }
        let memory_bytes = facts.memory.total_bytes.known().copied();
        if memory_bytes.is_none() {
            self.unknown("the size of the memory", &facts.memory.total_bytes);
        }
        self.nodes = vec![MachineNode { node, memory_bytes }];
        online.iter().map(|cpu| (cpu, 0)).collect()
    }
}

fn unknown<T>(what: &str, fact: &Fact<T>) -> String {
    format!("{what} is not known ({})", fact.unknown_why().unwrap_or("not read"))
}

/// The CPUs that serve interrupts of a network interface: the effective CPU of each interrupt, or the only CPU that may serve it.
fn interrupt_cpus(facts: &Facts, caveats: &mut Vec<String>) -> CpuSet {
    if let Some(why) = facts.network.nics.unknown_why() {
        caveats.push(format!("which CPUs serve the network's interrupts is not known ({why})"));
    }
    let mut found = Vec::new();
    for nic in facts.network.hardware() {
        if let Some(why) = nic.irqs_found_by.unknown_why() {
            caveats.push(format!("which CPUs serve the interrupts of {} is not known ({why})", nic.name));
        }
        let mut moving = 0;
        for irq in &nic.irqs {
            let may = irq.affinity.known().filter(|cpus| cpus.len() == 1).and_then(CpuSet::first);
            match irq.effective.known().and_then(CpuSet::first).or(may) {
                Some(cpu) => found.push(cpu),
                None => moving += 1,
            }
        }
        if moving > 0 {
            caveats.push(format!(
                "which CPU serves {moving} of {} interrupts of {} is not known",
                nic.irqs.len(),
                nic.name
            ));
        }
    }
    found.into_iter().collect()
}

/// Numbers the caches and cores of the facts.
#[derive(Default)]
struct Places {
    caches: BTreeMap<(usize, Option<String>), usize>,
    cores: BTreeMap<(usize, String), usize>,
    without_cache: BTreeSet<usize>,
    without_siblings: BTreeSet<usize>,
}

impl Places {
    /// If two nodes share a cache, the cache counts as one cache in each node.
    /// If two caches share a core, the core counts as two cores. So the machine is a tree, which the search needs.
    fn place(&mut self, cpu: &Cpu, node: usize, caches: &mut Vec<MachineCache>) -> (usize, usize) {
        let last = last_cache(cpu);
        let shared_by = last.and_then(|cache| cache.shared_by.known());
        if shared_by.is_none() {
            self.without_cache.insert(cpu.cpu);
        }
        let cache = *self.caches.entry((node, shared_by.map(CpuSet::to_string))).or_insert_with(|| {
            let size_bytes = shared_by.and(last).and_then(|cache| cache.size_bytes.known().copied());
            caches.push(MachineCache { size_bytes });
            caches.len() - 1
        });
        let siblings = cpu.siblings.known();
        if siblings.is_none() {
            self.without_siblings.insert(cpu.cpu);
        }
        let core = siblings.map_or_else(|| format!("cpu{}", cpu.cpu), CpuSet::to_string);
        let next = self.cores.len();
        (cache, *self.cores.entry((cache, core)).or_insert(next))
    }

    fn add_caveats(&self, caveats: &mut Vec<String>) {
        for (cpus, what) in [
            (&self.without_siblings, "siblings are not known; each counts as a core of its own"),
            (&self.without_cache, "caches are not known; those of a node count as sharing one"),
        ] {
            if !cpus.is_empty() {
                let named: Vec<String> = cpus.iter().take(NAMED_MAX).map(usize::to_string).collect();
                let more = if cpus.len() > NAMED_MAX { ", …" } else { "" };
                caveats.push(format!("CPU {}{more}: {what}", named.join(", ")));
            }
        }
    }
}

/// The cache with the highest level above the first. A first-level cache belongs to one core, so no other core shares it.
fn last_cache(cpu: &Cpu) -> Option<&Cache> {
    let level = |cache: &&Cache| cache.level.known().copied().filter(|level| *level >= 2);
    cpu.caches.iter().filter(|cache| level(cache).is_some()).max_by_key(level)
}
