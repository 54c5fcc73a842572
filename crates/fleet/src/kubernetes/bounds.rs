//! Bounds of what is written to the cluster. etcd accepts 1.5 MB for an object, and a write that is larger fails for good. So what is left out is
//! counted, and the worst is kept first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::state::{DriftedKnob, GoalState, HostStateStatus};

/// The maximum length of a message, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 1_000;
/// The maximum length of each text about a drifted setting, in bytes.
const DRIFT_TEXT_BYTES_MAX: usize = 300;
/// The maximum number of drifted settings in the state of a goal.
const DRIFT_OF_GOAL_MAX: usize = 20;
/// The maximum number of drifted settings in the state of a node.
const DRIFT_OF_NODE_MAX: usize = 200;
/// The maximum number of goals in the state of a node.
const GOALS_MAX: usize = 200;

/// The text, cut at this many bytes.
pub(super) fn short(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// The status with bounded lists and texts. The goals in the worst phases are kept, and one place of each drifted knob before further places.
pub(super) fn bounded(status: &HostStateStatus) -> HostStateStatus {
    let HostStateStatus { version, summary, goals } = status.clone();
    let mut goals = goals;
    let mut summary = short(&summary, MESSAGE_BYTES_MAX);
    let left_out = goals.len().saturating_sub(GOALS_MAX);
    if left_out > 0 {
        // The sort is stable: within a phase, the older goals come first.
        goals.sort_by_key(|state| Reverse(state.phase));
        goals.truncate(GOALS_MAX);
        summary += &format!("; {left_out} goals in better phases are not listed");
    }
    let mut rest = DRIFT_OF_NODE_MAX;
    for state in &mut goals {
        state.message = short(&state.message, MESSAGE_BYTES_MAX);
        bound_drift(state, rest.min(DRIFT_OF_GOAL_MAX));
        rest -= state.drift.len();
    }
    HostStateStatus { version, summary, goals }
}

fn bound_drift(state: &mut GoalState, max: usize) {
    let mut seen = BTreeSet::new();
    let (mut kept, further): (Vec<DriftedKnob>, Vec<DriftedKnob>) =
        std::mem::take(&mut state.drift).into_iter().partition(|drifted| seen.insert(drifted.knob.clone()));
    kept.extend(further);
    // A status that was bounded before may be bounded again.
    let left_out = u32::try_from(kept.len().saturating_sub(max)).unwrap_or(u32::MAX);
    state.drift_left_out = state.drift_left_out.saturating_add(left_out);
    kept.truncate(max);
    for DriftedKnob { knob, place, wanted, found, why, mend } in &mut kept {
        for text in [knob, place, wanted, found, why, mend] {
            *text = short(text, DRIFT_TEXT_BYTES_MAX);
        }
    }
    state.drift = kept;
}

#[cfg(test)]
mod tests {
    use super::super::state::GoalPhase;
    use super::*;

    fn drifted(knob: usize, place: usize) -> DriftedKnob {
        let text = "é".repeat(400);
        DriftedKnob {
            knob: format!("net.knob{knob}"),
            place: format!("eth0/rx-{place}"),
            wanted: text.clone(),
            found: text.clone(),
            why: text.clone(),
            mend: text,
        }
    }

    fn state(goal: usize, phase: GoalPhase, drift: Vec<DriftedKnob>) -> GoalState {
        GoalState {
            goal: format!("goal-{goal}"),
            uid: "uid".to_owned(),
            generation: 1,
            phase,
            needs_reboot: false,
            transaction: None,
            drift,
            drift_left_out: 0,
            message: "é".repeat(10_000),
        }
    }

    #[test]
    fn the_state_of_a_node_fits_into_an_object_and_says_what_is_left_out() {
        let drift = || (0..10).flat_map(|place| (0..3).map(move |knob| drifted(knob, place))).collect();
        let mut goals: Vec<GoalState> = (0..300).map(|goal| state(goal, GoalPhase::Drifted, drift())).collect();
        goals.push(state(300, GoalPhase::NotPutBack, Vec::new()));
        goals.push(state(301, GoalPhase::InForce, Vec::new()));
        let status = HostStateStatus { version: "1".to_owned(), summary: "302 goals".to_owned(), goals };
        let less = bounded(&status);
        assert!(serde_json::to_string(&less).unwrap().len() < 700_000);
        assert_eq!(less.summary, "302 goals; 102 goals in better phases are not listed");
        let names: Vec<&str> = less.goals.iter().map(|state| state.goal.as_str()).collect();
        assert_eq!((names[0], names[1], names.len()), ("goal-300", "goal-0", 200), "the worst first, then the oldest");
        let first = &less.goals[1];
        assert_eq!((first.drift.len(), first.drift_left_out), (20, 10));
        let knobs: BTreeSet<&str> = first.drift[..3].iter().map(|drifted| drifted.knob.as_str()).collect();
        assert_eq!(knobs.len(), 3, "each knob before further places of one");
        let sum = |count: fn(&GoalState) -> usize| less.goals.iter().map(count).sum::<usize>();
        assert_eq!(sum(|state| state.drift.len()), DRIFT_OF_NODE_MAX);
        assert_eq!(sum(|state| state.drift_left_out as usize), 199 * 30 - DRIFT_OF_NODE_MAX);
        assert_eq!(bounded(&less).goals, less.goals, "the same again: otherwise each pass would write it");
    }

    #[test]
    fn a_small_state_is_written_as_it_is() {
        let mut goal = state(1, GoalPhase::Drifted, Vec::new());
        goal.message = "reported, as onDrift says".to_owned();
        let status = HostStateStatus { version: "1".to_owned(), summary: "1 Drifted".to_owned(), goals: vec![goal] };
        assert_eq!(bounded(&status), status);
    }
}
