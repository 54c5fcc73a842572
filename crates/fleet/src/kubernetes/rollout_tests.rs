//! Rollouts over a cluster whose agents report what the test defines.

use std::collections::BTreeMap;

use super::super::goal::{Canaries, HostGoalSpec, MaxUnavailable, Rollout};
use super::super::state::{GoalState, HostStateSpec, HostStateStatus};
use super::*;

/// A simulated cluster. Its agents report when a test calls [`Cluster::agents`].
struct Cluster {
    goal: HostGoal,
    nodes: Vec<NodeInfo>,
    states: BTreeMap<String, HostState>,
    now: i64,
}

impl Cluster {
    fn new(nodes: usize, rollout: Rollout) -> Cluster {
        let spec = HostGoalSpec {
            settings: vec!["vm.swappiness=10".to_owned()],
            allow: Allow::Runtime,
            rollout: Some(rollout),
            ..HostGoalSpec::default()
        };
        let mut goal = HostGoal::new("steady", spec);
        goal.metadata.generation = Some(1);
        let node = |i: usize| NodeInfo {
            name: format!("vm-{i:03}"),
            labels: BTreeMap::new(),
            is_ready: true,
            reboot: None,
            owner: None,
        };
        Cluster { goal, nodes: (0..nodes).map(node).collect(), states: BTreeMap::new(), now: 1_000 }
    }

    /// Takes one step of the rollout, and writes the status and the releases.
    fn step(&mut self, guards: &[(String, GuardLook)]) -> Next {
        let view = ClusterView { goal: &self.goal, nodes: &self.nodes, states: &self.states, now: self.now };
        let (next, release) = (next(&view, guards), view.release());
        self.goal.status.get_or_insert_default().rollout = next.rollout.clone();
        for (nodes, release) in [(&next.release, Some(release)), (&next.withdraw, None)] {
            for node in nodes {
                let state =
                    self.states.entry(node.clone()).or_insert_with(|| HostState::new(node, HostStateSpec::default()));
                state.spec.released = with_release(&state.spec.released, "steady", release.clone());
            }
        }
        next
    }

    /// Every agent reports `phase` for the goals that are released to it.
    fn agents(&mut self, phase: impl Fn(&str) -> GoalPhase) {
        for (name, state) in &mut self.states {
            let goals = state.spec.released.iter().map(|release| GoalState {
                goal: release.goal.clone(),
                uid: release.uid.clone(),
                generation: release.generation,
                phase: phase(name),
                needs_reboot: phase(name) == GoalPhase::PendingReboot,
                transaction: None,
                drift: Vec::new(),
                drift_left_out: 0,
                message: String::new(),
            });
            state.status = Some(HostStateStatus { goals: goals.collect(), ..HostStateStatus::default() });
        }
    }

    fn phase(&self) -> RolloutPhase {
        self.goal.status.as_ref().unwrap().rollout.as_ref().unwrap().phase
    }

    fn message(&self) -> &str {
        &self.goal.status.as_ref().unwrap().rollout.as_ref().unwrap().message
    }
}

fn rollout(max_unavailable: &str) -> Rollout {
    Rollout {
        canaries: Canaries { count: 2, selector: None },
        max_unavailable: MaxUnavailable(max_unavailable.to_owned()),
        pause_seconds: 60,
        guards: Vec::new(),
    }
}

#[test]
fn waves_grow_and_each_waits_for_its_pause() {
    let mut cluster = Cluster::new(20, rollout("25%"));
    let mut waves = Vec::new();
    for _ in 0..100 {
        let next = cluster.step(&[]);
        if !next.release.is_empty() {
            waves.push((cluster.now, next.release.len()));
        }
        if cluster.phase() == RolloutPhase::Complete {
            break;
        }
        cluster.agents(|_| GoalPhase::InForce);
        cluster.now += 10;
    }
    // Each wave is in force ten seconds after its release, and the next one follows a minute later: two nodes, then four, then a quarter of all.
    assert_eq!(waves, [(1000, 2), (1070, 4), (1140, 5), (1210, 5), (1280, 4)]);
    assert_eq!((cluster.phase(), cluster.now), (RolloutPhase::Complete, 1350));
}

