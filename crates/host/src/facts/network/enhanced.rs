//! Whether an interface's packets bypass the hypervisor's software switch. The driver shows this.
//! Clouds call this "enhanced networking" or "accelerated networking".

use super::nic::{Enhanced, Enhancement, Nic, NicKind};
use crate::fact::Fact;
use crate::facts::{Cloud, Hypervisor, Machine};

/// Old cards that hypervisors emulate.
const IMITATED: [&str; 6] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci"];

/// Drivers of virtual functions, and of cards that the hypervisor passes through completely.
const PASSED: [&str; 10] =
    ["ixgbevf", "igbvf", "iavf", "i40evf", "mlx4_core", "mlx5_core", "bnxt_en", "ixgbe", "i40e", "ice"];

impl Enhanced {
    pub(super) fn from_nic(nic: &Nic, machine: &Machine) -> Fact<Enhanced> {
        let Some(driver) = nic.driver.known() else {
            let why = nic.driver.unknown_why().unwrap_or_default();
            return Fact::absent(format!("it depends on the driver, which evenkeel does not know: {why}"));
        };
        if machine.hypervisor.known() == Some(&Hypervisor::None) {
            let reason = format!("{driver} drives the card itself: there is no hypervisor");
            return Fact::Known(Enhanced { state: Enhancement::Physical, reason });
        }
        let cloud = machine.cloud.known().copied().unwrap_or(Cloud::None);
        match by_driver(driver, cloud, nic) {
            Some((state, reason)) => Fact::Known(Enhanced { state, reason }),
            None => Fact::absent(format!("evenkeel does not know the driver {driver} under a hypervisor")),
        }
    }
}

fn by_driver(driver: &str, cloud: Cloud, nic: &Nic) -> Option<(Enhancement, String)> {
    use Enhancement::{Emulated, Off, On, Paravirtual};
    let as_text = |state, reason: &str| Some((state, reason.to_owned()));
    match (driver, cloud) {
        (_, _) if nic.kind == NicKind::Vf => {
            let master = nic.master.known().map(String::as_str).unwrap_or("another interface");
            Some((On, format!("the virtual function ({driver}) that carries the packets of {master}")))
        }
        ("hv_netvsc", _) if !nic.lower.is_empty() => {
            Some((On, format!("its packets use the virtual function {}: accelerated networking", nic.lower.join(", "))))
        }
        ("hv_netvsc", Cloud::Azure) => {
            as_text(Off, "hv_netvsc without a virtual function: accelerated networking is off")
        }
        ("hv_netvsc", _) => {
            as_text(Paravirtual, "hv_netvsc without a virtual function: Hyper-V's software interface, SR-IOV is off")
        }
        ("vif" | "xen_netfront" | "xen-netfront", Cloud::Aws) => {
            as_text(Off, "vif is Xen's software interface, without SR-IOV: EC2 enhanced networking is off")
        }
        ("vif" | "xen_netfront" | "xen-netfront", _) => {
            as_text(Paravirtual, "vif is Xen's software interface, without SR-IOV")
        }
        ("ena", _) => as_text(On, "ena: EC2 enhanced networking"),
        ("ixgbevf", Cloud::Aws) => {
            as_text(On, "ixgbevf, a virtual function of the Intel 82599: EC2 enhanced networking")
        }
        ("gve", _) => as_text(On, "gve: Google's gVNIC"),
        ("mana", _) => as_text(On, "mana: Microsoft's Azure Network Adapter"),
        ("virtio_net", Cloud::Gcp) => as_text(Off, "virtio_net: Google offers gVNIC instead"),
        ("virtio_net", _) => as_text(Paravirtual, "virtio_net: evenkeel knows of nothing better here"),
        ("vmxnet3", _) => as_text(Paravirtual, "vmxnet3: VMware's interface"),
        (driver, _) if PASSED.contains(&driver) => {
            Some((On, format!("{driver}: a card or virtual function of the machine")))
        }
        (driver, _) if IMITATED.contains(&driver) => {
            Some((Emulated, format!("{driver}: a card that the hypervisor emulates, register by register")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{base, nic};

    fn as_text(driver: &str, cloud: Cloud, hypervisor: Hypervisor, lower: &[&str]) -> String {
        let mut machine = base().machine;
        machine.cloud = Fact::Known(cloud);
        machine.hypervisor = Fact::Known(hypervisor);
        let lower = lower.iter().map(|name| (*name).to_owned()).collect();
        let nic = Nic { driver: Fact::Known(driver.to_owned()), lower, ..nic("eth0", 1, 24) };
        match Enhanced::from_nic(&nic, &machine) {
            Fact::Known(Enhanced { state, reason }) => format!("{state:?}: {reason}\n"),
            unknown => format!("{}\n", unknown.unknown_why().unwrap()),
        }
    }

    #[test]
    fn the_driver_shows_how_packets_travel() {
        use Hypervisor::{HyperV, Kvm, Vmware, Xen};
        let table = [
            as_text("vif", Cloud::Aws, Xen, &[]),
            as_text("vif", Cloud::None, Xen, &[]),
            as_text("ixgbevf", Cloud::Aws, Xen, &[]),
            as_text("ena", Cloud::Aws, Kvm, &[]),
            as_text("hv_netvsc", Cloud::Azure, HyperV, &[]),
            as_text("hv_netvsc", Cloud::Azure, HyperV, &["enP1s1"]),
            as_text("hv_netvsc", Cloud::None, HyperV, &[]),
            as_text("mana", Cloud::Azure, HyperV, &[]),
            as_text("virtio_net", Cloud::Gcp, Kvm, &[]),
            as_text("gve", Cloud::Gcp, Kvm, &[]),
            as_text("virtio_net", Cloud::Hetzner, Kvm, &[]),
            as_text("vmxnet3", Cloud::None, Vmware, &[]),
            as_text("mlx5_core", Cloud::Oracle, Kvm, &[]),
            as_text("e1000", Cloud::None, Kvm, &[]),
            as_text("e1000e", Cloud::None, Hypervisor::None, &[]),
            as_text("sungem", Cloud::None, Kvm, &[]),
        ];
        expect![[r#"
            Off: vif is Xen's software interface, without SR-IOV: EC2 enhanced networking is off
            Paravirtual: vif is Xen's software interface, without SR-IOV
            On: ixgbevf, a virtual function of the Intel 82599: EC2 enhanced networking
            On: ena: EC2 enhanced networking
            Off: hv_netvsc without a virtual function: accelerated networking is off
            On: its packets use the virtual function enP1s1: accelerated networking
            Paravirtual: hv_netvsc without a virtual function: Hyper-V's software interface, SR-IOV is off
            On: mana: Microsoft's Azure Network Adapter
            Off: virtio_net: Google offers gVNIC instead
            On: gve: Google's gVNIC
            Paravirtual: virtio_net: evenkeel knows of nothing better here
            Paravirtual: vmxnet3: VMware's interface
            On: mlx5_core: a card or virtual function of the machine
            Emulated: e1000: a card that the hypervisor emulates, register by register
            Physical: e1000e drives the card itself: there is no hypervisor
            evenkeel does not know the driver sungem under a hypervisor
        "#]]
        .assert_eq(&table.concat());
    }
}
