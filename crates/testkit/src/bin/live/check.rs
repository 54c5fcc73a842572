//! `Check`: one live check, and its place.

use std::path::PathBuf;

/// One live check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Check {
    /// The check's crate, module and test: `measure::gaps::planted_gaps_are_found`.
    pub(crate) name: String,
    /// The folder of the check's crate: `measure`.
    pub(crate) crate_name: String,
    /// The program that contains the check.
    pub(crate) program: PathBuf,
    pub(crate) name_in_program: String,
    /// The folder that the check runs in.
    pub(crate) folder: PathBuf,
    /// How long the check is expected to take.
    pub(crate) seconds: u64,
    /// Whether the check runs only on request. The program marks it as ignored, with the reason.
    pub(crate) is_extra: bool,
}
