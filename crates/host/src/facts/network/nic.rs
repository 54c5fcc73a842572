//! `Nic`: the facts of one network interface.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::irq::{Irq, IrqsFoundBy};
use crate::fact::Fact;
use crate::facts::ethtool::{Channels, Coalesce, Offloads, Rings, Rss};

pub(super) const CLASS: &str = "/sys/class/net";

/// The maximum number of interfaces to read, which is far more than any container host has.
pub(super) const NICS_MAX: usize = 4096;

/// One interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NicKind,
    /// The interface to which this interface belongs, such as a bond, a bridge, or the Hyper-V interface of a virtual function.
    /// Not read for software interfaces.
    pub master: Fact<String>,
    /// The interfaces below this interface: the members of a bond, the parent of a VLAN, the virtual function of a Hyper-V interface.
    /// Hardware settings are made on the interfaces below.
    pub lower: Vec<String>,
    /// How a bond uses its members, by the kernel's word: `active-backup`, `802.3ad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond_mode: Option<Fact<String>>,
    /// The number of a VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<Fact<u16>>,
    /// Whether the interface's packets pass the hypervisor's software, and what else the cloud offers.
    pub enhanced: Fact<Enhanced>,
    /// The kernel's driver.
    pub driver: Fact<String>,
    /// The driver's version, from ethtool. In-tree drivers often report the kernel's release.
    pub driver_version: Fact<String>,
    /// `up`, `down`, `unknown`, …
    pub state: Fact<String>,
    /// The maximum size of a packet (MTU), in bytes.
    pub mtu_bytes: Fact<u32>,
    /// The interface's memory node. -1 if the firmware does not report the node.
    pub numa_node: Fact<i32>,
    /// How many queues the interface uses. Not read for software interfaces.
    pub queues: Fact<QueueCounts>,
    /// Receive queues, ascending.
    pub rx_queues: Vec<Queue>,
    /// Transmit queues, ascending.
    pub tx_queues: Vec<Queue>,
    /// How the kernel takes packets from it.
    pub napi: Napi,
    /// The number of queues of the interface, and the limits of this number.
    pub channels: Fact<Channels>,
    /// Packets that the ring of each queue holds, and the limits.
    pub rings: Fact<Rings>,
    /// How long the interface's interrupts are delayed to batch packets.
    pub coalesce: Fact<Coalesce>,
    /// The interface's offloads that matter to a UDP server, by the kernel's names.
    pub offloads: Fact<Offloads>,
    /// How the interface spreads packets over its receive queues.
    pub rss: Fact<Rss>,
    /// How the interface's interrupts were found. If this is unknown, the interrupts are unknown too.
    pub irqs_found_by: Fact<IrqsFoundBy>,
    /// The interface's interrupts, ascending, without configuration interrupts, which carry no packets.
    /// A Hyper-V interface has no interrupts of its own.
    pub irqs: Vec<Irq>,
}

/// Queues in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueCounts {
    /// Receive queues.
    pub rx: usize,
    /// Transmit queues.
    pub tx: usize,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queue {
    /// Its number.
    pub index: u32,
    /// `rps_cpus` of a receive queue, `xps_cpus` of a transmit queue.
    pub steering_cpus: Fact<CpuSet>,
    /// `rps_flow_cnt` of a receive queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Fact<u32>>,
}

/// How the kernel takes packets from an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Napi {
    /// How often an interrupt stays off after a round without packets, while a thread polls.
    pub defer_hard_irqs: Fact<u32>,
    /// How long the interrupt stays off, in nanoseconds.
    pub gro_flush_timeout_ns: Fact<u64>,
    /// Whether separate threads process the packets: 0 or 1.
    pub threaded: Fact<u32>,
}

/// The kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// A device on a bus: PCI, virtio, VMBus, Xen.
    Hardware,
    /// A virtual function that belongs to a Hyper-V interface and carries its packets: Azure's accelerated networking.
    Vf,
    /// Several interfaces combined.
    Bond,
    /// A part of another interface's packets, selected by tag.
    Vlan,
    /// A software switch.
    Bridge,
    /// The loopback interface.
    Loopback,
    /// Other software: veth, tunnel, macvlan.
    Virtual,
}

impl NicKind {
    /// Whether the interface has a device, and is not only software.
    pub fn is_hardware(self) -> bool {
        matches!(self, NicKind::Hardware | NicKind::Vf)
    }
}

/// How an interface reaches the network, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enhanced {
    /// How the interface reaches the network.
    pub state: Enhancement,
    /// The evidence, and the alternatives.
    pub reason: String,
}

/// How an interface reaches the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Enhancement {
    /// By hardware without the hypervisor's software, or by the best interface of the cloud.
    On,
    /// By the hypervisor's software, although the cloud offers something better.
    Off,
    /// By the hypervisor's software, with a paravirtual driver. evenkeel knows nothing better here.
    Paravirtual,
    /// By a real card that the hypervisor emulates.
    Emulated,
    /// There is no hypervisor.
    Physical,
}
