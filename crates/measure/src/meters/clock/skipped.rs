//! `Skipped`: what a meter left out.

use serde::Serialize;

/// What was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// The name of what was left out.
    pub what: String,
    /// Why it was left out.
    pub why: String,
}
