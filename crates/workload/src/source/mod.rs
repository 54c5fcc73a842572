//! `Source`: where the numbers of a window come from when the server does not cooperate. There is one file for each: its output, its
//! metrics endpoint, its telemetry page, or the kernel's view of it from outside.

pub(crate) mod telemetry;

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::workload::Sample;

mod error;
pub mod http;
pub mod json_lines;
pub mod lines;
pub mod named;
pub mod outside_packets;
pub mod outside_ticks;
pub mod prometheus;
pub mod regex;
pub mod rule;
pub mod split;

pub use error::{InvalidMetric, NoNumber};

/// Something that yields numbers for a window.
pub trait Source {
    /// What it is and where it reads, for the report.
    fn describe(&self) -> String;

    /// See [`Workload::identity`](crate::Workload::identity).
    fn identity(&self) -> String {
        self.describe()
    }

    /// The metrics that it yields. The list may grow until the first window has ended.
    fn metrics(&self) -> Vec<Metric>;

    /// How often the measured event happens per second, if known.
    fn events_per_s(&self) -> Option<f64> {
        None
    }

    /// See [`Workload::takes_turns`](crate::Workload::takes_turns).
    fn takes_turns(&self) -> bool {
        false
    }

    /// Begins a window: earlier data does not count.
    ///
    /// # Errors
    /// If there is nothing to read.
    fn begin(&mut self) -> Result<(), WorkloadError>;

    /// Ends the window and returns its numbers.
    ///
    /// # Errors
    /// If it contains no data, or the data cannot be understood.
    fn end(&mut self) -> Result<Sample, WorkloadError>;
}
