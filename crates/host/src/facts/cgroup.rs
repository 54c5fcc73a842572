//! Finds our control group and its files: version 1, version 2, or both mounted together.

use evenkeel_hostfs::Root;
use evenkeel_hostfs::cgroup::{Place, parse_membership};

use crate::fact::Fact;
use crate::probe::{Probe, is_absence};

/// The text that lists our groups. It is empty if no hierarchy was ever mounted.
pub(super) fn membership(probe: Probe<'_>) -> Fact<String> {
    let lines = |text: &str| parse_membership(text).map(|_| text.to_owned());
    probe.parse(&format!("{}/cgroup", probe.process()), "lines of NUMBER:CONTROLLERS:PATH", lines)
}

/// Our group for `controller`.
pub(super) fn place(controller: &str, membership: &str) -> Option<Place> {
    Place::from_membership(controller, &parse_membership(membership)?)
}

/// The directories of the group and of its ancestors, the innermost first.
/// Unknown if our group is outside of this namespace, or deeper than any real group.
///
/// In a container of version 1, the path is the host's path, but the mount shows only our own group.
/// So the inner levels do not exist. The last level, which is the mount itself, is the right one.
pub(super) fn levels(place: &Place) -> Fact<Vec<String>> {
    match place.levels() {
        Some(levels) => Fact::Known(levels),
        None => Fact::odd("/proc/self/cgroup", &place.path, "evenkeel's control group is not visible or too deep"),
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
