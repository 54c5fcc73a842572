//! Network interfaces: driver, queues, and the CPUs that serve their interrupts.

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use self::irq::{Interrupt, Owner, irqs_of};
use super::ethtool::{Channels, Coalesce, Rings, Rss, offloads};
use super::machine::Machine;
use crate::fact::Fact;
use crate::probe::{Probe, and_then, or_else};

mod enhanced;
mod irq;
mod kind;
mod nic;

pub use irq::{Irq, IrqsFoundBy};
use nic::{CLASS, NICS_MAX};
pub use nic::{Enhanced, Enhancement, Napi, Nic, NicKind, Queue, QueueCounts};

/// The network interfaces.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Network {
    /// Each interface by name.
    pub nics: Fact<Vec<Nic>>,
}

impl Network {
    /// `interrupts` is the text of /proc/interrupts, read once for all interfaces.
    /// The counts in the file change, and on a large machine the kernel takes long to produce it.
    pub(super) fn probe(probe: Probe<'_>, machine: &Machine, interrupts: &Fact<String>) -> Network {
        let names = probe.entries(CLASS);
        let interrupts = interrupts.clone().map(|text| irq::interrupts(&text));
        let nics = and_then(names, |names| {
            if names.len() > NICS_MAX {
                return Fact::absent(format!("{CLASS} has {} interfaces, more than {NICS_MAX}", names.len()));
            }
            let vlans = kind::Vlans::default();
            let nics = names.into_iter().filter_map(|name| probe_nic(probe, name, &interrupts, &vlans));
            let mut nics: Vec<Nic> = nics.collect();
            kind::pair_virtual_functions(&mut nics);
            for nic in nics.iter_mut().filter(|nic| nic.kind.is_hardware()) {
                nic.enhanced = Enhanced::from_nic(nic, machine);
            }
            Fact::Known(nics)
        });
        Network { nics }
    }

    /// The interfaces with hardware, on which hardware settings are made. For a bond or a VLAN, these are the interfaces below it.
    /// For a Hyper-V interface with a virtual function, both are included.
    /// Packets use the virtual function, with its queues and interrupts, until the host removes it for maintenance.
    /// The Hyper-V interface then carries all packets.
    pub fn hardware(&self) -> impl Iterator<Item = &Nic> {
        self.nics.known().into_iter().flatten().filter(|nic| nic.kind.is_hardware())
    }
}

/// `None` if the entry is not an interface, such as the file `bonding_masters`.
fn probe_nic(probe: Probe<'_>, name: String, interrupts: &Fact<Vec<Interrupt>>, vlans: &kind::Vlans) -> Option<Nic> {
    let dir = format!("{CLASS}/{name}");
    let kind = NicKind::probe(probe, &name)?;
    let software = || format!("{name} is software only: evenkeel did not examine it");
    let mut nic = Nic {
        kind,
        master: Fact::absent(software()),
        lower: Vec::new(),
        bond_mode: None,
        vlan_id: None,
        enhanced: Fact::absent(software()),
        driver: Fact::absent(software()),
        driver_version: Fact::absent(software()),
        state: probe.text(&format!("{dir}/operstate")),
        mtu_bytes: probe.number(&format!("{dir}/mtu")),
        numa_node: Fact::absent(software()),
        queues: Fact::absent(software()),
        napi: Napi {
            defer_hard_irqs: Fact::absent(software()),
            gro_flush_timeout_ns: Fact::absent(software()),
            threaded: Fact::absent(software()),
        },
        channels: Fact::absent(software()),
        rings: Fact::absent(software()),
        coalesce: Fact::absent(software()),
        offloads: Fact::absent(software()),
        rss: Fact::absent(software()),
        rx_queues: Vec::new(),
        tx_queues: Vec::new(),
        irqs_found_by: Fact::absent(software()),
        irqs: Vec::new(),
        name,
    };
    // A container host has hundreds of virtual interfaces, each with a queue per CPU. So read only hardware in detail.
    match kind {
        NicKind::Hardware => probe_hardware(probe, &mut nic, interrupts),
        NicKind::Bond => kind::probe_bond(probe, &mut nic),
        NicKind::Vlan => kind::probe_vlan(probe, &mut nic, vlans),
        _ => {}
    }
    Some(nic)
}

