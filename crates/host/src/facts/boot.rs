//! How this machine starts: the init system, and the boot loader, which determines how to add a kernel argument.

use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, is_absence};

/// How this machine starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Boot {
    /// The boot loader, by the files that it leaves. evenkeel does not query the firmware.
    pub loader: Fact<BootLoader>,
    /// The init system.
    pub init: Fact<Init>,
}

/// The boot loader, as far as it matters for adding a kernel argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BootLoader {
    /// GRUB that reads `/etc/default/grub.d/*.cfg` after `/etc/default/grub`: Debian, Ubuntu.
    GrubDropIns,
    /// GRUB whose entries `grubby` changes, most of them by the Boot Loader Specification: RHEL, Fedora, Amazon Linux.
    Grubby,
    /// GRUB that reads only `/etc/default/grub`.
    Grub,
    /// The GRUB before 2, with arguments in `/boot/grub/grub.conf`.
    GrubLegacy,
    /// systemd-boot with text entries.
    SystemdBoot,
    /// A unified kernel image: the arguments are part of a signed file.
    Uki,
    /// ostree makes the entries. `rpm-ostree kargs` or the image changes them.
    Ostree,
    /// No loader in this root: the program that starts the machine (a microVM's monitor) passes the arguments to the kernel.
    None,
}

/// The init system of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// systemd manages this system.
    Systemd,
    /// Another init system, by its process name.
    Other(String),
}

impl Boot {
    pub(super) fn probe(probe: Probe<'_>) -> Boot {
        Boot { loader: probe_loader(probe), init: probe_init(probe) }
    }
}

/// As in `sd_booted(3)`: only systemd creates this directory, and only if it is the init system.
fn probe_init(probe: Probe<'_>) -> Fact<Init> {
    match probe.is_there("/run/systemd/system") {
        Fact::Known(true) => Fact::Known(Init::Systemd),
        Fact::Known(false) => {
            let name = |text: &str| (!text.is_empty()).then(|| Init::Other(text.to_owned()));
            probe.parse("/proc/1/comm", "the name of a process", name)
        }
        unknown => unknown.map(|_| Init::Systemd),
    }
}

/// systemd's stub leaves this file when it starts a unified kernel image.
const STUB: &str = "/sys/firmware/efi/efivars/StubInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
/// Where the EFI system partition may be mounted.
const ESPS: [&str; 3] = ["/boot", "/boot/efi", "/efi"];

/// Checks the most reliable signs first: what the kernel reports about its start, and then the configuration files of loaders.
fn probe_loader(probe: Probe<'_>) -> Fact<BootLoader> {
    let mut unknown = None;
    let mut holds = |fact: Fact<bool>| match fact {
        Fact::Known(holds) => holds,
        other => {
            unknown.get_or_insert(other);
            false
        }
    };
    let mut is_there = |path: &str| holds(probe.is_there(path));
    if is_there("/run/ostree-booted") {
        return Fact::Known(BootLoader::Ostree);
    }
    if is_there(STUB) {
        return Fact::Known(BootLoader::Uki);
    }
    let (has_grub, has_grubby) = (is_there("/etc/default/grub"), is_there("/usr/sbin/grubby"));
    if has_grub {
        return Fact::Known(match () {
            () if has_grubby => BootLoader::Grubby,
            () if is_there("/usr/sbin/update-grub") => BootLoader::GrubDropIns,
            () => BootLoader::Grub,
        });
    }
    if is_there("/boot/grub/grub.conf") {
        return Fact::Known(BootLoader::GrubLegacy);
    }
    if has_grubby && holds(has_file(probe, "/boot/loader/entries", ".conf")) {
        return Fact::Known(BootLoader::Grubby);
    }
    if ESPS.iter().any(|esp| holds(has_file(probe, &format!("{esp}/EFI/Linux"), ".efi"))) {
        return Fact::Known(BootLoader::Uki);
    }
    if ESPS.iter().any(|esp| holds(probe.is_there(&format!("{esp}/loader/loader.conf")))) {
        return Fact::Known(BootLoader::SystemdBoot);
    }
    match unknown {
        Some(unknown) => unknown.map(|_| BootLoader::None),
        None => Fact::Known(BootLoader::None),
    }
}

