//! The limits of our control group, or of another one.

use evenkeel_hostfs::Root;
use evenkeel_hostfs::cgroup::Place;
use evenkeel_sys::CpuSet;
use evenkeel_sys::cpu_limit::parse_cpu_max;
use serde::Serialize;

use super::cgroup::{self, level};
use crate::fact::Fact;
use crate::probe::{Probe, and_then, or_else};

/// Limits of evenkeel's own control group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// CPU time per period (`cpu.max`, or `cpu.cfs_quota_us` of version 1).
    pub cpu: Fact<CpuLimit>,
    /// The CPUs that the group may use.
    pub cpus_allowed: Fact<CpuSet>,
    /// The memory that the group may use (`memory.max`, or `memory.limit_in_bytes` of version 1).
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub memory: Fact<MemoryLimit>,
}

/// A limit on memory: `"unlimited"` or `{"bytes": 2147483648}` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLimit {
    /// No limit.
    Unlimited,
    /// This many bytes, with the page cache of the group.
    Bytes(u64),
}

/// A limit on CPU time: `"unlimited"` or `{"quota": {"quota_us": 50000, "period_us": 100000}}` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuLimit {
    /// No limit.
    Unlimited,
    /// This much CPU time in each period. If several CPUs are allowed, this is more than the period.
    Quota {
        /// The CPU time that the group may use per period, in microseconds.
        quota_us: u64,
        /// The length of a period, in microseconds.
        period_us: u64,
    },
}

impl CpuLimit {
    /// Compares the numbers of CPUs as fractions, without rounding.
    fn is_tighter_than(self, other: CpuLimit) -> bool {
        match (self, other) {
            (CpuLimit::Unlimited, _) => false,
            (CpuLimit::Quota { .. }, CpuLimit::Unlimited) => true,
            (CpuLimit::Quota { quota_us, period_us }, CpuLimit::Quota { quota_us: quota, period_us: period }) => {
                u128::from(quota_us) * u128::from(period) < u128::from(quota) * u128::from(period_us)
            }
        }
    }
}

/// From this number of bytes on, version 1 has no limit: its highest number is the largest multiple of a page.
const V1_UNLIMITED_BYTES: u64 = 1 << 62;

impl Limits {
    pub(super) fn probe(probe: Probe<'_>) -> Limits {
        let membership = cgroup::membership(probe);
        Limits::of(probe, |controller| membership.clone().map(|text| cgroup::place(controller, &text)))
    }

    /// The limits of the group with this path below the mount, such as `/game.slice`. Unknown if there is no such group.
    pub fn of_group(root: &Root, path: &str) -> Fact<Limits> {
        let probe = Probe(root);
        and_then(cgroup::membership(probe), |text| {
            let at = |controller: &str| {
                let own = cgroup::place(controller, &text)?;
                Some(Place { path: path.trim_end_matches('/').to_owned(), ..own })
            };
            // Version 1 has the group in the hierarchies whose limits it has.
            let places = ["cpu", "memory", "cpuset"].into_iter().filter_map(at);
            let found =
                places.map(|place| probe.entries(&place.directory())).reduce(|one, other| or_else(one, || other));
            let found = found.unwrap_or_else(|| Fact::absent("this machine has no control groups"));
            found.map(|_| Limits::of(probe, |controller| Fact::Known(at(controller))))
        })
    }

    fn of(probe: Probe<'_>, group: impl Fn(&str) -> Fact<Option<Place>>) -> Limits {
        Limits {
            cpu: and_then(group("cpu"), |group| match group {
                Some(group) => probe_cpu(probe, &group),
                // The kernel lists every hierarchy that was ever mounted.
                // If no hierarchy has the `cpu` controller, nothing limits us.
                None => Fact::Known(CpuLimit::Unlimited),
            }),
            cpus_allowed: and_then(group("cpuset"), |group| match group {
                Some(group) => probe_cpus_allowed(probe, &group),
                None => Fact::absent("no control group has the cpuset controller"),
            }),
            memory: and_then(group("memory"), |group| match group {
                Some(group) => probe_memory(probe, &group),
                None => Fact::Known(MemoryLimit::Unlimited),
            }),
        }
    }
}

