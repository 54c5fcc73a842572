//! Tests the library's guarantees for a server on the real kernel. The results do not depend on timing.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

#[cfg(feature = "agones")]
mod agones;
mod examples;
mod inherit;
mod jobs;
mod memory;
mod phases;
mod telemetry;
mod udp;

use std::time::Duration;

/// The time limit, which only a hang reaches: a busy machine may keep a thread waiting for long.
const PATIENCE: Duration = Duration::from_secs(60);
