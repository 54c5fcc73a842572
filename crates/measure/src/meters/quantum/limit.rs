//! The limit of CPU time that this process is under, as its control groups say: read, not guessed. Both versions of control groups are
//! known, and the tightest of a group and those above it is what counts.

use evenkeel_stats::periodicity::Limit;
use evenkeel_sys::Root;

/// Groups from ours up to the root that are looked at.
const DEPTH_MAX: usize = 64;

/// Where a limit is written, to be read again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    limit: Limit,
    /// The group's folder.
    folder: String,
}

impl Place {
    /// The tightest limit of the calling process; none if it has none, or nothing tells.
    pub(super) fn tightest(root: &Root) -> Option<Place> {
        let groups = parse_groups(&root.text("/proc/self/cgroup").ok()?);
        let mut found: Option<Place> = None;
        for (path, mounts) in [(groups.unified, &UNIFIED[..]), (groups.cpu, &CPU[..])] {
            let Some(path) = path else { continue };
            for folder in mounts.iter().flat_map(|mount| folders(mount, &path)) {
                let Some(limit) = limit_of(root, &folder) else { continue };
                let share = |limit: &Limit| limit.quota_ns as f64 / limit.period_ns as f64;
                if found.as_ref().is_none_or(|found| share(&limit) < share(&found.limit)) {
                    found = Some(Place { limit, folder });
                }
            }
        }
        found
    }

    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The limit, with how often it has run out so far.
    pub(super) fn now(&self, root: &Root) -> Limit {
        Limit { throttled: throttled(root, &self.folder), ..self.limit }
    }
}

const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const CPU: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// The paths of our groups, below where they are mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Groups {
    /// Version 2.
    unified: Option<String>,
    /// The CPU controller of version 1.
    cpu: Option<String>,
}

/// `/proc/self/cgroup`: `NUMBER:CONTROLLERS:PATH` in each line, version 2 with the number 0 and no controllers.
fn parse_groups(text: &str) -> Groups {
    let mut groups = Groups::default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // A group outside our namespace is shown as `/../NAME`: nothing of it can be read here.
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            continue;
        }
        if number == "0" && controllers.is_empty() {
            groups.unified = Some(path.to_owned());
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            groups.cpu = Some(path.to_owned());
        }
    }
    groups
}

/// The folder of a group and of those above it. In a container the path may be the host's while the mount is our group: the mount itself
/// is among them.
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

fn limit_of(root: &Root, folder: &str) -> Option<Limit> {
    if let Ok(text) = root.text(&format!("{folder}/cpu.max")) {
        return parse_cpu_max(&text);
    }
    let number = |name: &str| root.text(&format!("{folder}/{name}")).ok()?.trim().parse::<i64>().ok();
    in_us(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

/// `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn parse_cpu_max(text: &str) -> Option<Limit> {
    let mut words = text.split_ascii_whitespace();
    in_us(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

/// A quota of -1 is none.
fn in_us(quota: i64, period: i64) -> Option<Limit> {
    let ns = |us: i64| u64::try_from(us).ok().filter(|us| *us > 0)?.checked_mul(1000);
    Some(Limit { quota_ns: ns(quota)?, period_ns: ns(period)?, throttled: None })
}

fn throttled(root: &Root, folder: &str) -> Option<u64> {
    parse_throttled(&root.text(&format!("{folder}/cpu.stat")).ok()?)
}

/// The line `nr_throttled N` of `cpu.stat`.
fn parse_throttled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn host(texts: &[(&str, &str)]) -> Root {
        Root::from(
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect::<BTreeMap<_, _>>(),
        )
    }

    fn tightest(texts: &[(&str, &str)]) -> Option<(u64, u64, Option<u64>, String)> {
        let root = host(texts);
        let place = Place::tightest(&root)?;
        let limit = place.now(&root);
        Some((limit.quota_ns / 1000, limit.period_ns / 1000, limit.throttled, place.folder().to_owned()))
    }

    #[test]
    fn the_tightest_limit_of_all_groups_above_is_found() {
        let v2 = [
            ("/proc/self/cgroup", "0::/pods/one/server\n"),
            ("/sys/fs/cgroup/pods/one/server/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/pods/one/cpu.max", "40000 100000\n"),
            ("/sys/fs/cgroup/pods/one/cpu.stat", "usage_usec 1\nnr_periods 8\nnr_throttled 7\n"),
            ("/sys/fs/cgroup/pods/cpu.max", "90000 100000\n"),
        ];
        assert_eq!(tightest(&v2), Some((40_000, 100_000, Some(7), "/sys/fs/cgroup/pods/one".to_owned())));
        let v1 = [
            ("/proc/self/cgroup", "9:name=systemd:/\n2:cpuacct:/x\n1:cpu:/docker/abc\n0::/\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n"),
        ];
        assert_eq!(tightest(&v1), Some((20_000, 50_000, None, "/sys/fs/cgroup/cpu".to_owned())));
        let none = [
            ("/proc/self/cgroup", "1:cpu:/a\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(tightest(&none), None);
        assert_eq!(tightest(&[]), None);
        assert_eq!(parse_groups("0::/../other\n1:cpu,cpuacct:/a:b\nrubbish\n").cpu.as_deref(), Some("/a:b"));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}", groups in "([0-9]:[a-z,]{0,9}:/?[./a-z]{0,20}\n?){0,5}") {
            let _ = (parse_cpu_max(&text), parse_throttled(&text), parse_groups(&text));
            let root = host(&[("/proc/self/cgroup", &groups), ("/sys/fs/cgroup/cpu.max", &text)]);
            let _ = Place::tightest(&root);
        }
    }
}
