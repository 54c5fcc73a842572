//! A goal as one node sees it: its settings, and whether the node may apply it.

use evenkeel_change::Status;
use evenkeel_host::Setting;

use super::goal::{Advised, Allow, OnDrift, RebootPolicy};
use super::journal::{GoalOwner, Journal, OwnedTransaction, PendingKnob, SetKnob};
use super::state::DriftedKnob;

/// How often a goal's drift is healed within an hour. If something changes a setting more often, a person must find out what it is.
pub const HEALS_PER_HOUR_MAX: usize = 6;

/// A goal that is for this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The goal's name, uid and generation.
    pub owner: GoalOwner,
    /// The settings of the goal.
    pub settings: Vec<String>,
    /// If set, the goal has no settings, but all that the audit advises.
    pub advised: Option<Advised>,
    /// What that advice sets on this host, as far as known.
    pub advice: Vec<SetKnob>,
    /// The changes that the goal may make to the node.
    pub allow: Allow,
    /// How the agent reacts to a drift.
    pub on_drift: OnDrift,
    /// How to reboot the node for this goal. `None` if the goal reboots no node.
    pub reboot: Option<RebootPolicy>,
    /// Whether the goal may be applied on this node.
    pub permission: Permission,
}

/// Whether a goal may be applied on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The goal may be applied.
    Free,
    /// The goal has a rollout, which has not released this generation to the node.
    Waiting {
        /// The generation that is released to the node; none if no generation is.
        released: Option<i64>,
    },
    /// A setting is invalid, or contradicts an older goal.
    Refused {
        /// Why the goal was refused.
        why: String,
    },
}

impl Desired {
    /// Whether a transaction in force should stay in force.
    pub(super) fn keeps(&self, transaction: &OwnedTransaction) -> bool {
        let owner = &transaction.owner;
        let generation = match self.permission {
            Permission::Free => self.owner.generation,
            // A node of a later wave keeps the generation that is released to it.
            Permission::Waiting { released: Some(released) } => released,
            Permission::Waiting { released: None } | Permission::Refused { .. } => return false,
        };
        let is_ours = owner.name == self.owner.name && owner.uid == self.owner.uid;
        let is_in_force = matches!(transaction.status, Status::InForce);
        self.allow > Allow::Audit && is_ours && owner.generation == generation && is_in_force
    }

    /// The drifted settings that belong to this goal.
    pub fn drift<'a>(&self, drift: &'a [DriftedKnob]) -> Vec<&'a DriftedKnob> {
        let is_ours = |drifted: &&DriftedKnob| {
            // Another goal may set the same knob at another place. A file below /etc may hold the knob for several places.
            let is_there = |place: &str| place == drifted.place || drifted.place.starts_with("/etc/");
            let names_it = |setting: &String| {
                Setting::parse(setting).is_ok_and(|setting| {
                    setting.knob.id == drifted.knob && setting.place.as_deref().is_none_or(is_there)
                })
            };
            let sets_it = |set: &SetKnob| set.knob == drifted.knob && is_there(&set.place);
            self.advice.iter().any(sets_it) || self.settings.iter().any(names_it)
        };
        drift.iter().filter(is_ours).collect()
    }

    /// The knobs of this goal that are written, and wait for a reboot or a restart before they are in force.
    pub(super) fn pending<'a>(&self, journal: &'a Journal) -> Vec<&'a PendingKnob> {
        let is_ours = |pending: &&PendingKnob| {
            self.advice.iter().any(|set| set.knob == pending.knob)
                || self.settings.iter().any(|setting| setting.split(['=', '@']).next() == Some(pending.knob.as_str()))
        };
        journal.verified.pending.iter().filter(is_ours).collect()
    }

    pub(super) fn transactions<'a>(&self, journal: &'a Journal) -> impl Iterator<Item = &'a OwnedTransaction> {
        let kept = journal.transactions.iter().filter(|transaction| self.keeps(transaction));
        kept.collect::<Vec<_>>().into_iter()
    }
}
