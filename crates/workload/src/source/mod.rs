//! `Source`: where the values of a window come from if the server was not built for evenkeel.
//! There is a file for each source: the server's output, its metrics page, its telemetry page, and the kernel's view of the server.

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

/// Something that returns values for a window.
pub trait Source {
    /// Describes the source and where it reads, for the report.
    fn describe(&self) -> String;

    /// See [`Workload::identity`](crate::Workload::identity).
    fn identity(&self) -> String {
        self.describe()
    }

    /// The metrics of the source. The list may grow until the first window has ended.
    fn metrics(&self) -> Vec<Metric>;

    /// How many of the measured events happen per second. None if unknown.
    fn events_per_s(&self) -> Option<f64> {
        None
    }

    /// See [`Workload::takes_turns`](crate::Workload::takes_turns).
    fn takes_turns(&self) -> bool {
        false
    }

    /// Begins a window. Data from earlier times does not count.
    ///
    /// # Errors
    /// Fails if there is nothing to read.
    fn begin(&mut self) -> Result<(), WorkloadError>;

    /// Ends the window and returns its values.
    ///
    /// # Errors
    /// Fails if the window has no data, or the data is invalid.
    fn end(&mut self) -> Result<Sample, WorkloadError>;
}
