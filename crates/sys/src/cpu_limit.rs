//! The CPU limits of the calling thread: the limits of its control group and of all groups above it.
//! If a CPU seems to disappear now and then, read these limits first: reading a configured limit is easier than finding it by measurement.
//!
//! The module supports both versions of control groups.
//! The first source is the kernel's Documentation/admin-guide/cgroup-v2.rst (`cpu.max`, `cpu.stat`).
//! The second source is Documentation/scheduler/sched-bwc.rst (`cpu.cfs_quota_us`, `cpu.cfs_period_us`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The maximum number of groups to read, from the calling thread's group up to the root.
const DEPTH_MAX: usize = 64;

/// Where control groups are mounted. Version 2 is mounted alone or next to version 1.
/// The CPU controller of version 1 is mounted alone or together with cpuacct.
const SECOND: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const FIRST: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// A limit on CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    /// The group's folder.
    pub group: String,
    /// CPU time in each period, in nanoseconds; above 0.
    pub quota_ns: u64,
    /// The refill period, in nanoseconds; above 0.
    pub period_ns: u64,
}

/// How much time a limit has taken from threads since its group was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// The number of periods in which the quota ran out. `None` if nothing counts this.
    pub times: Option<u64>,
    /// How long threads were throttled, in nanoseconds. `None` if nothing counts this.
    pub ns: Option<u64>,
}

impl CpuLimit {
    /// The number of CPUs that the limit allows: 0.4 is four tenths of one CPU.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns as f64
    }

    /// How much time the limit has taken from threads so far.
    pub fn throttled(&self) -> Throttled {
        self.throttled_by(&text)
    }

    fn throttled_by(&self, text: &Text<'_>) -> Throttled {
        text(&format!("{}/cpu.stat", self.group)).map_or_else(Throttled::default, |text| parse_stat(&text))
    }
}

/// All limits on the calling thread. The innermost limit comes first.
pub fn all() -> Vec<CpuLimit> {
    all_by(&text)
}

/// The tightest limit, which is the effective one. `None` if there is no limit, or it cannot be read.
pub fn tightest() -> Option<CpuLimit> {
    tightest_of(all())
}

/// The text of a file, if it can be read.
type Text<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn text(path: &str) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn all_by(text: &Text<'_>) -> Vec<CpuLimit> {
    let mut limits: Vec<CpuLimit> = Vec::new();
    for folder in own_groups(text).iter().flat_map(|(mount, path)| folders(mount, path)) {
        if limits.iter().all(|limit| limit.group != folder) {
            limits.extend(limit_of(text, folder));
        }
    }
    limits
}

/// The calling thread's groups of both versions. Each entry has a possible mount point of a hierarchy, and the group's path below it.
fn own_groups(text: &Text<'_>) -> Vec<(&'static str, String)> {
    // In version 1 each thread may be in another group. Kernels before 3.17 report only the process.
    let groups = text("/proc/thread-self/cgroup").or_else(|| text("/proc/self/cgroup"));
    let groups = groups.map_or_else(Groups::default, |text| parse_groups(&text));
    let paths = [(groups.second, SECOND), (groups.first, FIRST)];
    paths
        .into_iter()
        .flat_map(|(path, mounts)| mounts.into_iter().filter_map(move |mount| Some((mount, path.clone()?))))
        .collect()
}

/// The file of this name in the first of the calling thread's groups that has such a file.
pub(crate) fn own_file(name: &str) -> Option<PathBuf> {
    let paths = own_groups(&text).into_iter().map(|(mount, path)| PathBuf::from(format!("{mount}{path}")).join(name));
    paths.into_iter().find(|path| path.exists())
}

fn tightest_of(limits: Vec<CpuLimit>) -> Option<CpuLimit> {
    limits.into_iter().min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
}

/// The counters of limits, kept open. A reading costs as much as a file read and allocates nothing.
#[derive(Debug)]
pub struct Counters {
    files: Vec<File>,
}

