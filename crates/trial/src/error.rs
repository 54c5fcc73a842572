//! What can end a trial early. What was measured until then is kept: see [`Ended`](crate::Ended).

use evenkeel_sys::{Errno, WriteError};

/// Why a trial could not be begun or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A program of the workload could not be started.
    #[error("start {program}: {why}")]
    Start {
        /// Its path.
        program: String,
        /// What went wrong, and what to do.
        why: String,
    },
    /// A program of the workload ended, hung, or said what was not expected.
    #[error("hear from {program}: {why}")]
    Workload {
        /// Its name.
        program: String,
        /// What it did.
        why: String,
    },
    /// A knob could not be switched, or what was written did not take.
    #[error("switch {knob} to {wanted}: {why}")]
    Switch {
        /// The knob's id.
        knob: String,
        /// The value.
        wanted: String,
        /// What was found instead, or what the kernel said.
        why: String,
    },
    /// The journal or the restoring of what a trial switched.
    #[error("keep the host safe during the trial: {0}")]
    Change(String),
    /// The metric is not among what the workload measures.
    #[error("measure {metric}: the workload gives {given}")]
    NoSuchMetric {
        /// What was asked.
        metric: String,
        /// What there is.
        given: String,
    },
    /// What decides came to a number that has no ratio to another.
    #[error(
        "compare {metric}: in one window it is {value}; windows are compared by their ratio, which takes numbers above 0"
    )]
    NoRatio {
        /// The metric.
        metric: String,
        /// Its number.
        value: f64,
    },
    /// A design that can't be run.
    #[error("design a trial: {0}")]
    Design(String),
}

impl From<WriteError> for TrialError {
    fn from(error: WriteError) -> TrialError {
        TrialError::Switch { knob: error.path, wanted: error.value, why: error.errno.to_string() }
    }
}

impl From<(&str, Errno)> for TrialError {
    fn from((path, errno): (&str, Errno)) -> TrialError {
        TrialError::Change(format!("read {path}: {errno}"))
    }
}
