//! Control groups: finds the groups of a process.
//! Removes the groups that evenkeel created for one command, together with the processes that still run in them.

mod place;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_sys::{Errno, clock};
use rustix::process::{Pid, PidfdFlags, Signal};

pub use place::{Membership, Place, parse_membership};

/// The name prefix of the groups that evenkeel creates. evenkeel removes only groups with this prefix.
pub const PREFIX: &str = "evenkeel-";

/// Limits on the depth and the number of groups that a command may have created below its own. Deeper or further groups are ignored.
const DEPTH_MAX: usize = 8;
const GROUPS_MAX: usize = 1000;

/// The pause between two checks of a group that is not empty yet.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// The maximum size of a process list that is read, in bytes. This size is enough for 8,192 processes.
const LIST_BYTES_MAX: u64 = 1 << 16;

/// Whether `path` is a control group that may be removed: below a mount of control groups, and with our name.
pub fn is_ours(path: &Path) -> bool {
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX));
    let plain = path.components().all(|part| part != std::path::Component::ParentDir);
    named && plain && path.starts_with("/sys/fs/cgroup")
}

/// Kills every process in the group at `path` and in the groups below it, and removes all these groups. A missing group counts as removed.
///
/// # Errors
/// `EINVAL` if the group is not ours ([`is_ours`]); `EBUSY` if it is not empty within `limit`; else the kernel's error.
pub fn remove(path: &Path, limit: Duration) -> Result<(), Errno> {
    if !is_ours(path) {
        return Err(Errno::INVAL);
    }
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = clock::monotonic_ns().saturating_add(limit_ns);
    loop {
        match remove_all(path) {
            Err(Errno::BUSY) if clock::monotonic_ns() < deadline_ns => {}
            done => return done,
        }
        for group in with_inner(path) {
            kill_all(&group);
        }
        clock::sleep_until_ns(clock::monotonic_ns() + LOOK_EVERY_NS);
    }
}

/// Removes the innermost groups first, because the kernel does not remove a group that contains groups.
fn remove_all(path: &Path) -> Result<(), Errno> {
    for group in with_inner(path).iter().rev() {
        match std::fs::remove_dir(group).map_err(|error| Errno::from(&error)) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The group and all groups below it, parents first.
fn with_inner(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![(path.to_owned(), 0)];
    let mut at = 0;
    while at < found.len() && found.len() < GROUPS_MAX {
        let (group, depth) = found[at].clone();
        at += 1;
        for entry in std::fs::read_dir(&group).into_iter().flatten().flatten() {
            if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push((entry.path(), depth + 1));
            }
        }
    }
    found.into_iter().map(|(group, _)| group).collect()
}

/// Kills the processes in one group. If a process cannot be killed, the group is not empty, and its removal fails with `EBUSY`.
fn kill_all(group: &Path) {
    let at_once = std::fs::OpenOptions::new().write(true).open(group.join("cgroup.kill"));
    if at_once.and_then(|mut file| file.write_all(b"1")).is_ok() {
        return;
    }
    for pid in members(group) {
        let Some(named) = Pid::from_raw(pid) else { continue };
        let Ok(held) = rustix::process::pidfd_open(named, PidfdFlags::empty()) else { continue };
        // The kernel may have reused the pid before we opened it. The open pidfd stays with one process, so check again.
        if members(group).contains(&pid) {
            let _ = rustix::process::pidfd_send_signal(&held, Signal::KILL);
        }
    }
}

/// The processes in a group. Empty if the group cannot be read.
pub fn members(group: &Path) -> Vec<i32> {
    let mut text = String::new();
    let read = std::fs::File::open(group.join("cgroup.procs"))
        .and_then(|file| file.take(LIST_BYTES_MAX).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn only_groups_of_ours_are_touched() {
        let table = [
            ("/sys/fs/cgroup/cpu/evenkeel-7", true),
            ("/sys/fs/cgroup/user.slice/evenkeel-7", true),
            ("/sys/fs/cgroup/cpu/docker", false),
            ("/sys/fs/cgroup", false),
            ("/sys/fs/cgroup/cpu/../../../../etc/evenkeel-7", false),
            ("/tmp/evenkeel-7", false),
            ("evenkeel-7", false),
        ];
        for (path, ours) in table {
            assert_eq!(is_ours(Path::new(path)), ours, "{path}");
        }
        assert_eq!(remove(Path::new("/tmp"), LIMIT), Err(Errno::INVAL));
        assert_eq!(remove(Path::new("/sys/fs/cgroup/evenkeel-is-not-there"), LIMIT), Ok(()));
    }

    /// Tests each hierarchy of this machine. Version 1 has no file that kills a group at once.
    #[test]
    fn a_group_goes_with_all_that_is_in_it() {
        let mut made = 0;
        for hierarchy in ["", "cpu", "cpu,cpuacct", "unified"] {
            let group =
                Path::new("/sys/fs/cgroup").join(hierarchy).join(format!("{PREFIX}test-{}", std::process::id()));
            let inner = group.join("inner");
            if !group.parent().is_some_and(|mount| mount.join("cgroup.procs").exists())
                || std::fs::create_dir_all(&inner).is_err()
            {
                continue;
            }
            let mut sleepers = [&group, &inner].map(|group| {
                let child = Command::new("sleep").arg("60").spawn().unwrap();
                let _ = std::fs::write(group.join("cgroup.procs"), child.id().to_string());
                child
            });
            let held = members(&group).len() + members(&inner).len();
            assert_eq!(remove(&group, LIMIT), Ok(()), "{}", group.display());
            assert!(!group.exists());
            let killed: Vec<_> = sleepers
                .iter_mut()
                .map(|child| {
                    let _ = child.kill();
                    child.wait().unwrap().signal()
                })
                .collect();
            assert_eq!(killed, [Some(9), Some(9)]);
            made += usize::from(held > 0);
        }
        if made == 0 {
            evenkeel_testkit::skipped("this user may not make control groups here");
        }
    }
}
