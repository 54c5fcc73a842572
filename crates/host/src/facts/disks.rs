//! Block devices: their kind, how their requests are queued, and which device has the root file system.

use std::collections::BTreeSet;

use evenkeel_hostfs::proc::parse_mounts;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, and_then, chosen_word, is_absence};

/// The block devices of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disks {
    /// Each disk, by name, without devices made of memory, files or other disks.
    pub disks: Fact<Vec<Disk>>,
    /// The disk that `/` is on, such as `nvme0n1`.
    pub root: Fact<String>,
    /// The disks with a mounted file system, by name. If there is only one, the system and the server's data share its queue.
    pub mounted: Fact<Vec<String>>,
    /// Whether Xen's driver keeps pages granted to the host, so that it does not grant new pages for each request.
    /// Absent without Xen disks.
    pub xen_persistent_grants: Fact<bool>,
}

/// One block device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disk {
    /// Its name in /sys/block.
    pub name: String,
    /// The kind of the disk's driver, from its name and its model.
    pub kind: DiskKind,
    /// The model that the device reports. Absent for virtio and Xen.
    pub model: Fact<String>,
    /// The scheduler of the disk's requests.
    pub scheduler: Fact<Scheduler>,
    /// Whether the kernel considers the disk a rotating disk. Hypervisors often report this wrongly.
    pub rotational: Fact<bool>,
    /// How far the kernel reads ahead in a sequential file, in KiB.
    pub read_ahead_kb: Fact<u64>,
    /// How many requests may wait in each queue.
    pub nr_requests: Fact<u64>,
}

/// The kind of a disk's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Amazon's network storage as the guest sees it on Nitro.
    Ebs,
    /// Other NVMe: in a cloud mostly a local disk.
    Nvme,
    /// A virtio disk.
    Virtio,
    /// Xen's paravirtual disk.
    Xen,
    /// SCSI or ATA, which hypervisors emulate or paravirtualise.
    Scsi,
    /// Something else.
    Other,
}

/// The scheduler of a disk's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scheduler {
    /// The scheduler in force.
    pub chosen: String,
    /// The schedulers that the kernel offers for this disk.
    pub available: Vec<String>,
}

/// The maximum number of disks to read. No instance has more. A larger number would be an error or an attack.
const DISKS_MAX: usize = 256;

impl Disks {
    pub(super) fn probe(probe: Probe<'_>) -> Disks {
        let names = probe.entries("/sys/block");
        let root = root(probe, &names);
        let mounted = mounted(probe, &names);
        let disks = names.map(|names| {
            let names = names.into_iter().filter(|name| is_disk(name)).take(DISKS_MAX);
            names.map(|name| Disk::probe(probe, name)).collect::<Vec<_>>()
        });
        let xen_persistent_grants = match &disks {
            Fact::Known(disks) if disks.iter().any(|disk| disk.kind == DiskKind::Xen) => {
                probe.parse("/sys/module/xen_blkfront/parameters/feature_persistent", "Y or N", parse_flag)
            }
            Fact::Known(_) => Fact::absent("no disk is a Xen disk"),
            unknown => unknown.clone().map(|_| false),
        };
        Disks { disks, root, mounted, xen_persistent_grants }
    }

    /// Whether the system and all other mounts share one disk. `None` if unknown.
    pub fn is_one_for_all(&self) -> Option<bool> {
        self.mounted.known().filter(|mounted| !mounted.is_empty()).map(|mounted| mounted.len() == 1)
    }

    /// The disks. Empty if unknown.
    pub fn each(&self) -> impl Iterator<Item = &Disk> {
        self.disks.known().into_iter().flatten()
    }
}

impl Disk {
    fn probe(probe: Probe<'_>, name: String) -> Disk {
        let dir = format!("/sys/block/{name}");
        let model = match kind(&name, None) {
            DiskKind::Nvme | DiskKind::Scsi => probe.text(&format!("{dir}/device/model")),
            _ => Fact::absent("this kind of disk reports no model"),
        };
        Disk {
            kind: kind(&name, model.known().map(String::as_str)),
            model,
            scheduler: probe.parse(&format!("{dir}/queue/scheduler"), "a list of schedulers", parse_schedulers),
            rotational: probe.parse(&format!("{dir}/queue/rotational"), "0 or 1", parse_flag),
            read_ahead_kb: probe.number(&format!("{dir}/queue/read_ahead_kb")),
            nr_requests: probe.number(&format!("{dir}/queue/nr_requests")),
            name,
        }
    }
}

