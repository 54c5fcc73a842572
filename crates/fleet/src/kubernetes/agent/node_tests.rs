//! Tests an agent on a host that can be killed half-way through a step.

use std::cell::RefCell;
use std::sync::Mutex;

use evenkeel_change::{Status, WaitsFor};
use kube::ResourceExt;

use super::super::super::goal::{Allow, HostGoalSpec, OnDrift, RebootPolicy};
use super::super::super::host::Applied;
use super::super::super::journal::{OwnedTransaction, PendingKnob, Verified};
use super::super::super::state::{DriftedKnob, GoalPhase};
use super::*;

/// A host with one number for each setting, and a journal. `dies_in` counts down to the call that is killed half-way.
#[derive(Default)]
struct FakeHost(Mutex<Inner>);

type Values = BTreeMap<String, String>;

#[derive(Default)]
struct Inner {
    values: Values,
    /// Each transaction, with the values before it and the values that it set.
    transactions: Vec<(OwnedTransaction, Values, Values)>,
    dies_in: Option<u32>,
    refuses: bool,
    keeps: bool,
    pending: Vec<PendingKnob>,
    /// What the audit advises for the goal of this name.
    advice: BTreeMap<String, Vec<String>>,
    calls: u32,
}

impl Inner {
    /// Whether the test kills this call half-way.
    fn is_killed(&mut self) -> bool {
        self.calls += 1;
        let left = self.dies_in.map(|left| left.saturating_sub(1));
        self.dies_in = left.filter(|left| *left > 0);
        left == Some(0)
    }
}

fn pair(setting: &str) -> (String, String) {
    let (knob, value) = setting.split_once('=').unwrap();
    (knob.to_owned(), value.to_owned())
}

fn set_knob(knob: &str, value: &str) -> SetKnob {
    SetKnob { knob: knob.to_owned(), place: String::new(), value: value.to_owned() }
}

impl Host for FakeHost {
    fn journal(&self) -> Result<Journal, HostError> {
        let inner = self.0.lock().unwrap();
        let transactions = inner.transactions.iter().map(|(transaction, ..)| transaction.clone()).collect();
        let in_force = inner.transactions.iter().filter(|(transaction, ..)| transaction.status == Status::InForce);
        let wanted: BTreeMap<&String, &String> = in_force.flat_map(|(_, _, wanted)| wanted).collect();
        let drift = wanted.into_iter().filter(|(knob, value)| inner.values.get(*knob) != Some(*value));
        let drift = drift.map(|(knob, value)| DriftedKnob {
            knob: knob.clone(),
            place: String::new(),
            wanted: value.clone(),
            found: inner.values.get(knob).cloned().unwrap_or_default(),
            why: String::new(),
            mend: String::new(),
        });
        let verified = Verified { drift: drift.collect(), pending: inner.pending.clone() };
        Ok(Journal { transactions, verified })
    }

    fn apply(&self, goal: &Desired) -> Result<Applied, HostError> {
        let mut inner = self.0.lock().unwrap();
        if inner.refuses {
            return Err(HostError::Refused { why: "no".to_owned() });
        }
        let advised = inner.advice.get(&goal.owner.name).into_iter().flatten();
        let wanted: BTreeMap<String, String> =
            goal.settings.iter().chain(advised).map(|setting| pair(setting)).collect();
        let before = wanted.keys().filter_map(|knob| Some((knob.clone(), inner.values.get(knob)?.clone()))).collect();
        let id = inner.transactions.len() as u64 + 1;
        let is_killed = inner.is_killed();
        let status = if is_killed { Status::Interrupted } else { Status::InForce };
        let half = if is_killed { wanted.len() / 2 } else { wanted.len() };
        inner.values.extend(wanted.clone().into_iter().take(half));
        let settings = wanted.iter().map(|(knob, value)| set_knob(knob, value)).collect();
        let transaction = OwnedTransaction { id, owner: goal.owner.clone(), status, settings };
        inner.transactions.push((transaction, before, wanted));
        if is_killed {
            Err(HostError::Unreachable { why: "killed".to_owned() })
        } else {
            Ok(Applied { already_so: false })
        }
    }

    fn advice(&self, goal: &Desired) -> Result<Vec<SetKnob>, HostError> {
        let inner = self.0.lock().unwrap();
        if inner.refuses {
            return Err(HostError::Refused { why: "no".to_owned() });
        }
        let advised = inner.advice.get(&goal.owner.name).into_iter().flatten().map(|setting| pair(setting));
        // Advice is what is not so.
        let advised = advised.filter(|(knob, value)| inner.values.get(knob) != Some(value));
        Ok(advised.map(|(knob, value)| set_knob(&knob, &value)).collect())
    }

