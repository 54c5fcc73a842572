//! What a trial accepts, from the objects of the cluster.

use super::super::goal::{HostGoalSpec, Rollout};
use super::super::state::{GoalState, HostStateSpec, HostStateStatus};
use super::*;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn node(name: &str) -> NodeInfo {
    NodeInfo { name: name.to_owned(), labels: BTreeMap::new(), is_ready: true, reboot: None, owner: None }
}

/// The state of a node that reports this phase of the goal, and has this transaction of it.
fn state(node: &str, phase: GoalPhase, transaction: Option<u64>) -> HostState {
    let mut state = HostState::new(node, HostStateSpec::default());
    let goal = GoalState {
        goal: "steady".to_owned(),
        uid: "uid".to_owned(),
        generation: 1,
        phase,
        needs_reboot: false,
        transaction,
        drift: Vec::new(),
        drift_left_out: 0,
        message: String::new(),
    };
    state.status = Some(HostStateStatus { goals: vec![goal], ..HostStateStatus::default() });
    state
}

fn open(nodes: &[NodeInfo], states: &[HostState]) -> Result<Vec<String>, String> {
    let release = Release { goal: "steady".to_owned(), generation: 1, uid: "uid".to_owned() };
    open_of(&release, nodes, states, &names(&["a"]), &names(&["b"])).map_err(|error| error.to_string())
}

#[test]
fn each_node_must_be_in_the_state_of_its_arm() {
    let nodes = [node("a"), node("b"), node("other")];
    let a = state("a", GoalPhase::InForce, Some(1));
    assert_eq!(open(&nodes, &[a.clone(), state("b", GoalPhase::Waiting, None)]), Ok(vec![]));
    assert_eq!(open(&nodes, std::slice::from_ref(&a)), Ok(vec!["b".to_owned()]), "its agent reported nothing yet");
    assert_eq!(open(&nodes, &[a.clone(), state("b", GoalPhase::InForce, Some(1))]), Ok(vec!["b".to_owned()]));
    let stuck = open(&nodes, &[a, state("b", GoalPhase::NotPutBack, Some(1))]);
    assert_eq!(stuck, Err("node b reports NotPutBack".to_owned()), "its settings are still there");
    let mut of_deleted = state("a", GoalPhase::InForce, Some(1));
    of_deleted.status.as_mut().unwrap().goals[0].uid = "of-a-deleted-goal".to_owned();
    let without = state("b", GoalPhase::Waiting, None);
    assert_eq!(open(&nodes, &[of_deleted, without]), Ok(vec!["a".to_owned()]), "another goal had this name");
    let drifted = open(&nodes, &[state("a", GoalPhase::Drifted, Some(1)), state("b", GoalPhase::Waiting, None)]);
    assert_eq!(drifted, Err("node a reports Drifted".to_owned()));
}

#[test]
fn a_node_that_is_gone_does_not_end_the_trial_and_one_that_is_not_ready_does() {
    let a = state("a", GoalPhase::InForce, Some(1));
    assert_eq!(open(&[node("a")], std::slice::from_ref(&a)), Ok(vec![]));
    let not_ready = NodeInfo { is_ready: false, ..node("b") };
    assert_eq!(open(&[node("a"), not_ready], &[a]), Err("node b is not ready".to_owned()));
}

#[test]
fn a_trial_takes_only_a_goal_that_it_may_release() {
    let rollout = Rollout {
        canaries: super::super::goal::Canaries::default(),
        max_unavailable: super::super::goal::MaxUnavailable::default(),
        pause_seconds: 1,
        guards: Vec::new(),
    };
    let spec = HostGoalSpec { allow: Allow::Runtime, rollout: Some(rollout), ..HostGoalSpec::default() };
    let mut goal = HostGoal::new("steady", spec);
    goal.metadata.generation = Some(2);
    goal.metadata.uid = Some("new".to_owned());
    let release = |generation, uid: &str| Release { goal: "steady".to_owned(), generation, uid: uid.to_owned() };
    let take = |goal: &HostGoal, known: Option<Release>| {
        may_take(goal, "mine", known.as_ref()).map_err(|error| error.to_string())
    };
    assert_eq!(take(&goal, None), Ok(release(2, "new")));
    let changed = |generation| format!("the goal was changed during the trial, which compares generation {generation}");
    assert_eq!(take(&goal, Some(release(1, "new"))), Err(changed(1)));
    assert_eq!(take(&goal, Some(release(2, "old"))), Err(changed(2)), "another goal of the same name");
    goal.metadata.annotations = Some(BTreeMap::from([(TRIAL.to_owned(), "mine".to_owned())]));
    assert_eq!(take(&goal, Some(release(2, "new"))), Ok(release(2, "new")));
    goal.metadata.annotations = Some(BTreeMap::from([(TRIAL.to_owned(), "other".to_owned())]));
    let taken = take(&goal, None).unwrap_err();
    assert!(taken.ends_with("end it: evenkeel fleet rollout steady --undo"), "{taken}");
    goal.spec.rollout = None;
    assert!(take(&goal, None).is_err());
}