/// Loop devices, RAM disks, compressed memory, and devices made of other devices have no relevant queue.
/// Servers do not use floppy and optical drives.
fn is_disk(name: &str) -> bool {
    let plain = !name.is_empty() && name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain && !["loop", "ram", "zram", "md", "sr", "fd", "nbd"].iter().any(|prefix| numbered(name, prefix))
}

fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn kind(name: &str, model: Option<&str>) -> DiskKind {
    match (name, model) {
        (_, Some("Amazon Elastic Block Store")) => DiskKind::Ebs,
        _ if name.starts_with("nvme") => DiskKind::Nvme,
        _ if name.starts_with("xvd") => DiskKind::Xen,
        _ if name.starts_with("vd") => DiskKind::Virtio,
        _ if name.starts_with("sd") => DiskKind::Scsi,
        _ => DiskKind::Other,
    }
}

/// The disk with the device number that the kernel gives for `/`.
/// The device name in mountinfo may be `/dev/root`, which is not a device.
fn root(probe: Probe<'_>, names: &Fact<Vec<String>>) -> Fact<String> {
    let path = format!("{}/mountinfo", probe.process());
    let number = probe.parse(&path, "a line for /", root_device);
    and_then(number, |number| {
        and_then(names.clone(), |names| {
            let path = format!("/sys/dev/block/{number}");
            match probe.0.link(&path) {
                Ok(target) => match disk_of(&target, &names) {
                    Some(disk) => Fact::Known(disk.to_owned()),
                    None => Fact::odd(&path, &target, format!("{path} should lead to a disk")),
                },
                Err(refusal) => refusal.into(),
            }
        })
    })
}

/// The disks of all mounts, by device number. Numbers without a disk, such as a volume on several disks, are left out.
fn mounted(probe: Probe<'_>, names: &Fact<Vec<String>>) -> Fact<Vec<String>> {
    let path = format!("{}/mountinfo", probe.process());
    let numbers = probe.parse(&path, "lines of mounts", |text| Some(devices(text)));
    and_then(numbers, |numbers| {
        and_then(names.clone(), |names| {
            let mut disks = BTreeSet::new();
            for number in numbers {
                match probe.0.link(&format!("/sys/dev/block/{number}")) {
                    Ok(target) => disks.extend(disk_of(&target, &names).map(str::to_owned)),
                    // A network or virtual device has no link. If a device was never read, it may still be a disk.
                    Err(refusal) if is_absence(&refusal) => {}
                    Err(refusal) => return refusal.into(),
                }
            }
            Fact::Known(disks.into_iter().filter(|name| is_disk(name)).collect())
        })
    })
}

/// The device numbers of mounts, without file systems that have no device (major 0).
fn devices(mountinfo: &str) -> BTreeSet<String> {
    const DEVICES_MAX: usize = 64;
    let mut numbers = BTreeSet::new();
    for mount in parse_mounts(mountinfo).filter(|mount| mount.device.0 != 0) {
        if numbers.len() == DEVICES_MAX {
            break;
        }
        numbers.insert(mount.device_name());
    }
    numbers
}

/// The last mount on `/` hides earlier mounts.
fn root_device(mountinfo: &str) -> Option<String> {
    parse_mounts(mountinfo).filter(|mount| mount.at == "/").last().map(|mount| mount.device_name())
}

/// `../../devices/…/block/vda/vda1` means the disk vda.
fn disk_of<'a>(target: &'a str, names: &[String]) -> Option<&'a str> {
    target.rsplit('/').take(2).find(|part| names.iter().any(|name| name == part))
}

