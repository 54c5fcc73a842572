//! Errors of recording.

use evenkeel_sys::Errno;

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The user lacks a privilege.
    #[error("record {whom}: {errno}, because {why}")]
    Denied {
        /// The target of the recording.
        whom: String,
        /// The kernel's error.
        errno: Errno,
        /// The obstacle.
        why: String,
        /// The command that removes the obstacle.
        mend: String,
    },
    /// The target does not exist.
    #[error("record {whom}: {why}")]
    NotThere {
        /// The target of the recording.
        whom: String,
        /// The reason.
        why: String,
    },
    /// An invalid option.
    #[error("record {whom}: {why}")]
    WrongUse {
        /// The target of the recording.
        whom: String,
        /// The reason.
        why: String,
    },
    /// A probe can't be set.
    #[error("set a probe on {event}: {errno}, because {why}")]
    NoProbe {
        /// The place.
        event: String,
        /// The kernel's error.
        errno: Errno,
        /// The obstacle.
        why: String,
        /// The alternative.
        mend: String,
    },
    /// The probe fires too often for a tick, and costs the program too much.
    #[error(
        "{event} is entered {per_s} times a second, which is too often for a tick; the recording ended to limit its cost"
    )]
    TooOften {
        /// The place.
        event: String,
        /// How often.
        per_s: u64,
    },
    /// The kernel refused something else.
    #[error("{what}: {errno}")]
    Refused {
        /// The attempted action.
        what: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The recording could not be written.
    #[error("write the recording: {0}")]
    Write(Errno),
}
