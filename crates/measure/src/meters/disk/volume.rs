//! The volume of a directory, and whether it is also the boot volume. On a shared volume, system logs and server data wait for each other.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{parse_mounts, unescape};
use serde::Serialize;

/// The maximum number of layers of stacked devices to follow.
const LAYERS_MAX: usize = 8;
/// The maximum number of disks of one volume.
const DISKS_MAX: usize = 64;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Volume {
    /// The directory.
    pub path: String,
    /// The mount point of its file system.
    pub mount_point: String,
    /// The mounted device in the kernel's words: `/dev/vda1`, `tmpfs`.
    pub source: String,
    /// The type of the file system: `ext4`, `xfs`, `tmpfs`.
    pub file_system: String,
    /// The device's number, `MAJOR:MINOR`.
    pub device: String,
    /// The whole disks of the volume, by the kernel's names. Empty if the volume is on no disk, or if its disks are unknown.
    pub disks: Vec<String>,
}

/// What two directories share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Shared {
    /// Both directories are on one file system.
    FileSystem,
    /// The directories are on different file systems, which have at least one disk in common.
    Disk,
    /// The directories share no disk.
    Nothing,
    /// It is unknown what the directories share.
    Unknown,
}

impl Volume {
    /// The volume of a directory. None if its mount cannot be found.
    pub fn find(path: &Path, root: &Root) -> Option<Volume> {
        let path = path.canonicalize().ok()?;
        let number = std::fs::metadata(&path).ok()?.dev();
        let device = format!("{}:{}", major(number), minor(number));
        let mountinfo = root.text("/proc/self/mountinfo").ok()?;
        let text = path.to_str()?;
        // If several file systems are mounted at one place, only the last is visible.
        let mounts = parse_mounts(&mountinfo).map(|mount| (unescape(mount.at), mount));
        let (mount_point, mount) =
            mounts.filter(|(at, _)| is_below(text, at)).max_by_key(|(mount_point, _)| mount_point.len())?;
        let source = unescape(mount.source);
        let mut disks = Vec::new();
        // Some file systems have a device number without a device (btrfs, overlay). Then the mount source names the device.
        let from_source = || std::fs::metadata(&source).ok().map(|device| device.rdev());
        let from_source = || from_source().map(|number| format!("{}:{}", major(number), minor(number)));
        for device in [Some(device.clone()), from_source()].into_iter().flatten() {
            if disks.is_empty() {
                whole_disks(root, &device, LAYERS_MAX, &mut disks);
            }
        }
        disks.sort();
        disks.dedup();
        let file_system = mount.kind.to_owned();
        Some(Volume { path: text.to_owned(), mount_point, source, file_system, device, disks })
    }

    /// What this volume and another volume share.
    pub fn shares(&self, other: &Volume) -> Shared {
        if self.device == other.device {
            return Shared::FileSystem;
        }
        match (self.disks.is_empty(), other.disks.is_empty()) {
            (false, false) if self.disks.iter().any(|disk| other.disks.contains(disk)) => Shared::Disk,
            (false, false) => Shared::Nothing,
            // A file system in memory shares no disk.
            _ if is_memory(&self.file_system) || is_memory(&other.file_system) => Shared::Nothing,
            _ => Shared::Unknown,
        }
    }

    /// Whether the file system is in memory only.
    pub fn is_memory(&self) -> bool {
        is_memory(&self.file_system)
    }
}

fn is_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs" | "rootfs")
}

