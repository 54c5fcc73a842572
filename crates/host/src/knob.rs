//! `Knob`: one setting of a host as const data and pure functions, above all `advise`.
//! Everything else derives from that data: range check, plan, apply, verify, revert, `explain`, documentation, completion.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::extras::{Extras, Owner};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::rank::{Effect, When};
use crate::reading::Reading;

/// One setting of a host.
pub struct Knob {
    /// The knob's stable name. For a sysctl, it is the sysctl's own name. Otherwise it is area and name, such as `thp.enabled`.
    pub id: &'static str,
    /// The effect of the knob, in under ten words.
    pub title: &'static str,
    /// The part of the machine to which the knob belongs.
    pub area: Area,
    /// Where it is set.
    pub place: Place,
    /// The values that it accepts.
    pub values: Values,
    /// The kernel's default. If the kernel computes the default, a description of it.
    pub default: &'static str,
    /// When a change takes effect.
    pub takes_effect: TakesEffect,
    /// How it works, in plain words.
    pub mechanism: &'static str,
    /// The cost of a change.
    pub risk: &'static str,
    /// The counter or reading that shows whether the knob matters on a machine.
    pub shows_in: &'static str,
    /// The kernels that have it.
    pub kernels: &'static str,
    /// Its sources.
    pub sources: &'static [Source],
    /// Properties that only some knobs have.
    pub extras: Extras,
    /// The advice for a machine, with one finding per place. Never empty.
    pub advise: fn(&Facts, &AdviceContext) -> Vec<Finding>,
}

impl fmt::Debug for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Knob({})", self.id)
    }
}

impl Knob {
    /// The longest delay of a tick that the knob can prevent: the knob's own value, or else the usual value of the knob's area.
    pub fn effect(&self) -> Effect {
        self.extras.effect.unwrap_or(self.area.usual_effect())
    }

    /// Whether the knob is a property that can be set from outside, in every thread of a running process.
    pub fn is_set_while_it_runs(&self) -> bool {
        self.extras.process.is_some_and(|process| process.while_it_runs)
    }

    /// What must happen before a change takes effect.
    pub fn when(&self) -> When {
        match (self.place, self.takes_effect) {
            (Place::ByHand { .. } | Place::ByHandEach { .. }, _) => When::ByHand,
            (_, TakesEffect::AtOnce) => When::AtOnce,
            // Restarting an interface interrupts the network.
            // In the order, new interfaces come after new sockets, but not after a restart of the server.
            (_, TakesEffect::NewSockets | TakesEffect::NewInterfaces) => When::NewSockets,
            (_, TakesEffect::ProcessStart) => When::ServerRestart,
            (_, TakesEffect::Reboot) => When::Reboot,
        }
    }

    /// Whether the knob is a property of the server's own process.
    pub fn is_of_server(&self) -> bool {
        self.extras.process.is_some_and(|process| process.of == Owner::Server)
    }
}

impl Area {
    fn usual_effect(self) -> Effect {
        match self {
            Area::Network | Area::Cpu | Area::Process => Effect::Medium,
            Area::Clock | Area::Memory | Area::Disk => Effect::Small,
        }
    }
}

/// A part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Area {
    Network,
    Cpu,
    Clock,
    Memory,
    Disk,
    Process,
}

/// The place where a knob is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One file under /proc/sys, /proc or /sys.
    File {
        /// Its path.
        path: &'static str,
        /// How its text is parsed.
        reading: Reading,
    },
    /// A file that moved or disappeared in newer kernels.
    FileSince {
        /// The files, oldest first, each with the first kernel that has the file.
        /// An entry without a path names the kernel that removed the file.
        files: &'static [Since],
        /// How its text is parsed.
        reading: Reading,
    },
    /// One file for each device of a kind. The place names the device.
    Each {
        /// The kind.
        device: Device,
        /// The file's name in the device's folder.
        file: &'static str,
        /// How its text is parsed.
        reading: Reading,
    },
    /// The affinity of each interrupt of a network interface. The place is the interrupt's number.
    EachNetworkIrq,
    /// An argument of the kernel command line, without its `=`.
    KernelArgument {
        /// The argument's name.
        name: &'static str,
    },
    /// A property of the server's own process, which is set when the process starts.
    Process,
    /// A device that limits something while a process keeps it open.
    Held {
        /// The device.
        path: &'static str,
    },
    /// A property of each device of a kind that this program does not set. The place names the device.
    ByHandEach {
        /// The kind.
        device: Device,
        /// What to do, with `{device}` for the device's name and `{}` for the value.
        how: &'static str,
    },
    /// Something that this program cannot set: a setting of the cloud, a service, a tool of the driver.
    ByHand {
        /// What to do, with `{}` for the value.
        how: &'static str,
    },
}