    fn boot(&self) -> Result<String, HostError> {
        Ok("one".to_owned())
    }

    fn reboot(&self) -> Result<(), HostError> {
        unreachable!("a pass over the host reboots nothing")
    }

    fn audit(&self, goal: &Desired) -> Result<String, HostError> {
        self.0.lock().unwrap().calls += 1;
        Ok(format!("{} would change", goal.settings.len()))
    }

    fn revert(&self, transaction: u64) -> Result<(), HostError> {
        let mut inner = self.0.lock().unwrap();
        if inner.keeps {
            return Err(HostError::NotPutBack { why: "no".to_owned() });
        }
        let is_killed = inner.is_killed();
        let at = transaction as usize - 1;
        let (_, before, _) = inner.transactions[at].clone();
        let half = if is_killed { before.len() / 2 } else { before.len() };
        inner.values.extend(before.into_iter().take(half));
        inner.transactions[at].0.status = if is_killed { Status::Interrupted } else { Status::Reverted };
        if is_killed { Err(HostError::Unreachable { why: "killed".to_owned() }) } else { Ok(()) }
    }
}

impl FakeHost {
    fn new() -> FakeHost {
        let host = FakeHost::default();
        host.0.lock().unwrap().values = BTreeMap::from([pair("vm.swappiness=60"), pair("vm.dirty_ratio=20")]);
        host
    }

    fn set(&self, setting: &str) {
        let (knob, value) = pair(setting);
        self.0.lock().unwrap().values.insert(knob, value);
    }

    fn values(&self) -> String {
        let inner = self.0.lock().unwrap();
        inner.values.iter().map(|(knob, value)| format!("{knob}={value}")).collect::<Vec<_>>().join(" ")
    }
}

const AS_BEFORE: &str = "vm.dirty_ratio=20 vm.swappiness=60";

fn goal(name: &str, settings: &[&str]) -> HostGoal {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let mut goal = HostGoal::new(name, HostGoalSpec { settings, allow: Allow::Runtime, ..HostGoalSpec::default() });
    goal.metadata.uid = Some(format!("uid-{}", goal.name_any()));
    goal.metadata.generation = Some(1);
    goal
}

fn bring(agent: &mut NodeAgent, host: &FakeHost, goals: &[HostGoal], now: Instant) -> Brought {
    agent.bring(host, goals, &BTreeMap::new(), &[], now).unwrap()
}

#[test]
fn a_goal_comes_drifts_is_healed_and_goes() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    let mut one = goal("one", &["vm.swappiness=10", "vm.dirty_ratio=5"]);
    let mut now = Instant::now();
    let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
    assert_eq!(
        (brought.status.goals[0].phase, host.values().as_str()),
        (GoalPhase::InForce, "vm.dirty_ratio=5 vm.swappiness=10")
    );
    assert_eq!((brought.status.summary.as_str(), brought.again), ("1 InForce", None));
    host.set("vm.swappiness=30");
    let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
    let state = &brought.status.goals[0];
    assert_eq!((state.phase, state.drift.len(), state.drift[0].found.as_str()), (GoalPhase::Drifted, 1, "30"));
    one.spec.on_drift = OnDrift::Heal;
    for heal in 0..HEALS_PER_HOUR_MAX {
        host.set("vm.swappiness=30");
        let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
        assert_eq!(brought.status.goals[0].phase, GoalPhase::InForce, "heal {heal}");
    }
    host.set("vm.swappiness=30");
    let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
    let state = &brought.status.goals[0];
    assert_eq!(state.phase, GoalPhase::Drifted);
    assert_eq!(state.message, "healed 6 times within an hour, so something else sets it");
    now += Duration::from_secs(3601);
    assert_eq!(bring(&mut agent, &host, std::slice::from_ref(&one), now).status.goals[0].phase, GoalPhase::InForce);
    let brought = bring(&mut agent, &host, &[], now);
    assert_eq!((host.values().as_str(), brought.status.summary.as_str()), (AS_BEFORE, "no goal for this node"));
}

#[test]
fn a_refused_goal_is_tried_again_more_and_more_rarely() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    host.0.lock().unwrap().refuses = true;
    let one = [goal("one", &["vm.swappiness=10"])];
    let begun = Instant::now();
    let mut now = begun;
    let mut tries = Vec::new();
    for _ in 0..7 {
        let brought = bring(&mut agent, &host, &one, now);
        assert_eq!(brought.status.goals[0].phase, GoalPhase::Refused);
        let again = brought.again.unwrap();
        // Before the time `again`, the agent retries nothing.
        assert!(bring(&mut agent, &host, &one, again - Duration::from_millis(1)).notes.is_empty());
        tries.push((again - now).as_secs());
        now = again;
    }
    assert_eq!(tries, [30, 60, 120, 240, 480, 960, 1800]);
    host.0.lock().unwrap().refuses = false;
    assert_eq!(bring(&mut agent, &host, &one, now).status.goals[0].phase, GoalPhase::InForce);
}

