//! Reads a machine: every area of facts, and every file that a knob names.

use evenkeel_hostfs::Root;

use crate::facts::Facts;
use crate::knobs;

impl Facts {
    /// Reads the machine. Refused readings become facts too.
    pub fn probe(root: &Root) -> Facts {
        Facts::of_areas(root, sysctls())
    }
}

/// The files under /proc/sys that knobs name, and no others. Also the knobs' files that moved to debugfs.
fn sysctls() -> impl Iterator<Item = &'static str> {
    let paths = knobs::ALL.iter().flat_map(|knob| {
        let own = knob.place.files();
        own.into_iter().chain(knob.extras.side_effects.iter().copied())
    });
    paths.filter(|path| path.starts_with("/proc/sys/") || path.starts_with("/sys/kernel/debug/"))
}
