//! Where a process's control groups are, in version 1, version 2, or both side by side.

use crate::proc::{Mount, parse_mounts};

/// The deepest group to search. Groups of systemd and Kubernetes have fewer than ten levels.
const DEPTH_MAX: usize = 32;
/// The maximum number of hierarchies. Version 1 has one for each controller.
const HIERARCHIES_MAX: usize = 64;
const TOP: &str = "/sys/fs/cgroup";

/// A group's place in the hierarchy of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the hierarchy is mounted.
    pub mount: String,
    /// The group below the mount: empty for the mount itself, or begins with `/`.
    pub path: String,
    /// Whether the hierarchy is version 2, which has one hierarchy for all controllers.
    pub is_v2: bool,
}

/// A line of /proc/PID/cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The controllers of a version 1 hierarchy, separated by commas. Empty for version 2.
    pub controllers: &'a str,
    /// The path of the group, which begins with `/`.
    pub path: &'a str,
}

impl Membership<'_> {
    /// Whether the hierarchy has this controller. The empty name means version 2.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|name| name == controller)
    }
}

/// Parses one `NUMBER:CONTROLLERS:PATH` per line. `None` if a line has another form. Empty if no hierarchy was ever mounted.
pub fn parse_membership(text: &str) -> Option<Vec<Membership<'_>>> {
    let lines = text.lines().take(HIERARCHIES_MAX).map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        path.starts_with('/').then_some(Membership { controllers, path })
    });
    lines.collect()
}

