//! What can end a trial early. What was measured until then is kept: see [`Ended`](crate::Ended).

use evenkeel_change::{SessionError, StateError};
use evenkeel_hostfs::WriteError;
use evenkeel_stats::VALUE_RANGE;
use evenkeel_sys::Errno;
use evenkeel_workload::WorkloadError;

/// Why a trial could not be begun or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The workload did not start, or was not measured.
    #[error(transparent)]
    Workload(WorkloadError),
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
    /// The journal can't be had, or can't be added to.
    #[error("keep the host safe during the trial: {0}")]
    Journal(StateError),
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
        "compare {metric}: in one window it is {}; windows are compared by their ratio, which takes numbers {}",
        shown(*value),
        taken(*value)
    )]
    NoRatio {
        /// The metric.
        metric: String,
        /// Its number.
        value: f64,
    },
    /// The budget would be over before anything can be said: found by a switch to each arm, before the first window.
    #[error(
        "finish a trial within {} s: it takes {} s at least, because each switch takes {:.1} s",
        budget.as_secs_f64(),
        least.as_secs_f64().ceil(),
        switch.as_secs_f64()
    )]
    ShortBudget {
        /// What was asked for.
        budget: std::time::Duration,
        /// What would do.
        least: std::time::Duration,
        /// How long a switch takes.
        switch: std::time::Duration,
    },
    /// A design that can't be run.
    #[error("design a trial: {0}")]
    Design(String),
}

/// A line of a log or of a kept session that can't be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct InvalidLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl InvalidLine {
    pub(crate) fn new(line: usize, why: impl std::fmt::Display) -> InvalidLine {
        InvalidLine { line, why: why.to_string() }
    }
}

/// A number in few letters, however large or small it is.
fn shown(value: f64) -> String {
    if value == 0.0 || (1e-6..1e15).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// Which numbers would have done.
fn taken(value: f64) -> String {
    match value > 0.0 {
        true => format!("from {:e} to {:e}", VALUE_RANGE.start(), VALUE_RANGE.end()),
        false => "above 0".to_owned(),
    }
}

impl From<WorkloadError> for TrialError {
    fn from(error: WorkloadError) -> TrialError {
        match error {
            WorkloadError::Switch { knob, wanted, why } => TrialError::Switch { knob, wanted, why },
            other => TrialError::Workload(other),
        }
    }
}

impl From<WriteError> for TrialError {
    fn from(error: WriteError) -> TrialError {
        TrialError::Switch { knob: error.path, wanted: error.value, why: error.errno.to_string() }
    }
}

impl From<SessionError> for TrialError {
    fn from(error: SessionError) -> TrialError {
        match error {
            SessionError::Journal(error) => TrialError::Journal(error),
            other => TrialError::Change(other.to_string()),
        }
    }
}

impl From<(&str, Errno)> for TrialError {
    fn from((path, errno): (&str, Errno)) -> TrialError {
        TrialError::Change(format!("read {path}: {errno}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_ratio_is_told_in_few_letters_with_those_that_have_one() {
        for (value, expected) in [
            (0.0, "it is 0; windows are compared by their ratio, which takes numbers above 0"),
            (-2.5, "it is -2.5; windows are compared by their ratio, which takes numbers above 0"),
            (5e307, "it is 5e307; windows are compared by their ratio, which takes numbers from 1e-150 to 1e150"),
            (1e-200, "it is 1e-200; windows are compared by their ratio, which takes numbers from 1e-150 to 1e150"),
            (f64::INFINITY, "it is inf; windows are compared by their ratio, which takes numbers from 1e-150 to 1e150"),
        ] {
            let told = TrialError::NoRatio { metric: "x".into(), value }.to_string();
            assert_eq!(told, format!("compare x: in one window {expected}"));
        }
    }
}
