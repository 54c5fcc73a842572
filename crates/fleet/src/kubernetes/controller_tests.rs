//! The changes that a controller writes, and what it says about a goal.

use super::super::fake_server::{FakeServer, GOALS, NODES, STATES};
use super::super::goal::{Allow, HostGoalSpec, Rollout, RolloutStatus};
use super::super::guard::GuardState;
use super::*;
use crate::host_numbers::NoAnswer;

fn goal(phase: RolloutPhase) -> HostGoal {
    let before = BTreeMap::from([("vm-1".to_owned(), 2.0)]);
    let guard = GuardState { before, pairs: vec![[1.0, 1.5]], left_out: 0 };
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

/// A number source that no test asks.
struct NoMetrics;

impl Metrics for NoMetrics {
    fn query(&self, _: &str) -> Result<BTreeMap<String, f64>, NoAnswer> {
        Err(NoAnswer::NoNumbers("no test asks".to_owned()))
    }
}

const STEADY: &str = "/apis/evenkeel.dev/v1alpha1/hostgoals/steady";
const STEADY_STATUS: &str = "/apis/evenkeel.dev/v1alpha1/hostgoals/steady/status";

/// A server with two ready nodes, and a goal whose rollout is in this phase.
fn server(phase: RolloutPhase) -> FakeServer {
    let server = FakeServer::start();
    let mut goal = goal(phase);
    goal.spec = HostGoalSpec {
        settings: vec!["vm.swappiness=10".to_owned()],
        allow: Allow::Runtime,
        rollout: Some(serde_json::from_value::<Rollout>(json!({ "maxUnavailable": "1" })).unwrap()),
        ..HostGoalSpec::default()
    };
    goal.metadata.uid = Some("first".to_owned());
    goal.metadata.generation = Some(1);
    server.with(|store| {
        store.put(GOALS, serde_json::to_value(goal).unwrap());
        for name in ["vm-1", "vm-2"] {
            let ready = json!([{ "type": "Ready", "status": "True" }]);
            store.put(NODES, json!({ "metadata": { "name": name }, "status": { "conditions": ready } }));
        }
    });
    server
}

fn step(server: &FakeServer) -> Result<Vec<Progress>, kube::Error> {
    server.run(async |client| Controller::new(client, Some(NoMetrics)).step(|_| true).await)
}

fn rollout_of(server: &FakeServer) -> Value {
    server.with(|store| store.get(STEADY).unwrap()["status"]["rollout"].clone())
}

fn released(server: &FakeServer, node: &str) -> Value {
    server
        .with(|store| store.get(&format!("{STATES}/{node}")).map(|state| state["spec"]["released"].clone()))
        .unwrap_or_default()
}

#[test]
fn a_controller_that_is_late_does_not_overwrite_a_continued_rollout() {
    let server = server(RolloutPhase::Halted);
    // After this controller has read that the rollout is halted, and before it writes so, a user continues the rollout.
    server.before_write(STEADY_STATUS, |store| {
        store.merge(STEADY, &json!({ "status": { "rollout": { "phase": "Progressing" } } }));
    });
    let progress = step(&server).unwrap();
    assert_eq!(rollout_of(&server)["phase"], "Progressing");
    assert_eq!(progress[0].rollout.as_ref().unwrap().phase, RolloutPhase::Progressing);
}

#[test]
fn a_controller_that_is_late_releases_nothing_of_an_older_generation() {
    let server = server(RolloutPhase::Progressing);
    server.before_write(STEADY_STATUS, |store| {
        store.merge(STEADY, &json!({ "metadata": { "generation": 2 }, "status": { "rollout": null } }));
    });
    step(&server).unwrap();
    assert_eq!(released(&server, "vm-1"), json!([{ "goal": "steady", "generation": 2, "uid": "first" }]));
    assert_eq!(rollout_of(&server)["generation"], 2);
    // A withdrawal changes no status, and is decided from the goal as it is now all the same.
    server.with(|store| store.merge(STEADY, &json!({ "metadata": { "annotations": { UNDO: "true" } } })));
    step(&server).unwrap();
    server.with(|store| {
        store.merge(
            &format!("{STATES}/vm-1"),
            &json!({ "spec": { "released": [{ "goal": "steady", "generation": 2, "uid": "first" }] } }),
        );
    });
    step(&server).unwrap();
    server.with(|store| {
        store.merge(
            &format!("{STATES}/vm-1"),
            &json!({ "spec": { "released": [{ "goal": "steady", "generation": 2, "uid": "first" }] } }),
        );
    });
    server.before_write(STEADY_STATUS, |store| {
        store.merge(STEADY, &json!({ "metadata": { "annotations": { UNDO: null } } }));
    });
    step(&server).unwrap();
    assert_eq!(released(&server, "vm-1").as_array().unwrap().len(), 1, "the user rolled it out again");
}

#[test]
fn a_goal_of_the_same_name_inherits_nothing_of_a_deleted_one() {
    let server = server(RolloutPhase::Halted);
    // `kubectl replace --force`: same name, same generation, another uid, no status.
    server.before_write(STEADY_STATUS, |store| {
        let mut again = store.get(STEADY).unwrap().clone();
        again["metadata"]["uid"] = "second".into();
        again.as_object_mut().unwrap().remove("status");
        store.put(GOALS, again);
    });
    step(&server).unwrap();
    let rollout = rollout_of(&server);
    assert_eq!((&rollout["phase"], &rollout["wave"]), (&json!("Progressing"), &json!(1)), "{rollout}");
    assert!(rollout.get("guards").is_none(), "{rollout}");
    assert_eq!(released(&server, "vm-1"), json!([{ "goal": "steady", "generation": 1, "uid": "second" }]));
    // What an agent reports about the deleted goal says nothing about this one.
    server.with(|store| {
        let of_deleted = json!({ "goal": "steady", "uid": "first", "generation": 1, "phase": "InForce" });
        store.merge(&format!("{STATES}/vm-1"), &json!({ "status": { "goals": [of_deleted] } }));
    });
    let progress = step(&server).unwrap();
    assert_eq!((progress[0].nodes.in_force, progress[0].nodes.waiting), (0, 2));
}

#[test]
fn a_goal_that_is_always_written_by_others_ends_the_step_after_a_few_tries() {
    let server = server(RolloutPhase::Halted);
    let count = std::sync::atomic::AtomicU32::new(0);
    server.before_each_write(STEADY_STATUS, move |store| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        store.merge(STEADY, &json!({ "metadata": { "labels": { "count": count } } }));
    });
    let failed = step(&server).unwrap_err();
    assert!(matches!(&failed, kube::Error::Api(error) if error.is_conflict()), "{failed}");
    let writes = server.with(|store| store.requests.iter().filter(|one| one.starts_with("PATCH")).count());
    assert_eq!(writes, TRIES_MAX);
}

