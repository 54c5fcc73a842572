//! The goals in the journal of a host: their transactions, and whether the settings are in force.

use evenkeel_change::{Owner, Status, WaitsFor};
use evenkeel_host::{Setting, knobs};

use super::state::DriftedKnob;

/// The goal that a transaction belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalOwner {
    /// The goal's name.
    pub name: String,
    /// The goal's uid. A later goal may have the same name, but not the same uid.
    pub uid: String,
    /// The goal's generation.
    pub generation: i64,
}

impl GoalOwner {
    /// The goal that owns the transaction; none if its owner is not a goal.
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
    /// The transaction's number in the journal.
    pub id: u64,
    /// The goal that it belongs to.
    pub owner: GoalOwner,
    /// The transaction's outcome.
    pub status: Status,
    /// The settings that it changed, or found in force already. Empty if nothing of it is in force.
    pub settings: Vec<SetKnob>,
}

/// One value of a knob at one place of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetKnob {
    /// The knob.
    pub knob: String,
    /// The place, as in advice.
    pub place: String,
    /// The value, in the kernel's form.
    pub value: String,
}

impl SetKnob {
    /// The same as a setting; none if this program does not know the knob, or the value is not one of its values.
    pub(super) fn setting(&self) -> Option<Setting> {
        let knob = knobs::find(&self.knob).ok()?;
        Some(Setting { knob, place: Some(self.place.clone()), value: knob.check(&self.value).ok()? })
    }
}

impl OwnedTransaction {
    /// Whether `revert` has anything to do for this transaction.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.status, Status::Reverted | Status::RolledBack)
    }
}

/// The transactions in the journal, and whether they are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The transactions of goals, oldest first.
    pub transactions: Vec<OwnedTransaction>,
    /// The result of verifying the settings.
    pub verified: Verified,
}

/// The result of verifying the settings in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Settings that another program or a user changed.
    pub drift: Vec<DriftedKnob>,
    /// Knobs that are written, but not in force yet.
    pub pending: Vec<PendingKnob>,
}

/// A knob that is written, but not in force yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingKnob {
    /// The knob.
    pub knob: String,
    /// What has to happen before the knob is in force.
    pub waits_for: WaitsFor,
}
