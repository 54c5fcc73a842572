//! `BootsError`: why a trial over boots can't continue. The state file stores the sentence of the error.

use evenkeel_change::{ApplyError, RevertError, StateError};
use evenkeel_host::PlanError;

use super::disk::BootsFileError;

/// Why a trial over boots can't continue. The message is a sentence, or continues a sentence that begins with "failed to".
#[derive(Debug, thiserror::Error)]
pub enum BootsError {
    /// Another evenkeel has locked a file that must be written or restored.
    #[error("{why}")]
    Held {
        /// What failed, and who has the lock.
        why: String,
    },
    /// The host's root is read-only.
    #[error("{why}")]
    ReadOnly {
        /// The text of the error.
        why: String,
    },
    /// The journal can't be opened.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// No plan can be made for a setting on this host.
    #[error(transparent)]
    NoPlan(#[from] PlanError),
    /// A setting's value cannot persist over a boot.
    #[error("make {setting} outlive a boot: {why}")]
    NotLasting {
        /// The setting.
        setting: String,
        /// Why the value cannot persist.
        why: String,
        /// What to do instead.
        todo: String,
    },
    /// The unit that continues after a boot can't be made.
    #[error("{why}")]
    NoUnit {
        /// Why the unit can't be made.
        why: String,
    },
    /// The unit or the settings were not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A transaction can't be reverted alone.
    #[error(transparent)]
    Revert(#[from] RevertError),
    /// The first value of a setting is not restored.
    #[error("revert transaction {id}{}; `evenkeel revert` tries again and shows what is left", in_brackets(why.as_deref()))]
    NotPutBack {
        /// The number of the transaction.
        id: u64,
        /// Why the first value is not restored.
        why: Option<String>,
    },
    /// The user reverted the transaction of the unit.
    #[error("`evenkeel revert` restored its settings meanwhile")]
    PutBackMeanwhile,
    /// The user ended the trial.
    #[error("another process cancelled it meanwhile")]
    EndedMeanwhile,
    /// In a boot of B, a setting does not have its requested value.
    #[error("{setting} is not active in this boot of B")]
    NotInForce {
        /// The setting.
        setting: String,
    },
    /// In a boot of A, a setting has its requested value.
    #[error("{setting} is active in this boot of A")]
    InForce {
        /// The setting.
        setting: String,
    },
    /// The trial requested more reboots than the machine made, so the trial cannot count its boots.
    #[error("it asked for {asked} reboots, but the machine booted only {boots} times")]
    TooManyReboots {
        /// The number of requested reboots.
        asked: usize,
        /// The number of boots that the trial saw.
        boots: usize,
    },
    /// The kernel reports no boot id.
    #[error("read the boot id of the kernel")]
    UnknownBoot,
    /// The state can't be stored.
    #[error(transparent)]
    File(#[from] BootsFileError),
    /// There are no windows to compare.
    #[error("{why}")]
    NotMeasured {
        /// Why there are no windows.
        why: String,
    },
}

impl BootsError {
    /// Whether another evenkeel has locked a file. A retry may then succeed.
    pub fn is_held(&self) -> bool {
        matches!(self, BootsError::Held { .. } | BootsError::Journal(StateError::Busy { .. }))
    }

    /// What to do instead, if known.
    pub fn todo(&self) -> Option<&str> {
        match self {
            BootsError::NotLasting { todo, .. } => Some(todo),
            _ => None,
        }
    }
}

fn in_brackets(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}
