//! Decides what the agent of a node does next: it derives steps from goals, labels, releases and the journal.
//! The decision has no side effects, so tests can try every crash and every order of events.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use evenkeel_host::{Clash, Setting};
use kube::ResourceExt;

use super::desired::{Desired, Permission};
use super::goal::{Allow, HostGoal, OnDrift};
use super::journal::{GoalOwner, Journal, OwnedTransaction, SetKnob};
use super::selector::matches;
use super::state::Release;

/// If a goal has more transactions than this, the agent reacts to the next drift differently: it reverts all of them and applies the goal anew.
const TRANSACTIONS_MAX: usize = 20;
/// The maximum number of goals for one node.
const GOALS_MAX: usize = 200;

/// A node as its agent sees it.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// The node's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// All goals of the cluster.
    pub goals: &'a [HostGoal],
    /// The releases of rollouts to this node.
    pub released: &'a [Release],
}

/// A step. They are taken in the order of the list that [`decide`] returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Revert a transaction.
    Revert {
        /// The transaction's number in the journal.
        transaction: u64,
        /// The goal that it belonged to.
        goal: String,
    },
    /// Apply a goal, or its drifted settings again.
    Apply {
        /// The goal to apply.
        goal: Desired,
        /// Whether the goal was in force before, so that this repairs a drift.
        heals: bool,
    },
    /// Report what would change.
    Audit(Desired),
}

/// What the advice of goals sets on a host, by the uid of the goal.
pub type AdviceOfGoals = BTreeMap<String, Vec<SetKnob>>;

impl NodeView<'_> {
    /// The goals for this node, the oldest first. If two contradict each other, the older one applies. What a goal sets by advice depends on the
    /// host, so the goal contradicts another only as far as `advice` has its settings.
    pub fn desired(&self, advice: &AdviceOfGoals) -> Vec<Desired> {
        let mut claims = Claims::new();
        // The youngest are left out, so that a new goal never takes an older one away.
        let goals = self.selecting().into_iter().take(GOALS_MAX);
        goals.map(|goal| self.desired_of(goal, advice, &mut claims)).collect()
    }

    /// How many goals for this node are left out, because there are too many.
    pub(super) fn left_out(&self) -> usize {
        self.selecting().len().saturating_sub(GOALS_MAX)
    }

    /// The goals that select this node, the oldest first.
    fn selecting(&self) -> Vec<&HostGoal> {
        let is_for_us = |goal: &&HostGoal| {
            let selector = goal.spec.node_selector.as_ref();
            goal.metadata.deletion_timestamp.is_none() && selector.is_none_or(|selector| matches(selector, self.labels))
        };
        let mut goals: Vec<&HostGoal> = self.goals.iter().filter(is_for_us).collect();
        goals.sort_by(|a, b| by_age(a, b));
        goals
    }

    fn desired_of(&self, goal: &HostGoal, advice: &AdviceOfGoals, claims: &mut Claims) -> Desired {
        let owner = GoalOwner {
            name: goal.name_any(),
            uid: goal.uid().unwrap_or_default(),
            generation: goal.metadata.generation.unwrap_or_default(),
        };
        let released = self
            .released
            .iter()
            .find(|release| release.is_of(&owner.name, &owner.uid))
            .map(|release| release.generation);
        let waits = goal.spec.rollout.is_some() && released != Some(owner.generation);
        let advice = advice.get(&owner.uid).filter(|_| goal.spec.advised.is_some()).cloned().unwrap_or_default();
        let permission = match (refusal(goal, &owner.name, &advice, claims), waits) {
            (Some(why), _) => Permission::Refused { why },
            (None, true) => Permission::Waiting { released },
            (None, false) => Permission::Free,
        };
        Desired {
            owner,
            settings: goal.spec.settings.clone(),
            advised: goal.spec.advised,
            advice,
            allow: goal.spec.allow,
            on_drift: goal.spec.on_drift,
            reboot: goal.spec.reboot,
            permission,
        }
    }
}

/// What the older goals set, by knob.
type Claims = BTreeMap<&'static str, Vec<Claim>>;

struct Claim {
    setting: Setting,
    goal: String,
    /// Whether the goal sets it because the audit advises it.
    is_advice: bool,
}

fn by_age(a: &HostGoal, b: &HostGoal) -> Ordering {
    let key = |goal: &HostGoal| (goal.metadata.creation_timestamp.as_ref().map(|time| time.0), goal.name_any());
    key(a).cmp(&key(b))
}

