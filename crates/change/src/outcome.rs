//! What became of a step: the words that reports, the journal and errors share.

use evenkeel_hostfs::Root;
use evenkeel_sys::Errno;
use serde::{Deserialize, Serialize};

use crate::blocked::{Blocker, blocker};

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A plan that stays until it is reverted.
    Apply,
    /// A trial, which sets its targets to several values in turn and puts them back when it ends.
    Trial,
}

/// A file that the kernel changes along with the one that is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideEffect {
    /// The file.
    pub path: String,
    /// Its text before, without the white space around it.
    pub before: String,
    /// Its text afterwards, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What became of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Written, and read back in force.
    Applied {
        /// The value before.
        before: String,
        /// What the kernel changed along with it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<SideEffect>,
    },
    /// Written, and read back in force; but somebody else sets it too, and will again.
    #[serde(rename = "owned-by")]
    Owned {
        /// The value before.
        before: String,
        /// What the kernel changed along with it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<SideEffect>,
        /// Who, and what to do there.
        by: String,
    },
    /// The value was in force already; nothing was written.
    AlreadySo,
    /// It takes effect with the next boot.
    PendingReboot {
        /// What to do by hand.
        todo: String,
    },
    /// It takes effect when a process is started anew.
    PendingStart {
        /// The command that does it.
        todo: String,
    },
    /// No write to the host brings it about.
    NotApplicable {
        /// What does.
        instead: String,
    },
    /// An earlier step failed, or the program was killed before this one.
    NotReached,
    /// It was applied and put back, because another step failed.
    RolledBack {
        /// The value before, and now again.
        before: String,
    },
    /// The program was killed while it did this: the value may be either.
    Interrupted {
        /// The value before.
        before: String,
    },
    /// A trial set it to several values in turn.
    Tried {
        /// The value before.
        before: String,
    },
    /// It did not come about.
    #[serde(untagged)]
    Missed(StepError),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum StepError {
    /// The kernel refused the write.
    Refused {
        /// What it said.
        #[serde(with = "errno_name")]
        errno: Errno,
    },
    /// The kernel refused, and not because of the value.
    Blocked {
        /// Who stands behind it.
        by: Blocker,
        /// What the kernel said.
        #[serde(with = "errno_name")]
        errno: Errno,
    },
    /// The kernel took the write, but the value is another.
    DidNotTake {
        /// The value in force.
        found: String,
        /// The file that tells.
        read_from: String,
    },
    /// What is there now can't be read, or could not be put back: so nothing was written.
    Unreadable {
        /// In words, with the path.
        why: String,
    },
    /// A trial could not put the value from before back.
    NotPutBack {
        /// In words, with the path.
        why: String,
    },
}

impl StepError {
    /// What a refusal of a look at or a write to `path` is.
    pub(crate) fn refused(root: &Root, path: &str, errno: Errno) -> StepError {
        match blocker(root, path, errno) {
            Some(by) => StepError::Blocked { by, errno },
            None => StepError::Refused { errno },
        }
    }
}

/// An error number by its name, as `EINVAL`.
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
