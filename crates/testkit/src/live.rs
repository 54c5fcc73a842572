//! The report of a live check to the program that runs it (`src/bin/live/`).

use std::fmt::Display;

use crate::skip;

/// The file in which the runner reads why a check was not judged.
pub const NOT_JUDGED_VARIABLE: &str = "EVENKEEL_LIVE_NOT_JUDGED";

/// Records that this machine could not judge the calling check, with the reason and its figures. The caller returns.
pub fn not_judged(why: impl Display) {
    skip::note(NOT_JUDGED_VARIABLE, "not judged", &why.to_string());
}
