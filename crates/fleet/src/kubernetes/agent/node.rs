//! The memory of an agent between two passes, and one pass over its host. This module uses no API server and no clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::super::decide::{AdviceOfGoals, NodeView, Step, decide};
use super::super::desired::{Desired, HEALS_PER_HOUR_MAX, Permission};
use super::super::goal::{Allow, HostGoal};
use super::super::host::{Host, HostError};
use super::super::journal::{GoalOwner, Journal, SetKnob};
use super::super::reboot::RebootWanted;
use super::super::report::{Outcomes, Stuck, report, unknown};
use super::super::state::{GoalState, HostStateStatus, Release};

/// A pass ends after this many rounds of steps, so that a host that keeps changing cannot block the agent.
const ROUNDS_MAX: usize = 3;
/// How long a failed goal waits for its next try. The wait doubles with each failure, from the first value up to the last.
const RETRY_FIRST: Duration = Duration::from_secs(30);
const RETRY_LAST: Duration = Duration::from_secs(1800);
/// If all settings of a goal were in force already, the journal has no transaction for it. The goal then counts as in force for this long.
const ALREADY_SO: Duration = Duration::from_secs(600);
/// How often a host is asked again what a goal would set by advice, if the journal has no transaction for the goal.
const ADVICE_EVERY: Duration = Duration::from_secs(600);
/// How often an audit is repeated.
const AUDIT_EVERY: Duration = Duration::from_secs(3600);
const HOUR: Duration = Duration::from_secs(3600);

/// The memory of an agent. If it is lost, the agent only repeats some steps: the truth is in the host's journal.
#[derive(Debug, Default)]
pub(super) struct NodeAgent {
    version: String,
    outcomes: Outcomes,
    /// By name, the goals whose settings were all in force already: the generation, and when this was found.
    already_so: BTreeMap<String, (GoalOwner, Instant)>,
    audited: BTreeMap<String, (GoalOwner, Instant)>,
    /// What goals set by advice, by the uid of the goal.
    advice: BTreeMap<String, KnownAdvice>,
    failed: BTreeMap<String, Failed>,
    /// By name and uid of a goal, when it was healed.
    heals: BTreeMap<(String, String), VecDeque<Instant>>,
    /// Transactions that could not be reverted: when to try again, and why it failed.
    stuck: BTreeMap<u64, (Instant, String)>,
}

#[derive(Debug)]
struct Failed {
    owner: GoalOwner,
    tries: u32,
    next: Instant,
}

/// What the advice of a goal sets on this host.
#[derive(Debug)]
struct KnownAdvice {
    owner: GoalOwner,
    settings: Vec<SetKnob>,
    /// When the host was last asked; none if the settings are those of the journal.
    asked: Option<Instant>,
}

/// The result of a pass.
#[derive(Debug)]
pub(super) struct Brought {
    /// The status of the node.
    pub status: HostStateStatus,
    /// The goals whose settings wait for a reboot, and that allow the reboot.
    pub reboots: Vec<RebootWanted>,
    /// The id of the host's boot; none if it cannot be read.
    pub boot: Option<String>,
    /// The time at which the next pass has to retry a step; none if no step waits.
    pub again: Option<Instant>,
    /// What was done, for the log.
    pub notes: Vec<String>,
}

impl NodeAgent {
    /// An agent without memory.
    pub(super) fn new(version: String) -> NodeAgent {
        NodeAgent { version, ..NodeAgent::default() }
    }

    /// Makes the host match the goals.
    ///
    /// # Errors
    /// If the host's journal cannot be read. Nothing was changed then.
    pub(super) fn bring(
        &mut self,
        host: &impl Host,
        goals: &[HostGoal],
        labels: &BTreeMap<String, String>,
        released: &[Release],
        now: Instant,
    ) -> Result<Brought, HostError> {
        let mut notes = Vec::new();
        let mut journal = host.journal()?;
        let view = NodeView { labels, goals, released };
        self.learn_advice(host, &view, &journal, now);
        let desired = view.desired(&self.advice());
        self.forget_others(&desired);
        self.stuck.retain(|id, _| journal.transactions.iter().any(|known| known.id == *id && known.is_open()));
        for _ in 0..ROUNDS_MAX {
            let steps = self.steps(&desired, &journal, now);
            if steps.is_empty() {
                break;
            }
            for step in steps {
                let is_revert = matches!(step, Step::Revert { .. });
                let (note, is_done) = self.take(host, step, now);
                notes.push(note);
                // Apply nothing after a failed revert: the next try of the revert would overwrite the new values with old ones.
                if is_revert && !is_done {
                    break;
                }
            }
            journal = host.journal()?;
        }
        let stuck: Stuck = self.stuck.iter().map(|(id, (_, why))| (*id, why.clone())).collect();
        let mut status = report(&desired, &journal, &self.outcomes, &stuck, &self.version);
        for (transaction, why) in &stuck {
            status.summary += &format!("; transaction {transaction} could not be put back: {why}");
        }
        let left_out = view.left_out();
        if left_out > 0 {
            let max = desired.len();
            status.summary += &format!("; {left_out} goals are left out, the youngest: a node takes at most {max}");
        }
        let retries = self.failed.values().map(|failed| failed.next).chain(self.stuck.values().map(|(next, _)| *next));
        let reboots = reboots(&desired, &status);
        Ok(Brought { status, reboots, boot: host.boot().ok(), again: retries.min(), notes })
    }