#[test]
fn nothing_more_is_released_while_a_node_is_open() {
    let mut cluster = Cluster::new(20, rollout("25%"));
    cluster.step(&[]);
    for _ in 0..10 {
        cluster.now += 1_000;
        assert!(cluster.step(&[]).release.is_empty());
    }
    assert_eq!(cluster.message(), "2 of 2 released nodes do not have it in force yet");
    // A controller that dies after it wrote the status but before it released the goal releases it again.
    let mut died = Cluster::new(20, rollout("25%"));
    died.step(&[]);
    died.states.clear();
    assert_eq!(died.step(&[]).release.len(), 2);
}

#[test]
fn a_pause_changes_no_status_because_all_agents_watch_it() {
    let mut cluster = Cluster::new(20, rollout("25%"));
    cluster.step(&[]);
    cluster.agents(|_| GoalPhase::InForce);
    cluster.step(&[]);
    let before = cluster.goal.status.clone();
    for _ in 0..5 {
        cluster.now += 10;
        cluster.step(&[]);
        assert_eq!(cluster.goal.status, before);
    }
    assert_eq!(cluster.message(), "wave 1 is in force; the pause of 60 s is not over");
}

#[test]
fn it_halts_and_stays_so_until_it_is_resumed() {
    type Breaks = fn(&mut Cluster) -> Vec<(String, GuardLook)>;
    let refuses: Breaks = |cluster| {
        cluster.agents(|node| if node == "vm-001" { GoalPhase::Refused } else { GoalPhase::InForce });
        Vec::new()
    };
    let drifts: Breaks = |cluster| {
        cluster.agents(|_| GoalPhase::Drifted);
        Vec::new()
    };
    let not_ready: Breaks = |cluster| {
        cluster.agents(|_| GoalPhase::InForce);
        cluster.nodes[0].is_ready = false;
        Vec::new()
    };
    let guard: Breaks = |cluster| {
        cluster.agents(|_| GoalPhase::InForce);
        vec![("lateness".to_owned(), GuardLook::Worse { why: "changed by +20 to +40 % in 9 looks".to_owned() })]
    };
    let table = [
        (refuses, "node vm-001 reports Refused"),
        (drifts, "node vm-000 reports Drifted"),
        (not_ready, "node vm-000 is not ready"),
        (guard, "guard lateness: changed by +20 to +40 % in 9 looks"),
    ];
    for (breaks, message) in table {
        let mut cluster = Cluster::new(20, rollout("25%"));
        cluster.step(&[]);
        let guards = breaks(&mut cluster);
        cluster.now += 1_000;
        assert!(cluster.step(&guards).release.is_empty());
        assert_eq!((cluster.phase(), cluster.message()), (RolloutPhase::Halted, message));
        // The node is well again, but the rollout still waits for a person.
        cluster.agents(|_| GoalPhase::InForce);
        cluster.nodes[0].is_ready = true;
        cluster.now += 1_000;
        assert!(cluster.step(&[]).release.is_empty(), "{message}");
        cluster.goal.status.as_mut().unwrap().rollout.as_mut().unwrap().phase = RolloutPhase::Progressing;
        cluster.step(&[]);
        cluster.now += 1_000;
        assert_eq!(cluster.step(&[]).release.len(), 4, "{message}");
    }
}

/// A cluster of four nodes with the goal in force on all.
fn complete() -> Cluster {
    let mut cluster = Cluster::new(4, rollout("4"));
    for _ in 0..10 {
        cluster.step(&[]);
        cluster.agents(|_| GoalPhase::InForce);
        cluster.now += 100;
    }
    assert_eq!(cluster.phase(), RolloutPhase::Complete);
    cluster
}

