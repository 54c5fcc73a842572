//! The goals in the journal of a host: their transactions, and whether these are in force.

use evenkeel_change::{Owner, Status, WaitsFor};

use super::state::DriftedKnob;

/// The goal that a transaction belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalOwner {
    /// The goal's name.
    pub name: String,
    /// Its uid: another goal may have the name later.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

impl GoalOwner {
    /// None unless the transaction belongs to a goal.
    pub fn from_owner(owner: &Owner) -> Option<GoalOwner> {
        match owner {
            Owner::Goal { name, uid, generation } => {
                Some(GoalOwner { name: name.clone(), uid: uid.clone(), generation: *generation })
            }
            Owner::Boots { .. } => None,
        }
    }
}

/// A transaction that belongs to a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTransaction {
    /// Its number in the journal.
    pub id: u64,
    /// Its goal.
    pub owner: GoalOwner,
    /// Its outcome.
    pub status: Status,
}

impl OwnedTransaction {
    /// Whether `revert` has anything to do for it.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.status, Status::Reverted | Status::RolledBack)
    }
}

/// The transactions in the journal, and whether they are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The transactions of goals, oldest first.
    pub transactions: Vec<OwnedTransaction>,
    /// Which settings hold.
    pub verified: Verified,
}

/// Which settings hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Settings that another program or a user changed.
    pub drift: Vec<DriftedKnob>,
    /// Knobs that are written, and not in force yet.
    pub pending: Vec<PendingKnob>,
}

/// A knob that is written, and not in force yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingKnob {
    /// The knob.
    pub knob: String,
    /// What has to happen first.
    pub waits_for: WaitsFor,
}
