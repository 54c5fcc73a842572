//! `Symbols`: finds the functions of a recording's frames.
//! The search looks in files of this machine or of a running container, in separate debug files, and in the running kernel.
//! The search also reads maps of code generated at run time.
//! The search uses a name only if the code is certainly the code that ran, and reports the reason for each missing name ([`NameCoverage`]).

mod anonymous;
mod cache;
mod coverage;
mod demangle;
pub(crate) mod elf;
mod files;
mod finding;
mod kernel;
mod lines;
mod mend;
mod pclntab;
mod perf_map;
mod plt;
mod split;
mod why;

pub use coverage::{NameCoverage, Share, Unnamed};
pub use demangle::demangle;
pub use finding::Settings;
pub use kernel::{Kallsyms, KernelSymbol, parse_build_id, parse_kallsyms};
pub use pclntab::{GoFunctions, parse_pclntab};
pub use perf_map::{PerfMap, parse_perf_map};
pub use why::Why;

use self::cache::Cache;
use self::finding::{Finding, FramesToName, Mapped};
use crate::names::Names;
use crate::recording::Recording;

/// Finds names.
#[derive(Debug)]
pub struct Symbols {
    settings: Settings,
    cache: Cache,
    coverage: NameCoverage,
}

impl Symbols {
    /// Creates a search with these settings.
    pub fn new(settings: Settings) -> Symbols {
        let cache = Cache::new(settings.cache_folder.as_deref());
        Symbols { settings, cache, coverage: NameCoverage::default() }
    }

    /// Finds the names of a recording's frames.
    pub fn names(&mut self, recording: &Recording) -> Names {
        let asked = FramesToName::from_recording(recording);
        let mut finding = Finding::default();
        let mapped = Mapped::from_recording(recording);
        for (module, offsets) in asked.files.values() {
            files::resolve((&self.settings, &self.cache), (recording, &mapped), (*module, offsets), &mut finding);
        }
        kernel::resolve((recording, &mapped), &self.cache, &mut finding);
        for (pid, addresses) in &asked.anonymous {
            anonymous::resolve((&self.settings, &self.cache), (recording, &mapped), (*pid, addresses), &mut finding);
        }
        let names = Names::resolve(recording, |frame| finding.functions.get(frame).cloned().unwrap_or_default());
        self.coverage = coverage::coverage(recording, &names, &finding);
        names
    }

    /// The name coverage of the last recording.
    pub fn coverage(&self) -> &NameCoverage {
        &self.coverage
    }
}