impl Place {
    /// The group for `controller`, by the usual mount points.
    /// A controller belongs to version 1 if a line names it, and otherwise to version 2.
    /// The empty name is the hierarchy of version 2 itself.
    pub fn from_membership(controller: &str, membership: &[Membership<'_>]) -> Option<Place> {
        let is_hybrid = membership.iter().any(|line| !line.controllers.is_empty());
        let own = membership.iter().find(|line| !controller.is_empty() && line.has(controller));
        let line = own.or_else(|| membership.iter().find(|line| line.controllers.is_empty()))?;
        let mount = match line.controllers {
            "" if is_hybrid => format!("{TOP}/unified"),
            "" => TOP.to_owned(),
            controllers => format!("{TOP}/{controllers}"),
        };
        Some(Place::new(mount, line.path, line.controllers.is_empty()))
    }

    /// As [`Place::from_membership`], but with the mount points in the text of /proc/self/mountinfo.
    /// This function also works in a container, whose mount may show only a part of the tree.
    pub fn from_mounts(controller: &str, mountinfo: &str, membership: &[Membership<'_>]) -> Option<Place> {
        let mounts: Vec<Mount<'_>> = parse_mounts(mountinfo).collect();
        let has = |mount: &&Mount<'_>| mount.options.split(',').any(|name| name == controller);
        let v1 = mounts.iter().filter(|mount| mount.kind == "cgroup").find(has);
        let mount = v1.or_else(|| mounts.iter().find(|mount| mount.kind == "cgroup2"))?;
        let is_v2 = mount.kind == "cgroup2";
        let line = membership.iter().find(|line| line.has(if is_v2 { "" } else { controller }))?;
        // The group's path may already be relative to the mounted part.
        let path = line.path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(line.path);
        Some(Place::new(mount.at.to_owned(), path, is_v2)).filter(Place::is_visible)
    }

    fn new(mount: String, path: &str, is_v2: bool) -> Place {
        Place { mount, path: path.trim_end_matches('/').to_owned(), is_v2 }
    }

    /// The group's own directory.
    pub fn directory(&self) -> String {
        format!("{}{}", self.mount, self.path)
    }

    /// Whether the group is visible in this cgroup namespace. The kernel shows an outside group as `/../NAME`, which has no directory here.
    pub fn is_visible(&self) -> bool {
        self.path.split('/').all(|part| part != "..")
    }

    /// The directories of the group and its ancestors, the innermost first.
    /// `None` if the group is not visible, or deeper than any real group.
    ///
    /// In a version 1 container, the path is the host's path, but the mount shows only our own group.
    /// So the inner directories do not exist.
    /// The last directory is the mount itself, and it is the right directory.
    pub fn levels(&self) -> Option<Vec<String>> {
        let ends = self.path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        let inner = (!self.path.is_empty()).then_some(self.path.len());
        let mut ends: Vec<usize> = [0].into_iter().chain(ends.take(DEPTH_MAX)).chain(inner).collect();
        ends.reverse();
        (self.is_visible() && ends.len() <= DEPTH_MAX + 1)
            .then(|| ends.iter().map(|end| format!("{}{}", self.mount, &self.path[..*end])).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn membership_is_read() {
        let line = |controllers, path| Membership { controllers, path };
        let text = "2:cpu,cpuacct:/a/b:c\n0::/x\n";
        assert_eq!(parse_membership(text).unwrap(), [line("cpu,cpuacct", "/a/b:c"), line("", "/x")]);
        assert_eq!(parse_membership(""), Some(vec![]));
        for odd in ["rubbish", "0:", "0::x", "0::/\n1:cpu"] {
            assert_eq!(parse_membership(odd), None, "{odd}");
        }
    }

    #[test]
    fn groups_are_found_where_they_are_usually_mounted() {
        let hybrid = "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/c\n";
        let table: [(&str, &str, Option<&[&str]>); 8] = [
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
            ("memory", hybrid, Some(&["/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified"])),
            ("", hybrid, Some(&["/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified"])),
            ("cpu", "0::/../outside\n", None),
            ("cpu", "5:memory:/\n", None),
        ];
        for (controller, text, expected) in table {
            let place = Place::from_membership(controller, &parse_membership(text).unwrap());
            let levels = place.as_ref().and_then(Place::levels);
            let levels: Option<Vec<&str>> = levels.as_ref().map(|levels| levels.iter().map(String::as_str).collect());
            assert_eq!(levels.as_deref(), expected, "{controller} in {text:?}");
        }
    }

    #[test]
    fn groups_are_found_by_their_mounts() {
        let v1 = "25 1 0:20 / /sys rw - sysfs sysfs rw\n\
                  36 25 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                  37 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let v2 = "36 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let docker = "36 25 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu";
        let table = [
            ("cpu", v1, "2:cpu,cpuacct:/user.slice\n0::/x", Some(("/sys/fs/cgroup/cpu,cpuacct", "/user.slice", false))),
            ("memory", v1, "2:cpu,cpuacct:/user.slice\n0::/x", Some(("/sys/fs/cgroup/unified", "/x", true))),
            ("cpu", v2, "0::/\n", Some(("/sys/fs/cgroup", "", true))),
            ("cpu", v2, "0::/a/b.scope", Some(("/sys/fs/cgroup", "/a/b.scope", true))),
            ("cpu", v2, "0::/../out", None),
            ("cpu", docker, "2:cpu:/docker/abc", Some(("/sys/fs/cgroup/cpu", "", false))),
            ("cpu", docker, "2:cpu:/docker/abc/in", Some(("/sys/fs/cgroup/cpu", "/in", false))),
            ("cpu", docker, "2:cpu:/", Some(("/sys/fs/cgroup/cpu", "", false))),
            ("cpu", "", "0::/", None),
            ("cpu", v2, "", None),
        ];
        for (controller, mountinfo, membership, expected) in table {
            let place = Place::from_mounts(controller, mountinfo, &parse_membership(membership).unwrap());
            let found = place.as_ref().map(|place| (place.mount.as_str(), place.path.as_str(), place.is_v2));
            assert_eq!(found, expected, "{controller} {membership}");
        }
    }

    #[test]
    fn no_group_is_followed_for_ever() {
        let levels = |depth| Place::new("/m".to_owned(), &"/a".repeat(depth), true).levels();
        assert_eq!(levels(2).unwrap(), ["/m/a/a", "/m/a", "/m"]);
        assert_eq!(levels(DEPTH_MAX).map(|levels| levels.len()), Some(DEPTH_MAX + 1));
        assert_eq!(levels(DEPTH_MAX + 1), None);
        assert_eq!(levels(10 * DEPTH_MAX), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(mountinfo in "[ a-z0-9/:,\\-\n]{0,200}", text in "([0-9]:(cpu|cpuset|,)*:(/[a-z.é]{0,3})*\n?)*|.{0,20}") {
            if let Some(membership) = parse_membership(&text) {
                let mountinfo = format!("1 1 1:1 / /m rw - cgroup x rw,cpu\n{mountinfo}");
                let places = [Place::from_membership("cpu", &membership), Place::from_mounts("cpu", &mountinfo, &membership)];
                for place in places.into_iter().flatten() {
                    prop_assert!(place.levels().is_none_or(|levels| levels.last() == Some(&place.mount)));
                }
            }
        }
    }
}
