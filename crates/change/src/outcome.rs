//! The outcome of a step, in the form that reports, the journal and errors share.

use evenkeel_hostfs::Root;
use evenkeel_sys::Errno;
use serde::{Deserialize, Serialize};

use crate::blocked::{Blocker, blocker};

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A plan that stays until the user reverts it.
    Apply,
    /// A trial, which switches its targets between several values and restores them when it ends.
    Trial,
}

/// A file that the kernel changes along with the written file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideEffect {
    /// The file.
    pub path: String,
    /// The text of the file before the change, without surrounding white space.
    pub before: String,
    /// The text of the file afterwards, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// evenkeel wrote the value and read it back in force.
    Applied {
        /// The original value.
        before: String,
        /// The files that the kernel changed along with the written file.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<SideEffect>,
    },
    /// evenkeel wrote the value and read it back in force, but another owner also sets the value and will set it again.
    #[serde(rename = "owned-by")]
    Owned {
        /// The original value.
        before: String,
        /// The files that the kernel changed along with the written file.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<SideEffect>,
        /// The owner, and what to do about the owner's setting.
        by: String,
    },
    /// The value was already in force, so evenkeel wrote nothing.
    AlreadySo,
    /// The value takes effect at the next boot.
    PendingReboot {
        /// What the user must do.
        todo: String,
    },
    /// The value takes effect when a process is restarted.
    PendingStart {
        /// The command that does it.
        todo: String,
    },
    /// No write to the host can set the value.
    NotApplicable {
        /// What to do instead.
        instead: String,
    },
    /// An earlier step failed, or the program was killed before this step.
    NotReached,
    /// evenkeel applied the step and then rolled it back, because another step failed.
    RolledBack {
        /// The original value, which is in force again.
        before: String,
    },
    /// The program was killed during this step: the value may be the old or the new one.
    Interrupted {
        /// The original value.
        before: String,
    },
    /// A trial switched the setting between several values.
    Tried {
        /// The original value.
        before: String,
    },
    /// It failed.
    #[serde(untagged)]
    Missed(StepError),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum StepError {
    /// The kernel refused the write.
    Refused {
        /// The error.
        #[serde(with = "errno_name")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        errno: Errno,
    },
    /// The kernel refused, but not because of the value.
    Blocked {
        /// What prevents the change.
        by: Blocker,
        /// The error.
        #[serde(with = "errno_name")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        errno: Errno,
    },
    /// The kernel accepted the write, but another value is in force.
    DidNotTake {
        /// The value in force.
        found: String,
        /// The file that shows it.
        read_from: String,
    },
    /// The current value cannot be read or could not be restored, so nothing was written.
    Unreadable {
        /// The reason, with the path.
        why: String,
    },
    /// A trial could not restore the original value.
    NotPutBack {
        /// The reason, with the path.
        why: String,
    },
}

impl StepError {
    /// The error for a refused read or write of `path`.
    pub(crate) fn refused(root: &Root, path: &str, errno: Errno) -> StepError {
        match blocker(root, path, errno) {
            Some(by) => StepError::Blocked { by, errno },
            None => StepError::Refused { errno },
        }
    }
}

/// Reads and writes an error number by its name, such as `EINVAL`.
mod errno_name {
    use evenkeel_sys::Errno;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(errno: &Errno, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{errno:?}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Errno, D::Error> {
        let name = String::deserialize(deserializer)?;
        Errno::parse(&name).ok_or_else(|| de::Error::custom(format!("{name:?} is not an error name such as EINVAL")))
    }
}