/// Why a goal cannot be applied at all, or not together with the older ones. A goal that only audits claims no setting, so it never
/// contradicts another goal.
fn refusal(goal: &HostGoal, name: &str, advice: &[SetKnob], claims: &mut Claims) -> Option<String> {
    let mut own: Vec<Setting> = advice.iter().filter_map(SetKnob::setting).collect();
    for text in &goal.spec.settings {
        match Setting::parse(text) {
            Ok(setting) => own.push(setting),
            Err(error) => return Some(format!("{text:?}: {error}")),
        }
    }
    if goal.spec.allow == Allow::Audit {
        return None;
    }
    let is_advice = goal.spec.advised.is_some();
    if let Some(why) = own.iter().find_map(|setting| contradiction(setting, is_advice, claims)) {
        return Some(why);
    }
    for setting in own {
        let claimed = claims.entry(setting.knob.id).or_default();
        // Goals that agree are one claim.
        if !claimed.iter().any(|claim| claim.setting.place == setting.place && claim.setting.value == setting.value) {
            claimed.push(Claim { setting, goal: name.to_owned(), is_advice });
        }
    }
    None
}

/// Why a setting cannot be in force together with those of the older goals.
fn contradiction(setting: &Setting, is_advice: bool, claims: &Claims) -> Option<String> {
    // A setting without a place is for all places.
    let is_same_place = |place: &Option<String>| match (place, &setting.place) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let mut claimed = claims.get(setting.knob.id).into_iter().flatten();
    let differs = |claim: &&Claim| is_same_place(&claim.setting.place) && claim.setting.value != setting.value;
    if let Some(claim) = claimed.find(differs) {
        let knob = match &setting.place {
            Some(place) if !is_advice => format!("{}@{place}", setting.knob.id),
            _ => setting.knob.id.to_owned(),
        };
        let by = if claim.is_advice { "by the advice of" } else { "in" };
        let here = if is_advice { "by the advice here" } else { "here" };
        let (value, goal) = (&claim.setting.value, &claim.goal);
        return Some(format!("{knob} is {value} {by} the older goal {goal}, and {} {here}", setting.value));
    }
    let mut others = claims.iter().filter(|(id, _)| **id != setting.knob.id).flat_map(|(_, claims)| claims);
    others.find_map(|claim| {
        let clash = Clash::between(&claim.setting, setting)?;
        Some(format!("{clash}; the older goal {} sets the first", claim.goal))
    })
}

/// The remaining steps. `already_so` returns whether the settings of a goal were all in force already: then the journal has no transaction for it.
/// `may_heal` returns whether a goal may be healed again.
pub fn decide(
    desired: &[Desired],
    journal: &Journal,
    already_so: impl Fn(&GoalOwner) -> bool,
    may_heal: impl Fn(&GoalOwner) -> bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let is_crowded = |goal: &Desired| {
        !goal.drift(&journal.verified.drift).is_empty() && goal.transactions(journal).count() > TRANSACTIONS_MAX
    };
    // Each heal is a transaction. If there are too many, revert all of them and apply the goal again.
    let crowded: Vec<&GoalOwner> = desired.iter().filter(|goal| is_crowded(goal)).map(|goal| &goal.owner).collect();
    let keeps =
        |goal: &Desired, transaction: &OwnedTransaction| goal.keeps(transaction) && !crowded.contains(&&goal.owner);
    // Revert the newest transaction first: each revert then finds the values that its own transaction wrote.
    for transaction in journal.transactions.iter().rev().filter(|transaction| transaction.is_open()) {
        if !desired.iter().any(|goal| keeps(goal, transaction)) {
            steps.push(Step::Revert { transaction: transaction.id, goal: transaction.owner.name.clone() });
        }
    }
    for goal in desired.iter().filter(|goal| goal.permission == Permission::Free) {
        if goal.allow == Allow::Audit {
            steps.push(Step::Audit(goal.clone()));
            continue;
        }
        let has_transaction = goal.transactions(journal).next().is_some() && !crowded.contains(&&goal.owner);
        let is_in_force = has_transaction || already_so(&goal.owner);
        let heals = is_in_force && !goal.drift(&journal.verified.drift).is_empty();
        if !is_in_force || (heals && goal.on_drift == OnDrift::Heal && may_heal(&goal.owner)) {
            steps.push(Step::Apply { goal: goal.clone(), heals });
        }
    }
    steps
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
