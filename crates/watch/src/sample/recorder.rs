//! The flight recorder, as a sample holds it.

use serde::{Deserialize, Serialize};

/// The flight recorder's counts since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecorderSample {
    /// Dumps that were written.
    pub dumps: u64,
    /// Requests that came less than a minute after the previous one.
    pub refused: u64,
    /// The file of the last dump.
    pub last: Option<String>,
    /// Why it was requested.
    pub last_reason: Option<String>,
    /// Why the last one could not be written.
    pub last_error: Option<String>,
    /// Why the recorder does not run.
    pub failure: Option<String>,
}
