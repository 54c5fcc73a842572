//! Errors of recording.

use evenkeel_sys::Errno;

/// Why recording failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The user lacks a privilege.
    #[error("record {whom}: {errno}, because {why}")]
    Denied {
        /// The target of the recording, as text.
        whom: String,
        /// The kernel's error.
        errno: Errno,
        /// What the user may not do, and why.
        why: String,
        /// The command that gives the missing privilege.
        mend: String,
    },
    /// The target does not exist.
    #[error("record {whom}: {why}")]
    NotThere {
        /// The target of the recording, as text.
        whom: String,
        /// Why the target was not found.
        why: String,
    },
    /// An invalid option.
    #[error("record {whom}: {why}")]
    WrongUse {
        /// The target of the recording, as text.
        whom: String,
        /// Why the option is invalid.
        why: String,
    },
    /// A probe cannot be set.
    #[error("set a probe on {event}: {errno}, because {why}")]
    NoProbe {
        /// The name of the probe's event.
        event: String,
        /// The kernel's error.
        errno: Errno,
        /// Why the kernel refused the probe.
        why: String,
        /// What to do instead.
        mend: String,
    },
    /// The probe fires too often for a tick, and slows the program down too much.
    #[error(
        "{event} is entered {per_s} times a second, which is too often for a tick; the recording ended to limit its cost"
    )]
    TooOften {
        /// The name of the probe's event.
        event: String,
        /// How often the probe fired per second.
        per_s: u64,
    },
    /// The kernel refused something for another reason.
    #[error("{what}: {errno}")]
    Refused {
        /// What evenkeel tried to do.
        what: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The recording could not be written.
    #[error("write the recording: {0}")]
    Write(Errno),
}