impl Counters {
    /// The counters of these limits on this machine. If a limit's file cannot be opened, that limit has no counter.
    pub fn open<'a>(limits: impl IntoIterator<Item = &'a CpuLimit>) -> Counters {
        let open = |limit: &CpuLimit| File::open(format!("{}/cpu.stat", limit.group)).ok();
        Counters { files: limits.into_iter().filter_map(open).collect() }
    }

    /// Whether there are no counters.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How much time all these limits have taken from threads so far.
    pub fn read(&self) -> Throttled {
        let mut sum = Throttled::default();
        let add = |sum: Option<u64>, one: Option<u64>| match (sum, one) {
            (Some(sum), Some(one)) => Some(sum.saturating_add(one)),
            (sum, one) => sum.or(one),
        };
        for file in &self.files {
            // This buffer is longer than any kernel's file. The reader ignores further bytes.
            let mut bytes = [0; 1024];
            let length = file.read_at(&mut bytes, 0).unwrap_or(0);
            let one = std::str::from_utf8(&bytes[..length]).map_or_else(|_| Throttled::default(), parse_stat);
            sum = Throttled { times: add(sum.times, one.times), ns: add(sum.ns, one.ns) };
        }
        sum
    }
}

/// The paths of the thread's groups, relative to the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Groups {
    second: Option<String>,
    /// The path in the CPU hierarchy of version 1.
    first: Option<String>,
}

/// Each line is `NUMBER:CONTROLLERS:PATH`. Version 2 has the number 0 and no controllers.
fn parse_groups(text: &str) -> Groups {
    let mut groups = Groups::default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // The kernel shows a group outside our namespace as `/../NAME`. We cannot read that group here.
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            continue;
        }
        if number == "0" && controllers.is_empty() {
            groups.second = Some(path.to_owned());
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            groups.first = Some(path.to_owned());
        }
    }
    groups
}

/// The folders of a group and of its ancestors.
/// In a container the path may be the host's while the mount is our group, so this includes the mount itself.
fn folders(mount: &str, path: &str) -> Vec<String> {
    let mut folders = Vec::new();
    let mut path = path.trim_end_matches('/');
    while folders.len() < DEPTH_MAX {
        folders.push(format!("{mount}{path}"));
        match path.rfind('/') {
            Some(at) => path = &path[..at],
            None => break,
        }
    }
    folders
}

fn limit_of(text: &Text<'_>, group: String) -> Option<CpuLimit> {
    let (quota_us, period_us) = match text(&format!("{group}/cpu.max")) {
        Some(text) => parse_cpu_max(&text)?,
        None => {
            let number = |name| text(&format!("{group}/cpu.cfs_{name}_us"))?.trim().parse::<i64>().ok();
            // A quota of -1 means no limit.
            (u64::try_from(number("quota")?).ok(), u64::try_from(number("period")?).ok()?)
        }
    };
    let ns = |us: u64| us.checked_mul(1000).filter(|ns| *ns > 0);
    Some(CpuLimit { quota_ns: ns(quota_us?)?, period_ns: ns(period_us)?, group })
}

/// Parses `QUOTA PERIOD` in microseconds, the contents of `cpu.max`. A group without a limit has `max` for the quota, which becomes `None`.
pub fn parse_cpu_max(text: &str) -> Option<(Option<u64>, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota_us = if quota == "max" { None } else { Some(quota.parse().ok()?) };
    Some((quota_us, period.parse().ok().filter(|period_us| *period_us > 0)?))
}

