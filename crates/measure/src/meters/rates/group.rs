//! Where a control group's files are: version 1, version 2, or both mounted side by side, and the groups around it, whose limits hold it too.

use evenkeel_hostfs::{Root, Why};

use super::measured::Measured;
use super::parse::{parse_limit, parse_membership};

/// The deepest group that is looked at. Groups of systemd and Kubernetes are under ten levels deep.
const DEPTH_MAX: usize = 32;
const TOP: &str = "/sys/fs/cgroup";

/// A group's place in the tree of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the tree is mounted.
    pub mount: String,
    /// The group below it: begins with `/`.
    pub path: String,
    /// Whether the tree is of version 2.
    pub is_v2: bool,
}

/// A group's places.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Where its CPU time is counted and limited.
    pub cpu: Measured<Place>,
    /// Where its memory is.
    pub memory: Measured<Place>,
    /// Where its pressure is told, which only version 2 does.
    pub pressure: Measured<Place>,
}

impl Places {
    /// Of the group that a process is in, by its `/proc/PID/cgroup`.
    pub fn of_process(root: &Root, process: &str) -> Places {
        Places::from(root, &format!("/proc/{process}/cgroup"), None)
    }

    /// Of the group of this name: below a controller's mount (`/system.slice/game.service`), or its whole directory.
    pub fn named(root: &Root, name: &str) -> Places {
        Places::from(root, "/proc/self/cgroup", Some(name))
    }

    fn from(root: &Root, path: &str, name: Option<&str>) -> Places {
        let lines = match root.text(path) {
            Ok(text) => match parse_membership(&text) {
                Some(lines) => Measured::Known(lines),
                None => Measured::odd(format!("{path} has no lines of NUMBER:CONTROLLERS:PATH")),
            },
            Err(refusal) => Measured::refused(&refusal),
        };
        let of = |controller: &str| lines.and_then(|lines| place(lines, controller, name));
        Places { cpu: of("cpu"), memory: of("memory"), pressure: of("") }
    }
}

/// A controller belongs to version 1 where a line names it, else to version 2; the empty name is version 2's tree itself.
fn place(lines: &[(String, String)], controller: &str, name: Option<&str>) -> Measured<Place> {
    let is_hybrid = lines.iter().any(|(controllers, _)| !controllers.is_empty());
    let own = lines
        .iter()
        .find(|(controllers, _)| !controller.is_empty() && controllers.split(',').any(|found| found == controller));
    let unified = lines.iter().find(|(controllers, _)| controllers.is_empty());
    let (mount, path, is_v2) = match (own, unified) {
        (Some((controllers, path)), _) => (format!("{TOP}/{controllers}"), path, false),
        (None, Some((_, path))) if is_hybrid => (format!("{TOP}/unified"), path, true),
        (None, Some((_, path))) => (TOP.to_owned(), path, true),
        (None, None) => {
            let tree = if controller.is_empty() { "version 2" } else { controller };
            return Measured::absent(format!("no tree of control groups has {tree}"));
        }
    };
    let path = name.map_or_else(|| path.clone(), |name| below_mount(lines, name));
    if path.split('/').any(|part| part == "..") {
        return Measured::odd(format!("the control group {path} is outside of what this namespace shows"));
    }
    Measured::Known(Place { mount, path: path.trim_end_matches('/').to_owned(), is_v2 })
}

/// A whole directory such as `/sys/fs/cgroup/cpu/game` without its mount.
fn below_mount(lines: &[(String, String)], name: &str) -> String {
    let Some(rest) = name.strip_prefix(TOP) else { return format!("/{}", name.trim_start_matches('/')) };
    let rest = rest.trim_start_matches('/');
    let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
    let is_tree = |(controllers, _): &(String, String)| {
        !controllers.is_empty() && (controllers == first || controllers.split(',').any(|one| one == first))
    };
    let is_hybrid = lines.iter().any(|(controllers, _)| !controllers.is_empty());
    let is_mount = lines.iter().any(is_tree) || (is_hybrid && first == "unified");
    if is_mount { format!("/{below}") } else { format!("/{rest}") }
}

impl Place {
    /// The group's own directory.
    pub fn directory(&self) -> String {
        format!("{}{}", self.mount, self.path)
    }

    /// The directories of the group and of those around it, the innermost first.
    ///
    /// In a container of version 1 the path is the host's, but the mount is our own group: the inner ones are then not there.
    pub fn levels(&self) -> Vec<String> {
        let mut ends: Vec<usize> = self.path.match_indices('/').map(|(at, _)| at).collect();
        ends.push(self.path.len());
        ends.dedup();
        ends.iter().rev().take(DEPTH_MAX).map(|end| format!("{}{}", self.mount, &self.path[..*end])).collect()
    }

