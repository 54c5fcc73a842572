//! The control group of this process, by controller, in version 1 and version 2.

/// The place of our group in the hierarchy of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where the hierarchy is mounted.
    pub(super) mount: String,
    /// Our group below the mount, such as `/user.slice`; empty for the mount itself.
    pub(super) below: String,
    /// Whether it is version 2, which has one hierarchy for all controllers.
    pub(super) is_v2: bool,
}

impl Place {
    /// Finds it in the texts of /proc/self/mountinfo and /proc/self/cgroup. If version 1 mounts the controller, it is there; otherwise it
    /// is in version 2.
    pub(super) fn find(controller: &str, mountinfo: &str, membership: &str) -> Option<Place> {
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let v1 = mounts.iter().find(|mount| !mount.is_v2 && mount.options.split(',').any(|name| name == controller));
        let mount = v1.or_else(|| mounts.iter().find(|mount| mount.is_v2))?;
        let path = membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (id, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let ours = if mount.is_v2 {
                id == "0" && names.is_empty()
            } else {
                names.split(',').any(|name| name == controller)
            };
            ours.then_some(path)
        })?;
        // Inside a container the mount may show only the subtree that begins at `root`, or the path may be relative to it.
        let below = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
        if below.split('/').any(|part| part == "..") {
            return None;
        }
        Some(Place { mount: mount.at.to_owned(), below: below.trim_end_matches('/').to_owned(), is_v2: mount.is_v2 })
    }

    /// The folder of the group, and those of its ancestors up to the mount.
    pub(super) fn upwards(&self) -> Vec<String> {
        let mut below = self.below.as_str();
        let mut found = vec![format!("{}{below}", self.mount)];
        while let Some((outer, _)) = below.rsplit_once('/') {
            below = outer;
            found.push(format!("{}{below}", self.mount));
        }
        found
    }
}

/// One mount of control groups.
struct Mount<'a> {
    root: &'a str,
    at: &'a str,
    options: &'a str,
    is_v2: bool,
}

impl Mount<'_> {
    /// `36 25 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu`.
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let (kind, options) = (filesystem.next()?, filesystem.nth(1)?);
        match kind {
            "cgroup" => Some(Mount { root, at, options, is_v2: false }),
            "cgroup2" => Some(Mount { root, at, options, is_v2: true }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn our_place_is_found_in_both_versions() {
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
            let place = Place::find(controller, mountinfo, membership);
            let found = place.as_ref().map(|place| (place.mount.as_str(), place.below.as_str(), place.is_v2));
            assert_eq!(found, expected, "{controller} {membership}");
        }
        let deep = Place { mount: "/m".into(), below: "/a/b".into(), is_v2: true };
        assert_eq!(deep.upwards(), ["/m/a/b", "/m/a", "/m"]);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(mountinfo in "[ a-z0-9/:,\\-\n]{0,200}", membership in "[a-z0-9/:,.\n]{0,100}") {
            let place = Place::find("cpu", &format!("1 1 1:1 / /m rw - cgroup x rw,cpu\n{mountinfo}"), &membership);
            if let Some(place) = place {
                prop_assert!(!place.upwards().is_empty());
            }
        }
    }
}