/// A goal with a rollout, on a node to which it is released or not.
fn bring_released(agent: &mut NodeAgent, host: &FakeHost, is_released: bool) -> Brought {
    let mut one = goal("one", &["vm.swappiness=10"]);
    one.spec.rollout = Some(serde_json::from_str("{}").unwrap());
    let released = [Release { goal: "one".to_owned(), generation: 1, uid: "uid-one".to_owned() }];
    let released = if is_released { released.as_slice() } else { &[] };
    agent.bring(host, &[one], &BTreeMap::new(), released, Instant::now()).unwrap()
}

#[test]
fn a_withdrawn_goal_waits_and_is_tried_at_once_when_it_is_released_again() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    host.0.lock().unwrap().refuses = true;
    assert_eq!(bring_released(&mut agent, &host, true).status.goals[0].phase, GoalPhase::Refused);
    let withdrawn = bring_released(&mut agent, &host, false);
    assert_eq!((withdrawn.status.goals[0].phase, withdrawn.again), (GoalPhase::Waiting, None));
    host.0.lock().unwrap().refuses = false;
    assert_eq!(bring_released(&mut agent, &host, true).status.goals[0].phase, GoalPhase::InForce);
}

#[test]
fn what_could_not_be_put_back_is_the_state_of_its_goal_also_when_the_goal_is_deleted() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    bring_released(&mut agent, &host, true);
    host.0.lock().unwrap().keeps = true;
    let withdrawn = bring_released(&mut agent, &host, false).status;
    let state = &withdrawn.goals[0];
    assert_eq!((state.phase, state.transaction), (GoalPhase::NotPutBack, Some(1)), "{withdrawn:?}");
    assert!(state.message.ends_with("on the host run: evenkeel revert"), "{withdrawn:?}");
    let deleted = bring(&mut agent, &host, &[], Instant::now()).status;
    let state = &deleted.goals[0];
    assert_eq!((state.goal.as_str(), state.generation, state.phase), ("one", 1, GoalPhase::NotPutBack));
    host.0.lock().unwrap().keeps = false;
    let later = Instant::now() + RETRY_FIRST;
    assert_eq!(bring(&mut agent, &host, &[], later).status.goals, []);
}

#[test]
fn a_host_that_does_not_answer_keeps_its_known_state_and_says_why() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    let goals = [goal("one", &["vm.swappiness=10"])];
    let before = bring(&mut agent, &host, &goals, Instant::now()).status;
    let error = HostError::Unreachable { why: "no answer".to_owned() };
    let unknown = |before| agent.unknown(&goals, &BTreeMap::new(), &[], before, &error);
    let known = unknown(Some(&before));
    assert_eq!((known.summary.as_str(), &known.goals), ("failed to ask the host: no answer", &before.goals));
    let state = &unknown(None).goals[0];
    assert_eq!((state.phase, state.message.as_str()), (GoalPhase::Waiting, "failed to ask the host: no answer"));
}

#[test]
fn drift_at_another_place_belongs_to_another_goal() {
    let drift = |place: &str| DriftedKnob {
        knob: "irq.affinity".to_owned(),
        place: place.to_owned(),
        wanted: "0".to_owned(),
        found: "1".to_owned(),
        why: String::new(),
        mend: String::new(),
    };
    let found = [drift("24"), drift("25"), drift("/etc/systemd/system/evenkeel-boot.service")];
    let count = |setting: &str| {
        let goals = [goal("one", &[setting])];
        let desired =
            NodeView { labels: &BTreeMap::new(), goals: &goals, released: &[] }.desired(&AdviceOfGoals::new());
        desired[0].drift(&found).len()
    };
    assert_eq!((count("irq.affinity@24=0"), count("irq.affinity=0")), (2, 3));
}