fn probe_hardware(probe: Probe<'_>, nic: &mut Nic, interrupts: &Fact<Vec<Interrupt>>) {
    let dir = format!("{CLASS}/{}", nic.name);
    let info = probe.text(&format!("@ethtool/{}/drvinfo", nic.name));
    let as_text = |key: &'static str| {
        and_then(info.clone(), |info| match field(&info, key, '=').filter(|value| !value.is_empty()) {
            Some(value) => Fact::Known(value.to_owned()),
            None => Fact::absent(format!("the driver does not report {key}")),
        })
    };
    nic.driver = or_else(probe.link_name(&format!("{dir}/device/driver")), || as_text("driver"));
    nic.driver_version = as_text("version");
    nic.master = match probe.link_name(&format!("{dir}/master")) {
        Fact::Absent { .. } if probe.is_there(&format!("{dir}/master")).known() == Some(&false) => {
            Fact::absent(format!("{} is not part of another interface", nic.name))
        }
        master => master,
    };

    let device = probe.link_name(&format!("{dir}/device"));
    // The PCI device of a virtio interface is one level up. The interface's own device is only the virtio device.
    let is_virtio = device.known().is_some_and(|device| device.starts_with("virtio"));
    let bus = if is_virtio { format!("{dir}/device/..") } else { format!("{dir}/device") };
    nic.numa_node = probe.number(&format!("{bus}/numa_node"));

    let queues = probe.entries(&format!("{dir}/queues"));
    let queue = |prefix: &str, mask: &str| {
        let names = queues.known().map(Vec::as_slice).unwrap_or_default();
        let mut indices: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        indices.sort_unstable();
        let steering = |index| probe.cpu_mask(&format!("{dir}/queues/{prefix}{index}/{mask}"));
        let flows =
            |index| (prefix == "rx-").then(|| probe.number(&format!("{dir}/queues/{prefix}{index}/rps_flow_cnt")));
        let queue = |index| Queue { index, steering_cpus: steering(index), flows: flows(index) };
        indices.into_iter().map(queue).collect::<Vec<_>>()
    };
    nic.rx_queues = queue("rx-", "rps_cpus");
    nic.tx_queues = queue("tx-", "xps_cpus");
    nic.queues = queues.map(|_| QueueCounts { rx: nic.rx_queues.len(), tx: nic.tx_queues.len() });

    nic.napi = Napi {
        defer_hard_irqs: probe.number(&format!("{dir}/napi_defer_hard_irqs")),
        gro_flush_timeout_ns: probe.number(&format!("{dir}/gro_flush_timeout")),
        threaded: probe.number(&format!("{dir}/threaded")),
    };
    nic.channels = Channels::probe(probe, &nic.name);
    nic.rings = Rings::probe(probe, &nic.name);
    nic.coalesce = Coalesce::probe(probe, &nic.name);
    nic.offloads = offloads(probe, &nic.name);
    nic.rss = Rss::probe(probe, &nic.name);

    let listed = probe.numbered(&format!("{bus}/msi_irqs"), "");
    let found = interrupts.clone().map(|interrupts| {
        let device = device.known().map(String::as_str);
        irqs_of(&interrupts, Owner { interface: &nic.name, device }, listed.known().map(Vec::as_slice))
    });
    nic.irqs_found_by =
        found.clone().map(|_| if listed.known().is_some() { IrqsFoundBy::Device } else { IrqsFoundBy::Name });
    let found = found.known().cloned().unwrap_or_default();
    nic.irqs = found.into_iter().map(|interrupt| Irq::probe(probe, interrupt)).collect();
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;

    use super::*;
    use crate::facts::Facts;

    fn network(text: &str) -> Network {
        Facts::probe(&Root::captured(Capture::parse(text).unwrap())).network
    }

    #[test]
    fn other_entries_than_interfaces_are_left_out() {
        let text = "evenkeel-capture 1\n/sys/class/net/ : bonding_masters eth0 lo veth1 x0\n\
                    /sys/class/net/bonding_masters ->! EINVAL\n/sys/class/net/lo -> ../../devices/virtual/net/lo\n\
                    /sys/class/net/veth1 -> ../../devices/virtual/net/veth1\n/sys/class/net/eth0 -> ../../devices/vif-0/net/eth0\n\
                    /sys/class/net/x0/device -> ../../../0000:00:03.0\nend\n";
        let network = network(text);
        let kinds: Vec<_> = network.nics.known().unwrap().iter().map(|nic| (nic.name.as_str(), nic.kind)).collect();
        let (hardware, loopback, software) = (NicKind::Hardware, NicKind::Loopback, NicKind::Virtual);
        assert_eq!(kinds, [("eth0", hardware), ("lo", loopback), ("veth1", software), ("x0", hardware)]);
        let nic = network.hardware().next().unwrap();
        assert!(nic.irqs_found_by.is_absent(), "no interrupts seen is not the same as none there");
    }

    /// Azure's accelerated networking, a bond of two cards, a VLAN on that bond, a bridge, and a container's veth.
    #[test]
    fn software_stands_on_hardware() {
        let text = "evenkeel-capture 1\n/proc/self/cgroup = 0::/\n\
            /sys/class/net/ : bond0 br0 enP1s1 ens1 ens2 eth0 game vlan7 veth1\n\
            /sys/class/net/bond0 -> ../../devices/virtual/net/bond0\n/sys/class/net/bond0/uevent = DEVTYPE=bond\n\
            /sys/class/net/bond0/bonding/slaves = ens1 ens2\n/sys/class/net/bond0/bonding/mode = active-backup 1\n\
            /sys/class/net/br0 -> ../../devices/virtual/net/br0\n/sys/class/net/br0/uevent = DEVTYPE=bridge\n\
            /sys/class/net/veth1 -> ../../devices/virtual/net/veth1\n/sys/class/net/veth1/uevent = INTERFACE=veth1\n\
            /sys/class/net/game -> ../../devices/virtual/net/game\n/sys/class/net/game/uevent =\n| DEVTYPE=vlan\n| IFINDEX=9\n\
            /sys/class/net/vlan7 -> ../../devices/virtual/net/vlan7\n/sys/class/net/vlan7/uevent = DEVTYPE=vlan\n\
            /sys/class/net/vlan7/ : lower_eth0 mtu\n\
            /proc/self/net/vlan/config =\n| VLAN Dev name    | VLAN ID\n| game | 100 | bond0\n\
            /sys/class/net/eth0 -> ../../devices/VMBUS:01/00/net/eth0\n/sys/class/net/eth0/device/driver -> ../hv_netvsc\n\
            /sys/class/net/eth0/master ->! ENOENT\n\
            /sys/class/net/enP1s1 -> ../../devices/pci1/net/enP1s1\n/sys/class/net/enP1s1/device/driver -> ../mlx5_core\n\
            /sys/class/net/enP1s1/master -> ../../../../VMBUS:01/00/net/eth0\n\
            /sys/class/net/ens1 -> ../../devices/pci1/net/ens1\n/sys/class/net/ens1/device/driver -> ../ena\n\
            /sys/class/net/ens1/master -> ../../../virtual/net/bond0\n\
            /sys/class/net/ens2 -> ../../devices/pci1/net/ens2\n/sys/class/net/ens2/master ->! EACCES\nend\n";
        let network = network(text);
        let as_text: String = network
            .nics
            .known()
            .unwrap()
            .iter()
            .map(|nic| {
                let mode = nic.bond_mode.as_ref().and_then(|mode| mode.known()).cloned().unwrap_or_default();
                let vlan = nic.vlan_id.as_ref().and_then(|id| id.known()).map(u16::to_string).unwrap_or_default();
                let master = nic.master.known().map(String::as_str).unwrap_or("-");
                let how = nic.enhanced.known().map(|enhanced| format!("{:?}", enhanced.state)).unwrap_or_default();
                format!("{} {:?} of {master} on {:?} {mode}{vlan} {how}", nic.name, nic.kind, nic.lower)
                    .trim_end()
                    .to_owned()
                    + "\n"
            })
            .collect();
        expect![[r#"
            bond0 Bond of - on ["ens1", "ens2"] active-backup
            br0 Bridge of - on []
            enP1s1 Vf of eth0 on []  On
            ens1 Hardware of bond0 on []  On
            ens2 Hardware of - on []
            eth0 Hardware of - on ["enP1s1"]  On
            game Vlan of - on ["bond0"] 100
            vlan7 Vlan of - on ["eth0"] 7
            veth1 Virtual of - on []
        "#]]
        .assert_eq(&as_text);
        let hardware: Vec<&str> = network.hardware().map(|nic| nic.name.as_str()).collect();
        assert_eq!(hardware, ["enP1s1", "ens1", "ens2", "eth0"]);
    }
}