    /// The status of a node whose host does not answer.
    pub(super) fn unknown(
        &self,
        goals: &[HostGoal],
        labels: &BTreeMap<String, String>,
        released: &[Release],
        before: Option<&HostStateStatus>,
        error: &HostError,
    ) -> HostStateStatus {
        let desired = NodeView { labels, goals, released }.desired(&self.advice());
        unknown(before, &desired, error, &self.version)
    }

    fn advice(&self) -> AdviceOfGoals {
        self.advice.iter().map(|(uid, known)| (uid.clone(), known.settings.clone())).collect()
    }

    /// Finds out what goals set by advice, so that goals that contradict each other are noticed before one of them is applied. For a goal in
    /// force, the journal has its settings. For a goal that may be applied now, the host is asked.
    fn learn_advice(&mut self, host: &impl Host, view: &NodeView<'_>, journal: &Journal, now: Instant) {
        let desired = view.desired(&self.advice());
        let advised: Vec<&Desired> =
            desired.iter().filter(|goal| goal.advised.is_some() && goal.allow > Allow::Audit).collect();
        self.advice.retain(|_, known| advised.iter().any(|goal| goal.owner == known.owner));
        for goal in advised {
            let (uid, owner) = (goal.owner.uid.clone(), goal.owner.clone());
            let applied: Vec<SetKnob> =
                goal.transactions(journal).flat_map(|transaction| transaction.settings.clone()).collect();
            if !applied.is_empty() {
                self.advice.insert(uid, KnownAdvice { owner, settings: applied, asked: None });
                continue;
            }
            let asked = self.advice.get(&uid).and_then(|known| known.asked);
            let is_known = asked.is_some_and(|asked| now.duration_since(asked) < ADVICE_EVERY);
            let waits = self.failed.get(&owner.name).is_some_and(|failed| failed.owner == owner && failed.next > now);
            if is_known || waits || matches!(goal.permission, Permission::Waiting { .. }) {
                continue;
            }
            match host.advice(goal) {
                Ok(settings) => {
                    let known = self.advice.entry(uid);
                    let known = known.or_insert(KnownAdvice { owner, settings: Vec::new(), asked: None });
                    // What another goal sets now is not advised now. Without that goal it would be, so known advice stays.
                    let is_other =
                        |old: &SetKnob| !settings.iter().any(|set| (&set.knob, &set.place) == (&old.knob, &old.place));
                    known.settings.retain(is_other);
                    known.settings.extend(settings);
                    known.asked = Some(now);
                }
                Err(error) => self.note_failure(owner, error, now),
            }
        }
    }

    /// The steps to take now. Steps that wait for their next attempt are left out.
    fn steps(&self, desired: &[Desired], journal: &Journal, now: Instant) -> Vec<Step> {
        let recent = |then: &Instant, length: Duration| now.duration_since(*then) < length;
        let already_so = |owner: &GoalOwner| {
            self.already_so.get(&owner.name).is_some_and(|(of, at)| of == owner && recent(at, ALREADY_SO))
        };
        let may_heal = |owner: &GoalOwner| {
            let heals = self.heals.get(&(owner.name.clone(), owner.uid.clone())).into_iter().flatten();
            heals.filter(|at| recent(at, HOUR)).count() < HEALS_PER_HOUR_MAX
        };
        let is_due = |step: &Step| match step {
            Step::Revert { transaction, .. } => self.stuck.get(transaction).is_none_or(|(next, _)| *next <= now),
            Step::Apply { goal, .. } => {
                let failed = self.failed.get(&goal.owner.name);
                failed.is_none_or(|failed| failed.owner != goal.owner || failed.next <= now)
            }
            Step::Audit(goal) => {
                let audited = self.audited.get(&goal.owner.name);
                audited.is_none_or(|(of, at)| *of != goal.owner || !recent(at, AUDIT_EVERY))
            }
        };
        let (due, later): (Vec<Step>, Vec<Step>) =
            decide(desired, journal, already_so, may_heal).into_iter().partition(is_due);
        // A pending revert would later overwrite the values of a goal that is applied now. So the agent applies nothing while a revert waits.
        let is_blocked = later.iter().any(|step| matches!(step, Step::Revert { .. }));
        due.into_iter().filter(|step| !is_blocked || !matches!(step, Step::Apply { .. })).collect()
    }

