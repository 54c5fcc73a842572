//! Errors of starting, configuring and measuring a workload.

use crate::unclear_tick::UnclearTick;

/// Why a workload could not be started, configured or measured.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A program of the workload could not be started.
    #[error("start {program}: {why}")]
    Start {
        /// The path of the program.
        program: String,
        /// What went wrong, and what to do.
        why: String,
    },
    /// A program of the workload ended, hung, or printed something unexpected.
    #[error("measure {program}: {why}")]
    Program {
        /// The name of the program.
        program: String,
        /// What the program did.
        why: String,
    },
    /// A thread of the server was ready to run for most of a window but got no CPU, so the window has no value.
    #[error("measure {program}: it was ready to run for {waited_ms} ms of a {span_ms} ms window but got no CPU")]
    NoCpu {
        /// The name of the program and its thread.
        program: String,
        /// How long the thread waited for a CPU, in milliseconds.
        waited_ms: u64,
        /// The length of the window in milliseconds.
        span_ms: u64,
    },
    /// A window ended without a value and is dropped. Many consecutive windows without a value end a trial.
    #[error("measure {program}: {why}")]
    NoValue {
        /// The program that should have given the value.
        program: String,
        /// Why there is no value.
        why: String,
    },
    /// evenkeel could not find out which loop of the server is its tick.
    #[error("{0}")]
    UnclearTick(Box<UnclearTick>),
    /// A property of the server could not be set, or did not take effect.
    #[error("switch {knob} to {wanted}: {why}")]
    Switch {
        /// The id of the knob.
        knob: String,
        /// The requested value.
        wanted: String,
        /// What was found instead, or the kernel's error.
        why: String,
    },
    /// The user stopped the trial before its first window.
    #[error("measure a window: stopped before the first window; all settings are as before")]
    Stopped,
    /// A setting of the workload does not accept its value.
    #[error("{0}")]
    Setting(InvalidSetting),
    /// Invalid options.
    #[error("read the options of the workload: {0}")]
    Options(String),
}

/// A setting of a workload that does not accept its value. The setting is named as in `--set`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("set {name}={value}: {why}")]
pub struct InvalidSetting {
    /// The setting's name.
    pub name: String,
    /// The value.
    pub value: String,
    /// Which values the setting accepts.
    pub why: String,
}

impl WorkloadError {
    /// The error that a setting does not accept its value.
    pub(crate) fn setting(name: &str, value: impl std::fmt::Display, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Setting(InvalidSetting { name: name.to_owned(), value: value.to_string(), why: why.into() })
    }
}

/// Defines an error that is only a sentence. evenkeel shows the sentence, and no code depends on its contents.
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