#[test]
fn a_goal_that_is_deleted_meanwhile_is_released_to_no_node() {
    let server = server(RolloutPhase::Progressing);
    server.before_write(STEADY_STATUS, |store| store.remove(STEADY));
    assert_eq!(step(&server).unwrap(), []);
    assert_eq!(released(&server, "vm-1"), Value::Null);
}

#[test]
fn a_resume_does_not_overwrite_what_happened_since_it_read_the_goal() {
    let resume = |server: &FakeServer| {
        server.run(async |client| Controller::new(client, Some(NoMetrics)).resume("steady").await).unwrap()
    };
    let undone = server(RolloutPhase::Halted);
    undone.before_write(STEADY_STATUS, |store| {
        store.merge(STEADY, &json!({ "status": { "rollout": { "phase": "Undone" } } }));
    });
    assert!(resume(&undone));
    assert_eq!(rollout_of(&undone)["phase"], "Undone");
    // A controller that wrote new counts of nodes is no reason to fail.
    let counted = server(RolloutPhase::Halted);
    counted
        .before_write(STEADY_STATUS, |store| store.merge(STEADY, &json!({ "status": { "nodes": { "selected": 9 } } })));
    assert!(resume(&counted));
    assert_eq!(rollout_of(&counted)["phase"], "Progressing");
}
