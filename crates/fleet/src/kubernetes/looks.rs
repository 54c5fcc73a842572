//! Asks for the numbers of guards, and lets the guards look at them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::ResourceExt;

use super::goal::RolloutPhase;
use super::guard::{Guard, GuardLook, GuardState};
use super::names::{TRIAL, UNDO};
use super::rollout::ClusterView;
use crate::host_numbers::{NoAnswer, of_hosts};

/// How often guards are queried. Prometheus has new numbers only after each scrape.
const GUARDS_EVERY: Duration = Duration::from_secs(15);

/// The source of the guards' numbers.
pub trait Metrics {
    /// The result of a query: one number for each node, by the label `node`, or else `instance`.
    ///
    /// # Errors
    /// Why the query has no answer.
    fn query(&self, query: &str) -> Result<BTreeMap<String, f64>, NoAnswer>;
}

/// The guards of one goal.
#[derive(Default)]
pub(super) struct Guards {
    /// The state of each guard, by the guard's name.
    pub(super) states: BTreeMap<String, GuardState>,
    /// The results of the guards that were due.
    pub(super) looks: Vec<(String, GuardLook)>,
    /// The guards whose last query gave nothing to compare, and why.
    pub(super) without_numbers: Vec<String>,
}

/// A guard of a goal: the uid of the goal, and the name of the guard. A later goal of the same name has its own guards.
type GuardId = (String, String);

/// Queries guards, each as often as it is due.
pub(super) struct Looks<M> {
    metrics: Option<M>,
    /// When each guard was last queried, and why that gave nothing to compare.
    last: BTreeMap<GuardId, (Instant, Option<String>)>,
    /// Why the source did not answer in this step.
    unreachable: Option<String>,
}

impl<M: Metrics> Looks<M> {
    pub(super) fn new(metrics: Option<M>) -> Looks<M> {
        Looks { metrics, last: BTreeMap::new(), unreachable: None }
    }

    /// Begins a step, in which a source that does not answer is waited for once. Forgets the guards of goals that are deleted.
    pub(super) fn begin(&mut self, uids: &BTreeSet<String>) {
        self.unreachable = None;
        self.last.retain(|(uid, _), _| uids.contains(uid));
    }

    /// Makes the guards of a goal due, because the results of their last queries were not stored.
    pub(super) fn forget(&mut self, uid: &str) {
        self.last.retain(|(of, _), _| of != uid);
    }

    /// Queries the guards that are due.
    pub(super) fn look(&mut self, view: &ClusterView<'_>) -> Guards {
        let mut guards = Guards::default();
        let Some(rollout) = &view.goal.spec.rollout else { return guards };
        let before = view.so_far();
        // A complete rollout that nodes join has no numbers from before any more, and no node to compare with.
        let is_over = before
            .is_some_and(|before| before.phase != RolloutPhase::Progressing || before.complete_since.is_some())
            || [UNDO, TRIAL].iter().any(|name| view.goal.annotations().contains_key(*name));
        let selected: BTreeSet<&str> = view.selected().into_iter().map(|node| node.name.as_str()).collect();
        let is_begun = selected.iter().any(|node| view.is_released(node));
        for guard in &rollout.guards {
            let mut state = before.and_then(|before| before.guards.get(&guard.name)).cloned().unwrap_or_default();
            let id = (view.goal.uid().unwrap_or_default(), guard.name.clone());
            let is_due = self.last.get(&id).is_none_or(|(at, _)| at.elapsed() >= GUARDS_EVERY);
            if is_due && !is_over {
                let why = match self.numbers(guard, &selected) {
                    Ok(numbers) if is_begun => {
                        let look = state.look(&numbers, |node| view.is_released(node), guard.worse);
                        let is_blind = look == GuardLook::NoNumbers;
                        guards.looks.push((guard.name.clone(), look));
                        is_blind.then(|| "no number above 0 of a released node".to_owned())
                    }
                    Ok(numbers) => {
                        state.note_before(&numbers, &view.canaries());
                        state.before.is_empty().then(|| "no number above 0 of a node".to_owned())
                    }
                    Err(why) => Some(why.to_string()),
                };
                self.last.insert(id.clone(), (Instant::now(), why));
            }
            if !is_over {
                let why = self.last.get(&id).and_then(|(_, why)| why.as_ref());
                guards.without_numbers.extend(why.map(|why| format!("guard {}: {why}", guard.name)));
                // The first wave waits, also between two queries.
                if !is_begun && state.before.is_empty() {
                    guards.looks.push((guard.name.clone(), GuardLook::NoNumbers));
                }
            }
            guards.states.insert(guard.name.clone(), state);
        }
        guards
    }

    /// The numbers of these nodes. Other nodes may run other servers, so they are no comparison.
    fn numbers(&mut self, guard: &Guard, nodes: &BTreeSet<&str>) -> Result<BTreeMap<String, f64>, NoAnswer> {
        if let Some(why) = &self.unreachable {
            return Err(NoAnswer::Unreachable(why.clone()));
        }
        let no_numbers = |why: String| Err(NoAnswer::NoNumbers(why));
        let Some(metrics) = &self.metrics else { return no_numbers("name Prometheus with --prometheus".to_owned()) };
        let numbers = metrics.query(&guard.query).inspect_err(|error| {
            if let NoAnswer::Unreachable(why) = error {
                self.unreachable = Some(why.clone());
            }
        })?;
        let found = of_hosts(&numbers, |name| nodes.contains(name));
        let found = found.map_err(|error| NoAnswer::NoNumbers(error.to_string()))?;
        match (numbers.keys().next(), nodes.first()) {
            (None, _) => no_numbers("the query gives no number".to_owned()),
            (Some(other), Some(node)) if found.is_empty() => no_numbers(format!(
                "the query gives numbers for other hosts only, such as {other}; the goal has nodes such as {node}, so \
                 let the query's label `node` be the name of the node"
            )),
            _ => Ok(found),
        }
    }
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
