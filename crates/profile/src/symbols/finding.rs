//! The state of a search for names: settings, frames to name, and results.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::SystemTime;

use super::cache::{Key, Scope};
use super::why::Reason;
use crate::binaries::Lookup;
use crate::names::Function;
use crate::recording::{Mapping, Recording};
use crate::stack::{Frame, ModuleId};

/// The maximum number of processes in whose roots one file is looked for.
const PROCESSES_MAX: usize = 8;

/// The name of the vDSO in recordings.
pub(super) const VDSO: &str = "[vdso]";

/// The settings of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The end of the recording, if known. A file that changed later is not the file that ran.
    pub recorded_until: Option<SystemTime>,
    /// The folder of the name cache. `None` disables the cache.
    pub cache_folder: Option<PathBuf>,
    /// The folders with debug files.
    pub debug_folders: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        let Lookup { recorded_until, debug_folders } = Lookup::default();
        Settings { recorded_until, cache_folder: None, debug_folders }
    }
}

impl Settings {
    /// Where to look for files.
    pub fn lookup(&self) -> Lookup {
        Lookup { recorded_until: self.recorded_until, debug_folders: self.debug_folders.clone() }
    }
}

/// The results for a recording.
#[derive(Default)]
pub(super) struct Finding {
    pub(super) functions: HashMap<Frame, Vec<Function>>,
    pub(super) files: HashMap<ModuleId, Reason>,
    pub(super) kernel: Option<Reason>,
    pub(super) processes: HashMap<u32, Reason>,
    /// Frames without mapped code.
    pub(super) nowhere: HashSet<Frame>,
}

/// The frames to name.
#[derive(Default)]
pub(super) struct FramesToName {
    pub(super) files: BTreeMap<usize, (ModuleId, BTreeSet<u64>)>,
    pub(super) anonymous: BTreeMap<u32, BTreeSet<u64>>,
}

/// The mappings, indexed for the search.
#[derive(Default)]
pub(super) struct Mapped {
    /// The mappings of each file: one mapping in each of the first few processes that mapped the file.
    pub(super) by_file: HashMap<ModuleId, Vec<Mapping>>,
    /// The code ranges of each process, sorted by start. Each entry has its start and the furthest end so far.
    pub(super) by_process: HashMap<u32, Vec<(u64, u64)>>,
    /// The vDSO of each process.
    pub(super) vdso: HashMap<u32, Vec<(u64, u64)>>,
}

impl Mapped {
    pub(super) fn from_recording(recording: &Recording) -> Mapped {
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

    /// Whether a process ever had a mapping at this address.
    pub(super) fn contains(&self, pid: u32, address: u64) -> bool {
        let Some(places) = self.by_process.get(&pid) else { return false };
        let behind = places.partition_point(|(start, _)| *start <= address);
        behind.checked_sub(1).and_then(|at| places.get(at)).is_some_and(|(_, end)| address < *end)
    }
}

/// The identity of a recording: start and end in nanoseconds, and number of samples.
pub(super) fn identity(recording: &Recording) -> [u8; 20] {
    let count = recording.samples.len() as u32;
    let words = [recording.span.start_ns.to_le_bytes(), recording.span.end_ns.to_le_bytes()].concat();
    let mut identity = [0; 20];
    for (to, from) in identity.iter_mut().zip(words.into_iter().chain(count.to_le_bytes())) {
        *to = from;
    }
    identity
}

/// The key in the name cache for code of only one recording. None for a recording in memory, because it is not read again.
pub(super) fn of_recording<'k>(identity: &'k [u8], path: &'k str, settings: &Settings) -> Option<Key<'k>> {
    settings.recorded_until.map(|_| Key { build_id: identity, path, scope: Scope::Recording })
}

impl FramesToName {
    /// The frames of a recording to name.
    pub(super) fn from_recording(recording: &Recording) -> FramesToName {
        let mut asked = FramesToName::default();
        for frame in recording.stacks.frames() {
            match frame {
                Frame::InFile { module, offset } => {
                    let (_, offsets) = asked.files.entry(module.place()).or_insert_with(|| (*module, BTreeSet::new()));
                    offsets.insert(*offset);
                }
                Frame::Anonymous { pid, address } => {
                    asked.anonymous.entry(*pid).or_default().insert(*address);
                }
                Frame::Kernel { .. } | Frame::Named { .. } | Frame::Hint(_) => {}
            }
        }
        asked
    }
}