#[test]
fn a_node_that_fails_long_afterwards_does_not_keep_the_goal_from_nodes_that_join() {
    let mut cluster = complete();
    cluster.nodes[0].is_ready = false;
    let drifts = |node: &str| if node == "vm-001" { GoalPhase::Drifted } else { GoalPhase::InForce };
    cluster.agents(drifts);
    let counts = cluster.step(&[]).counts;
    assert_eq!((cluster.phase(), counts.drifted), (RolloutPhase::Complete, 1));
    cluster.nodes.push(NodeInfo { name: "vm-new".to_owned(), is_ready: true, ..cluster.nodes[0].clone() });
    assert_eq!(cluster.step(&[]).release, ["vm-new"]);
    assert_eq!(cluster.phase(), RolloutPhase::Progressing);
    let mut refuses =
        Cluster { goal: cluster.goal.clone(), nodes: cluster.nodes.clone(), states: cluster.states.clone(), now: 0 };
    refuses.agents(|node| if node == "vm-new" { GoalPhase::Refused } else { drifts(node) });
    refuses.step(&[]);
    assert_eq!((refuses.phase(), refuses.message()), (RolloutPhase::Halted, "node vm-new reports Refused"));
    for _ in 0..3 {
        cluster.agents(drifts);
        cluster.now += 100;
        cluster.step(&[]);
    }
    assert_eq!(cluster.phase(), RolloutPhase::Complete);
    // The rollout judges the next generation from its first node on.
    cluster.goal.metadata.generation = Some(2);
    cluster.nodes[0].is_ready = true;
    assert_eq!(cluster.step(&[]).release, ["vm-000", "vm-001"]);
    cluster.nodes[0].is_ready = false;
    cluster.step(&[]);
    assert_eq!(cluster.message(), "node vm-000 is not ready");
}

#[test]
fn the_first_wave_waits_until_each_guard_can_compare() {
    let mut cluster = Cluster::new(4, rollout("4"));
    let blind = [("lateness".to_owned(), GuardLook::NoNumbers)];
    assert!(cluster.step(&blind).release.is_empty());
    assert_eq!(cluster.message(), "guard lateness has no number above 0 of a node yet, so the first wave waits");
    assert_eq!(cluster.step(&[]).release.len(), 2);
    cluster.agents(|_| GoalPhase::InForce);
    cluster.step(&blind);
    cluster.now += 100;
    assert_eq!(cluster.step(&blind).release.len(), 2, "a query that fails later halts nothing");
}

#[test]
fn an_undone_rollout_that_starts_again_forgets_what_its_guards_found() {
    let mut cluster = complete();
    let annotations = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "true".to_owned())).collect();
    cluster.goal.metadata.annotations = Some(annotations(&[UNDO]));
    cluster.step(&[]);
    let so_far = |cluster: &Cluster| {
        let view = ClusterView { goal: &cluster.goal, nodes: &cluster.nodes, states: &cluster.states, now: 0 };
        view.so_far().map(|status| status.phase)
    };
    assert_eq!(so_far(&cluster), Some(RolloutPhase::Undone));
    cluster.goal.metadata.annotations = Some(annotations(&[]));
    assert_eq!(so_far(&cluster), None);
}

#[test]
fn a_new_goal_of_the_same_name_waits_for_its_own_rollout() {
    let mut cluster = complete();
    // `kubectl delete` and `kubectl apply` before any controller looks: same name, same generation, and no status.
    cluster.goal.metadata.uid = Some("new".to_owned());
    cluster.goal.status = None;
    for (name, state) in &mut cluster.states {
        state.spec.released = vec![Release { goal: "steady".to_owned(), generation: 1, uid: format!("old-{name}") }];
    }
    assert_eq!(cluster.step(&[]).release, ["vm-000", "vm-001"]);
    let released = |cluster: &Cluster, node: &str| cluster.states[node].spec.released[0].uid.clone();
    assert_eq!((released(&cluster, "vm-000"), released(&cluster, "vm-003")), ("new".into(), "old-vm-003".into()));
}

#[test]
fn a_selector_without_canaries_is_named() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    let match_labels = Some(BTreeMap::from([("canary".to_owned(), "yes".to_owned())]));
    let selector = Some(LabelSelector { match_labels, match_expressions: None });
    let mut cluster = Cluster::new(4, Rollout { canaries: Canaries { count: 2, selector }, ..rollout("4") });
    cluster.step(&[]);
    assert_eq!(cluster.message(), "no canary is ready, or `canaries.selector` selects none");
}

