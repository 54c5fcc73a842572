//! The files of a control group: in version 1, version 2, or both side by side.
//! Also the files of its ancestors, whose limits apply to the group too.

use evenkeel_hostfs::cgroup::{Membership, Place, parse_membership};
use evenkeel_hostfs::{Root, Why};

use super::measured::Measured;

const TOP: &str = "/sys/fs/cgroup";

/// The directories of a control group. With version 1, each controller has its own directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// The directory of the group's CPU counts and limits.
    pub cpu: Measured<Place>,
    /// The directory of the group's memory counts and limits.
    pub memory: Measured<Place>,
    /// The directory of the group's pressure files, which exist only in version 2.
    pub pressure: Measured<Place>,
}

impl Places {
    /// The directories of a process's group, by its `/proc/PID/cgroup`.
    pub fn of_process(root: &Root, process: &str) -> Places {
        Places::from(root, &format!("/proc/{process}/cgroup"), None)
    }

    /// The directories of the group with this name: a path below a controller's mount (`/system.slice/game.service`), or a full path.
    pub fn named(root: &Root, name: &str) -> Places {
        Places::from(root, "/proc/self/cgroup", Some(name))
    }

    fn from(root: &Root, path: &str, name: Option<&str>) -> Places {
        let text = match root.text(path) {
            Ok(text) => Measured::Known(text),
            Err(refusal) => Measured::refused(&refusal),
        };
        let of = |controller: &str| {
            text.and_then(|text| match parse_membership(text) {
                Some(lines) => place(&lines, controller, name),
                None => Measured::odd(format!("{path} has no lines of NUMBER:CONTROLLERS:PATH")),
            })
        };
        Places { cpu: of("cpu"), memory: of("memory"), pressure: of("") }
    }
}

/// The directory of the group in this membership list, or of the group with this name.
fn place(lines: &[Membership<'_>], controller: &str, name: Option<&str>) -> Measured<Place> {
    let Some(own) = Place::from_membership(controller, lines) else {
        let tree = if controller.is_empty() { "version 2" } else { controller };
        return Measured::absent(format!("no tree of control groups has {tree}"));
    };
    let path = name.map_or(own.path, |name| below_mount(lines, name));
    let place = Place { path: path.trim_end_matches('/').to_owned(), ..own };
    if place.levels().is_none() {
        return Measured::odd(format!("the control group {path} is outside of what this namespace shows, or too deep"));
    }
    Measured::Known(place)
}

/// The path `/sys/fs/cgroup/cpu/game`, for example, without its mount.
fn below_mount(lines: &[Membership<'_>], name: &str) -> String {
    let Some(rest) = name.strip_prefix(TOP) else { return format!("/{}", name.trim_start_matches('/')) };
    let rest = rest.trim_start_matches('/');
    let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
    let is_tree =
        |line: &Membership<'_>| !line.controllers.is_empty() && (line.controllers == first || line.has(first));
    let is_hybrid = lines.iter().any(|line| !line.controllers.is_empty());
    let is_mount = lines.iter().any(is_tree) || (is_hybrid && first == "unified");
    if is_mount { format!("/{below}") } else { format!("/{rest}") }
}

/// Whether the group exists.
pub(super) fn is_there(place: &Place, root: &Root) -> bool {
    let file = format!("{}/cgroup.procs", place.directory());
    !root.text(&file).is_err_and(|refusal| matches!(refusal.why, Why::Errno(errno) if errno.is_absence()))
}

/// A memory limit, and the group that sets it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The directory of the group that sets the limit.
    pub directory: String,
}

/// The tightest limit of the group and its ancestors. `None` means no limit.
pub(super) fn memory_limit(root: &Root, place: &Place) -> Measured<Option<MemoryLimit>> {
    let file = if place.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    let mut tightest: Option<MemoryLimit> = None;
    for directory in place.levels().unwrap_or_default() {
        let path = format!("{directory}/{file}");
        match root.text(&path) {
            Ok(text) => match parse_limit(&text) {
                Some(Some(bytes)) if tightest.as_ref().is_none_or(|found| bytes < found.bytes) => {
                    tightest = Some(MemoryLimit { bytes, directory });
                }
                Some(_) => {}
                None => return Measured::odd(format!("{path} is not a number of bytes")),
            },
            // The root group has no such file, and a container does not show the host's file.
            Err(refusal) if matches!(refusal.why, Why::Errno(errno) if errno.is_absence()) => {}
            Err(refusal) => return Measured::refused(&refusal),
        }
    }
    Measured::Known(tightest)
}

/// A limit in bytes: `max`, or a number. Version 1 reports nearly 2^63 for a group without a limit.
fn parse_limit(text: &str) -> Option<Option<u64>> {
    const NONE: u64 = 1 << 62;
    match text.trim() {
        "max" => Some(None),
        number => number.parse().ok().map(|bytes: u64| (bytes < NONE).then_some(bytes)),
    }
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
            let directory = |place: Measured<Place>| place.known().map_or_else(|| "?".to_owned(), Place::directory);
            [directory(places.cpu), directory(places.memory), directory(places.pressure)].join(" ")
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
    fn limits_are_numbers_or_none() {
        let table = [
            ("max\n", Some(None)),
            ("9223372036854771712\n", Some(None)),
            ("1048576\n", Some(Some(1_048_576))),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_limit(text), expected, "{text}");
        }
    }

    #[test]
    fn the_tightest_limit_counts() {
        let place = Place { mount: "/m".into(), path: "/a/b".into(), is_v2: true };
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
        assert_eq!(limit(&texts).why(), Some("/m/a/memory.max is not a number of bytes"));
        texts.insert("/m/a/memory.max".into(), "max".into());
        assert_eq!(limit(&texts), Measured::Known(None));
    }
}