    /// Takes one step. Returns a line for the log, and whether the step succeeded.
    fn take(&mut self, host: &impl Host, step: Step, now: Instant) -> (String, bool) {
        match step {
            Step::Revert { transaction, goal } => match host.revert(transaction) {
                Ok(()) => {
                    self.stuck.remove(&transaction);
                    (format!("put transaction {transaction} of goal {goal} back"), true)
                }
                Err(error) => {
                    self.stuck.insert(transaction, (now + RETRY_FIRST, error.to_string()));
                    (format!("failed to put transaction {transaction} of goal {goal} back: {error}"), false)
                }
            },
            Step::Apply { goal, heals } => self.apply(host, goal, heals, now),
            Step::Audit(goal) => {
                let said = host.audit(&goal);
                self.audited.insert(goal.owner.name.clone(), (goal.owner.clone(), now));
                let text = format!("audited goal {}", goal.owner.name);
                self.outcomes.insert(goal.owner.name, said);
                (text, true)
            }
        }
    }

    fn apply(&mut self, host: &impl Host, goal: Desired, heals: bool, now: Instant) -> (String, bool) {
        let name = goal.owner.name.clone();
        if heals {
            let heals = self.heals.entry((name.clone(), goal.owner.uid.clone())).or_default();
            heals.push_back(now);
            while heals.len() > HEALS_PER_HOUR_MAX {
                heals.pop_front();
            }
        }
        match host.apply(&goal) {
            Ok(applied) => {
                self.failed.remove(&name);
                self.already_so.remove(&name);
                if applied.already_so {
                    self.already_so.insert(name.clone(), (goal.owner.clone(), now));
                }
                self.outcomes.insert(name.clone(), Ok(String::new()));
                let what = if heals { "healed" } else { "applied" };
                (format!("{what} goal {name}, generation {}", goal.owner.generation), true)
            }
            Err(error) => {
                let text = format!("failed to apply goal {name}: {error}");
                self.note_failure(goal.owner, error, now);
                (text, false)
            }
        }
    }

    /// Notes why a goal could not be applied, and when to try again.
    fn note_failure(&mut self, owner: GoalOwner, error: HostError, now: Instant) {
        let before = self.failed.get(&owner.name).filter(|failed| failed.owner == owner);
        let tries = before.map_or(0, |failed| failed.tries);
        let wait = RETRY_FIRST.saturating_mul(1 << tries.min(10)).min(RETRY_LAST);
        self.outcomes.insert(owner.name.clone(), Err(error));
        let failed = Failed { tries: tries.saturating_add(1), next: now + wait, owner };
        self.failed.insert(failed.owner.name.clone(), failed);
    }

    /// Forgets goals that no longer apply to this node, and the outcomes of earlier generations.
    fn forget_others(&mut self, desired: &[Desired]) {
        // A withdrawn goal is tried at once if it is released again, because its cause may be gone by then.
        let may_be_tried =
            |owner: &GoalOwner| desired.iter().any(|goal| goal.owner == *owner && goal.permission == Permission::Free);
        self.failed.retain(|_, failed| may_be_tried(&failed.owner));
        self.already_so.retain(|_, (owner, _)| may_be_tried(owner));
        self.audited.retain(|_, (owner, _)| desired.iter().any(|goal| goal.owner == *owner));
        // A new generation does not end the limit of heals. A new goal of the same name has its own.
        self.heals
            .retain(|(name, uid), _| desired.iter().any(|goal| goal.owner.name == *name && goal.owner.uid == *uid));
        let (failed, already_so, audited) = (&self.failed, &self.already_so, &self.audited);
        self.outcomes
            .retain(|name, _| failed.contains_key(name) || already_so.contains_key(name) || audited.contains_key(name));
    }
}

/// The goals for which the node has to reboot now.
fn reboots(desired: &[Desired], status: &HostStateStatus) -> Vec<RebootWanted> {
    let waits = |goal: &&Desired| {
        let mut states = status.goals.iter();
        let GoalOwner { name, uid, generation } = &goal.owner;
        let is_it = |state: &GoalState| state.is_of(name, uid) && state.generation == *generation;
        states.any(|state| is_it(state) && state.needs_reboot)
    };
    let wanted = |goal: &Desired| {
        let GoalOwner { name, uid, generation } = goal.owner.clone();
        let release = Release { goal: name, generation, uid };
        Some(RebootWanted { goal: release, policy: goal.reboot? })
    };
    desired.iter().filter(waits).filter_map(wanted).collect()
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
