//! The state of the flight recorder in a sample.

use serde::{Deserialize, Serialize};

/// The counts of the flight recorder since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecorderSample {
    /// The number of dumps that were written.
    pub dumps: u64,
    /// The number of requests that came less than a minute after the previous request.
    pub refused: u64,
    /// The path of the last dump. None before the first dump.
    pub last: Option<String>,
    /// Why the last dump was requested.
    pub last_reason: Option<String>,
    /// Why the last dump could not be written. None if it was written.
    pub last_error: Option<String>,
    /// Why the recorder does not run. None if it runs.
    pub failure: Option<String>,
}
