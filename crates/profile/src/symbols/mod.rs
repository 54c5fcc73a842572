//! `Symbols`: which functions the places of a recording are in. It looks where the code came from: files of this machine or of a container that
//! still runs, separate files with debug information, the running kernel, what compilers at run time have told. A name is given only where it
//! is sure that the code is the one that ran; what has none is told with the reason ([`Doubts`]).

mod anonymous;
mod cache;
mod demangle;
mod doubts;
pub(crate) mod elf;
mod files;
mod kernel;
mod lines;
mod mend;
mod pclntab;
mod perf_map;
mod plt;
mod split;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::SystemTime;

pub use demangle::demangle;
pub use doubts::{Doubts, Share, Unnamed, Why};
pub use kernel::{Kallsyms, KernelSymbol, parse_build_id, parse_kallsyms};
pub use pclntab::{GoFunctions, parse_pclntab};
pub use perf_map::{PerfMap, parse_perf_map};

use self::cache::Cache;
use crate::binaries::Lookup;
use crate::names::{Function, Names};
use crate::recording::{Mapping, Recording};
use crate::stack::{Frame, ModuleId};

/// More processes are not asked for one file.
const PROCESSES_MAX: usize = 8;
/// What recordings call the kernel's page for programs.
const VDSO: &str = "[vdso]";

/// How names are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When the recording ended, if that is known: what was made later was not in it.
    pub recorded_until: Option<SystemTime>,
    /// Where names that were found are kept for the next time; none keeps nothing, and looks at nothing that was kept.
    pub cache_folder: Option<PathBuf>,
    /// Where separate files with debug information are.
    pub debug_folders: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        let Lookup { recorded_until, debug_folders } = Lookup::default();
        Settings { recorded_until, cache_folder: None, debug_folders }
    }
}

impl Settings {
    /// Where files are looked for.
    pub fn lookup(&self) -> Lookup {
        Lookup { recorded_until: self.recorded_until, debug_folders: self.debug_folders.clone() }
    }
}

/// Finds names.
#[derive(Debug)]
pub struct Symbols {
    settings: Settings,
    cache: Cache,
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
    /// Frames where nothing that could be run was mapped.
    nowhere: HashSet<Frame>,
}

/// Places that have to be named.
#[derive(Default)]
struct Asked {
    files: BTreeMap<usize, (ModuleId, BTreeSet<u64>)>,
    anonymous: BTreeMap<u32, BTreeSet<u64>>,
}

/// What was mapped where, as it is asked for here.
#[derive(Default)]
struct Mapped {
    /// By file: one place in each of the first few processes that had it.
    by_file: HashMap<ModuleId, Vec<Mapping>>,
    /// By process: code from where up to where, in the order of addresses; each with the furthest end up to it.
    by_process: HashMap<u32, Vec<(u64, u64)>>,
    /// Where each process has the kernel's page for programs.
    vdso: HashMap<u32, Vec<(u64, u64)>>,
}

impl Mapped {
    fn of(recording: &Recording) -> Mapped {
        let mut mapped = Mapped::default();
        for mapping in &recording.mappings {
            let of_file = mapped.by_file.entry(mapping.module).or_default();
            if of_file.len() < PROCESSES_MAX && of_file.iter().all(|other| other.pid != mapping.pid) {
                of_file.push(*mapping);
            }
            let place = (mapping.start, mapping.end);
            mapped.by_process.entry(mapping.pid).or_default().push(place);
            if recording.modules.get(mapping.module).is_some_and(|module| module.path == VDSO) {
                let places = mapped.vdso.entry(mapping.pid).or_default();
                if places.len() < PROCESSES_MAX {
                    places.push(place);
                }
            }
        }
        for places in mapped.by_process.values_mut() {
            places.sort_unstable();
            let mut furthest = 0;
            for (_, end) in places {
                furthest = furthest.max(*end);
                *end = furthest;
            }
        }
        mapped
    }

    /// Whether a process had anything mapped there at any time.
    fn contains(&self, pid: u32, address: u64) -> bool {
        let Some(places) = self.by_process.get(&pid) else { return false };
        let behind = places.partition_point(|(start, _)| *start <= address);
        behind.checked_sub(1).and_then(|at| places.get(at)).is_some_and(|(_, end)| address < *end)
    }
}

impl Symbols {
    /// Looks as `settings` say.
    pub fn new(settings: Settings) -> Symbols {
        let cache = Cache::new(settings.cache_folder.as_deref());
        Symbols { settings, cache, doubts: Doubts::default() }
    }

    /// The names of a recording's frames, as far as they can be found.
    pub fn names(&mut self, recording: &Recording) -> Names {
        let asked = Asked::of(recording);
        let mut finding = Finding::default();
        let mapped = Mapped::of(recording);
        for (module, offsets) in asked.files.values() {
            self.file((recording, &mapped), *module, offsets, &mut finding);
        }
        kernel::resolve((recording, &mapped), &self.cache, &mut finding);
        for (pid, addresses) in &asked.anonymous {
            anonymous::resolve((&self.settings, &self.cache), (recording, &mapped), (*pid, addresses), &mut finding);
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

/// What tells a recording from others: when it began and ended, on a clock of nanoseconds, and how much is in it.
fn identity(recording: &Recording) -> [u8; 20] {
    let count = recording.samples.len() as u32;
    let words = [recording.span.start_ns.to_le_bytes(), recording.span.end_ns.to_le_bytes()].concat();
    let mut identity = [0; 20];
    for (to, from) in identity.iter_mut().zip(words.into_iter().chain(count.to_le_bytes())) {
        *to = from;
    }
    identity
}