fn is_below(path: &str, mount_point: &str) -> bool {
    let below = path.strip_prefix(mount_point.trim_end_matches('/'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The disks under a block device: the disk of a partition, or the parts of a mapped device.
fn whole_disks(root: &Root, device: &str, layers: usize, disks: &mut Vec<String>) {
    let Ok(link) = root.link(&format!("/sys/dev/block/{device}")) else { return };
    let mut names = link.rsplit('/');
    let (Some(name), above) = (names.next(), names.next()) else { return };
    let is_partition = root.text(&format!("/sys/dev/block/{device}/partition")).is_ok();
    let disk = if is_partition { above.unwrap_or(name) } else { name };
    let below = root.entries(&format!("/sys/class/block/{disk}/slaves")).unwrap_or_default();
    if below.is_empty() || layers == 0 {
        if disks.len() < DISKS_MAX {
            disks.push(disk.to_owned());
        }
        return;
    }
    for name in below.iter().take(DISKS_MAX) {
        if let Ok(number) = root.text(&format!("/sys/class/block/{name}/dev")) {
            whole_disks(root, number.trim(), layers - 1, disks);
        }
    }
}

/// The major number of a device number, as glibc's `gnu_dev_major` computes it.
fn major(number: u64) -> u64 {
    (number >> 8) & 0xfff | (number >> 32) & 0xffff_f000
}

/// The minor number of a device number, as glibc's `gnu_dev_minor` computes it.
fn minor(number: u64) -> u64 {
    number & 0xff | (number >> 12) & 0xffff_ff00
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn a_mount_has_what_is_below_it() {
        let table = [("/mnt/a", "/", true), ("/mnt", "/mnt", true), ("/mnt/a", "/mnt", true), ("/mnta", "/mnt", false)];
        for (path, mount_point, is) in table {
            assert_eq!(is_below(path, mount_point), is, "{path} {mount_point}");
        }
    }

    #[test]
    fn a_volume_is_followed_to_its_disks() {
        let mut capture = Capture::default();
        let mut link =
            |device: &str, to: &str| capture.saw_link(&format!("/sys/dev/block/{device}"), Ok(to.to_owned()));
        link("253:0", "../../devices/virtual/block/dm-0");
        link("259:2", "../../devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p1");
        link("8:16", "../../devices/pci0000:00/ata1/block/sdb");
        capture.saw_entries("/sys/class/block/dm-0/slaves", Ok(vec!["nvme0n1p1".to_owned(), "sdb".to_owned()]));
        capture.saw_text("/sys/class/block/nvme0n1p1/dev", Ok("259:2\n".to_owned()));
        capture.saw_text("/sys/class/block/sdb/dev", Ok("8:16\n".to_owned()));
        capture.saw_text("/sys/dev/block/259:2/partition", Ok("1\n".to_owned()));
        let root = Root::captured(capture);
        let disks = |device: &str| {
            let mut disks = Vec::new();
            whole_disks(&root, device, LAYERS_MAX, &mut disks);
            disks
        };
        assert_eq!(disks("253:0"), ["nvme0n1", "sdb"]);
        assert_eq!(disks("259:2"), ["nvme0n1"]);
        assert!(disks("0:22").is_empty());

        let volume = |device: &str, file_system: &str| Volume {
            path: "/x".to_owned(),
            mount_point: "/x".to_owned(),
            source: "none".to_owned(),
            file_system: file_system.to_owned(),
            device: device.to_owned(),
            disks: disks(device),
        };
        let root_volume = volume("259:2", "ext4");
        assert_eq!(root_volume.shares(&volume("259:2", "ext4")), Shared::FileSystem);
        assert_eq!(root_volume.shares(&volume("253:0", "xfs")), Shared::Disk);
        assert_eq!(root_volume.shares(&volume("8:16", "xfs")), Shared::Nothing);
        assert_eq!(root_volume.shares(&volume("0:29", "tmpfs")), Shared::Nothing);
        assert_eq!(root_volume.shares(&volume("0:30", "btrfs")), Shared::Unknown);
    }

    #[test]
    fn numbers_of_devices_are_split_as_the_c_library_does() {
        assert_eq!((major(0xfe00), minor(0xfe00)), (254, 0));
        assert_eq!((major(0x0010_3502), minor(0x0010_3502)), (53, 0x102));
    }

    #[test]
    fn this_machines_root_is_found() {
        let volume = Volume::find(Path::new("/"), &Root::live()).unwrap();
        assert_eq!((&*volume.mount_point, volume.shares(&volume)), ("/", Shared::FileSystem));
        assert_eq!(Volume::find(Path::new("/evenkeel-has-no-such-directory"), &Root::live()), None);
    }
}