#[test]
fn a_new_generation_begins_with_the_canaries_and_an_undo_withdraws_all() {
    let mut cluster = complete();
    cluster.goal.metadata.generation = Some(2);
    assert_eq!(cluster.step(&[]).release, ["vm-000", "vm-001"]);
    cluster.goal.metadata.annotations = Some(BTreeMap::from([(UNDO.to_owned(), "true".to_owned())]));
    assert_eq!(cluster.step(&[]).withdraw.len(), 4, "those of the older generation too");
    assert!(cluster.step(&[]).withdraw.is_empty());
    assert_eq!(cluster.phase(), RolloutPhase::Undone);
    assert!(cluster.states.values().all(|state| state.spec.released.is_empty()));
    cluster.goal.metadata.annotations = None;
    assert_eq!(cluster.step(&[]).release.len(), 2, "once more");
}

#[test]
fn a_goal_in_a_trial_is_left_to_it() {
    let mut cluster = Cluster::new(4, rollout("4"));
    cluster.goal.metadata.annotations = Some(BTreeMap::from([(TRIAL.to_owned(), "id".to_owned())]));
    assert_eq!(
        cluster.step(&[]),
        Next { counts: Counts { selected: 4, waiting: 4, ..Counts::default() }, ..Next::default() }
    );
    cluster.goal.metadata.annotations = None;
    assert_eq!(cluster.step(&[]).release.len(), 2);
}

#[test]
fn hosts_that_cannot_have_it_are_counted_and_do_not_halt() {
    let mut cluster = Cluster::new(3, rollout("3"));
    for _ in 0..6 {
        cluster.step(&[]);
        cluster.agents(|node| if node == "vm-000" { GoalPhase::NotApplicable } else { GoalPhase::InForce });
        cluster.now += 100;
    }
    let counts = cluster.step(&[]).counts;
    assert_eq!(counts, Counts { selected: 3, in_force: 2, not_applicable: 1, ..Counts::default() });
    assert_eq!(cluster.phase(), RolloutPhase::Complete);
    assert_eq!(MaxUnavailable("10%".to_owned()).nodes(5), 1);
    assert_eq!(MaxUnavailable("odd".to_owned()).nodes(5), 1);
}

#[test]
fn nodes_that_reboot_are_waited_for_and_one_that_does_not_come_back_halts_it() {
    use super::super::goal::RebootPolicy;

    let record = |phase: RebootPhase, since: i64| RebootRecord {
        phase,
        goals: vec![Release { goal: "steady".to_owned(), generation: 1, uid: String::new() }],
        boot: "one".to_owned(),
        since,
        was_cordoned: false,
        message: if phase == RebootPhase::Rebooting { String::new() } else { "waits for 1 pod: games/a".to_owned() },
    };
    let begun = || {
        let mut cluster = Cluster::new(20, rollout("25%"));
        cluster.goal.spec.allow = Allow::Reboot;
        cluster.step(&[]);
        cluster.agents(|_| GoalPhase::PendingReboot);
        cluster
    };
    let mut without = begun();
    without.now += 10;
    without.step(&[]);
    without.now += 100;
    assert_eq!(without.step(&[]).release.len(), 4, "without a policy a person reboots them, and nothing waits");
    let mut cluster = begun();
    cluster.goal.spec.reboot = Some(RebootPolicy { drain_seconds: 600 });
    cluster.now += 1_000;
    assert!(cluster.step(&[]).release.is_empty());
    cluster.nodes[0].reboot = Some(record(RebootPhase::Draining, cluster.now));
    cluster.step(&[]);
    let message = "2 of 2 released nodes do not have it in force yet; vm-000: Draining, waits for 1 pod: games/a";
    assert_eq!(cluster.message(), message);
    // While it boots, the node is not ready.
    cluster.nodes[0].reboot = Some(record(RebootPhase::Rebooting, cluster.now));
    cluster.nodes[0].is_ready = false;
    cluster.now += REBOOT_SECONDS_MAX;
    cluster.step(&[]);
    assert_eq!(cluster.phase(), RolloutPhase::Progressing);
    let mut lost =
        Cluster { goal: cluster.goal.clone(), nodes: cluster.nodes.clone(), states: cluster.states.clone(), ..cluster };
    lost.now += 1;
    lost.step(&[]);
    assert_eq!(lost.message(), "node vm-000 ran its reboot command 901 s ago, and is not ready");
    assert_eq!(lost.phase(), RolloutPhase::Halted);
    cluster.nodes[0] =
        NodeInfo { is_ready: true, reboot: Some(record(RebootPhase::Failed, 0)), ..cluster.nodes[0].clone() };
    cluster.step(&[]);
    assert_eq!(cluster.message(), "node vm-000: its reboot failed: waits for 1 pod: games/a");
    // Failures of an older generation do not count.
    let mut next = begun();
    next.goal.spec.reboot = Some(RebootPolicy { drain_seconds: 600 });
    let mut old = record(RebootPhase::Failed, 0);
    old.goals[0].generation = 0;
    next.nodes[0].reboot = Some(old);
    next.agents(|_| GoalPhase::InForce);
    next.step(&[]);
    next.now += 100;
    assert_eq!(next.step(&[]).release.len(), 4);
}

