//! Errors that end a trial early. The session keeps the pairs measured so far: see [`Ended`](crate::Ended).

use evenkeel_change::{SessionError, StateError};
use evenkeel_hostfs::{WriteError, json_words};
use evenkeel_stats::VALUE_RANGE;
use evenkeel_sys::Errno;
use evenkeel_workload::WorkloadError;

/// Why a trial could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The workload did not start, or could not be measured.
    #[error(transparent)]
    Workload(WorkloadError),
    /// A knob could not be switched, or a written value did not take effect.
    #[error("switch {knob} to {wanted}: {why}")]
    Switch {
        /// The knob's id.
        knob: String,
        /// The requested value.
        wanted: String,
        /// The value that was found, or the kernel's error.
        why: String,
    },
    /// Switching or restoring a setting failed.
    #[error("restore the host: {0}")]
    Change(String),
    /// The journal can't be opened or written.
    #[error("use the journal: {0}")]
    Journal(StateError),
    /// The metric is not among what the workload measures.
    #[error("measure {metric}: the workload measures {given}")]
    NoSuchMetric {
        /// The requested metric.
        metric: String,
        /// The metrics that the workload measures.
        given: String,
    },
    /// A value of the primary metric cannot form a ratio, such as zero.
    #[error(
        "compare {metric}: one window has the value {}, but ratios of windows need values {}",
        shown(*value),
        taken(*value)
    )]
    NoRatio {
        /// The primary metric.
        metric: String,
        /// The metric's value.
        value: f64,
    },
    /// The first switch to each arm has shown that the budget is too short.
    #[error(
        "finish a trial within {} s: it needs at least {} s, because each switch takes {:.1} s",
        budget.as_secs_f64(),
        least.as_secs_f64().ceil(),
        switch.as_secs_f64()
    )]
    ShortBudget {
        /// The given budget.
        budget: std::time::Duration,
        /// The shortest budget that suffices.
        least: std::time::Duration,
        /// How long a switch takes.
        switch: std::time::Duration,
    },
    /// An invalid design.
    #[error("design a trial: {0}")]
    Design(String),
}

/// Why a line of a log or of a stored session is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct InvalidLine {
    /// The line number, from 1.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl InvalidLine {
    pub(crate) fn new(line: usize, why: impl std::fmt::Display) -> InvalidLine {
        InvalidLine { line, why: why.to_string() }
    }

    /// A line that is not the expected JSON.
    pub(crate) fn json(line: usize, error: &serde_json::Error) -> InvalidLine {
        InvalidLine { line, why: json_words::in_line(error) }
    }
}

/// A number as a short text, however large or small it is.
fn shown(value: f64) -> String {
    if value == 0.0 || (1e-6..1e15).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// The kind of number that would be valid, as a text.
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
    fn a_number_without_a_ratio_is_reported_with_the_allowed_range() {
        for (value, expected) in [
            (0.0, "0, but ratios of windows need values above 0"),
            (-2.5, "-2.5, but ratios of windows need values above 0"),
            (5e307, "5e307, but ratios of windows need values from 1e-150 to 1e150"),
            (1e-200, "1e-200, but ratios of windows need values from 1e-150 to 1e150"),
            (f64::INFINITY, "inf, but ratios of windows need values from 1e-150 to 1e150"),
        ] {
            let text = TrialError::NoRatio { metric: "x".into(), value }.to_string();
            assert_eq!(text, format!("compare x: one window has the value {expected}"));
        }
    }
}
