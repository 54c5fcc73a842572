//! The changes that a controller writes, and what it says about a goal.

use super::super::goal::{HostGoalSpec, RolloutStatus};
use super::*;

fn goal(phase: RolloutPhase) -> HostGoal {
    let before = BTreeMap::from([("vm-1".to_owned(), 2.0)]);
    let guard = GuardState { before, pairs: vec![[1.0, 1.5]] };
    let guards = BTreeMap::from([("lateness".to_owned(), guard)]);
    let rollout = RolloutStatus { generation: 1, phase, guards, ..RolloutStatus::default() };
    let mut goal = HostGoal::new("steady", HostGoalSpec::default());
    goal.status = Some(HostGoalStatus { rollout: Some(rollout), ..HostGoalStatus::default() });
    goal
}

#[test]
fn a_resumed_rollout_keeps_the_numbers_from_before_its_release() {
    let patch = resumed(&goal(RolloutPhase::Halted)).unwrap();
    let rollout = &patch["status"]["rollout"];
    assert_eq!(rollout["phase"], "Progressing");
    // In a merge patch, null removes a field, and a missing field does not change.
    assert_eq!(rollout["guards"], json!({ "lateness": { "pairs": null } }));
    for phase in [RolloutPhase::Complete, RolloutPhase::Progressing, RolloutPhase::Undone] {
        assert_eq!(resumed(&goal(phase)), None, "{phase:?} did not halt");
    }
    assert_eq!(resumed(&HostGoal::new("steady", HostGoalSpec::default())), None);
}

#[test]
fn an_undo_takes_the_goal_from_a_trial_whose_program_is_gone() {
    let annotations = |undo| undo_request(undo)["metadata"]["annotations"].clone();
    assert_eq!(annotations(true), json!({ UNDO: "true", TRIAL: null }));
    assert_eq!(annotations(false), json!({ UNDO: null }), "a running trial keeps its goal");
}

#[test]
fn a_goal_is_in_force_only_where_settings_are_in_force() {
    let found = |nodes: Counts| {
        let conditions = conditions(&[], nodes, None, 1);
        let of = |kind: &str| conditions.iter().find(|one| one.type_ == kind).unwrap().clone();
        format!("{} {} {}", of("InForce").status, of("InForce").reason, of("Degraded").status)
    };
    let all = Counts { selected: 3, in_force: 2, not_applicable: 1, ..Counts::default() };
    assert_eq!(found(all), "True AllNodes False");
    assert_eq!(found(Counts { selected: 3, audited: 3, ..Counts::default() }), "False OnlyAudited False");
    assert_eq!(found(Counts::default()), "False NoNodes False");
    let nowhere = Counts { selected: 3, not_applicable: 3, ..Counts::default() };
    assert_eq!(found(nowhere), "False SomeNodes False", "no node can have it");
    let stuck = Counts { selected: 3, in_force: 2, not_put_back: 1, ..Counts::default() };
    assert_eq!(found(stuck), "False SomeNodes True");
}
