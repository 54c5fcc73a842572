//! The state of each goal on a node, from the journal and from the results of the last steps.

use std::collections::BTreeMap;

use evenkeel_change::WaitsFor;

use super::desired::{Desired, HEALS_PER_HOUR_MAX, Permission};
use super::goal::{Allow, OnDrift};
use super::host::HostError;
use super::journal::{GoalOwner, Journal, OwnedTransaction};
use super::state::{GoalPhase, GoalState, HostStateStatus};

/// The result of each goal's last try, by the goal's name: the text of an audit, or the error.
pub(super) type Outcomes = BTreeMap<String, Result<String, HostError>>;
/// The transactions that could not be put back, and why.
pub(super) type Stuck = BTreeMap<u64, String>;

/// The status of a node.
pub(super) fn report(
    desired: &[Desired],
    journal: &Journal,
    outcomes: &Outcomes,
    stuck: &Stuck,
    version: &str,
) -> HostStateStatus {
    let blocks = blocking(journal, stuck);
    let mut goals: Vec<GoalState> =
        desired.iter().map(|goal| state_of(goal, journal, outcomes, blocks.as_deref())).collect();
    for transaction in &journal.transactions {
        if let Some(why) = stuck.get(&transaction.id) {
            note_stuck(&mut goals, transaction, why);
        }
    }
    HostStateStatus { version: version.to_owned(), summary: summary(&goals), goals }
}

/// Why nothing is applied now: a transaction that has to be reverted first. Its revert would overwrite what is applied now.
fn blocking(journal: &Journal, stuck: &Stuck) -> Option<String> {
    let transaction = journal.transactions.iter().find(|transaction| stuck.contains_key(&transaction.id))?;
    let (id, owner) = (transaction.id, &transaction.owner);
    Some(format!(
        "not applied yet: transaction {id} of goal {}, generation {}, has to be put back first",
        owner.name, owner.generation
    ))
}

/// Settings of a goal that should be gone are still there. The goal may be deleted, or wait for its release, or have another generation.
fn note_stuck(goals: &mut Vec<GoalState>, transaction: &OwnedTransaction, why: &str) {
    let owner = &transaction.owner;
    let message = format!("transaction {} could not be put back: {why}", transaction.id);
    let (phase, id) = (GoalPhase::NotPutBack, Some(transaction.id));
    match goals.iter_mut().find(|state| state.is_of(&owner.name, &owner.uid)) {
        Some(state) => *state = GoalState { phase, needs_reboot: false, transaction: id, message, ..state.clone() },
        None => goals.push(GoalState {
            goal: owner.name.clone(),
            uid: owner.uid.clone(),
            generation: owner.generation,
            phase,
            needs_reboot: false,
            transaction: id,
            drift: Vec::new(),
            drift_left_out: 0,
            message,
        }),
    }
}

/// The status of a node whose host does not answer: what was known before, and why nothing new is known.
pub(super) fn unknown(
    before: Option<&HostStateStatus>,
    desired: &[Desired],
    error: &HostError,
    version: &str,
) -> HostStateStatus {
    let mut goals = before.map(|before| before.goals.clone()).unwrap_or_default();
    for goal in desired {
        let GoalOwner { name, uid, generation } = &goal.owner;
        if goals.iter().any(|state| state.is_of(name, uid) && state.generation == *generation) {
            continue;
        }
        goals.retain(|state| !state.is_of(name, uid));
        goals.push(GoalState {
            goal: name.clone(),
            uid: uid.clone(),
            generation: *generation,
            phase: GoalPhase::Waiting,
            needs_reboot: false,
            transaction: None,
            drift: Vec::new(),
            drift_left_out: 0,
            message: error.to_string(),
        });
    }
    HostStateStatus { version: version.to_owned(), summary: error.to_string(), goals }
}

fn state_of(goal: &Desired, journal: &Journal, outcomes: &Outcomes, blocks: Option<&str>) -> GoalState {
    let drift = goal.drift(&journal.verified.drift);
    let transaction = goal.transactions(journal).last().map(|transaction| transaction.id);
    let (phase, message) = match (&goal.permission, outcomes.get(&goal.owner.name)) {
        (Permission::Refused { why }, _) => (GoalPhase::Refused, why.clone()),
        (_, Some(Err(error))) => (phase_of(error), error.to_string()),
        (Permission::Waiting { released: Some(generation) }, _) => {
            (GoalPhase::Waiting, format!("generation {generation} stays until the rollout releases this one"))
        }
        (Permission::Waiting { released: None }, _) => {
            (GoalPhase::Waiting, "not released by its rollout yet".to_owned())
        }
        (Permission::Free, Some(Ok(text))) if goal.allow == Allow::Audit => (GoalPhase::Audited, text.clone()),
        (Permission::Free, _) if !drift.is_empty() => (GoalPhase::Drifted, drifted(goal)),
        (Permission::Free, outcome) if transaction.is_some() || outcome.is_some() => in_force(journal, goal),
        (Permission::Free, _) => (GoalPhase::Waiting, blocks.unwrap_or("not applied yet").to_owned()),
    };
    let drift = drift.into_iter().cloned().collect();
    let waits_for_reboot = goal.pending(journal).iter().any(|pending| pending.waits_for == WaitsFor::Reboot);
    GoalState {
        goal: goal.owner.name.clone(),
        uid: goal.owner.uid.clone(),
        generation: goal.owner.generation,
        phase,
        needs_reboot: phase == GoalPhase::PendingReboot && waits_for_reboot,
        transaction,
        drift,
        drift_left_out: 0,
        message,
    }
}

fn phase_of(error: &HostError) -> GoalPhase {
    match error {
        HostError::NotApplicable { .. } => GoalPhase::NotApplicable,
        HostError::Refused { .. } | HostError::Unreachable { .. } => GoalPhase::Refused,
        HostError::NotPutBack { .. } => GoalPhase::NotPutBack,
    }
}

fn drifted(goal: &Desired) -> String {
    match goal.on_drift {
        OnDrift::Report => "reported, as onDrift says".to_owned(),
        OnDrift::Heal => {
            format!("healed {} times within an hour, so something else sets it", HEALS_PER_HOUR_MAX)
        }
    }
}

fn in_force(journal: &Journal, goal: &Desired) -> (GoalPhase, String) {
    let pending = goal.pending(journal);
    if pending.is_empty() {
        return (GoalPhase::InForce, String::new());
    }
    let waiting = |waits_for: WaitsFor| {
        let knobs = pending.iter().filter(|pending| pending.waits_for == waits_for);
        knobs.map(|pending| pending.knob.as_str()).collect::<Vec<&str>>().join(", ")
    };
    let texts = [
        (waiting(WaitsFor::Reboot), "a reboot is missing for"),
        (waiting(WaitsFor::Start), "a restart of the server is missing for"),
        (waiting(WaitsFor::User), "`evenkeel verify` on the host says what is left to do for"),
    ];
    let texts = texts.iter().filter(|(knobs, _)| !knobs.is_empty());
    let message = texts.map(|(knobs, what)| format!("{what} {knobs}")).collect::<Vec<String>>().join("; ");
    (GoalPhase::PendingReboot, message)
}

fn summary(goals: &[GoalState]) -> String {
    let mut counts: BTreeMap<GoalPhase, usize> = BTreeMap::new();
    for goal in goals {
        *counts.entry(goal.phase).or_default() += 1;
    }
    let texts: Vec<String> = counts.iter().map(|(phase, count)| format!("{count} {phase:?}")).collect();
    if texts.is_empty() { "no goal for this node".to_owned() } else { texts.join(", ") }
}