/// The first kernel that has a knob's file at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// Major and minor number of the first kernel.
    pub kernel: (u32, u32),
    /// The file. `None` if this kernel removed the file.
    pub path: Option<&'static str>,
}

/// A kind of device. A machine can have several devices of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// An interface with hardware: `eth0`.
    Interface,
    /// A receive queue of a hardware interface: `eth0/rx-0`.
    ReceiveQueue,
    /// A disk: `vda`.
    Disk,
    /// A group of CPUs that share a frequency: `policy0`.
    FrequencyPolicy,
    /// A transmit queue of a hardware interface: `eth0/tx-0`.
    TransmitQueue,
    /// A running CPU: `cpu0`.
    Cpu,
    /// A size of transparent pages between small and huge: `hugepages-64kB`.
    ThpSize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, .. } => f.write_str(path),
            Place::FileSince { files, .. } => {
                for (at, Since { kernel: (major, minor), path }) in files.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{} since Linux {major}.{minor}", path.unwrap_or("gone"))?;
                }
                Ok(())
            }
            Place::Each { device, file, .. } => {
                let (folder, each, place) = match device {
                    Device::Interface => ("/sys/class/net/INTERFACE", "network device", "INTERFACE"),
                    Device::ReceiveQueue => ("/sys/class/net/INTERFACE/queues/rx-N", "receive queue", "INTERFACE/rx-N"),
                    Device::TransmitQueue => {
                        ("/sys/class/net/INTERFACE/queues/tx-N", "transmit queue", "INTERFACE/tx-N")
                    }
                    Device::Disk => ("/sys/block/DISK", "disk", "DISK"),
                    Device::Cpu => ("/sys/devices/system/cpu/cpuN", "CPU", "cpuN"),
                    Device::ThpSize => ("/sys/kernel/mm/transparent_hugepage/hugepages-NkB", "size", "hugepages-NkB"),
                    Device::FrequencyPolicy => ("/sys/devices/system/cpu/cpufreq/policyN", "policy", "policyN"),
                };
                write!(f, "{folder}/{file}, for each {each}; a place is {place}")
            }
            Place::ByHandEach { how, .. } => {
                write!(f, "manually, for each device: {}", how.replace("{device}", "DEVICE").replace("{}", "VALUE"))
            }
            Place::EachNetworkIrq => {
                f.write_str("/proc/irq/N/smp_affinity_list, for each interrupt of a network interface; a place is N")
            }
            Place::KernelArgument { name } => write!(f, "the argument {name}= on the kernel command line"),
            Place::Process => f.write_str("the server's own process, when it starts"),
            Place::Held { path } => write!(f, "{path}, while a process holds it open"),
            Place::ByHand { how } => write!(f, "manually: {}", how.replace("{}", "VALUE")),
        }
    }
}

impl Place {
    /// The paths of the knob's file in any kernel. Empty for files of devices, and if the knob has no file.
    pub fn files(&self) -> Vec<&'static str> {
        match self {
            Place::File { path, .. } => vec![path],
            Place::FileSince { files, .. } => files.iter().filter_map(|since| since.path).collect(),
            _ => Vec::new(),
        }
    }
}

/// The values that a knob accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A whole number within limits, both included.
    Number {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The unit, such as `bytes`. Empty for a number without a unit.
        unit: &'static str,
    },
    /// A fixed count of whole numbers, each within the same limits.
    Numbers {
        /// The count.
        count: usize,
        /// The minimum of each.
        min: i64,
        /// The maximum of each.
        max: i64,
        /// The unit, such as `pages`.
        unit: &'static str,
    },
    /// One of some words.
    Words(&'static [&'static str]),
    /// A name that the kernel offers, from the facts: letters, digits, `-`, `_`.
    Name,
    /// The text of a sysctl: words of plain letters with spaces between them. The kernel checks the rest.
    Sysctl,
    /// A set of CPUs as a list (`0-3`).
    Cpus {
        /// Whether the empty set is valid.
        may_be_empty: bool,
    },
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TakesEffect {
    /// At once.
    AtOnce,
    /// For sockets created afterwards.
    NewSockets,
    /// For network interfaces brought up afterwards.
    NewInterfaces,
    /// When the server's process starts.
    ProcessStart,
    /// After a reboot.
    Reboot,
}

/// A source for a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// The document or source file.
    pub title: &'static str,
    /// A summary of the source.
    pub says: &'static str,
}

/// The knob's file in this kernel. `None` if this kernel does not have the file, or if its version is unknown.
pub(crate) fn file_in(facts: &Facts, files: &[Since]) -> Option<&'static str> {
    let version = facts.kernel.version.known()?;
    let has = |since: &&Since| since.kernel <= (version.major, version.minor);
    files.iter().rev().find(has)?.path
}