/// Parses `nr_throttled N`, and `throttled_time NS` of version 1 or `throttled_usec US` of version 2.
fn parse_stat(text: &str) -> Throttled {
    let mut throttled = Throttled::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match name {
            "nr_throttled" => throttled.times = Some(value),
            "throttled_time" => throttled.ns = Some(value),
            "throttled_usec" => throttled.ns = Some(value.saturating_mul(1000)),
            _ => {}
        }
    }
    throttled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn host(texts: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let texts = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let texts: BTreeMap<_, _> = texts.collect();
        move |path| texts.get(path).cloned()
    }

    /// Each limit, as the group below the mount, with its quota and period in microseconds.
    fn found(texts: &[(&str, &str)]) -> Vec<(String, u64, u64)> {
        let plain = |limit: CpuLimit| {
            let group = limit.group.trim_start_matches("/sys/fs/cgroup").to_owned();
            (group, limit.quota_ns / 1000, limit.period_ns / 1000)
        };
        all_by(&host(texts)).into_iter().map(plain).collect()
    }

    const NESTED: [(&str, &str); 5] = [
        ("/proc/self/cgroup", "0::/pods/one/server\n"),
        ("/sys/fs/cgroup/pods/one/server/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/pods/one/cpu.max", "40000 100000\n"),
        ("/sys/fs/cgroup/pods/one/cpu.stat", "usage_usec 1\nnr_periods 8\nnr_throttled 7\nthrottled_usec 9\n"),
        ("/sys/fs/cgroup/pods/cpu.max", "30000 50000\n"),
    ];

    #[test]
    fn limits_are_found_in_both_versions() {
        assert_eq!(found(&NESTED), [("/pods/one".into(), 40_000, 100_000), ("/pods".into(), 30_000, 50_000)]);
        let first = [
            ("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/m\n2:cpu,cpuacct:/docker/abc\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n"),
        ];
        // In a container the group's own path is not mounted. The top of the mount is the group itself.
        assert_eq!(found(&first), [("/cpu,cpuacct".into(), 20_000, 50_000)]);
        let own_thread = [
            ("/proc/self/cgroup", "3:cpu:/\n"),
            ("/proc/thread-self/cgroup", "3:cpu:/ticks\n"),
            ("/sys/fs/cgroup/cpu/ticks/cpu.cfs_quota_us", "4000\n"),
            ("/sys/fs/cgroup/cpu/ticks/cpu.cfs_period_us", "10000\n"),
        ];
        assert_eq!(found(&own_thread), [("/cpu/ticks".into(), 4000, 10_000)]);
    }

    #[test]
    fn unlimited_groups_have_no_limit() {
        let v2 = "0::/a\n";
        let table: [&[(&str, &str)]; 6] = [
            &[],
            &[("/proc/self/cgroup", "junk\n"), ("/sys/fs/cgroup/cpu.max", "1 2\n")],
            &[("/proc/self/cgroup", v2), ("/sys/fs/cgroup/a/cpu.max", "max 100000\n")],
            &[("/proc/self/cgroup", v2), ("/sys/fs/cgroup/a/cpu.max", "0 0\n")],
            &[("/proc/self/cgroup", v2), ("/sys/fs/cgroup/a/cpu.max", "9223372036854775807 100000\n")],
            // The group is outside our namespace, so the mount is not its ancestor.
            &[("/proc/self/cgroup", "0::/../other\n"), ("/sys/fs/cgroup/cpu.max", "1000 2000\n")],
        ];
        for texts in table {
            assert_eq!(found(texts), [], "{texts:?}");
        }
        let cpuset_only = [("/proc/self/cgroup", "4:cpuset:/b\n"), ("/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "4000\n")];
        assert_eq!(found(&cpuset_only), []);
    }

    #[test]
    fn the_tightest_limit_counts_with_its_throttling() {
        let texts = host(&NESTED);
        let tightest = tightest_of(all_by(&texts)).unwrap();
        assert_eq!((tightest.group.as_str(), tightest.cpus()), ("/sys/fs/cgroup/pods/one", 0.4));
        assert_eq!(tightest.throttled_by(&texts), Throttled { times: Some(7), ns: Some(9000) });
        let first = parse_stat("nr_periods 5\nnr_throttled 3\nthrottled_time 7000\n");
        assert_eq!(first, Throttled { times: Some(3), ns: Some(7000) });
        assert_eq!(parse_stat("usage_usec 1\nnr_throttled -1\n"), Throttled::default());
        assert!(Counters::open([&tightest]).is_empty(), "that group is not on this machine");
    }

    #[test]
    fn counters_of_several_limits_are_one_sum() {
        let dir = tempfile::tempdir().unwrap();
        let limit = |name: &str, text: &str| {
            let group = dir.path().join(name);
            std::fs::create_dir(&group).unwrap();
            std::fs::write(group.join("cpu.stat"), text).unwrap();
            CpuLimit { group: group.to_str().unwrap().to_owned(), quota_ns: 1, period_ns: 1 }
        };
        let limits =
            [limit("a", "nr_throttled 2\nthrottled_usec 3\n"), limit("b", "nr_throttled 5\n"), limit("c", "\0")];
        let counters = Counters::open(&limits);
        assert!(!counters.is_empty());
        assert_eq!(counters.read(), Throttled { times: Some(7), ns: Some(3000) });
        assert_eq!(Counters::open([]).read(), Throttled::default(), "without counters the value is unknown, not 0");
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}", groups in "([0-9]:[a-z,]{0,9}:/?[./a-z]{0,20}\n?){0,5}") {
            let _ = (parse_cpu_max(&text), parse_stat(&text), parse_groups(&text));
            let _ = all_by(&host(&[("/proc/self/cgroup", &groups), ("/sys/fs/cgroup/cpu.max", &text)]));
        }
    }
}