/// Whether a directory contains a file with this suffix. False for a missing directory.
fn has_file(probe: Probe<'_>, dir: &str, end: &str) -> Fact<bool> {
    match probe.0.entries(dir) {
        Ok(names) => Fact::Known(names.iter().any(|name| name.ends_with(end))),
        Err(refusal) if is_absence(&refusal) => Fact::Known(false),
        Err(refusal) => refusal.into(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use evenkeel_sys::Errno;
    use expect_test::expect;

    use super::*;

    /// A machine that has the paths `there`, and reports all others as missing.
    fn boot(there: &[&str], refused: &[&str]) -> String {
        let mut capture = Capture::default();
        let files = ["/run/ostree-booted", STUB, "/etc/default/grub", "/usr/sbin/grubby", "/usr/sbin/update-grub"];
        let files = files.into_iter().chain(["/boot/grub/grub.conf", "/run/systemd/system"]).map(str::to_owned);
        let loaders = ESPS.iter().map(|esp| format!("{esp}/loader/loader.conf"));
        for path in files.chain(loaders) {
            let errno = match path.as_str() {
                path if there.contains(&path) => Errno::INVAL,
                path if refused.contains(&path) => Errno::ACCESS,
                _ => Errno::NOENT,
            };
            capture.saw_link(&path, Err(errno));
        }
        let dirs = ESPS.iter().map(|esp| format!("{esp}/EFI/Linux")).chain(["/boot/loader/entries".to_owned()]);
        for dir in dirs {
            let names: Vec<String> =
                there.iter().filter_map(|path| path.strip_prefix(&format!("{dir}/")).map(str::to_owned)).collect();
            let nothing = if refused.contains(&dir.as_str()) { Errno::ACCESS } else { Errno::NOENT };
            capture.saw_entries(&dir, if names.is_empty() { Err(nothing) } else { Ok(names) });
        }
        capture.saw_text("/proc/1/comm", Ok("init\n".to_owned()));
        let boot = Boot::probe(Probe(&Root::captured(capture)));
        serde_json::to_string(&boot).unwrap()
    }

    #[test]
    fn the_loader_is_known_by_its_files() {
        let entry = "/boot/loader/entries/a.conf";
        let table: [(&str, &[&str], &[&str]); 12] = [
            ("Debian", &["/etc/default/grub", "/usr/sbin/update-grub", "/run/systemd/system"], &[]),
            ("RHEL, as its user", &["/etc/default/grub", "/usr/sbin/grubby"], &["/boot/loader/entries"]),
            ("RHEL without defaults", &["/usr/sbin/grubby", entry], &[]),
            ("grubby left in an image that nothing boots", &["/usr/sbin/grubby"], &[]),
            ("Arch", &["/etc/default/grub"], &[]),
            ("RHEL 6", &["/boot/grub/grub.conf"], &[]),
            ("systemd-boot", &["/efi/loader/loader.conf", entry], &[]),
            ("an image with a unified kernel", &["/boot/efi/EFI/Linux/a.efi", "/boot/efi/loader/loader.conf"], &[]),
            ("a unified kernel and GRUB", &[STUB, "/etc/default/grub"], &[]),
            ("CoreOS", &["/run/ostree-booted", "/usr/sbin/grubby", entry], &[]),
            ("a microVM", &[], &[]),
            ("not for this user", &[], &["/boot/efi/EFI/Linux"]),
        ];
        let seen: String =
            table.iter().map(|(label, there, refused)| format!("{label}: {}\n", boot(there, refused))).collect();
        expect![[r#"
            Debian: {"loader":"grub-drop-ins","init":"systemd"}
            RHEL, as its user: {"loader":"grubby","init":{"other":"init"}}
            RHEL without defaults: {"loader":"grubby","init":{"other":"init"}}
            grubby left in an image that nothing boots: {"loader":"none","init":{"other":"init"}}
            Arch: {"loader":"grub","init":{"other":"init"}}
            RHEL 6: {"loader":"grub-legacy","init":{"other":"init"}}
            systemd-boot: {"loader":"systemd-boot","init":{"other":"init"}}
            an image with a unified kernel: {"loader":"uki","init":{"other":"init"}}
            a unified kernel and GRUB: {"loader":"uki","init":{"other":"init"}}
            CoreOS: {"loader":"ostree","init":{"other":"init"}}
            a microVM: {"loader":"none","init":{"other":"init"}}
            not for this user: {"loader":{"unknown":"denied","why":"/boot/efi/EFI/Linux: permission denied (EACCES)"},"init":{"other":"init"}}
        "#]].assert_eq(&seen);
    }
}
