//! The firmware's information about a machine: its vendor, its type, and its hypervisor if the processor does not report the hypervisor.

use super::provider::{Cloud, Hypervisor};
use crate::fact::Fact;
use crate::probe::{Probe, and_then};

/// The firmware's strings. Each cloud identifies itself in a different string.
pub(super) struct Dmi {
    pub(super) vendor: Fact<String>,
    pub(super) product: Fact<String>,
    bios_version: Fact<String>,
    chassis_tag: Fact<String>,
}

/// A value from instance metadata. A root without metadata has no path of this kind, and neither has a capture of that root.
fn by_metadata(probe: Probe<'_>, path: &str, whose: &str) -> Fact<String> {
    let asked = probe.text(&format!("@metadata/{path}"));
    match asked {
        Fact::Absent { .. } | Fact::Unseen { .. } => {
            Fact::absent(format!("{whose} provides it only through instance metadata: use --metadata to query it"))
        }
        answered => answered,
    }
}

/// The number with which Azure marks every chassis.
pub(super) const AZURE_CHASSIS: &str = "7783-7084-3265-9085-8269-3286-77";

impl Dmi {
    pub(super) fn probe(probe: Probe<'_>) -> Dmi {
        let at = |name: &str| probe.text(&format!("/sys/class/dmi/id/{name}"));
        Dmi {
            vendor: at("sys_vendor"),
            product: at("product_name"),
            bios_version: at("bios_version"),
            chassis_tag: at("chassis_asset_tag"),
        }
    }

    pub(super) fn cloud(&self) -> Fact<Cloud> {
        let text = |fact: &'_ Fact<String>| fact.known().cloned().unwrap_or_default();
        let (product, tag) = (text(&self.product), text(&self.chassis_tag));
        // Amazon's Xen instances report the vendor Xen. Their BIOS version contains "amazon".
        let is_amazon_xen = text(&self.bios_version).contains("amazon");
        self.vendor.clone().map(|vendor| match vendor.as_str() {
            "Amazon EC2" => Cloud::Aws,
            _ if is_amazon_xen => Cloud::Aws,
            "Microsoft Corporation" if tag == AZURE_CHASSIS => Cloud::Azure,
            "Google" | "Google Cloud" => Cloud::Gcp,
            _ if product == "Google Compute Engine" => Cloud::Gcp,
            _ if tag == "OracleCloud.com" => Cloud::Oracle,
            "Hetzner" => Cloud::Hetzner,
            "DigitalOcean" => Cloud::DigitalOcean,
            _ => Cloud::None,
        })
    }

    pub(super) fn instance_type(&self, probe: Probe<'_>, cloud: &Fact<Cloud>) -> Fact<String> {
        let unreported = |whose: &str| Fact::absent(format!("{whose} provides it only through instance metadata"));
        match (cloud, &self.product) {
            // On Nitro, the product is the instance type, such as c5n.xlarge. On Xen, the product is "HVM domU".
            (Fact::Known(Cloud::Aws), Fact::Known(product)) if product.contains('.') => Fact::Known(product.clone()),
            (Fact::Known(Cloud::Aws), Fact::Known(_)) => by_metadata(probe, "ec2/instance-type", "Amazon's Xen"),
            (Fact::Known(Cloud::Aws), unknown) => unknown.clone(),
            (Fact::Known(Cloud::Azure), _) => by_metadata(probe, "azure/vm-size", "Azure"),
            (Fact::Known(Cloud::Gcp), _) => by_metadata(probe, "gce/machine-type", "Google Cloud"),
            (Fact::Known(Cloud::Oracle), _) => unreported("Oracle Cloud"),
            (Fact::Known(Cloud::Hetzner), _) => unreported("Hetzner"),
            (Fact::Known(Cloud::DigitalOcean), _) => unreported("DigitalOcean"),
            (Fact::Known(Cloud::None), _) => Fact::absent("the DMI strings match no cloud that evenkeel knows"),
            (unknown, _) => and_then(unknown.clone(), |_| Fact::absent("no cloud")),
        }
    }

    /// The hypervisor of a machine whose processor does not report it. All 64-bit Arm machines are of this kind.
    pub(super) fn hypervisor(&self) -> Option<Hypervisor> {
        let (vendor, product) = (self.vendor.known()?.as_str(), self.product.known().map_or("", String::as_str));
        match (vendor, product) {
            ("Amazon EC2", product) if product.contains(".metal") => Some(Hypervisor::None),
            ("Amazon EC2" | "Google" | "Hetzner" | "DigitalOcean", _) => Some(Hypervisor::Kvm),
            (_, product) if product.contains("KVM") => Some(Hypervisor::Kvm),
            ("Microsoft Corporation", "Virtual Machine") => Some(Hypervisor::HyperV),
            ("VMware, Inc.", _) => Some(Hypervisor::Vmware),
            ("Xen", _) => Some(Hypervisor::Xen),
            // The firmware's strings do not distinguish KVM from emulation.
            ("QEMU", _) => Some(Hypervisor::Other),
            _ => None,
        }
    }
}
