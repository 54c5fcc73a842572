//! `MeterError`: why a measurement failed. The message continues a sentence that begins with "failed to".

use evenkeel_sys::Errno;

/// Why a meter or a disturber failed. The machine is unchanged, unless the message says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// The kernel refused something that the measurement needs.
    #[error("{what}: {errno}")]
    Refused {
        /// The attempted action, such as `run on CPU 3`.
        what: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// This machine does not support the measurement.
    #[error("{what}: {why}")]
    NotPossible {
        /// The attempted action.
        what: String,
        /// Why the measurement is not possible, and what to do.
        why: String,
    },
    /// An argument is invalid.
    #[error("{what}: {why}")]
    WrongUse {
        /// The argument.
        what: String,
        /// Why the argument is invalid, and what would be valid.
        why: String,
    },
    /// A change could not be undone.
    #[error("{what}: {why}")]
    NotUndone {
        /// The attempted action.
        what: String,
        /// What stays changed, and why.
        why: String,
    },
}

impl MeterError {
    /// An error for an action that the kernel refused.
    pub fn refused(what: impl Into<String>, errno: impl Into<Errno>) -> MeterError {
        MeterError::Refused { what: what.into(), errno: errno.into() }
    }

    /// An error for a measurement that this machine does not support.
    pub fn not_possible(what: impl Into<String>, why: impl Into<String>) -> MeterError {
        MeterError::NotPossible { what: what.into(), why: why.into() }
    }

    /// An error for an invalid argument.
    pub fn wrong_use(what: impl Into<String>, why: impl Into<String>) -> MeterError {
        MeterError::WrongUse { what: what.into(), why: why.into() }
    }
}
