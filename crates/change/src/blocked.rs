//! Finds the reason behind a refused write:
//! a lockdown, a container, an interrupt that its driver manages, or missing privileges.
//! The error numbers of these reasons are the same, but each reason needs another fix.

use std::fmt;

use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::{Errno, process};
use serde::{Deserialize, Serialize};

/// What prevents a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Blocker {
    /// The kernel is locked down, as under Secure Boot.
    Lockdown,
    /// The container shows the host's settings but does not allow writes.
    Container,
    /// The kernel manages this interrupt itself.
    ManagedIrq,
    /// This user lacks the capability.
    Capability(Capability),
}

/// A capability (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Capability {
    /// The capability to change network settings in this network namespace.
    CapNetAdmin,
    /// The capability to change everything else, because root owns the files.
    CapDacOverride,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Blocker::Lockdown => {
                "the kernel is locked down: it denies this even to root until Secure Boot, or lockdown=, is off"
            }
            Blocker::Container => "it belongs to the host, and a container may not change it: set it on the host",
            Blocker::ManagedIrq => {
                "the kernel manages this interrupt and spreads it over the CPUs: you cannot set its affinity"
            }
            Blocker::Capability(Capability::CapNetAdmin) => "this user may not: it needs CAP_NET_ADMIN or root",
            Blocker::Capability(Capability::CapDacOverride) => {
                "this user may not: it needs root (CAP_DAC_OVERRIDE, because root owns the file)"
            }
        })
    }
}

/// The reason behind `errno`, which the kernel returned for `path`; `None` if the kernel refused the value itself.
pub(crate) fn blocker(root: &Root, path: &str, errno: Errno) -> Option<Blocker> {
    if path.starts_with("/proc/irq/") && (errno == Errno::IO || (errno == Errno::PERM && may_be_root(root))) {
        return Some(Blocker::ManagedIrq);
    }
    if errno != Errno::ROFS && !errno.is_denial() {
        return None;
    }
    if errno != Errno::ROFS && !may_be_root(root) {
        let needed = if path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/") {
            Capability::CapNetAdmin
        } else {
            Capability::CapDacOverride
        };
        return Some(Blocker::Capability(needed));
    }
    if path.starts_with("/sys/kernel/debug/") && is_locked_down(root) {
        return Some(Blocker::Lockdown);
    }
    is_container(root).then_some(Blocker::Container)
}

/// Whether this user may be root. We assume that root captured a captured machine.
fn may_be_root(root: &Root) -> bool {
    root.kind() != RootKind::Live || process::is_root()
}

/// If securityfs is not mounted, assume a lockdown.
/// Without a lockdown root may write to debugfs, so a refusal indicates a lockdown.
fn is_locked_down(root: &Root) -> bool {
    root.text("/sys/kernel/security/lockdown").map_or(true, |text| !text.contains("[none]"))
}

/// Container runtimes leave these marks. A read-only mount without such a mark can have other causes.
fn is_container(root: &Root) -> bool {
    let exists = |path: &str| root.text(path).is_ok();
    exists("/.dockerenv") || exists("/run/.containerenv") || exists("/run/systemd/container")
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn one_number_has_many_reasons() {
        let root = |files: &str| Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{files}end\n")).unwrap());
        let plain = root("/sys/kernel/security/lockdown = [none] integrity confidentiality\n");
        let locked = root("/sys/kernel/security/lockdown = none [integrity] confidentiality\n");
        let container = root("/.dockerenv = \n");
        let irq = "/proc/irq/26/smp_affinity_list";
        let debug = "/sys/kernel/debug/sched/base_slice_ns";
        let sysctl = "/proc/sys/vm/swappiness";
        let table = [
            (&plain, irq, Errno::IO, Some(Blocker::ManagedIrq)),
            (&plain, irq, Errno::PERM, Some(Blocker::ManagedIrq)),
            (&plain, irq, Errno::INVAL, None),
            (&plain, sysctl, Errno::INVAL, None),
            (&plain, sysctl, Errno::ROFS, None),
            (&plain, debug, Errno::PERM, None),
            (&locked, debug, Errno::PERM, Some(Blocker::Lockdown)),
            (&locked, sysctl, Errno::ACCESS, None),
            (&container, sysctl, Errno::ROFS, Some(Blocker::Container)),
            (&container, sysctl, Errno::ACCESS, Some(Blocker::Container)),
        ];
        for (root, path, errno, expected) in table {
            assert_eq!(blocker(root, path, errno), expected, "{path} {errno:?}");
        }
    }
}
