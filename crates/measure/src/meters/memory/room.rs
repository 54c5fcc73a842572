//! How much memory the meter may take without harm: half of the available memory.
//! Available is the smaller of two amounts: the memory that the kernel reports as available,
//! and the least that our control group or any of its ancestors has left.

use evenkeel_hostfs::Root;
use evenkeel_hostfs::cgroup::{Place, parse_membership};
use evenkeel_hostfs::proc::{amount, count};
use serde::Serialize;

use crate::MeterError;

/// Memory that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Room {
    /// The memory that the machine or the tightest control group has left, in bytes.
    pub available_bytes: u64,
    /// Half of `available_bytes`, which is the maximum that this meter holds at any time.
    pub half_bytes: u64,
    /// What limits the available memory: `machine`, or the folder of a control group.
    pub limited_by: String,
}

impl Room {
    /// Reads the available memory now.
    ///
    /// # Errors
    /// Fails if the kernel does not report available memory.
    pub fn read(root: &Root) -> Result<Room, MeterError> {
        let meminfo = root.text("/proc/meminfo").unwrap_or_default();
        let available = amount(&meminfo, "MemAvailable").or_else(|| amount(&meminfo, "MemFree"));
        let Some(mut available_bytes) = available else {
            return Err(MeterError::not_possible(
                "measure memory",
                "/proc/meminfo does not report the available memory",
            ));
        };
        let mut limited_by = "machine".to_owned();
        let (folders, is_v2) = levels(root).unwrap_or_default();
        for folder in folders {
            if let Some(left_bytes) = left_bytes(root, &folder, is_v2).filter(|left| *left < available_bytes) {
                (available_bytes, limited_by) = (left_bytes, folder);
            }
        }
        Ok(Room { available_bytes, half_bytes: available_bytes / 2, limited_by })
    }
}

/// The group that has the memory controller, with its ancestors.
fn levels(root: &Root) -> Option<(Vec<String>, bool)> {
    let membership = root.text("/proc/self/cgroup").ok()?;
    let membership = parse_membership(&membership)?;
    let by_mounts = |mounts: String| Place::from_mounts("memory", &mounts, &membership);
    let place = root.text("/proc/self/mountinfo").ok().and_then(by_mounts);
    let place = place.or_else(|| Place::from_membership("memory", &membership))?;
    Some((place.levels()?, place.is_v2))
}

/// The memory that a group has left. `None` without a limit.
/// File pages without recent use count as available, because the kernel drops them first.
fn left_bytes(root: &Root, folder: &str, is_v2: bool) -> Option<u64> {
    let (limit, usage, unused) = match is_v2 {
        true => ("memory.max", "memory.current", "inactive_file"),
        false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    };
    let number = |name: &str| root.text(&format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (number(limit)?, number(usage)?);
    let stat = root.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    Some(limit.saturating_sub(used.saturating_sub(count(&stat, unused).unwrap_or(0))))
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
            ("/proc/self/cgroup", "4:memory:/a\n1:cpuset:/b\n"),
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
                let _ = Room::read(&root(&[("/proc/meminfo", &text), ("/proc/self/cgroup", &text)]));
            }
        }
    }
}
