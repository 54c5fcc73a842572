//! Errors of starting, setting and measuring a workload.

use crate::unclear_tick::UnclearTick;

/// Why a workload could not be started, set or measured.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A program of the workload could not be started.
    #[error("start {program}: {why}")]
    Start {
        /// Its path.
        program: String,
        /// What went wrong, and what to do.
        why: String,
    },
    /// A program of the workload ended, hung, or printed something unexpected.
    #[error("measure {program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// What it did.
        why: String,
    },
    /// A thread of the server was ready to run for most of a window but got no CPU, so the window has no value.
    #[error("measure {program}: it was ready to run for {waited_ms} ms of a {span_ms} ms window but got no CPU")]
    NoCpu {
        /// The thread.
        program: String,
        /// How long it waited.
        waited_ms: u64,
        /// How long the window was.
        span_ms: u64,
    },
    /// A window ended without a value. It is dropped; many in a row end a trial.
    #[error("measure {program}: {why}")]
    NoValue {
        /// Who was to give it.
        program: String,
        /// Why there is none.
        why: String,
    },
    /// evenkeel could not find out which loop of the server is its tick.
    #[error("{0}")]
    UnclearTick(Box<UnclearTick>),
    /// A property of the server could not be set, or what was written did not take.
    #[error("switch {knob} to {wanted}: {why}")]
    Switch {
        /// The knob's id.
        knob: String,
        /// The value.
        wanted: String,
        /// What was found instead, or what the kernel said.
        why: String,
    },
    /// The user stopped the trial before its first window.
    #[error("measure a window: stopped before the first window; all settings are as before")]
    Stopped,
    /// A setting of the workload does not take its value.
    #[error("{0}")]
    Setting(InvalidSetting),
    /// Invalid options.
    #[error("read the options of the workload: {0}")]
    Options(String),
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

impl WorkloadError {
    /// Of a setting that does not take the value.
    pub(crate) fn setting(name: &str, value: impl std::fmt::Display, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Setting(InvalidSetting { name: name.to_owned(), value: value.to_string(), why: why.into() })
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
