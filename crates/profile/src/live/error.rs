//! Why nothing can be recorded.

use evenkeel_sys::Errno;

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// This user may not.
    #[error("record {whom}: {errno}, since {why}")]
    Denied {
        /// Whom.
        whom: String,
        /// What the kernel said.
        errno: Errno,
        /// What stands against it.
        why: String,
        /// The one command that mends it.
        mend: String,
    },
    /// What is to be recorded is not there.
    #[error("record {whom}: {why}")]
    NotThere {
        /// Whom.
        whom: String,
        /// Why.
        why: String,
    },
    /// A wish that can't be meant.
    #[error("record {whom}: {why}")]
    WrongUse {
        /// Whom.
        whom: String,
        /// Why.
        why: String,
    },
    /// A place in a program can't be recorded.
    #[error("record each time that {event} is run: {errno}, since {why}")]
    NoProbe {
        /// The place.
        event: String,
        /// What the kernel said.
        errno: Errno,
        /// What stands against it.
        why: String,
        /// What mends it, or does without.
        mend: String,
    },
    /// What is run so often is no tick, and to record it costs the program too much.
    #[error("{event} is run {per_s} times a second: that is no tick, and the recording was ended before it cost more")]
    TooOften {
        /// The place.
        event: String,
        /// How often.
        per_s: u64,
    },
    /// The kernel said no to something else.
    #[error("{what}: {errno}")]
    Refused {
        /// What was asked.
        what: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// The recording could not be written.
    #[error("write the recording: {0}")]
    Write(Errno),
}
