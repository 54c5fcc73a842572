//! What can end a trial early. What was measured until then is kept: see [`Ended`](crate::Ended).

use evenkeel_change::{SessionError, StateError};
use evenkeel_hostfs::WriteError;
use evenkeel_stats::VALUE_RANGE;
use evenkeel_sys::Errno;

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
    /// A thread of the server was ready to run for most of a window and was given no CPU, so that the window has no number.
    #[error(
        "hear from {program}: it was ready to run for {waited_ms} ms of a window of {span_ms} ms and was given no CPU"
    )]
    NoCpu {
        /// The thread.
        program: String,
        /// How long it waited.
        waited_ms: u64,
        /// How long the window was.
        span_ms: u64,
    },
    /// A window came to its end without the number that was asked for. Such a window is dropped; many in a row end a trial.
    #[error("hear from {program}: {why}")]
    NoValue {
        /// Who was to give it.
        program: String,
        /// Why there is none.
        why: String,
    },
    /// Which loop of the server is its tick can't be told.
    #[error("{0}")]
    UnclearTick(Box<crate::source::outside_ticks::UnclearTick>),
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
    /// The user asked to stop while something was waited for.
    #[error("measure a window: it was stopped before the first one; everything is as it was")]
    Stopped,
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
    /// A setting of the workload does not take its value.
    #[error("design a trial: {0}")]
    Setting(InvalidSetting),
    /// A design that can't be run.
    #[error("design a trial: {0}")]
    Design(String),
}

/// A setting of a workload that does not take the value, as `--set` names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("set {name}={value}: {why}")]
pub struct InvalidSetting {
    /// The setting's name.
    pub name: String,
    /// The value.
    pub value: String,
    /// What it would take.
    pub why: String,
}

impl TrialError {
    /// Of a setting that does not take the value.
    pub(crate) fn setting(name: &str, value: impl std::fmt::Display, why: impl Into<String>) -> TrialError {
        TrialError::Setting(InvalidSetting { name: name.to_owned(), value: value.to_string(), why: why.into() })
    }
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

/// An error of one area whose sentence is all there is to it: it is shown, and nothing is decided by it.
macro_rules! only_shown {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("{0}")]
        pub struct $name(String);

        impl From<&str> for $name {
            fn from(why: &str) -> $name {
                $name(why.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(why: String) -> $name {
                $name(why)
            }
        }
    };
}
pub(crate) use only_shown;

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
