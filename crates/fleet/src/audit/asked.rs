//! The question: which traits group hosts.

use serde::Serialize;

/// A trait that hosts of one group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The instance type.
    Instance,
    /// The first two numbers of the kernel's version.
    Kernel,
    /// The model of the CPU.
    Cpu,
    /// The cloud.
    Cloud,
    /// All hosts are one group.
    None,
}

impl By {
    /// Every trait.
    pub const ALL: [By; 5] = [By::Instance, By::Kernel, By::Cpu, By::Cloud, By::None];

    /// The trait, in words.
    pub fn noun(self) -> &'static str {
        match self {
            By::Instance => "instance type",
            By::Kernel => "kernel",
            By::Cpu => "CPU model",
            By::Cloud => "cloud",
            By::None => "group",
        }
    }
}
