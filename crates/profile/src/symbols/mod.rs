//! `Symbols`: which functions the places of a recording are in. It looks where the code came from: files of this machine or of a container that
//! still runs, separate files with debug information, the running kernel, what compilers at run time have told. A name is given only where it
//! is sure that the code is the one that ran; what has none is told with the reason ([`Doubts`]).

mod anonymous;
mod demangle;
mod doubts;
mod elf;
mod files;
mod kernel;
mod lines;
mod mend;
mod perf_map;
mod place;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::SystemTime;

pub use demangle::demangle;
pub use doubts::{Doubts, Share, Unnamed, Why};
pub use kernel::{Kallsyms, KernelSymbol, parse_build_id, parse_kallsyms};
pub use perf_map::{PerfMap, parse_perf_map};

use crate::names::{Function, Names};
use crate::recording::Recording;
use crate::stack::{Frame, ModuleId};

/// More processes are not asked for one file.
const PROCESSES_MAX: usize = 8;

/// How names are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When the recording ended, if that is known: what was made later was not in it.
    pub recorded_until: Option<SystemTime>,
    /// Where separate files with debug information are.
    pub debug_folders: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { recorded_until: None, debug_folders: vec![PathBuf::from("/usr/lib/debug")] }
    }
}

/// Finds names.
#[derive(Debug)]
pub struct Symbols {
    settings: Settings,
    doubts: Doubts,
}

/// Why something has no name, and what was found instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Reason {
    why: Why,
    detail: Option<String>,
}

impl From<Why> for Reason {
    fn from(why: Why) -> Reason {
        Reason { why, detail: None }
    }
}

/// What was found of a recording's frames.
#[derive(Default)]
struct Finding {
    functions: HashMap<Frame, Vec<Function>>,
    files: HashMap<ModuleId, Reason>,
    kernel: Option<Reason>,
    processes: HashMap<u32, Reason>,
}

/// Places that have to be named.
#[derive(Default)]
struct Asked {
    files: BTreeMap<usize, (ModuleId, BTreeSet<u64>)>,
    anonymous: BTreeMap<u32, BTreeSet<u64>>,
}

impl Symbols {
    /// Looks as `settings` say.
    pub fn new(settings: Settings) -> Symbols {
        Symbols { settings, doubts: Doubts::default() }
    }

    /// The names of a recording's frames, as far as they can be found.
    pub fn names(&mut self, recording: &Recording) -> Names {
        let asked = Asked::of(recording);
        let mut finding = Finding::default();
        for (module, offsets) in asked.files.values() {
            self.file(recording, *module, offsets, &mut finding);
        }
        kernel::resolve(recording, &mut finding);
        for (pid, addresses) in &asked.anonymous {
            anonymous::resolve(&self.settings, recording, (*pid, addresses), &mut finding);
        }
        let names = Names::of(recording, |frame| finding.functions.get(frame).cloned().unwrap_or_default());
        self.doubts = doubts::told(recording, &names, &finding);
        names
    }

    /// What of the last recording has no name.
    pub fn doubts(&self) -> &Doubts {
        &self.doubts
    }
}

/// Whether two build ids are one. Some writers fill them up with zeros.
fn same_build(one: &[u8], other: &[u8]) -> bool {
    let bare = |id: &[u8]| id.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    !one.is_empty() && one.get(..bare(one)) == other.get(..bare(other))
}