/// The agent is killed at each step, with the host's command half-way, and starts anew without its memory.
#[test]
fn however_often_it_is_killed_the_host_ends_as_the_goals_say() {
    let settings = ["vm.swappiness=10", "vm.dirty_ratio=5"];
    let mut newer = goal("one", &["vm.swappiness=20", "vm.dirty_ratio=8"]);
    newer.metadata.generation = Some(2);
    for dies_in in 1..=4 {
        let host = FakeHost::new();
        let now = RefCell::new(Instant::now());
        let settle = |goals: &[HostGoal]| {
            // The agent is killed once. After that, nothing disturbs it.
            host.0.lock().unwrap().dies_in = Some(dies_in);
            for _ in 0..5 {
                *now.borrow_mut() += Duration::from_secs(3600);
                let mut agent = NodeAgent::new("1".to_owned());
                bring(&mut agent, &host, goals, *now.borrow());
            }
        };
        settle(&[goal("one", &settings)]);
        assert_eq!(host.values(), "vm.dirty_ratio=5 vm.swappiness=10", "{dies_in}");
        settle(std::slice::from_ref(&newer));
        assert_eq!(host.values(), "vm.dirty_ratio=8 vm.swappiness=20", "{dies_in}");
        settle(&[]);
        assert_eq!(host.values(), AS_BEFORE, "{dies_in}");
    }
}

#[test]
fn an_audit_changes_nothing_and_is_made_once_an_hour() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    let mut one = goal("one", &["vm.swappiness=10"]);
    one.spec.allow = Allow::Audit;
    let now = Instant::now();
    for _ in 0..3 {
        let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
        let state = &brought.status.goals[0];
        assert_eq!((state.phase, state.message.as_str()), (GoalPhase::Audited, "1 would change"));
    }
    let calls = host.0.lock().unwrap().calls;
    assert_eq!((calls, host.values().as_str()), (1, AS_BEFORE));
}

#[test]
fn only_what_waits_for_a_boot_asks_for_a_reboot() {
    let host = FakeHost::new();
    let policy = RebootPolicy { drain_seconds: 60 };
    let mut one = goal("one", &["vm.swappiness=10", "vm.dirty_ratio=5"]);
    one.spec.allow = Allow::Reboot;
    let waits = |knob: &str, waits_for| PendingKnob { knob: knob.to_owned(), waits_for };
    let rows = [
        (vec![], GoalPhase::InForce, "", false),
        (
            vec![waits("vm.swappiness", WaitsFor::Start)],
            GoalPhase::PendingReboot,
            "a restart of the server is missing for vm.swappiness",
            false,
        ),
        (
            vec![waits("vm.swappiness", WaitsFor::Reboot), waits("vm.dirty_ratio", WaitsFor::User)],
            GoalPhase::PendingReboot,
            "a reboot is missing for vm.swappiness; `evenkeel verify` on the host says what is left to do for vm.dirty_ratio",
            true,
        ),
        (vec![waits("thp.enabled", WaitsFor::Reboot)], GoalPhase::InForce, "", false),
    ];
    for (pending, phase, message, needs_reboot) in rows {
        host.0.lock().unwrap().pending = pending;
        for reboot in [None, Some(policy)] {
            one.spec.reboot = reboot;
            let brought = bring(&mut NodeAgent::default(), &host, std::slice::from_ref(&one), Instant::now());
            let state = &brought.status.goals[0];
            assert_eq!((state.phase, state.message.as_str(), state.needs_reboot), (phase, message, needs_reboot));
            assert_eq!(brought.reboots.len(), usize::from(needs_reboot && reboot.is_some()));
        }
    }
}

#[test]
fn goals_that_contradict_each_other_by_advice_are_refused_in_the_order_of_their_age() {
    let advised = |name: &str| {
        let mut goal = goal(name, &[]);
        goal.spec.advised = Some(Default::default());
        goal
    };
    let host = FakeHost::new();
    let advice = [("a-latency", "vm.swappiness=10"), ("c-throughput", "vm.swappiness=30")];
    host.0.lock().unwrap().advice =
        advice.iter().map(|(goal, setting)| ((*goal).to_owned(), vec![(*setting).to_owned()])).collect();
    let goals = [advised("c-throughput"), goal("b-stated", &["vm.swappiness=20"]), advised("a-latency")];
    let now = Instant::now();
    // In force at once, and also when the agent starts anew and the advice has nothing left to change.
    for _ in 0..2 {
        let mut agent = NodeAgent::new("1".to_owned());
        for _ in 0..3 {
            let brought = bring(&mut agent, &host, &goals, now);
            let states: Vec<(&str, GoalPhase, &str)> = brought
                .status
                .goals
                .iter()
                .map(|state| (state.goal.as_str(), state.phase, state.message.as_str()))
                .collect();
            let by = "vm.swappiness is 10 by the advice of the older goal a-latency, and";
            assert_eq!(
                states,
                [
                    ("a-latency", GoalPhase::InForce, ""),
                    ("b-stated", GoalPhase::Refused, format!("{by} 20 here").as_str()),
                    ("c-throughput", GoalPhase::Refused, format!("{by} 30 by the advice here").as_str()),
                ]
            );
            assert_eq!(host.values(), "vm.dirty_ratio=20 vm.swappiness=10");
        }
    }
    // Without the oldest, the next one applies.
    let mut agent = NodeAgent::new("1".to_owned());
    let brought = bring(&mut agent, &host, &goals[..2], now);
    assert_eq!(brought.status.summary, "1 InForce, 1 Refused");
    assert_eq!(host.values(), "vm.dirty_ratio=20 vm.swappiness=20");
    // Advice that is in force already is a claim for as long as the agent knows it.
    let host = FakeHost::new();
    host.0.lock().unwrap().advice = BTreeMap::from([("a-latency".to_owned(), vec!["vm.swappiness=10".to_owned()])]);
    host.set("vm.swappiness=10");
    let mut agent = NodeAgent::new("1".to_owned());
    let brought = bring(&mut agent, &host, &[advised("a-latency")], now);
    assert_eq!(brought.status.goals[0].phase, GoalPhase::InForce);
}

