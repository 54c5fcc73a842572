//! `Check`: one live check, and its place.

use std::path::PathBuf;

/// One live check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Check {
    /// Its crate, module and test: `measure::gaps::planted_gaps_are_found`.
    pub(crate) name: String,
    /// The folder of its crate: `measure`.
    pub(crate) crate_name: String,
    /// Its program.
    pub(crate) program: PathBuf,
    pub(crate) name_in_program: String,
    /// The folder it runs in.
    pub(crate) folder: PathBuf,
    /// How long it is expected to take.
    pub(crate) seconds: u64,
    /// Whether it runs only on request. Its program ignores it, with the reason.
    pub(crate) is_extra: bool,
}