/// Parses a number of bytes; the inner `None` is no limit.
type ParseLimit = fn(&str) -> Option<Option<u64>>;

/// The lowest memory limit of a group and its ancestors. If one cannot be read, the result is unknown.
fn probe_memory(probe: Probe<'_>, group: &Place) -> Fact<MemoryLimit> {
    let (name, parse): (_, ParseLimit) = match group.is_v2 {
        true => ("memory.max", memory_max),
        false => ("memory.limit_in_bytes", |text| {
            text.parse().ok().map(|bytes: u64| (bytes < V1_UNLIMITED_BYTES).then_some(bytes))
        }),
    };
    and_then(cgroup::levels(group), |levels| {
        let mut lowest: Option<Option<u64>> = None;
        for dir in levels {
            match level(probe.0, &format!("{dir}/{name}"), "a number of bytes", parse) {
                None => {}
                Some(Fact::Known(limit)) => {
                    let so_far = lowest.flatten();
                    lowest = Some(limit.into_iter().chain(so_far).min());
                }
                Some(unknown) => return unknown.map(|_| MemoryLimit::Unlimited),
            }
        }
        match lowest {
            Some(limit) => Fact::Known(limit.map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes)),
            // The root group of version 2 has no memory.max. If the tree exists, the file system is mounted.
            None if group.is_v2 => {
                probe.text(&format!("{}/cgroup.controllers", group.mount)).map(|_| MemoryLimit::Unlimited)
            }
            None => Fact::absent(format!("{} has no {name} at any level", group.mount)),
        }
    })
}

/// `max`, or a number of bytes.
fn memory_max(text: &str) -> Option<Option<u64>> {
    if text == "max" { Some(None) } else { text.parse().ok().map(Some) }
}

/// The lowest limit of our group and its ancestors. If one cannot be read, the result is unknown, because it could be
/// the lowest.
fn probe_cpu(probe: Probe<'_>, group: &Place) -> Fact<CpuLimit> {
    and_then(cgroup::levels(group), |levels| {
        let mut tightest: Option<CpuLimit> = None;
        for dir in levels {
            match probe_level(probe, group, &dir) {
                None => {}
                Some(Fact::Known(limit)) if tightest.is_some_and(|tightest| !limit.is_tighter_than(tightest)) => {}
                Some(Fact::Known(limit)) => tightest = Some(limit),
                Some(unknown) => return unknown,
            }
        }
        match tightest {
            Some(limit) => Fact::Known(limit),
            // The root group of version 2 has no cpu.max, because it cannot be limited.
            // The file system is mounted if its tree exists.
            None if group.is_v2 => {
                probe.text(&format!("{}/cgroup.controllers", group.mount)).map(|_| CpuLimit::Unlimited)
            }
            None => Fact::absent(format!("{} has no cpu.cfs_quota_us at any level", group.mount)),
        }
    })
}

/// The limit of one level. `None` if the level has no file for the limit.
fn probe_level(probe: Probe<'_>, group: &Place, dir: &str) -> Option<Fact<CpuLimit>> {
    if group.is_v2 {
        return level(probe.0, &format!("{dir}/cpu.max"), "a quota and a period", cpu_max);
    }
    let number = |text: &str| text.parse::<i64>().ok();
    let quota = level(probe.0, &format!("{dir}/cpu.cfs_quota_us"), "a quota in microseconds", number)?;
    Some(and_then(quota, |quota| probe_v1_period(probe, dir, quota)))
}

fn probe_v1_period(probe: Probe<'_>, dir: &str, quota: i64) -> Fact<CpuLimit> {
    // -1 means no limit. The kernel writes no other negative number.
    let Ok(quota_us) = u64::try_from(quota) else {
        return Fact::Known(CpuLimit::Unlimited);
    };
    probe.parse(&format!("{dir}/cpu.cfs_period_us"), "a period in microseconds", |text| {
        let period_us = text.parse().ok().filter(|period| *period > 0)?;
        Some(CpuLimit::Quota { quota_us, period_us })
    })
}

/// `max 100000` or `50000 100000`.
fn cpu_max(text: &str) -> Option<CpuLimit> {
    let (quota_us, period_us) = parse_cpu_max(text)?;
    Some(quota_us.map_or(CpuLimit::Unlimited, |quota_us| CpuLimit::Quota { quota_us, period_us }))
}