#[test]
fn a_host_that_cannot_say_what_it_advises_gets_nothing_of_that_goal() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    let mut one = goal("one", &[]);
    one.spec.advised = Some(Default::default());
    host.0.lock().unwrap().advice = BTreeMap::from([("one".to_owned(), vec!["vm.swappiness=10".to_owned()])]);
    host.0.lock().unwrap().refuses = true;
    let now = Instant::now();
    let brought = bring(&mut agent, &host, std::slice::from_ref(&one), now);
    let state = &brought.status.goals[0];
    assert_eq!((state.phase, state.message.as_str()), (GoalPhase::Refused, "refused, and all is as before: no"));
    host.0.lock().unwrap().refuses = false;
    let again = brought.again.unwrap();
    assert_eq!(again - now, RETRY_FIRST);
    assert_eq!(bring(&mut agent, &host, std::slice::from_ref(&one), now).notes, Vec::<String>::new());
    assert_eq!(bring(&mut agent, &host, &[one], again).status.goals[0].phase, GoalPhase::InForce);
}

#[test]
fn a_goal_of_the_same_name_has_its_own_state_and_its_own_limit_of_heals() {
    let (host, mut agent) = (FakeHost::new(), NodeAgent::new("1".to_owned()));
    let mut one = goal("one", &["vm.swappiness=10"]);
    one.spec.on_drift = OnDrift::Heal;
    let now = Instant::now();
    for _ in 0..=HEALS_PER_HOUR_MAX + 1 {
        bring(&mut agent, &host, std::slice::from_ref(&one), now);
        host.set("vm.swappiness=30");
    }
    assert_eq!(bring(&mut agent, &host, std::slice::from_ref(&one), now).status.goals[0].phase, GoalPhase::Drifted);
    one.metadata.uid = Some("another".to_owned());
    bring(&mut agent, &host, std::slice::from_ref(&one), now);
    host.set("vm.swappiness=30");
    let status = bring(&mut agent, &host, std::slice::from_ref(&one), now).status;
    assert_eq!((status.goals[0].phase, status.goals[0].uid.as_str()), (GoalPhase::InForce, "another"));
    // What could not be put back belongs to the deleted goal, and the new one says what it waits for.
    host.0.lock().unwrap().keeps = true;
    one.metadata.uid = Some("a-third".to_owned());
    let status = bring(&mut agent, &host, std::slice::from_ref(&one), now).status;
    let of = |uid: &str| status.goals.iter().find(|state| state.uid == uid).unwrap();
    assert_eq!(of("another").phase, GoalPhase::NotPutBack);
    let third = of("a-third");
    assert_eq!(third.phase, GoalPhase::Waiting);
    assert!(third.message.starts_with("not applied yet: transaction "), "{}", third.message);
    assert!(third.message.ends_with(" of goal one, generation 1, has to be put back first"), "{}", third.message);
}

#[test]
fn the_youngest_goals_beyond_the_limit_are_left_out_and_counted() {
    let goals: Vec<HostGoal> = (0..203).map(|i| goal(&format!("goal-{i:03}"), &["vm.swappiness=10"])).collect();
    let brought = bring(&mut NodeAgent::default(), &FakeHost::new(), &goals, Instant::now());
    assert_eq!(brought.status.goals.len(), 200);
    let text = "; 3 goals are left out, the youngest: a node takes at most 200";
    assert!(brought.status.summary.ends_with(text), "{}", brought.status.summary);
}
