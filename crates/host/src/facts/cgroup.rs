//! Finds our control group and its files: version 1, version 2, or both mounted together.

use evenkeel_hostfs::Root;

use crate::fact::Fact;
use crate::probe::{Probe, is_absence};

/// The deepest group that is read. Groups of systemd and Kubernetes are under ten levels deep.
const DEPTH_MAX: usize = 32;

/// The text that lists our groups.
pub(super) fn membership(probe: Probe<'_>) -> Fact<String> {
    // The text is empty if no hierarchy was ever mounted.
    probe.parse(&format!("{}/cgroup", probe.process()), "anything", |text| Some(text.to_owned()))
}

/// One controller's tree, and our place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Where the tree is mounted.
    pub(super) mount: String,
    /// Our group below it: empty, or begins with `/`.
    path: String,
    /// Whether it is of version 2.
    pub(super) is_v2: bool,
}

impl Group {
    /// Our group for `controller`, from the text of /proc/self/cgroup.
    ///
    /// A controller belongs to version 1 if a line names it, else to version 2.
    pub(super) fn from_membership(controller: &str, membership: &str) -> Option<Group> {
        let mut unified = None;
        let mut is_hybrid = false;
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            if controllers.split(',').any(|name| name == controller) {
                return Some(Group { mount: format!("/sys/fs/cgroup/{controllers}"), path: plain(path), is_v2: false });
            }
            if controllers.is_empty() {
                unified = Some(plain(path));
            } else {
                is_hybrid = true;
            }
        }
        let mount = if is_hybrid { "/sys/fs/cgroup/unified" } else { "/sys/fs/cgroup" };
        unified.map(|path| Group { mount: mount.to_owned(), path, is_v2: true })
    }

    /// The directories of the group and of its ancestors, the innermost first. Unknown if we are outside of this namespace, or deeper than
    /// any real group.
    ///
    /// In a container of version 1 the path is the host's, but the mount is our own group. The inner levels do not exist, and the mount
    /// itself, which is the last level, is the right one.
    pub(super) fn levels(&self) -> Fact<Vec<String>> {
        let is_outside = self.path.split('/').any(|part| part == "..");
        let ends: Vec<usize> = self.path.match_indices('/').map(|(at, _)| at).take(DEPTH_MAX + 1).collect();
        if is_outside || ends.len() > DEPTH_MAX {
            return Fact::odd("/proc/self/cgroup", &self.path, "evenkeel's control group is not visible or too deep");
        }
        let inner = (!self.path.is_empty()).then_some(self.path.len());
        let ends = inner.into_iter().chain(ends.into_iter().rev().filter(|end| *end > 0)).chain([0]);
        Fact::Known(ends.map(|end| format!("{}{}", self.mount, &self.path[..end])).collect())
    }
}

/// Reads one file of one level. `None` if the machine reports that this level has no such file.
pub(super) fn level<T>(root: &Root, path: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Fact<T>> {
    match root.text(path) {
        Ok(text) => Some(match parse(text.trim()) {
            Some(value) => Fact::Known(value),
            None => Fact::odd(path, &text, format!("{path} should hold {what}")),
        }),
        Err(refusal) if is_absence(&refusal) => None,
        Err(refusal) => Some(refusal.into()),
    }
}

fn plain(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_of_every_mount() {
        let hybrid = "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/\n";
        let table: [(&str, &str, Option<&[&str]>); 7] = [
            ("cpu", "0::/\n", Some(&["/sys/fs/cgroup"])),
            ("cpu", "0::/a/b.slice\n", Some(&["/sys/fs/cgroup/a/b.slice", "/sys/fs/cgroup/a", "/sys/fs/cgroup"])),
            ("cpuset", hybrid, Some(&["/sys/fs/cgroup/cpuset"])),
            (
                "cpu",
                hybrid,
                Some(&[
                    "/sys/fs/cgroup/cpu,cpuacct/docker/abc",
                    "/sys/fs/cgroup/cpu,cpuacct/docker",
                    "/sys/fs/cgroup/cpu,cpuacct",
                ]),
            ),
            ("memory", hybrid, Some(&["/sys/fs/cgroup/unified"])),
            ("cpu", "0::/../outside\n", None),
            ("cpu", "5:memory:/\n", None),
        ];
        for (controller, text, expected) in table {
            let levels = Group::from_membership(controller, text).and_then(|group| group.levels().known().cloned());
            let levels: Option<Vec<&str>> = levels.as_ref().map(|levels| levels.iter().map(String::as_str).collect());
            assert_eq!(levels.as_deref(), expected, "{controller} in {text:?}");
        }
    }

    #[test]
    fn no_group_is_followed_for_ever() {
        let group = Group::from_membership("cpu", &format!("0::{}\n", "/a".repeat(DEPTH_MAX))).unwrap();
        assert_eq!(group.levels().known().map(Vec::len), Some(DEPTH_MAX + 1));
        let group = Group::from_membership("cpu", &format!("0::{}\n", "/a".repeat(DEPTH_MAX + 1))).unwrap();
        assert!(matches!(group.levels(), Fact::Odd { .. }));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([0-9]:(cpu|cpuset|,)*:(/[a-z.é]{0,3})*\n?)*|.{0,20}") {
            let _ = Group::from_membership("cpu", &text).map(|group| group.levels());
        }
    }
}
