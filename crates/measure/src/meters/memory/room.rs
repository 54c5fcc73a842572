//! How much memory the meter may take without harm: half of what the kernel reports as available, and half of what our control group and
//! each of its ancestors have left.

use evenkeel_hostfs::Root;
use serde::Serialize;

use crate::MeterError;

/// How many levels of control groups to search.
const LEVELS_MAX: usize = 32;

/// Memory that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Room {
    /// What the machine or the tightest control group has left, in bytes.
    pub available_bytes: u64,
    /// Half of it: the most that this meter holds at any time.
    pub half_bytes: u64,
    /// What limits it: `machine`, or the folder of a control group.
    pub limited_by: String,
}

impl Room {
    /// Reads it now.
    ///
    /// # Errors
    /// If the kernel does not report available memory.
    pub fn read(root: &Root) -> Result<Room, MeterError> {
        let meminfo = root.text("/proc/meminfo").unwrap_or_default();
        let available = parse_field_kib(&meminfo, "MemAvailable:").or_else(|| parse_field_kib(&meminfo, "MemFree:"));
        let Some(mut available_bytes) = available else {
            return Err(MeterError::not_possible(
                "measure memory",
                "/proc/meminfo does not report the available memory",
            ));
        };
        let mut limited_by = "machine".to_owned();
        for folder in group_folders(&root.text("/proc/self/cgroup").unwrap_or_default()) {
            if let Some(left_bytes) = left_bytes(root, &folder).filter(|left| *left < available_bytes) {
                (available_bytes, limited_by) = (left_bytes, folder);
            }
        }
        Ok(Room { available_bytes, half_bytes: available_bytes / 2, limited_by })
    }
}

/// `NAME: N kB`, in bytes.
pub fn parse_field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let number = line[name.len()..].split_ascii_whitespace().next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders that may contain memory limits, for this process's group and all its ancestors, in both versions of control groups.
fn group_folders(groups: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let base = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        for _ in 0..LEVELS_MAX {
            folders.push(format!("{base}{path}"));
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }
    folders
}

/// What a group has left. File pages without recent use count as available, because the kernel drops them first.
fn left_bytes(root: &Root, folder: &str) -> Option<u64> {
    let number = |name: &str| root.text(&format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = root.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let unused = ["total_inactive_file ", "inactive_file "].into_iter().find_map(|name| {
        let line = stat.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].trim().parse::<u64>().ok()
    });
    Some(limit.saturating_sub(used.saturating_sub(unused.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn root(texts: &[(&str, &str)]) -> Root {
        let texts: BTreeMap<String, String> =
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Root::from(texts)
    }

    #[test]
    fn the_tightest_limit_counts() {
        let machine = ("/proc/meminfo", "MemTotal: 8000 kB\nMemFree: 100 kB\nMemAvailable:    4000 kB\n");
        let room = |texts: &[(&str, &str)]| {
            let room = Room::read(&root(texts)).unwrap();
            format!("{} {}", room.half_bytes, room.limited_by)
        };
        assert_eq!(room(&[machine]), "2048000 machine");
        assert_eq!(room(&[("/proc/meminfo", "MemFree: 100 kB")]), "51200 machine", "before Linux 3.14");
        let pod = [
            machine,
            ("/proc/self/cgroup", "0::/pod/box\n"),
            ("/sys/fs/cgroup/pod/box/memory.max", "max\n"),
            ("/sys/fs/cgroup/pod/memory.max", "1000000\n"),
            ("/sys/fs/cgroup/pod/memory.current", "900000\n"),
            ("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 500000\n"),
        ];
        assert_eq!(room(&pod), "300000 /sys/fs/cgroup/pod");
        let first_version = [
            machine,
            ("/proc/self/cgroup", "4:cpu,memory:/a\n1:cpuset:/b\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000"),
            ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3000"),
        ];
        assert_eq!(room(&first_version), "0 /sys/fs/cgroup/memory/a");
        assert!(Room::read(&root(&[])).is_err());
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,200}", lines in "([0-9]{0,3}:[a-z,]{0,9}:[/a-z]{0,20}\n){0,4}") {
            for text in [text, lines] {
                let _ = parse_field_kib(&text, "M");
                let _ = Room::read(&root(&[("/proc/meminfo", &text), ("/proc/self/cgroup", &text)]));
            }
        }
    }
}
