//! A goal as one node sees it: its settings, and whether the node may apply it.

use evenkeel_change::Status;
use evenkeel_host::Setting;

use super::goal::{Advised, Allow, OnDrift, RebootPolicy};
use super::journal::{GoalOwner, Journal, OwnedTransaction, PendingKnob};
use super::state::DriftedKnob;

/// How often a goal's drift is healed within an hour. If something changes a setting more often, a person must find out what it is.
pub const HEALS_PER_HOUR_MAX: usize = 6;

/// A goal that is for this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Which goal, in which generation.
    pub owner: GoalOwner,
    /// Its settings.
    pub settings: Vec<String>,
    /// Instead of settings: all that the audit advises.
    pub advised: Option<Advised>,
    /// The changes that the goal may make to the node.
    pub allow: Allow,
    /// How the agent reacts to a drift.
    pub on_drift: OnDrift,
    /// How to reboot the node for this goal. `None` if the goal reboots no node.
    pub reboot: Option<RebootPolicy>,
    /// Whether it may be applied.
    pub permission: Permission,
}

/// Whether a goal may be applied on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may be applied.
    Free,
    /// A rollout has released another generation, or none.
    Waiting {
        /// The generation that it released.
        released: Option<i64>,
    },
    /// A setting is invalid, or contradicts an older goal.
    Refused {
        /// Why.
        why: String,
    },
}

impl Desired {
    /// Whether a transaction in force should stay in force.
    pub(super) fn keeps(&self, transaction: &OwnedTransaction) -> bool {
        let owner = &transaction.owner;
        let generation = match self.permission {
            Permission::Free => self.owner.generation,
            // The nodes of later waves keep the generation that they have.
            Permission::Waiting { released: Some(released) } => released,
            Permission::Waiting { released: None } | Permission::Refused { .. } => return false,
        };
        let is_ours = owner.name == self.owner.name && owner.uid == self.owner.uid;
        let is_in_force = matches!(transaction.status, Status::InForce);
        self.allow > Allow::Audit && is_ours && owner.generation == generation && is_in_force
    }

    /// The drifted settings that belong to this goal. A goal that applies advice has no list of its settings, so all drift counts.
    pub fn drift<'a>(&self, drift: &'a [DriftedKnob]) -> Vec<&'a DriftedKnob> {
        let is_ours = |drifted: &&DriftedKnob| {
            let names_it =
                |setting: &String| Setting::parse(setting).is_ok_and(|setting| setting.knob.id == drifted.knob);
            self.advised.is_some() || self.settings.iter().any(names_it)
        };
        drift.iter().filter(is_ours).collect()
    }

    /// The knobs of this goal that wait for something after its settings were written.
    pub(super) fn pending<'a>(&self, journal: &'a Journal) -> Vec<&'a PendingKnob> {
        let is_ours = |pending: &&PendingKnob| {
            self.advised.is_some()
                || self.settings.iter().any(|setting| setting.split(['=', '@']).next() == Some(pending.knob.as_str()))
        };
        journal.verified.pending.iter().filter(is_ours).collect()
    }

    pub(super) fn transactions<'a>(&self, journal: &'a Journal) -> impl Iterator<Item = &'a OwnedTransaction> {
        let kept = journal.transactions.iter().filter(|transaction| self.keeps(transaction));
        kept.collect::<Vec<_>>().into_iter()
    }
}