    /// Whether the group is there.
    pub fn is_there(&self, root: &Root) -> bool {
        let file = format!("{}/cgroup.procs", self.directory());
        !root.text(&file).is_err_and(|refusal| matches!(refusal.why, Why::Errno(errno) if errno.is_absence()))
    }
}

/// A limit on memory, and the group that has it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryLimit {
    /// The most that may be used.
    pub bytes: u64,
    /// The directory of the group that says so.
    pub directory: String,
}

/// The tightest limit of the group and of those around it; `None` is no limit.
pub(super) fn memory_limit(root: &Root, place: &Place) -> Measured<Option<MemoryLimit>> {
    let file = if place.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    let mut tightest: Option<MemoryLimit> = None;
    for directory in place.levels() {
        let path = format!("{directory}/{file}");
        match root.text(&path) {
            Ok(text) => match parse_limit(&text) {
                Some(Some(bytes)) if tightest.as_ref().is_none_or(|found| bytes < found.bytes) => {
                    tightest = Some(MemoryLimit { bytes, directory });
                }
                Some(_) => {}
                None => return Measured::odd(format!("{path} is no number of bytes")),
            },
            // The outermost group has no such file, and a container does not show the host's.
            Err(refusal) if matches!(refusal.why, Why::Errno(errno) if errno.is_absence()) => {}
            Err(refusal) => return Measured::refused(&refusal),
        }
    }
    Measured::Known(tightest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn root(membership: &str) -> Root {
        Root::from(BTreeMap::from([("/proc/self/cgroup".to_owned(), membership.to_owned())]))
    }

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let directory = |membership: &str, name: Option<&str>| {
            let root = root(membership);
            let places = name.map_or_else(|| Places::of_process(&root, "self"), |name| Places::named(&root, name));
            let told = |place: Measured<Place>| place.known().map_or_else(|| "?".to_owned(), Place::directory);
            [told(places.cpu), told(places.memory), told(places.pressure)].join(" ")
        };
        let hybrid = "2:cpu,cpuacct:/a\n1:memory:/b\n0::/c\n";
        let table = [
            ("0::/a/b\n", None, "/sys/fs/cgroup/a/b /sys/fs/cgroup/a/b /sys/fs/cgroup/a/b"),
            ("0::/\n", None, "/sys/fs/cgroup /sys/fs/cgroup /sys/fs/cgroup"),
            (hybrid, None, "/sys/fs/cgroup/cpu,cpuacct/a /sys/fs/cgroup/memory/b /sys/fs/cgroup/unified/c"),
            (
                hybrid,
                Some("game"),
                "/sys/fs/cgroup/cpu,cpuacct/game /sys/fs/cgroup/memory/game /sys/fs/cgroup/unified/game",
            ),
            (
                hybrid,
                Some("/sys/fs/cgroup/cpu/game/1/"),
                "/sys/fs/cgroup/cpu,cpuacct/game/1 /sys/fs/cgroup/memory/game/1 /sys/fs/cgroup/unified/game/1",
            ),
            ("0::/\n", Some("/sys/fs/cgroup/cpu"), "/sys/fs/cgroup/cpu /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu"),
            ("0::/../x\n", None, "? ? ?"),
            ("1:cpu:/\n", None, "/sys/fs/cgroup/cpu ? ?"),
            ("rubbish", None, "? ? ?"),
        ];
        for (membership, name, expected) in table {
            assert_eq!(directory(membership, name), expected, "{membership} {name:?}");
        }
    }

    #[test]
    fn the_tightest_limit_counts() {
        let place = Place { mount: "/m".into(), path: "/a/b".into(), is_v2: true };
        assert_eq!(place.levels(), ["/m/a/b", "/m/a", "/m"]);
        let mut texts = BTreeMap::from([
            ("/m/a/b/memory.max".to_owned(), "max\n".to_owned()),
            ("/m/a/memory.max".to_owned(), "4096\n".to_owned()),
            ("/m/cgroup.procs".to_owned(), "\n".to_owned()),
        ]);
        let limit = |texts: &BTreeMap<String, String>| {
            let mut capture = Root::from(texts.clone()).capture();
            capture.saw_text("/m/memory.max", Err(evenkeel_sys::Errno::NOENT));
            memory_limit(&Root::captured(capture), &place)
        };
        let expected = MemoryLimit { bytes: 4096, directory: "/m/a".into() };
        assert_eq!(limit(&texts), Measured::Known(Some(expected)));
        texts.insert("/m/a/memory.max".into(), "x".into());
        assert_eq!(limit(&texts).why(), Some("/m/a/memory.max is no number of bytes"));
        texts.insert("/m/a/memory.max".into(), "max".into());
        assert_eq!(limit(&texts), Measured::Known(None));
    }
}
