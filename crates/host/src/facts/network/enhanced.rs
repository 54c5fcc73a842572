//! Whether an interface's packets go past the hypervisor's software ("enhanced", "accelerated networking"), told by its driver.

use super::nic::{Enhanced, Enhancement, Nic, NicKind};
use crate::fact::Fact;
use crate::facts::{Cloud, Hypervisor, Machine};

/// Cards of the past that hypervisors imitate.
const IMITATED: [&str; 6] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci"];

/// Drivers of virtual functions, and of cards that are passed through whole.
const PASSED: [&str; 10] =
    ["ixgbevf", "igbvf", "iavf", "i40evf", "mlx4_core", "mlx5_core", "bnxt_en", "ixgbe", "i40e", "ice"];

impl Enhanced {
    pub(super) fn of(nic: &Nic, machine: &Machine) -> Fact<Enhanced> {
        let Some(driver) = nic.driver.known() else {
            let why = nic.driver.unknown_why().unwrap_or_default();
            return Fact::absent(format!("it is told by the driver, which is not known: {why}"));
        };
        if machine.hypervisor.known() == Some(&Hypervisor::None) {
            let reason = format!("{driver} drives the card itself: there is no hypervisor");
            return Fact::Known(Enhanced { state: Enhancement::Physical, reason });
        }
        let cloud = machine.cloud.known().copied().unwrap_or(Cloud::None);
        match by_driver(driver, cloud, nic) {
            Some((state, reason)) => Fact::Known(Enhanced { state, reason }),
            None => Fact::absent(format!("what the driver {driver} stands for under a hypervisor is not known")),
        }
    }
}

fn by_driver(driver: &str, cloud: Cloud, nic: &Nic) -> Option<(Enhancement, String)> {
    use Enhancement::{Emulated, Off, On, Paravirtual};
    let told = |state, reason: &str| Some((state, reason.to_owned()));
    match (driver, cloud) {
        (_, _) if nic.kind == NicKind::Vf => {
            let master = nic.master.known().map(String::as_str).unwrap_or("another interface");
            Some((On, format!("the virtual function ({driver}) that carries the packets of {master}")))
        }
        ("hv_netvsc", _) if !nic.lower.is_empty() => Some((
            On,
            format!("its packets go by the virtual function {}: accelerated networking", nic.lower.join(", ")),
        )),
        ("hv_netvsc", Cloud::Azure) => told(Off, "hv_netvsc without a virtual function: accelerated networking is off"),
        ("hv_netvsc", _) => told(Paravirtual, "hv_netvsc without a virtual function: Hyper-V's own, SR-IOV is off"),
        ("vif" | "xen_netfront" | "xen-netfront", Cloud::Aws) => {
            told(Off, "vif is Xen's own interface, without SR-IOV: EC2 enhanced networking is off")
        }
        ("vif" | "xen_netfront" | "xen-netfront", _) => told(Paravirtual, "vif is Xen's own interface, without SR-IOV"),
        ("ena", _) => told(On, "ena: EC2 enhanced networking"),
        ("ixgbevf", Cloud::Aws) => told(On, "ixgbevf, a virtual function of the Intel 82599: EC2 enhanced networking"),
        ("gve", _) => told(On, "gve: Google's gVNIC"),
        ("mana", _) => told(On, "mana: Microsoft's Azure Network Adapter"),
        ("virtio_net", Cloud::Gcp) => told(Off, "virtio_net: Google offers gVNIC in its place"),
        ("virtio_net", _) => told(Paravirtual, "virtio_net: nothing better is known to be offered here"),
        ("vmxnet3", _) => told(Paravirtual, "vmxnet3: VMware's own"),
        (driver, _) if PASSED.contains(&driver) => {
            Some((On, format!("{driver}: a card or a virtual function of its own")))
        }
        (driver, _) if IMITATED.contains(&driver) => {
            Some((Emulated, format!("{driver}: a card that the hypervisor imitates, register by register")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{base, nic};

    fn told(driver: &str, cloud: Cloud, hypervisor: Hypervisor, lower: &[&str]) -> String {
        let mut machine = base().machine;
        machine.cloud = Fact::Known(cloud);
        machine.hypervisor = Fact::Known(hypervisor);
        let lower = lower.iter().map(|name| (*name).to_owned()).collect();
        let nic = Nic { driver: Fact::Known(driver.to_owned()), lower, ..nic("eth0", 1, 24) };
        match Enhanced::of(&nic, &machine) {
            Fact::Known(Enhanced { state, reason }) => format!("{state:?}: {reason}\n"),
            unknown => format!("{}\n", unknown.unknown_why().unwrap()),
        }
    }

    #[test]
    fn the_driver_tells_how_packets_travel() {
        use Hypervisor::{HyperV, Kvm, Vmware, Xen};
        let table = [
            told("vif", Cloud::Aws, Xen, &[]),
            told("vif", Cloud::None, Xen, &[]),
            told("ixgbevf", Cloud::Aws, Xen, &[]),
            told("ena", Cloud::Aws, Kvm, &[]),
            told("hv_netvsc", Cloud::Azure, HyperV, &[]),
            told("hv_netvsc", Cloud::Azure, HyperV, &["enP1s1"]),
            told("hv_netvsc", Cloud::None, HyperV, &[]),
            told("mana", Cloud::Azure, HyperV, &[]),
            told("virtio_net", Cloud::Gcp, Kvm, &[]),
            told("gve", Cloud::Gcp, Kvm, &[]),
            told("virtio_net", Cloud::Hetzner, Kvm, &[]),
            told("vmxnet3", Cloud::None, Vmware, &[]),
            told("mlx5_core", Cloud::Oracle, Kvm, &[]),
            told("e1000", Cloud::None, Kvm, &[]),
            told("e1000e", Cloud::None, Hypervisor::None, &[]),
            told("sungem", Cloud::None, Kvm, &[]),
        ];
        expect![[r#"
            Off: vif is Xen's own interface, without SR-IOV: EC2 enhanced networking is off
            Paravirtual: vif is Xen's own interface, without SR-IOV
            On: ixgbevf, a virtual function of the Intel 82599: EC2 enhanced networking
            On: ena: EC2 enhanced networking
            Off: hv_netvsc without a virtual function: accelerated networking is off
            On: its packets go by the virtual function enP1s1: accelerated networking
            Paravirtual: hv_netvsc without a virtual function: Hyper-V's own, SR-IOV is off
            On: mana: Microsoft's Azure Network Adapter
            Off: virtio_net: Google offers gVNIC in its place
            On: gve: Google's gVNIC
            Paravirtual: virtio_net: nothing better is known to be offered here
            Paravirtual: vmxnet3: VMware's own
            On: mlx5_core: a card or a virtual function of its own
            Emulated: e1000: a card that the hypervisor imitates, register by register
            Physical: e1000e drives the card itself: there is no hypervisor
            what the driver sungem stands for under a hypervisor is not known
        "#]]
        .assert_eq(&table.concat());
    }
}
