//! Reads the control groups with a limit on CPU time, because only groups with a limit can be throttled.
//! The tree is searched only every ten seconds, because a host may have hundreds of groups. The counts are read with each sample.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hostfs::Root;
use evenkeel_hostfs::cgroup::{Place, parse_membership};
use evenkeel_hostfs::proc::{Pairs, parse_pairs};
use evenkeel_measure::meters::rates::{Unknown, quota_v1, quota_v2};

use super::read::{absent, odd, parsed};
use crate::sample::{Counted, GroupSample, GroupsSample};

/// How often the tree of groups is searched.
const WALK_EVERY_NS: u64 = 10_000_000_000;
/// The maximum number of groups to examine, and of groups with a limit to list.
const GROUPS_MAX: usize = 2048;
const LIMITED_MAX: usize = 256;
const DEPTH_MAX: usize = 16;

/// The prefixes of the kernel's own files in a group, which are the names of controllers.
/// Trying to open each of these files as a folder would take most of the time.
const FILES: [&str; 20] = [
    "cgroup.",
    "cpu.",
    "cpuacct.",
    "cpuset.",
    "memory.",
    "io.",
    "pids.",
    "hugetlb.",
    "rdma.",
    "misc.",
    "irq.",
    "blkio.",
    "devices.",
    "freezer.",
    "net_cls.",
    "net_prio.",
    "perf_event.",
    "debug.",
    "dmem.",
    "dev.",
];
const FILES_OF_V1: [&str; 3] = ["tasks", "notify_on_release", "release_agent"];

/// The groups of a host.
#[derive(Debug, Default)]
pub(super) struct Groups {
    walked: Option<Walked>,
}

#[derive(Debug)]
struct Walked {
    at_ns: u64,
    found: Counted<Limited>,
}

/// The groups with a limit.
#[derive(Clone, Debug)]
struct Limited {
    mount: String,
    is_v2: bool,
    /// The number of CPUs that each limit allows, by the group's path below the mount.
    limits: BTreeMap<String, f64>,
    examined: usize,
    is_cut: bool,
}

impl Groups {
    /// The counts of all groups with a limit. `servers` has the groups of watched servers: a new limit on these is noticed at once.
    pub(super) fn read(&mut self, root: &Root, servers: &BTreeSet<String>, now_ns: u64) -> Counted<GroupsSample> {
        let is_fresh = |walked: &&Walked| now_ns.saturating_sub(walked.at_ns) < WALK_EVERY_NS;
        let found = match self.walked.as_ref().filter(is_fresh) {
            Some(walked) => walked.found.clone(),
            None => {
                let found = walk(root);
                self.walked = Some(Walked { at_ns: now_ns, found: found.clone() });
                found
            }
        }?;
        let mut limits = found.limits;
        for path in servers.iter().flat_map(|group| levels(group)).collect::<BTreeSet<&str>>() {
            match limit_cpus(root, &format!("{}{path}", found.mount), found.is_v2) {
                Some(limit) => drop(limits.insert(path.to_owned(), limit)),
                None => drop(limits.remove(path)),
            }
        }
        let limited = limits.iter().filter_map(|(path, limit_cpus)| {
            // The group no longer exists, so it is left out.
            let file = format!("{}{path}/cpu.stat", found.mount);
            let pairs = parsed(root, &file, "names with numbers", parse_pairs).ok()?;
            Some((path.clone(), group(*limit_cpus, &pairs)))
        });
        Ok(GroupsSample { limited: limited.collect(), examined: found.examined, is_cut: found.is_cut })
    }
}

/// A group and all groups above it, except the mount itself.
fn levels(group: &str) -> impl Iterator<Item = &str> {
    let ends = group.match_indices('/').map(|(at, _)| at).take(DEPTH_MAX);
    ends.chain([group.len()]).map(|end| &group[..end])
}

/// The counts in `cpu.stat`, of version 1 or version 2.
fn group(limit_cpus: f64, pairs: &Pairs) -> GroupSample {
    let of = |name: &str| pairs.get(name).copied();
    GroupSample {
        limit_cpus,
        periods: of("nr_periods"),
        throttled_periods: of("nr_throttled"),
        throttled_us: of("throttled_usec").or_else(|| Some(of("throttled_time")? / 1000)),
    }
}

fn walk(root: &Root) -> Counted<Limited> {
    let (mount, is_v2) = tree(root)?;
    let mut found = Limited { mount, is_v2, limits: BTreeMap::new(), examined: 0, is_cut: false };
    let mut folders = vec![String::new()];
    while let Some(path) = folders.pop() {
        // A name that is not a folder is not a group.
        let Ok(names) = root.entries(&format!("{}{path}", found.mount)) else { continue };
        if found.examined >= GROUPS_MAX {
            found.is_cut = true;
            break;
        }
        found.examined += 1;
        let limit = limit_cpus(root, &format!("{}{path}", found.mount), is_v2);
        match limit {
            Some(_) if found.limits.len() >= LIMITED_MAX => found.is_cut = true,
            Some(limit) => drop(found.limits.insert(path.clone(), limit)),
            None => {}
        }
        if path.matches('/').count() >= DEPTH_MAX {
            found.is_cut = true;
            continue;
        }
        // Push in reverse order, so that folders are examined in their order.
        folders.extend(names.iter().rev().filter(|name| may_be_group(name)).map(|name| format!("{path}/{name}")));
    }
    if found.examined == 0 {
        return Err(absent(format!("{} does not exist", found.mount)));
    }
    Ok(found)
}

