//! `BootsError`: why a trial over boots can't continue. The state stores its sentence.

use evenkeel_change::{ApplyError, RevertError, StateError};
use evenkeel_host::PlanError;

use super::disk::BootsFileError;

/// Why a trial over boots can't go on. Reads well after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum BootsError {
    /// Another evenkeel holds a place that has to be written or put back.
    #[error("{why}")]
    Held {
        /// What failed because of it.
        why: String,
    },
    /// The root can't be changed.
    #[error("{why}")]
    ReadOnly {
        /// What it says.
        why: String,
    },
    /// The journal can't be had.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// A setting has no place here.
    #[error(transparent)]
    NoPlan(#[from] PlanError),
    /// Nothing carries a setting over a boot.
    #[error("make {setting} outlive a boot: {why}")]
    NotLasting {
        /// The setting.
        setting: String,
        /// Why not.
        why: String,
        /// What to do instead.
        todo: String,
    },
    /// The unit that continues after a boot can't be made.
    #[error("{why}")]
    NoUnit {
        /// Why not.
        why: String,
    },
    /// The unit or the settings were not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A transaction can't be put back by itself.
    #[error(transparent)]
    Revert(#[from] RevertError),
    /// Something of a transaction is not as before.
    #[error("revert transaction {id}{}; `evenkeel revert` tries again and shows what is left", in_brackets(why.as_deref()))]
    NotPutBack {
        /// The transaction.
        id: u64,
        /// Why the first value of it is not.
        why: Option<String>,
    },
    /// Somebody put the unit back.
    #[error("`evenkeel revert` restored its settings meanwhile")]
    PutBackMeanwhile,
    /// Somebody ended it.
    #[error("another process cancelled it meanwhile")]
    EndedMeanwhile,
    /// A boot of B is without a setting.
    #[error("{setting} is not active in this boot of B")]
    NotInForce {
        /// The setting.
        setting: String,
    },
    /// A boot of A has a setting.
    #[error("{setting} is active in this boot of A")]
    InForce {
        /// The setting.
        setting: String,
    },
    /// It has asked for more reboots than there were boots.
    #[error("it asked for {asked} reboots, but the machine booted only {boots} times")]
    TooManyReboots {
        /// How often it asked.
        asked: usize,
        /// How many boots there were.
        boots: usize,
    },
    /// The machine does not say which boot it is in.
    #[error("read the boot id of the kernel")]
    UnknownBoot,
    /// The state can't be kept.
    #[error(transparent)]
    File(#[from] BootsFileError),
    /// There are no windows to compare.
    #[error("{why}")]
    NotMeasured {
        /// Why not.
        why: String,
    },
}

impl BootsError {
    /// Whether another evenkeel is in the way, which ends at some time.
    pub fn is_held(&self) -> bool {
        matches!(self, BootsError::Held { .. } | BootsError::Journal(StateError::Busy { .. }))
    }

    /// What to do instead, where there is something.
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
