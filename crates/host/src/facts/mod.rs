//! The facts of a machine, one file per area. Each has its types and the functions that read them from a root.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::Probe;

mod boot;
mod cgroup;
mod clock;
mod counters;
mod cpu;
mod daemons;
mod deepest;
mod disks;
mod dmi;
mod ethtool;
mod idle;
mod kernel;
mod kernel_config;
mod limits;
mod machine;
mod memory;
mod network;
mod numa;
mod owners;
mod preemption;
mod provider;
mod sysctl_files;

pub use boot::{Boot, BootLoader, Init};
pub use clock::{Clock, TscFlags};
#[cfg(test)]
pub(crate) use counters::all_counted;
pub(crate) use counters::reads;
pub use counters::{
    Counters, CpuSoftnet, IrqCounts, NicCounters, NodeCounters, UdpCounters, UdpMemory, parse_losses, parse_snmp,
    parse_snmp6, parse_softnet,
};
pub use cpu::{Cache, Cpu, Cpus, Vulnerability};
pub use daemons::Daemons;
pub use disks::{Disk, DiskKind, Disks, Scheduler};
pub use ethtool::{Channels, Coalesce, Offload, Offloads, Rings, Rss};
pub use idle::{DeepestAllowed, Frequency, FrequencyPolicy, Idle, IdleState};
pub use kernel::{Kernel, Lockdown, Version};
pub use kernel_config::{KernelConfig, Tick};
pub use limits::{CpuLimit, Limits, MemoryLimit};
pub use machine::{Container, Distribution, Machine};
pub use memory::{HugePages, Memory, Swap, ThpSize};
pub use network::{Enhanced, Enhancement, Irq, IrqsFoundBy, Napi, Network, Nic, NicKind, Queue, QueueCounts};
pub use numa::{Node, Numa};
pub use owners::{IrqbalanceOptions, Owners};
pub use preemption::Preemption;
pub use provider::{Cloud, Hypervisor};
pub use sysctl_files::{SysctlFile, SysctlFiles, SysctlSetting};

/// All facts of one machine. After [`Facts::probe`] no decision reads the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Hypervisor, cloud, instance, container, distribution.
    pub machine: Machine,
    /// Boot loader and init system.
    pub boot: Boot,
    /// Release, command line, lockdown.
    pub kernel: Kernel,
    /// When kernel code yields the CPU.
    pub preemption: Preemption,
    /// CPUs with their topology and caches.
    pub cpus: Cpus,
    /// Memory nodes.
    pub numa: Numa,
    /// Clock sources.
    pub clock: Clock,
    /// Idle driver, governor and states.
    pub idle: Idle,
    /// Frequency driver and governor.
    pub frequency: Frequency,
    /// Huge pages and swap.
    pub memory: Memory,
    /// Block devices.
    pub disks: Disks,
    /// Network interfaces.
    pub network: Network,
    /// Counters of the kernel and the drivers. They change by themselves, so answers contain them only on request.
    #[serde(skip)]
    pub counters: Counters,
    /// Limits of evenkeel's own control group.
    pub limits: Limits,
    /// Other programs and files that change settings.
    pub owners: Owners,
    /// Timers and services of the distribution.
    pub daemons: Daemons,
    /// The text of each file under /proc/sys that a knob needs, by path.
    pub sysctls: BTreeMap<&'static str, Fact<String>>,
}

impl Facts {
    /// Reads every area, and these files under /proc/sys and /sys/kernel/debug.
    pub(crate) fn of_areas(root: &Root, sysctls: impl Iterator<Item = &'static str>) -> Facts {
        let probe = Probe(root);
        // Two areas need this file. The kernel takes long to produce the file, so read it once.
        let cpuinfo = probe.text("/proc/cpuinfo");
        // Counters and interfaces both need this file.
        let interrupts = probe.text("/proc/interrupts");
        let machine = Machine::probe(probe);
        let boot = Boot::probe(probe);
        let kernel = Kernel::probe(probe);
        let numa = Numa::probe(probe);
        let network = Network::probe(probe, &machine, &interrupts);
        Facts {
            counters: Counters::probe(probe, &numa, &network, &interrupts),
            owners: Owners::probe(probe, &machine.container, &boot.init),
            daemons: Daemons::probe(probe, &machine.container, &boot.init),
            machine,
            boot,
            preemption: Preemption::probe(probe, &kernel.config),
            numa,
            cpus: Cpus::probe(probe, &cpuinfo),
            clock: Clock::probe(probe, &cpuinfo, &kernel),
            idle: deepest::judged(Idle::probe(probe), &kernel),
            kernel,
            frequency: Frequency::probe(probe),
            memory: Memory::probe(probe),
            disks: Disks::probe(probe),
            network,
            limits: Limits::probe(probe),
            sysctls: sysctls.map(|path| (path, probe.text(path))).collect(),
        }
    }

    /// The text of a file under /proc/sys that some knob names as its place.
    pub fn sysctl(&self, path: &str) -> Fact<String> {
        match self.sysctls.get(path) {
            Some(fact) => fact.clone(),
            None => Fact::absent(format!("the facts do not include {path}")),
        }
    }
}
