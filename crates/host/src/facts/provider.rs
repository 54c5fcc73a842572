//! Who runs a machine, and whose it is.

use serde::Serialize;

/// Who runs the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Hypervisor {
    /// The processor says that nobody does.
    None,
    Kvm,
    Xen,
    HyperV,
    Vmware,
    /// QEMU's software emulation.
    Tcg,
    /// Some hypervisor whose signature is not known.
    Other,
}

/// Whose machine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Cloud {
    Aws,
    Azure,
    Gcp,
    Oracle,
    Hetzner,
    DigitalOcean,
    /// None that we know by its DMI strings.
    None,
}
