//! `MeterError`: why there is no measurement, in words that read well after "failed to".

use evenkeel_sys::Errno;

/// Why a meter or a disturber did not do its work. Nothing is left changed, unless it says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// The kernel refused something that the measurement rests on.
    #[error("{what}: {errno}")]
    Refused {
        /// What was tried, as `run on CPU 3`.
        what: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// This machine can't be measured so.
    #[error("{what}: {why}")]
    NotPossible {
        /// What was tried.
        what: String,
        /// Why not, and what to do about it.
        why: String,
    },
    /// What was asked for can't be meant.
    #[error("{what}: {why}")]
    WrongUse {
        /// The argument.
        what: String,
        /// Why, and what would do.
        why: String,
    },
    /// Something that was changed could not be put back.
    #[error("{what}: {why}")]
    NotUndone {
        /// What was tried.
        what: String,
        /// What is left changed, and why.
        why: String,
    },
}

impl MeterError {
    /// What the kernel refused.
    pub fn refused(what: impl Into<String>, errno: impl Into<Errno>) -> MeterError {
        MeterError::Refused { what: what.into(), errno: errno.into() }
    }

    /// What this machine can't do.
    pub fn not_possible(what: impl Into<String>, why: impl Into<String>) -> MeterError {
        MeterError::NotPossible { what: what.into(), why: why.into() }
    }

    /// What was asked for wrongly.
    pub fn wrong_use(what: impl Into<String>, why: impl Into<String>) -> MeterError {
        MeterError::WrongUse { what: what.into(), why: why.into() }
    }
}