#[test]
fn nodes_that_still_reboot_for_an_earlier_generation_or_another_goal_count_as_unavailable() {
    use super::super::goal::RebootPolicy;

    let record = |goal: &str, generation: i64, phase: RebootPhase| RebootRecord {
        phase,
        goals: vec![Release { goal: goal.to_owned(), generation, uid: String::new() }],
        boot: "one".to_owned(),
        since: 0,
        was_cordoned: false,
        message: String::new(),
    };
    // Twenty nodes, of which five may be unavailable; two canaries have generation 2.
    let cluster = || {
        let mut cluster = Cluster::new(20, rollout("25%"));
        cluster.goal.spec.allow = Allow::Reboot;
        cluster.goal.spec.reboot = Some(RebootPolicy { drain_seconds: 600 });
        cluster.goal.metadata.generation = Some(2);
        cluster
    };
    let canaries = |cluster: &mut Cluster| cluster.step(&[]).release;
    let mut busy = cluster();
    for (i, phase) in [(0, RebootPhase::Draining), (7, RebootPhase::Rebooting), (8, RebootPhase::Draining)] {
        busy.nodes[i].reboot = Some(record("steady", 1, phase));
    }
    busy.nodes[9].reboot = Some(record("other", 5, RebootPhase::Draining));
    busy.nodes[10].reboot = Some(record("steady", 1, RebootPhase::Done));
    assert_eq!(
        canaries(&mut busy),
        ["vm-001"],
        "four of five are unavailable, and a node that is drained is no canary"
    );
    let mut full = cluster();
    for i in 3..8 {
        full.nodes[i].reboot = Some(record("steady", 1, RebootPhase::Rebooting));
    }
    assert_eq!(canaries(&mut full), [""; 0]);
    assert_eq!(
        full.message(),
        "5 nodes reboot for an earlier generation or another goal, and maxUnavailable is 5, so this goal is released \
         to no more nodes now; vm-003: Rebooting"
    );
    full.nodes[3].reboot = Some(record("steady", 1, RebootPhase::Done));
    assert_eq!(canaries(&mut full), ["vm-000"]);
    // A node that will reboot for the earlier generation, because its agent has not seen the new one yet.
    let mut pending = cluster();
    pending.goal.metadata.generation = Some(1);
    pending.goal.spec.rollout.as_mut().unwrap().canaries.count = 5;
    pending.step(&[]);
    pending.agents(|_| GoalPhase::PendingReboot);
    pending.goal.metadata.generation = Some(2);
    assert_eq!(canaries(&mut pending), [""; 0]);
    assert!(pending.message().ends_with("; vm-000: waits for its reboot"), "{}", pending.message());
    pending.agents(|_| GoalPhase::Waiting);
    assert_eq!(canaries(&mut pending).len(), 5);
}

#[test]
fn a_wave_that_finds_no_ready_node_does_not_start_its_pause_again() {
    let mut cluster = Cluster::new(4, rollout("4"));
    cluster.step(&[]);
    cluster.agents(|_| GoalPhase::InForce);
    cluster.step(&[]);
    cluster.nodes[2].is_ready = false;
    cluster.nodes[3].is_ready = false;
    cluster.now += 100;
    for _ in 0..3 {
        assert!(cluster.step(&[]).release.is_empty());
        assert_eq!(cluster.message(), "no node that waits is ready");
        cluster.now += 5;
    }
    cluster.nodes[2].is_ready = true;
    assert_eq!(cluster.step(&[]).release, ["vm-002"]);
}