fn may_be_group(name: &str) -> bool {
    !FILES.iter().any(|file| name.starts_with(file)) && !FILES_OF_V1.contains(&name)
}

/// Where the groups for CPU time are mounted, and whether they are version 2.
fn tree(root: &Root) -> Result<(String, bool), Unknown> {
    let place = |process: &str| {
        parsed(root, &format!("{process}/cgroup"), "lines of NUMBER:CONTROLLERS:PATH", |text| {
            Place::from_membership("cpu", &parse_membership(text)?)
        })
    };
    // In a mounted root or a capture, our own process may be missing.
    let place = place("/proc/self").or_else(|_| place("/proc/1"))?;
    Ok((place.mount, place.is_v2))
}

fn limit_cpus(root: &Root, directory: &str, is_v2: bool) -> Option<f64> {
    let quota = if is_v2 { quota_v2(root, directory) } else { quota_v1(root, directory) };
    let quota = (*quota.known()?)?;
    (quota.period_us > 0).then(|| quota.quota_us as f64 / quota.period_us as f64)
}

/// The path of a process's group below the mount.
pub(super) fn group_of(root: &Root, pid: u32) -> Counted<String> {
    let path = format!("/proc/{pid}/cgroup");
    let place = parsed(root, &path, "lines of NUMBER:CONTROLLERS:PATH", |text| {
        Place::from_membership("cpu", &parse_membership(text)?)
    })?;
    if place.is_visible() { Ok(place.path) } else { Err(odd(format!("{path} is outside of this namespace"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> Root {
        Root::from(
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect::<BTreeMap<_, _>>(),
        )
    }

    #[test]
    fn only_groups_with_a_limit_are_listed() {
        let v2 = root(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cgroup.procs", "1\n"),
            ("/sys/fs/cgroup/game.slice/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/game.slice/one/cpu.max", "50000 100000\n"),
            (
                "/sys/fs/cgroup/game.slice/one/cpu.stat",
                "usage_usec 9\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1500\n",
            ),
        ]);
        let sample = Groups::default().read(&v2, &BTreeSet::new(), 0).unwrap();
        let expected =
            GroupSample { limit_cpus: 0.5, periods: Some(10), throttled_periods: Some(3), throttled_us: Some(1500) };
        assert_eq!(sample.limited, BTreeMap::from([("/game.slice/one".to_owned(), expected)]));
        assert_eq!((sample.examined, sample.is_cut), (3, false));
        let v1 = root(&[
            ("/proc/self/cgroup", "2:cpu,cpuacct:/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/tasks", "1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 2000000\n"),
        ]);
        let sample = Groups::default().read(&v1, &BTreeSet::new(), 0).unwrap();
        assert_eq!(sample.limited["/a"].throttled_us, Some(2000));
        assert_eq!(sample.limited["/a"].limit_cpus, 2.0);
    }

    #[test]
    fn thousands_of_groups_are_bounded() {
        let mut files = BTreeMap::from([("/proc/self/cgroup".to_owned(), "0::/\n".to_owned())]);
        for group in 0..3000 {
            files.insert(format!("/sys/fs/cgroup/g{group}/cpu.max"), "50000 100000\n".to_owned());
            files.insert(format!("/sys/fs/cgroup/g{group}/cpu.stat"), "nr_periods 1\n".to_owned());
        }
        let sample = Groups::default().read(&Root::from(files), &BTreeSet::new(), 0).unwrap();
        assert_eq!((sample.limited.len(), sample.examined, sample.is_cut), (LIMITED_MAX, GROUPS_MAX, true));
    }

    #[test]
    fn a_group_that_ended_is_left_out_and_a_new_one_comes() {
        let mut groups = Groups::default();
        let group = |name: &str| {
            root(&[
                ("/proc/self/cgroup", "0::/\n"),
                (&format!("/sys/fs/cgroup/{name}/cpu.max"), "1000 10000\n"),
                (&format!("/sys/fs/cgroup/{name}/cpu.stat"), "nr_periods 1\n"),
            ])
        };
        let names = |sample: GroupsSample| sample.limited.into_keys().collect::<Vec<_>>();
        assert_eq!(names(groups.read(&group("a"), &BTreeSet::new(), 0).unwrap()), ["/a"]);
        assert!(names(groups.read(&group("b"), &BTreeSet::new(), 1).unwrap()).is_empty());
        assert_eq!(names(groups.read(&group("b"), &BTreeSet::new(), WALK_EVERY_NS).unwrap()), ["/b"]);
        // The group of a server is noticed at once, and so are the groups above it.
        let inner = BTreeSet::from(["/c/d/e".to_owned()]);
        assert_eq!(names(groups.read(&group("c/d"), &inner, WALK_EVERY_NS + 1).unwrap()), ["/c/d"]);
        assert_eq!(levels("/c/d").collect::<Vec<_>>(), ["", "/c", "/c/d"]);
        assert_eq!(levels("").collect::<Vec<_>>(), [""]);
        assert!(Groups::default().read(&root(&[]), &BTreeSet::new(), 0).is_err());
    }
}
