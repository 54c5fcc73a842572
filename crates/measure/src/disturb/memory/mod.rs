//! `memory`: pressure takes memory up to a reserve that it always leaves; bandwidth moves memory as fast as it can.

pub mod bandwidth;
pub mod pressure;

use evenkeel_hostfs::Root;

use super::group::Place;

/// How much memory can be taken, in bytes, before the kernel reclaims hard or kills: the smaller of what it reports as available and what
/// the limits of our control groups leave. None if the kernel does not report it.
pub fn headroom(root: &Root) -> Option<u64> {
    let available = available(&root.text("/proc/meminfo").ok()?)?;
    let place = root.text("/proc/self/mountinfo").ok().and_then(|mounts| {
        let membership = root.text("/proc/self/cgroup").ok()?;
        Place::find("memory", &mounts, &membership)
    });
    let groups = place.iter().flat_map(|place| place.upwards().into_iter().map(|group| (group, place.is_v2)));
    let left =
        groups.filter_map(|(group, is_v2)| left_in_group(is_v2, |file| root.text(&format!("{group}/{file}")).ok()));
    Some(left.fold(available, u64::min))
}

/// `MemAvailable` in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let row = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    row.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the limit of a group leaves. None without a limit. Unused cached files do not count as taken.
fn left_in_group(is_v2: bool, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let (limit, usage, cached) = match is_v2 {
        true => ("memory.max", "memory.current", "inactive_file"),
        false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    };
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let (limit, usage) = (number(limit)?, number(usage)?);
    let stat = read("memory.stat").unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(cached)?.strip_prefix(' ')?.trim().parse().ok());
    Some(limit.saturating_sub(usage.saturating_sub(cached.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn available_memory_is_the_least_of_all_limits() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:     20 kB\n"), Some(20_480));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        let group = |files: &'static [(&str, &str)]| {
            move |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned())
        };
        let v2 = group(&[
            ("memory.max", "1000\n"),
            ("memory.current", "700\n"),
            ("memory.stat", "file 9\ninactive_file 200\n"),
        ]);
        assert_eq!(left_in_group(true, v2), Some(500));
        let unlimited = group(&[("memory.max", "max\n"), ("memory.current", "700\n")]);
        assert_eq!(left_in_group(true, unlimited), None);
        let v1 = group(&[("memory.limit_in_bytes", "1000"), ("memory.usage_in_bytes", "1200")]);
        assert_eq!(left_in_group(false, v1), Some(0));
        assert!(headroom(&Root::live()).is_some_and(|bytes| bytes > 0));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,100}") {
            let _ = available(&format!("MemAvailable:{text}"));
            let _ = left_in_group(true, |_| Some(text.clone()));
        }
    }
}