fn parse_schedulers(text: &str) -> Option<Scheduler> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // A kernel without any scheduler prints `none` without brackets.
    let chosen = if words == ["none"] { "none" } else { chosen_word(text)? };
    let available = words.iter().map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
    Some(Scheduler { chosen: chosen.to_owned(), available })
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "1" | "Y" => Some(true),
        "0" | "N" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn excludes_devices_made_of_others() {
        let disks = ["vda", "xvda", "nvme0n1", "sda", "sdfa", "mmcblk0", "ramsey"];
        let others = ["loop0", "ram15", "zram0", "dm-0", "md127", "sr0", "fd0", "nbd3", "", "../..", "a b"];
        assert!(disks.iter().all(|name| is_disk(name)));
        assert!(!others.iter().any(|name| is_disk(name)));
        let table = [
            ("nvme0n1", Some("Amazon Elastic Block Store"), DiskKind::Ebs),
            ("nvme1n1", Some("Amazon EC2 NVMe Instance Storage"), DiskKind::Nvme),
            ("vda", None, DiskKind::Virtio),
            ("xvda", None, DiskKind::Xen),
            ("sda", Some("Virtual Disk"), DiskKind::Scsi),
            ("mmcblk0", None, DiskKind::Other),
        ];
        for (name, model, expected) in table {
            assert_eq!(kind(name, model), expected, "{name}");
        }
    }

    #[test]
    fn finds_the_root_disk_by_device_number() {
        let table = [
            ("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw", Some("254:0")),
            ("22 27 0:21 / /proc rw - proc proc rw\n27 1 259:1 / / rw - xfs /dev/root rw", Some("259:1")),
            ("1 1 0:2 / / rw - rootfs rootfs rw\n27 1 8:1 / / rw - ext4 /dev/sda1 rw", Some("8:1")),
            ("27 1 8:1 / /var rw - ext4 /dev/sda1 rw", None),
            ("27 1 8:x / / rw - ext4 /dev/sda1 rw", None),
            ("27 1 ../..:1 / / rw - ext4 /dev/sda1 rw", None),
            ("27 1", None),
        ];
        for (text, expected) in table {
            assert_eq!(root_device(text).as_deref(), expected, "{text}");
        }
        let names = ["dm-0", "nvme0n1", "vda", "xvda"].map(str::to_owned);
        let table = [
            ("../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda", Some("vda")),
            ("../../devices/vbd-768/block/xvda/xvda1", Some("xvda")),
            ("../../devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/nvme0n1p1", Some("nvme0n1")),
            ("../../devices/virtual/block/dm-0", Some("dm-0")),
            ("../../devices/virtual/block/loop0", None),
            ("", None),
        ];
        for (target, expected) in table {
            assert_eq!(disk_of(target, &names), expected, "{target}");
        }
    }

    #[test]
    fn distinguishes_one_disk_from_several() {
        let of = |mounts: &str| {
            let text = format!(
                "evenkeel-capture 1\n/proc/self/cgroup = 0::/\n/proc/self/mountinfo =\n{mounts}\n/sys/block/ : nvme0n1 nvme1n1\n\
                 /sys/dev/block/259:1 -> ../../devices/x/nvme0n1/nvme0n1p1\n\
                 /sys/dev/block/259:2 -> ../../devices/x/nvme0n1/nvme0n1p2\n\
                 /sys/dev/block/259:5 -> ../../devices/x/nvme/nvme1/nvme1n1\nend\n"
            );
            let root = Root::captured(Capture::parse(&text).unwrap());
            let disks = Disks::probe(Probe(&root));
            (disks.mounted.known().unwrap().join(" "), disks.is_one_for_all())
        };
        let (root, boot) = ("| 1 1 259:1 / / rw - ext4 x rw", "| 2 1 259:2 / /boot rw - ext4 x rw");
        let (data, none) = ("| 3 1 259:5 / /srv rw - ext4 x rw", "| 4 1 0:5 / /proc rw - proc proc rw");
        assert_eq!(of(&format!("{root}\n{boot}\n{none}")), ("nvme0n1".to_owned(), Some(true)));
        assert_eq!(of(&format!("{root}\n{data}")), ("nvme0n1 nvme1n1".to_owned(), Some(false)));
        assert_eq!(of(none), (String::new(), None));
    }

    #[test]
    fn parses_schedulers() {
        let as_text = |text| parse_schedulers(text).map(|found| (found.chosen, found.available.join(" ")));
        let some = |chosen: &str, available: &str| Some((chosen.to_owned(), available.to_owned()));
        assert_eq!(as_text("none [mq-deadline] kyber bfq"), some("mq-deadline", "none mq-deadline kyber bfq"));
        assert_eq!(as_text("none"), some("none", "none"));
        assert_eq!(as_text("noop deadline"), None);
        assert_eq!(as_text(""), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "([0-9]{1,3}|:|/| |\\[|\\]|none|block|\n)*|.{0,40}") {
            let _ = (devices(&text), root_device(&text), parse_schedulers(&text), disk_of(&text, &[]), is_disk(&text));
        }
    }
}
