//! The hypervisor and the cloud of a machine.

use serde::Serialize;

/// The hypervisor of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Hypervisor {
    /// The processor reports no hypervisor.
    None,
    Kvm,
    Xen,
    HyperV,
    Vmware,
    /// QEMU's software emulation.
    Tcg,
    /// A hypervisor with an unknown signature.
    Other,
}

/// The cloud of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Cloud {
    Aws,
    Azure,
    Gcp,
    Oracle,
    Hetzner,
    DigitalOcean,
    /// No cloud whose DMI strings evenkeel knows.
    None,
}
