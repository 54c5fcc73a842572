//! Measures one window of a trial, a search or a boot, or a short window that helps to find the settle time.

use std::time::Duration;

use evenkeel_workload::{Sample, Workload};

use crate::conditions::{Conditions, Watch};
use crate::error::TrialError;

/// The result of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// When the window began, on the watch's clock. The window begins after the settle time.
    pub begun: Duration,
    /// The workload's values. None if the window has no value. The conditions then have the reason.
    pub sample: Option<Sample>,
    /// The state and counters of the machine during the window.
    pub conditions: Conditions,
}

impl Watch {
    /// Lets the machine settle, and measures one window.
    ///
    /// # Errors
    /// Fails if the workload fails. A window without CPU time or without a value is not an error.
    pub fn measure(
        &self,
        workload: &mut dyn Workload,
        settle: Duration,
        length: Duration,
    ) -> Result<Measured, TrialError> {
        let (mut start, mut begun) = (self.begin_window(), self.clock().now());
        let measured = workload.window(settle, length, &mut || {
            start = self.begin_window();
            begun = self.clock().now();
        });
        let mut conditions = self.end_window(&start);
        let sample = conditions.sample_of(measured)?;
        Ok(Measured { begun, sample, conditions })
    }
}