/// The set of the innermost group. The kernel has already removed CPUs that the ancestors lack.
fn probe_cpus_allowed(probe: Probe<'_>, group: &Place) -> Fact<CpuSet> {
    // Kernels up to 3.16 have only the requested set, which is also the set in force.
    let names: &[&str] =
        if group.is_v2 { &["cpuset.cpus.effective"] } else { &["cpuset.effective_cpus", "cpuset.cpus"] };
    and_then(cgroup::levels(group), |levels| {
        let paths = levels.iter().flat_map(|dir| names.iter().map(move |name| format!("{dir}/{name}")));
        let mut looks = paths.filter_map(|path| level(probe.0, &path, "a list of CPUs", CpuSet::parse_list));
        looks.next().unwrap_or_else(|| Fact::absent(format!("{} has no {} at any level", group.mount, names[0])))
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use proptest::prelude::*;

    use super::*;

    fn root(lines: &str) -> Root {
        Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap())
    }

    fn limits(lines: &str) -> String {
        let limits = Limits::probe(Probe(&root(lines)));
        serde_json::to_string(&limits).unwrap()
    }

    #[test]
    fn the_tightest_group_counts() {
        let v2 = "/proc/self/cgroup = 0::/a/b\n/sys/fs/cgroup/cpu.max ! ENOENT\n/sys/fs/cgroup/cgroup.controllers = cpu\n\
                  /sys/fs/cgroup/a/b/cpuset.cpus.effective ! ENOENT\n/sys/fs/cgroup/a/cpuset.cpus.effective = 0-1\n\
                  /sys/fs/cgroup/cpuset.cpus.effective = 0-3\n";
        let v1 = "/proc/self/cgroup =\n| 2:cpu,cpuacct:/docker/x\n| 1:cpuset:/docker/x\n\
                  /sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us ! ENOENT\n\
                  /sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us ! ENOENT\n\
                  /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us = 150000\n/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us = 100000\n\
                  /sys/fs/cgroup/cpuset/docker/x/cpuset.effective_cpus ! ENOENT\n/sys/fs/cgroup/cpuset/docker/x/cpuset.cpus = 2\n\
                  /sys/fs/cgroup/cpuset/docker/cpuset.effective_cpus ! ENOENT\n/sys/fs/cgroup/cpuset/docker/cpuset.cpus ! ENOENT\n\
                  /sys/fs/cgroup/cpuset/cpuset.effective_cpus = 0-7\n";
        let quota = |inner: &str, outer: &str| {
            limits(&format!("{v2}/sys/fs/cgroup/a/b/cpu.max = {inner}\n/sys/fs/cgroup/a/cpu.max = {outer}"))
        };
        let seen = [
            quota("max 100000", "max 100000"),
            quota("50000 100000", "30000 50000"),
            quota("50000 100000", "20000 100000"),
            quota("max 100000", "18446744073709551615 1"),
            quota("50000 0", "max 100000"),
            limits(&format!("{v2}/sys/fs/cgroup/a/b/cpu.max ! ENOENT\n/sys/fs/cgroup/a/cpu.max ! ENOENT")),
            limits(&format!("{v2}/sys/fs/cgroup/a/b/cpu.max = max 100000\n/sys/fs/cgroup/a/cpu.max ! EACCES")),
            limits(&format!("{v2}/sys/fs/cgroup/a/b/cpu.max = max 100000")),
            limits(v1),
            limits("/proc/self/cgroup =~"),
            limits("/proc/self/cgroup ! ENOENT"),
        ];
        expect_test::expect![[r#"
            {"cpu":"unlimited","cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"quota":{"quota_us":50000,"period_us":100000}},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"quota":{"quota_us":20000,"period_us":100000}},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"quota":{"quota_us":18446744073709551615,"period_us":1}},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"unknown":"odd","why":"/sys/fs/cgroup/a/b/cpu.max should hold a quota and a period","path":"/sys/fs/cgroup/a/b/cpu.max","raw":"50000 0\n"},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":"unlimited","cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"unknown":"denied","why":"/sys/fs/cgroup/a/cpu.max: permission denied (EACCES)"},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"unknown":"absent","why":"/sys/fs/cgroup/a/cpu.max is not in the capture"},"cpus_allowed":"0-1","memory":{"unknown":"absent","why":"/sys/fs/cgroup/a/b/memory.max is not in the capture"}}
            {"cpu":{"quota":{"quota_us":150000,"period_us":100000}},"cpus_allowed":"2","memory":"unlimited"}
            {"cpu":"unlimited","cpus_allowed":{"unknown":"absent","why":"no control group has the cpuset controller"},"memory":"unlimited"}
            {"cpu":{"unknown":"absent","why":"/proc/self/cgroup: no such file or directory (ENOENT)"},"cpus_allowed":{"unknown":"absent","why":"/proc/self/cgroup: no such file or directory (ENOENT)"},"memory":{"unknown":"absent","why":"/proc/self/cgroup: no such file or directory (ENOENT)"}}
        "#]].assert_eq(&(seen.join("\n") + "\n"));
    }

    #[test]
    fn the_lowest_memory_limit_counts() {
        let v2 = "/proc/self/cgroup = 0::/a/b\n/sys/fs/cgroup/memory.max ! ENOENT\n/sys/fs/cgroup/cgroup.controllers = memory\n";
        let v1 = "/proc/self/cgroup = 2:memory:/a/b\n";
        let memory = |head: &str, name: &str, [inner, outer]: [&str; 2], top: &str| {
            let lines = format!("/sys/fs/cgroup/a/b/{name} {inner}\n/sys/fs/cgroup/a/{name} {outer}\n{top}");
            let lines = if head == v1 { lines.replace("/sys/fs/cgroup/", "/sys/fs/cgroup/memory/") } else { lines };
            serde_json::to_string(&Limits::probe(Probe(&root(&format!("{head}{lines}")))).memory).unwrap()
        };
        let of_v2 = |inner: &str, outer: &str| memory(v2, "memory.max", [inner, outer], "");
        let top = "/sys/fs/cgroup/memory.limit_in_bytes = 9223372036854771712\n";
        let of_v1 = |inner: &str, outer: &str| memory(v1, "memory.limit_in_bytes", [inner, outer], top);
        assert_eq!(of_v2("= max", "= max"), r#""unlimited""#);
        assert_eq!(of_v2("= 2147483648", "= 1073741824"), r#"{"bytes":1073741824}"#);
        assert_eq!(of_v2("= max", "= 0"), r#"{"bytes":0}"#);
        assert_eq!(of_v2("! ENOENT", "! ENOENT"), r#""unlimited""#);
        assert!(of_v2("= max", "! EACCES").contains(r#""unknown":"denied""#));
        assert!(of_v2("= 2 GiB", "= max").contains("should hold a number of bytes"));
        assert_eq!(of_v1("= 9223372036854771712", "= 4096"), r#"{"bytes":4096}"#);
        assert_eq!(of_v1("! ENOENT", "! ENOENT"), r#""unlimited""#);
    }

    #[test]
    fn another_group_has_its_own_limits() {
        let host = root(
            "/proc/self/cgroup = 0::/user.slice\n/sys/fs/cgroup/cgroup.controllers = cpu memory\n/sys/fs/cgroup/cpu.max ! ENOENT\n\
             /sys/fs/cgroup/memory.max ! ENOENT\n/sys/fs/cgroup/user.slice/cpu.max = 10000 100000\n\
             /sys/fs/cgroup/game.slice/cpu.max = 200000 100000\n/sys/fs/cgroup/game.slice/memory.max = 1073741824",
        );
        let limits = Limits::of_group(&host, "/game.slice/");
        let limits = limits.known().unwrap();
        assert_eq!(limits.cpu, Fact::Known(CpuLimit::Quota { quota_us: 200_000, period_us: 100_000 }));
        assert_eq!(limits.memory, Fact::Known(MemoryLimit::Bytes(1 << 30)));
        assert!(Limits::of_group(&host, "/other.slice").known().is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(max|[0-9]{1,21})? ?[0-9]{0,21}|.{0,20}") {
            let _ = memory_max(&text);
            let limit = cpu_max(&text);
            prop_assert!(!limit.is_some_and(|limit| limit.is_tighter_than(limit)));
        }
    }
}
