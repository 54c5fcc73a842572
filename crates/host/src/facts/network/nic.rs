//! `Nic`: what is known of one network interface.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::irq::{Irq, IrqsFoundBy};
use crate::fact::Fact;
use crate::facts::ethtool::{Channels, Coalesce, Offloads, Rings, Rss};

pub(super) const CLASS: &str = "/sys/class/net";

/// The most interfaces that are looked at: far over what any host of containers has.
pub(super) const NICS_MAX: usize = 4096;

/// One interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// What is behind it.
    pub kind: NicKind,
    /// The interface that it is a part of, such as a bond, a bridge, or the one of Hyper-V that a virtual function belongs to; not
    /// looked at where there is no hardware.
    pub master: Fact<String>,
    /// The interfaces that it stands on: the members of a bond, the parent of a VLAN, the virtual function of a Hyper-V
    /// interface. Whatever is set for the hardware is set there.
    pub lower: Vec<String>,
    /// How a bond uses its members, by the kernel's word: `active-backup`, `802.3ad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond_mode: Option<Fact<String>>,
    /// The number of a VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<Fact<u16>>,
    /// Whether its packets pass the hypervisor's software, and what else the cloud offers.
    pub enhanced: Fact<Enhanced>,
    /// The kernel's driver.
    pub driver: Fact<String>,
    /// The driver's version, by ethtool; in-tree drivers often give the kernel's release.
    pub driver_version: Fact<String>,
    /// `up`, `down`, `unknown`, …
    pub state: Fact<String>,
    /// In bytes.
    pub mtu_bytes: Fact<u32>,
    /// The memory node that it is attached to; -1 where the firmware does not tell.
    pub numa_node: Fact<i32>,
    /// How many queues it uses; not looked at where there is no hardware.
    pub queues: Fact<QueueCounts>,
    /// Receive queues, ascending.
    pub rx_queues: Vec<Queue>,
    /// Transmit queues, ascending.
    pub tx_queues: Vec<Queue>,
    /// How its packets are taken from it.
    pub napi: Napi,
    /// Queues that the driver has and could have.
    pub channels: Fact<Channels>,
    /// Packets that the ring of each queue holds and could hold.
    pub rings: Fact<Rings>,
    /// How long its interrupts wait for more packets.
    pub coalesce: Fact<Coalesce>,
    /// What it does for the kernel, by the kernel's names: those that matter to a server of UDP packets.
    pub offloads: Fact<Offloads>,
    /// How it spreads packets over its receive queues.
    pub rss: Fact<Rss>,
    /// How its interrupts were found; where that is unknown, so are they.
    pub irqs_found_by: Fact<IrqsFoundBy>,
    /// Its interrupts, ascending; configuration interrupts, which carry no packets, left out. A Hyper-V interface has none of
    /// its own.
    pub irqs: Vec<Irq>,
}

/// Queues in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Receive queues.
    pub rx: usize,
    /// Transmit queues.
    pub tx: usize,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
pub struct Napi {
    /// How often an interrupt stays off after a round without packets, as long as somebody polls.
    pub defer_hard_irqs: Fact<u32>,
    /// How long it stays off, in nanoseconds.
    pub gro_flush_timeout_ns: Fact<u64>,
    /// Whether threads of their own take the packets: 0 or 1.
    pub threaded: Fact<u32>,
}

/// What is behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// A device on a bus: PCI, virtio, VMBus, Xen.
    Hardware,
    /// A virtual function that belongs to a Hyper-V interface and carries its packets: Azure's accelerated networking.
    Vf,
    /// Several interfaces as one.
    Bond,
    /// A part of another interface's packets, by their tag.
    Vlan,
    /// A switch in software.
    Bridge,
    /// The loopback interface.
    Loopback,
    /// Any other software: veth, tunnel, macvlan.
    Virtual,
}

impl NicKind {
    /// Whether there is a device, and not only software.
    pub fn is_hardware(self) -> bool {
        matches!(self, NicKind::Hardware | NicKind::Vf)
    }
}

/// How an interface reaches the network, and what tells so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Enhanced {
    /// How.
    pub state: Enhancement,
    /// By what it is told, and what else there is.
    pub reason: String,
}

/// How an interface reaches the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enhancement {
    /// By hardware that the hypervisor's software stays out of, or by the best that the cloud has.
    On,
    /// By the hypervisor's software, where the cloud has something better.
    Off,
    /// By the hypervisor's software, with a driver made for it; nothing better is known here.
    Paravirtual,
    /// By a real card that the hypervisor imitates.
    Emulated,
    /// There is no hypervisor.
    Physical,
}
