//! `Symbols`: which functions the places of a recording are in. It looks where the code came from: files of this machine or of a container that
//! still runs, separate files with debug information, the running kernel, what compilers at run time have told. A name is given only where it
//! is sure that the code is the one that ran; what has none is told with the reason ([`NameCoverage`]).

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
    doubts: NameCoverage,
}

impl Symbols {
    /// Looks as `settings` say.
    pub fn new(settings: Settings) -> Symbols {
        let cache = Cache::new(settings.cache_folder.as_deref());
        Symbols { settings, cache, doubts: NameCoverage::default() }
    }

    /// The names of a recording's frames, as far as they can be found.
    pub fn names(&mut self, recording: &Recording) -> Names {
        let asked = FramesToName::of(recording);
        let mut finding = Finding::default();
        let mapped = Mapped::of(recording);
        for (module, offsets) in asked.files.values() {
            files::resolve((&self.settings, &self.cache), (recording, &mapped), (*module, offsets), &mut finding);
        }
        kernel::resolve((recording, &mapped), &self.cache, &mut finding);
        for (pid, addresses) in &asked.anonymous {
            anonymous::resolve((&self.settings, &self.cache), (recording, &mapped), (*pid, addresses), &mut finding);
        }
        let names = Names::of(recording, |frame| finding.functions.get(frame).cloned().unwrap_or_default());
        self.doubts = coverage::coverage(recording, &names, &finding);
        names
    }

    /// What of the last recording has no name.
    pub fn doubts(&self) -> &NameCoverage {
        &self.doubts
    }
}
